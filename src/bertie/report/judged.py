"""What a run keeps of its best model's word on each held-out example."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertie.report.runs import HELD_OUT, Run, read_lines


@dataclass(frozen=True)
class Judgement:
    """One held-out example: its text, what is true, what was said, and how wrong that is; 0 if right."""

    text: str
    gold: str
    called: str
    error: float


def read_judgements(run: Run) -> list[Judgement]:
    return [
        Judgement(_with_pair(line), str(line.get("gold", "")), str(line.get("called", "")), error)
        for line in read_lines(run.folder / HELD_OUT)
        if isinstance(error := line.get("error"), int | float) and "text" in line
    ]


def _with_pair(line: Mapping[str, object]) -> str:
    return f"{line['text']} ‖ {line['pair']}" if line.get("pair") else str(line["text"])
