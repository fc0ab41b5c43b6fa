"""Predictions as files: JSON lines, GLUE's official tables, SQuAD's three objects."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bertie.sealed import write_file
from bertie.tasks.answer import Answer
from bertie.tasks.classify import Classify, Regress
from bertie.tasks.named import AnyTask
from bertie.tasks.task import Example, Prediction


def write_predictions(
    path: Path, task: AnyTask, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> None:
    """Write them in the form that the file's name asks for; ValueError if the task has none of that form."""
    check_form(path, task)
    for name, text in FORMS[path.suffix](path.name, task, predictions, examples).items():
        write_file(path.with_name(name), text.encode())


def check_form(path: Path, task: AnyTask) -> None:
    """ValueError if there is no form that the file's name asks for, or the task has none of that form."""
    if path.suffix not in FORMS:
        raise ValueError(f"--out {path}: the form is told by the end of the name; allowed: {', '.join(FORMS)}.")
    if path.suffix == ".json" and not isinstance(task, Answer):
        raise ValueError(f"{path.name}: only answers are written as .json; allowed here: .jsonl.")
    is_several = isinstance(task, Classify) and task.several
    if path.suffix == ".tsv" and (is_several or not isinstance(task, Classify | Regress)):
        raise ValueError(f"{path.name}: only classes and numbers are written as .tsv; allowed here: .jsonl.")


Files = dict[str, str]


def _json_lines(name: str, task: AnyTask, predictions: Sequence[Prediction], examples: Sequence[Example]) -> Files:
    pairs = zip(predictions, examples, strict=True)
    lines = [json.dumps(task.describe(one, example), ensure_ascii=False) for one, example in pairs]
    return {name: "".join(f"{line}\n" for line in lines)}


def _table(name: str, task: AnyTask, predictions: Sequence[Prediction], examples: Sequence[Example]) -> Files:
    return {name: table_text(predictions)}


def table_text(predictions: Sequence[Prediction]) -> str:
    """GLUE's submission: `index` from 0 and `prediction`, a label or a number."""
    lines = ["index\tprediction"]
    for number, one in enumerate(predictions):
        lines.append(f"{number}\t{one.label if one.number is None else f'{one.number:.3f}'}")
    return "\n".join(lines) + "\n"


def _squad(name: str, task: AnyTask, predictions: Sequence[Prediction], examples: Sequence[Example]) -> Files:
    """What run_squad.py writes: the answers, and beside them n-best lists and, for v2.0, the odds of no answer."""
    assert isinstance(task, Answer)
    pairs = list(zip(predictions, examples, strict=True))
    best = {example.id: [vars(candidate) for candidate in one.candidates] for one, example in pairs}
    files = {
        name: {example.id: one.answer for one, example in pairs},
        f"nbest_{name}": best,
    }
    if task.has_nulls:
        files["null_odds.json"] = {example.id: one.null_odds for one, example in pairs}
    return {file: json.dumps(contents, indent=4, ensure_ascii=False) + "\n" for file, contents in files.items()}


Form = Callable[[str, AnyTask, Sequence[Prediction], Sequence[Example]], Files]
FORMS: Mapping[str, Form] = {".jsonl": _json_lines, ".tsv": _table, ".json": _squad}
