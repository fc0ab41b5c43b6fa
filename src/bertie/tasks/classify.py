"""One text or a pair -> a class, several of them, or a number."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from bertie.tasks.metrics import METRICS, NUMBER_METRICS, label_set_scores
from bertie.tasks.sequences import cut_windows, frame, token_lists
from bertie.tasks.task import (
    Example,
    Floats,
    Logits,
    Output,
    Prediction,
    Row,
    missing_label,
    number_of,
    softmax,
    stated_number,
)
from bertie.text.wordpiece import Tokenizer

log = logging.getLogger(__name__)
Long = Literal["cut", "windows"]
ENOUGH_TO_TELL = 20  # examples, by which a column that is no label shows


@dataclass(frozen=True)
class Classify:
    """A class for each text or pair. With `several` a text has any number of them; in a table's cell `separator` is
    between them, and an empty cell is none of them. A text longer than max_length is cut at its end, or shown through
    windows that overlap by half, whose logits are averaged."""

    head: ClassVar[str] = "class"

    labels: tuple[str, ...] = ()  # none: those of the examples
    metrics: tuple[str, ...] = ("accuracy", "macro_f1")  # the first one chooses the model
    max_length: int = 128
    long: Long = "cut"
    several: bool = False
    separator: str = "|"
    weights: Literal["none", "balanced"] = "none"  # balanced: each class counts as much as any other in the loss

    def __post_init__(self) -> None:
        for metric in self.metrics:
            if metric not in METRICS:
                raise ValueError(f"metric {metric!r} does not exist; allowed: {', '.join(METRICS)}.")
        if self.several and self.metrics != Classify.metrics:
            raise ValueError("metrics are for one label a text: with several=true leave them out.")

    @property
    def num_classes(self) -> int:
        return len(self.labels)

    @property
    def problem_type(self) -> str | None:
        return "multi_label_classification" if self.several else "single_label_classification"

    @property
    def main_score(self) -> str:
        return "micro_f1" if self.several else self.metrics[0]

    def learn(self, examples: Sequence[Example]) -> Self:
        found = {label for example in examples for label in self._labels_of(example) or ()}
        if self.labels:
            return self
        if len(found) < (1 if self.several else 2):
            if self.several and any(example.labels is not None for example in examples):
                raise ValueError(f"none of the {len(examples):,} examples has a label: name their column with --label.")
            if not found:
                raise missing_label(examples[0])
            raise ValueError(
                f"all {len(examples):,} examples have the label {next(iter(found))!r}: there is nothing to tell apart. "
                "Is the column of the labels the right one?"
            )
        if len(examples) >= ENOUGH_TO_TELL and len(found) > len(examples) / 2:
            raise ValueError(
                f"{len(examples):,} examples have {len(found):,} different labels, such as {min(found)[:60]!r}: too "
                "few of each to learn from. Is the column of the labels the right one (--label)?"
            )
        return replace(self, labels=tuple(sorted(found, key=_by_number)))

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Row]:
        return _rows(examples, tokenizer, self.max_length, self.long, [self._targets(one) for one in examples])

    def decode(self, outputs: Sequence[Output], examples: Sequence[Example], tokenizer: Tokenizer) -> list[Prediction]:
        return [self._decide(logits) for logits in _mean_logits(outputs, len(examples))]

    def score(self, predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
        gold = [self._labels_of(example) for example in examples]
        for example, labels in zip(examples, gold, strict=True):
            if labels is None:
                raise missing_label(example)
            for label in labels:
                number_of(label, self.labels, example.where)
        known = [labels or () for labels in gold]
        if self.several:
            return label_set_scores([frozenset(labels) for labels in known], [frozenset(p.labels) for p in predictions])
        called = [prediction.label or "" for prediction in predictions]
        return {name: METRICS[name]([labels[0] for labels in known], called, self.labels) for name in self.metrics}

    def tune(self, scores: Mapping[str, float]) -> Self:
        return self

    def describe(self, prediction: Prediction, example: Example) -> dict[str, object]:
        what = {"labels": list(prediction.labels)} if self.several else {"label": prediction.label}
        return {"id": example.id, **what, "probabilities": dict(prediction.probabilities)}

    def _labels_of(self, example: Example) -> tuple[str, ...] | None:
        if example.labels is not None and not self.several:
            raise ValueError(
                f"{example.where} has a list of labels: say --set several=true if a text may have several."
            )
        if not self.several:
            return None if example.label is None else (example.label,)
        return example.labels if example.label is None else (example.label,)

    def _targets(self, example: Example) -> Floats | None:
        labels = self._labels_of(example)
        if labels is None:
            return None
        numbers = [number_of(label, self.labels, example.where) for label in labels]
        if not self.several:
            return np.array(numbers, np.float64)
        targets = np.zeros(len(self.labels))
        targets[numbers] = 1.0
        return targets

    def _decide(self, logits: Logits) -> Prediction:
        if not self.several:
            chosen = self.labels[int(logits.argmax())]
            return Prediction(label=chosen, probabilities=dict(zip(self.labels, softmax(logits), strict=True)))
        shares = (1 / (1 + np.exp(-logits.astype(np.float64)))).tolist()
        chosen_ones = tuple(label for label, share in zip(self.labels, shares, strict=True) if share > 0.5)
        return Prediction(labels=chosen_ones, probabilities=dict(zip(self.labels, shares, strict=True)))


@dataclass(frozen=True)
class Regress:
    """A number for each text or pair."""

    head: ClassVar[str] = "class"
    num_classes: ClassVar[int] = 1
    labels: ClassVar[tuple[str, ...]] = ()
    problem_type: ClassVar[str | None] = "regression"

    metrics: tuple[str, ...] = ("pearson", "spearman")  # the first one chooses the model
    max_length: int = 128
    long: Long = "cut"
    standardise: bool = True  # the model learns how far a number is from the mean, in standard deviations
    mean: float = 0.0
    deviation: float = 1.0

    def __post_init__(self) -> None:
        for metric in self.metrics:
            if metric not in NUMBER_METRICS:
                raise ValueError(f"metric {metric!r} does not exist; allowed: {', '.join(NUMBER_METRICS)}.")
        if self.metrics[0] == "mean_squared_error":
            raise ValueError("the first metric chooses the model and more of it must be better: put pearson before.")

    @property
    def main_score(self) -> str:
        return self.metrics[0]

    def learn(self, examples: Sequence[Example]) -> Self:
        numbers = np.array([stated_number(example) for example in examples])
        if not len(numbers) or numbers.std() == 0:
            raise ValueError(f"all {len(numbers):,} examples have the same number: there is nothing to learn.")
        if not self.standardise:
            return self
        return replace(self, mean=float(numbers.mean()), deviation=float(numbers.std()))

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Row]:
        stated = [example.label is not None or example.number is not None for example in examples]
        targets = [
            np.array([(stated_number(example) - self.mean) / self.deviation]) if is_stated else None
            for example, is_stated in zip(examples, stated, strict=True)
        ]
        return _rows(examples, tokenizer, self.max_length, self.long, targets)

    def decode(self, outputs: Sequence[Output], examples: Sequence[Example], tokenizer: Tokenizer) -> list[Prediction]:
        logits = _mean_logits(outputs, len(examples))
        return [Prediction(number=float(one[0]) * self.deviation + self.mean) for one in logits]

    def score(self, predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
        gold = [stated_number(example) for example in examples]
        called = [prediction.number or 0.0 for prediction in predictions]
        return {name: NUMBER_METRICS[name](gold, called) for name in self.metrics}

    def tune(self, scores: Mapping[str, float]) -> Self:
        return self

    def describe(self, prediction: Prediction, example: Example) -> dict[str, object]:
        return {"id": example.id, "number": prediction.number}


def _rows(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    max_length: int,
    long: Long,
    targets: Sequence[Floats | None],
) -> list[Row]:
    """A row for each example, or for each window; says how many were too long."""
    pairs = [example.pair for example in examples if example.pair is not None]
    firsts = token_lists(tokenizer, [example.text for example in examples])
    seconds = token_lists(tokenizer, pairs)
    rows: list[Row] = []
    num_long = 0
    for number, (example, ids) in enumerate(zip(examples, firsts, strict=True)):
        if long == "windows" and example.pair is None:
            room = max_length - tokenizer.num_special(1)
            shown = [ids[start:end] for start, end in cut_windows(len(ids), room, (room + 1) // 2)] or [[]]
            framed = [frame(tokenizer, [part], max_length) for part in shown]
        else:
            framed = [frame(tokenizer, [ids] if example.pair is None else [ids, next(seconds)], max_length)]
        num_long += len(framed) > 1 or framed[0].num_cut > 0
        rows += [Row(number, (one.ids,), (one.segments,), targets[number]) for one in framed]
    if num_long:
        is_whole = long == "windows" and not pairs
        what = "shown through several windows" if is_whole else "cut" if pairs else "cut; long=windows shows them whole"
        log.warning("%d of %d texts are longer than %d tokens: %s.", num_long, len(examples), max_length, what)
    return rows


def _mean_logits(outputs: Sequence[Output], num_examples: int) -> list[Logits]:
    """The logits of each example, averaged over its rows."""
    found: list[list[Logits]] = [[] for _ in range(num_examples)]
    for row, logits in outputs:
        found[row.example].append(logits)
    return [np.mean(logits, 0) for logits in found]


def _by_number(label: str) -> tuple[float, str]:
    """Numbers before names, and in their own order: 2 before 10."""
    return (float(label), label) if label.lstrip("-").isdigit() else (float("inf"), label)
