"""Predictions as files: JSON lines, GLUE's official tables, SQuAD's three objects."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bertie.sealed import write_file
from bertie.tasks.answer import Answer
from bertie.tasks.named import AnyTask
from bertie.tasks.task import Example, Prediction


def write_predictions(
    path: Path, task: AnyTask, predictions: Sequence[Prediction], examples: Sequence[Example]
) -> None:
    """Write them in the form that the file's name asks for; ValueError if the task has none of that form."""
    if path.suffix not in FORMS:
        raise ValueError(f"--out {path}: the form is told by the end of the name; allowed: {', '.join(FORMS)}.")
    for name, text in FORMS[path.suffix](path.name, task, predictions, examples).items():
        write_file(path.with_name(name), text.encode())


Files = dict[str, str]


def _json_lines(name: str, task: AnyTask, predictions: Sequence[Prediction], examples: Sequence[Example]) -> Files:
    pairs = zip(predictions, examples, strict=True)
    lines = [json.dumps(task.describe(one, example), ensure_ascii=False) for one, example in pairs]
    return {name: "".join(f"{line}\n" for line in lines)}


def _table(name: str, task: AnyTask, predictions: Sequence[Prediction], examples: Sequence[Example]) -> Files:
    return {name: table_text(name, predictions)}


def table_text(name: str, predictions: Sequence[Prediction]) -> str:
    """GLUE's submission: `index` from 0 and `prediction`, a label or a number."""
    lines = ["index\tprediction"]
    for number, one in enumerate(predictions):
        if one.label is None and one.number is None:
            raise ValueError(f"{name}: only classes and numbers are written as .tsv; allowed here: .jsonl.")
        lines.append(f"{number}\t{one.label if one.number is None else f'{one.number:.3f}'}")
    return "\n".join(lines) + "\n"


def _squad(name: str, task: AnyTask, predictions: Sequence[Prediction], examples: Sequence[Example]) -> Files:
    """What run_squad.py writes: the answers, and beside them n-best lists and, for v2.0, the odds of no answer."""
    if not isinstance(task, Answer):
        raise ValueError(f"{name}: only answers are written as .json; allowed here: .jsonl.")
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
