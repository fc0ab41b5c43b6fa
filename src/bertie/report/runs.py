"""Run folders as the report reads them: the card, the recipe, the log as columns; what is broken or missing is said."""

import json
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertie.report.words import Words
from bertie.sealed import sha256

RECIPE, CARD, LOG, MODEL, HELD_OUT = "recipe.toml", "card.json", "log.jsonl", "model", "held_out.jsonl"
CONFIG = "config.json"  # of a model
META, VOCABULARY_CARD = "meta.json", "vocabulary.json"  # of a corpus
ENTRIES = "vocab.txt"  # of a vocabulary
Columns = Mapping[str, NDArray[np.float64]]  # by the figure's name, NaN where an event has none
Card = Mapping[str, object]


@dataclass(frozen=True)
class Log:
    """The events of a run. bad: the numbers of the lines, from 1, that cannot be read."""

    steps: Columns = field(default_factory=dict)
    evaluations: Columns = field(default_factory=dict)
    skips: Sequence[tuple[int, str]] = ()  # step and reason
    bad: Sequence[int] = ()
    is_ended: bool = False

    @property
    def last_step(self) -> int:
        return max(
            (int(part["step"][-1]) for part in (self.steps, self.evaluations) if len(part.get("step", ()))), default=0
        )


@dataclass(frozen=True)
class Run:
    """A run folder. problems: what is missing or broken in it, as sentences of the page's language; each: the runs
    inside it, where it is one of several seeds, settings or tasks."""

    name: str
    folder: Path
    card: Card
    recipe: str
    log: Log
    problems: Sequence[str]
    each: Sequence["Run"] = ()

    @property
    def kind(self) -> str:
        """pretrain, finetune or glue, or corpus or vocabulary; where no card says it, what the log looks like."""
        stated = self.card.get("kind")
        return stated if isinstance(stated, str) else "pretrain" if "masked_loss" in self.log.steps else "finetune"

    @property
    def is_source(self) -> bool:
        """Whether it is no run but a corpus or a vocabulary, of which its card tells."""
        return self.kind in ("corpus", "vocabulary")

    @property
    def model(self) -> Path | None:
        """Its model folder, if there is one; the folder itself where that is a model and no run."""
        places = (self.folder / MODEL, self.folder)
        return next((place for place in places if (place / CONFIG).is_file()), None)


def read_runs(folders: Sequence[Path], words: Words) -> list[Run]:
    """The runs in these folders; ValueError for one that is none, and no model, corpus or vocabulary."""
    names = _names(folders)
    return [read_run(folder, name, words) for folder, name in zip(folders, names, strict=True)]


def read_run(folder: Path, name: str, words: Words) -> Run:
    if not folder.is_dir():
        raise ValueError(f"{folder} is {'a file' if folder.exists() else 'not there'}: give the folder of a run.")
    is_run = any((folder / one).is_file() for one in (RECIPE, CARD, LOG))
    source = _source(folder)
    if source is not None or (not is_run and (folder / CONFIG).is_file()):
        return Run(name, folder, source or {}, "", Log(is_ended=True), ())
    if not is_run:
        raise ValueError(
            f"{folder} is no run: it has none of {RECIPE}, {CARD} and {LOG}. Give what --out named for bertie "
            "pretrain, finetune or glue, or for corpus or vocab."
        )
    problems: list[str] = []
    recipe = _read_text(folder / RECIPE)
    if not recipe:
        problems.append(words("{file} is missing or empty: what the run was begun with is not known.", file=RECIPE))
    card = read_object(folder / CARD)
    each = tuple(_inside(folder, card or {}, name, words))
    if card is None and each:
        problems.append(words("It is not finished: {count} of its runs are there.", count=len(each)))
    elif card is None:
        problems.append(words("{file} is missing or broken: what the run came to is not known.", file=CARD))
    log = read_log(folder / LOG)
    if log is None and not each:
        problems.append(words("{file} is missing: there are no curves.", file=LOG))
    log = log or Log()
    if log.bad:
        where = {"file": LOG, "first": str(log.bad[0]), "count": str(len(log.bad))}
        problems.append(words("{count} lines of {file} cannot be read and are left out, first line {first}.", **where))
    if not log.is_ended and not each:
        problems.append(words("The run is not finished; its log comes to step {step}.", step=f"{log.last_step:,}"))
    return Run(name, folder, card or {}, recipe, log, tuple(problems), each)


def _source(folder: Path) -> Card | None:
    """The card of a corpus or of a vocabulary, as a run's card has it; None where the folder is neither."""
    card = read_object(folder / CARD) or {}
    if (folder / META).is_file():
        meta, vocabulary = read_object(folder / META) or {}, read_object(folder / VOCABULARY_CARD)
        corpus = {"sha256": sha256(folder / META), "counts": meta.get("counts")}
        return {"kind": "corpus", "corpus": corpus, "text": card, "vocabulary": vocabulary}
    if (folder / ENTRIES).is_file() and "figures" in card:
        return {"kind": "vocabulary", "vocabulary": card}
    return None


def read_log(path: Path) -> Log | None:
    """The log as columns, without a last line that is still being written; None where there is none."""
    if not path.is_file():
        return None
    columns = {"train": _Columns(), "evaluate": _Columns()}
    bad: list[int] = []
    skips: list[tuple[int, str]] = []
    is_ended = False
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(file, 1):
            event = _event(line)
            if event is None and line.endswith("\n"):
                bad.append(number)
            if event is None:
                continue
            kind = str(event["event"])
            is_ended |= kind == "end"
            if kind in columns:
                columns[kind].add(event)
            if kind == "skip":
                skips.append((int(_number(event["step"])), str(event.get("reason", ""))))
    return Log(columns["train"].arrays(), columns["evaluate"].arrays(), skips, bad, is_ended)


class _Columns:
    """Events as columns of numbers, eight bytes a number: a log may have millions of lines."""

    def __init__(self) -> None:
        self._columns: dict[str, array[float]] = {}
        self._count = 0

    def add(self, event: Mapping[str, object]) -> None:
        for name in event:
            if name not in self._columns:
                self._columns[name] = array("d", [math.nan]) * self._count
        for name, column in self._columns.items():
            column.append(_number(event.get(name)))
        self._count += 1

    def arrays(self) -> Columns:
        """Those that have some number in them."""
        found = {name: np.array(column) for name, column in self._columns.items()}
        return {name: column for name, column in found.items() if np.isfinite(column).any()}


def read_object(path: Path) -> Card | None:
    """The object of JSON in a file; None where there is no whole one."""
    try:
        found = json.loads(_read_text(path))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_lines(path: Path) -> Iterator[Mapping[str, object]]:
    """The objects of a file of JSON lines, without those that cannot be read."""
    for line in _read_text(path).splitlines():
        found = _object(line)
        if found is not None:
            yield found


def figure(card: Card, *keys: str) -> float | None:
    """The finite number under these keys, each inside the one before; None where there is none."""
    value: object = card
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    number = _number(value)
    return number if np.isfinite(number) else None


def _inside(folder: Path, card: Card, name: str, words: Words) -> Iterator[Run]:
    """The runs of several seeds, settings or tasks that a folder holds, as its card or else their places tell them."""
    runs = card.get("runs")
    listed = [one for one in runs if isinstance(one, Mapping)] if isinstance(runs, list) else []
    places = [folder / str(one.get("folder")) for one in listed]
    if not places and not (folder / LOG).exists():
        found = list(folder.glob(f"*/{RECIPE}")) or list(folder.glob(f"*/seed-*/{RECIPE}"))  # seeds or tasks; a grid
        places = sorted(path.parent for path in found)
    for place in places:
        if place.is_dir() and (place / RECIPE).is_file():
            yield read_run(place, f"{name}/{place.relative_to(folder).as_posix()}", words)


def _names(folders: Sequence[Path]) -> list[str]:
    """What to call each: its own name, with those of the folders it is in as far as others are called the same."""
    parts = [folder.resolve().parts for folder in folders]
    if len(set(parts)) < len(parts):
        raise ValueError("a run is named twice: name each once.")
    return ["/".join(one[-_depth(one, parts) :]) for one in parts]


def _depth(one: tuple[str, ...], all_: Sequence[tuple[str, ...]]) -> int:
    """How many names from the end it takes to tell this path from all others."""
    depths = range(1, len(one) + 1)
    return next((depth for depth in depths if sum(one[-depth:] == other[-depth:] for other in all_) == 1), len(one))


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _event(line: str) -> Mapping[str, object] | None:
    found = _object(line)
    return found if found and isinstance(found.get("event"), str) and np.isfinite(_number(found.get("step"))) else None


def _object(line: str) -> Mapping[str, object] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number that no float can hold
        return math.nan
