"""Every text of the report has its Chinese, with the same names in braces; no Chinese is left over."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertie.report import words
from bertie.report.words import Words
from bertie.tasks.entities import entity_scores
from bertie.tasks.metrics import METRICS, NUMBER_METRICS
from bertie.tasks.spans import Answered, cmrc_scores, squad_null_scores, squad_scores

SOURCE = Path(words.__file__).parent


def texts(path: Path) -> Iterator[str]:
    """What is handed to `words(...)` as it stands, and the values of tables called WORDS, SHARED and the like."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "words"
        for part in ast.walk(node.args[0]) if is_call else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value
        is_table = isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        if is_table and isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper():
            yield from (ast.literal_eval(value) for value in node.value.values)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Figure":
            yield from (arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant))


ENGLISH = {text for path in SOURCE.glob("*.py") for text in texts(path)}
CHINESE = {
    key: value
    for path in SOURCE.glob("assets/words-zh*.json")
    for key, value in json.loads(path.read_text(encoding="utf-8")).items()
}


def test_every_text_has_its_chinese() -> None:
    assert len(ENGLISH) > 20
    assert sorted(ENGLISH - set(CHINESE)) == []


def test_the_same_names_are_filled_in() -> None:
    for english, chinese in CHINESE.items():
        assert sorted(re.findall(r"\{\w*\}", english)) == sorted(re.findall(r"\{\w*\}", chinese)), english


def test_scores_and_tasks_have_their_chinese() -> None:
    answered = [Answered(["a"], "a", 0.5), Answered([], "", 0.5)]
    spans = [*squad_null_scores(answered, 0.0), *squad_scores(answered[:1]), *cmrc_scores(answered[:1])]
    tags = entity_scores([["B-A"]], [["B-A"]])
    names = {*spans, *tags, *METRICS, *NUMBER_METRICS, "micro_f1", "mrr"}
    chinese = Words("zh")
    assert [name for name in names if chinese.of_score(name) == name] == []
    assert [task for task in ("classify", "regress", "tag", "answer", "choose", "embed") if task not in CHINESE] == []
    assert Words("en").of_score("best_f1_threshold") == "best F1 threshold"


def test_a_language_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'fr': the report can be written in en or zh"):
        Words("fr")
