"""Scores of classes and numbers, as fractions: accuracy, F1, Matthews, Pearson, Spearman, tables, intervals.

A few lines of numpy each; where a quotient has nothing below the line the score is 0, as the official scorers have it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]
LabelSets = Sequence[frozenset[str]]
PERCENTILES = (2.5, 97.5)  # of a 95 % interval


@dataclass(frozen=True)
class Confusion:
    """How often each label (row) was called each label (column); labels that only the model gave are in it too."""

    labels: tuple[str, ...]
    counts: Counts

    @property
    def right(self) -> Numbers:
        return self.counts.diagonal().astype(np.float64)

    @property
    def support(self) -> Numbers:
        """How many there are of each label."""
        support: Numbers = self.counts.sum(1).astype(np.float64)
        return support

    @property
    def called(self) -> Numbers:
        """How many were given each label."""
        called: Numbers = self.counts.sum(0).astype(np.float64)
        return called


@dataclass(frozen=True)
class ClassScore:
    """How well one label is found."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


def confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str] = ()) -> Confusion:
    """The counts for these labels, and after them any others that occur, by the alphabet."""
    _check_lengths(gold, predicted)
    known = (*labels, *sorted((set(gold) | set(predicted)) - set(labels)))
    numbers = {label: number for number, label in enumerate(known)}
    counts = np.zeros((len(known), len(known)), np.int64)
    for true, called in zip(gold, predicted, strict=True):
        counts[numbers[true], numbers[called]] += 1
    return Confusion(known, counts)


def per_class(table: Confusion) -> list[ClassScore]:
    """Precision, recall and F1 of each label."""
    return _class_scores(table.labels, table.right, table.called, table.support)


def per_label(gold: LabelSets, predicted: LabelSets) -> list[ClassScore]:
    """The same where a text may have several labels, or none; of all that occur, by the alphabet."""
    labels = sorted(frozenset().union(*gold, *predicted))
    right, called, support = (
        np.array([sum(label in one for one in sets) for label in labels], float)
        for sets in ([true & said for true, said in zip(gold, predicted, strict=True)], predicted, gold)
    )
    return _class_scores(labels, right, called, support)


def _class_scores(labels: Sequence[str], right: Numbers, called: Numbers, support: Numbers) -> list[ClassScore]:
    precision, recall = _divide(right, called), _divide(right, support)
    f1 = _divide(2 * right, called + support)
    return [
        ClassScore(label, float(precision[at]), float(recall[at]), float(f1[at]), int(support[at]))
        for at, label in enumerate(labels)
    ]


def accuracy(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> float:
    """The share that is right."""
    _check_lengths(gold, predicted)
    return sum(true == called for true, called in zip(gold, predicted, strict=True)) / len(gold)


def f1(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> float:
    """F1 of the last label, the positive one of two."""
    positive = labels[-1]
    scores = {score.label: score.f1 for score in per_class(confusion(gold, predicted, labels))}
    return scores[positive]


def macro_f1(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> float:
    """The mean F1 of the labels that occur, in truth or in prediction."""
    table = confusion(gold, predicted, labels)
    occurs = (table.support + table.called) > 0
    return float(np.mean([score.f1 for score, is_here in zip(per_class(table), occurs, strict=True) if is_here]))


def matthews(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> float:
    """Matthews' correlation, for two labels or more (Gorodkin's form); 0 when either side has one label only."""
    table = confusion(gold, predicted, labels)
    count, support, called = float(len(gold)), table.support, table.called
    covariance = count * table.right.sum() - support @ called
    spread = (count**2 - support @ support) * (count**2 - called @ called)
    return float(covariance / math.sqrt(spread)) if spread else 0.0


METRICS: dict[str, Callable[[Sequence[str], Sequence[str], Sequence[str]], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "matthews": matthews,
}


def label_set_scores(gold: LabelSets, predicted: LabelSets) -> dict[str, float]:
    """Where a text may have several labels: F1 over all labels given, the mean F1 of labels, the share all right."""
    _check_lengths(gold, predicted)
    pairs = list(zip(gold, predicted, strict=True))
    right, total = sum(len(true & called) for true, called in pairs), sum(map(len, [*gold, *predicted]))
    each = [score.f1 for score in per_label(gold, predicted)]
    return {
        "micro_f1": 2 * right / total if total else 0.0,
        "macro_f1": float(np.mean(each)) if each else 0.0,
        "accuracy": sum(true == called for true, called in pairs) / len(pairs),
    }


def pearson(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """The linear correlation; 0 when either side never changes."""
    _check_lengths(gold, predicted)
    x, y = (np.asarray(side, np.float64) - np.mean(np.asarray(side, np.float64)) for side in (gold, predicted))
    x, y = (_settled(side, given) for side, given in ((x, gold), (y, predicted)))
    spread = math.sqrt(float(x @ x)) * math.sqrt(float(y @ y))
    return max(-1.0, min(1.0, float(x @ y) / spread)) if spread else 0.0


def spearman(gold: Sequence[float], predicted: Sequence[float]) -> float:
    """The correlation of ranks, ties sharing the mean of theirs."""
    return pearson(ranks(gold), ranks(predicted))


def ranks(numbers: Sequence[float]) -> list[float]:
    """The place of each number among all, from 1; equal ones have the mean of their places."""
    _, places, counts = np.unique(np.asarray(numbers, np.float64), return_inverse=True, return_counts=True)
    last = counts.cumsum()
    means = last - (counts - 1) / 2
    return [float(mean) for mean in means[places.ravel()]]


def mean_squared_error(gold: Sequence[float], predicted: Sequence[float]) -> float:
    _check_lengths(gold, predicted)
    return float(np.mean((np.asarray(gold, np.float64) - np.asarray(predicted, np.float64)) ** 2))


NUMBER_METRICS: dict[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "pearson": pearson,
    "spearman": spearman,
    "mean_squared_error": mean_squared_error,
}


def bootstrap(
    score: Callable[[Sequence[int]], float], count: int, rng: np.random.Generator, rounds: int = 1000
) -> tuple[float, float]:
    """The 95 % interval of a score: of so many, as many are drawn again and again, with replacement, and scored.

    `score` is given the numbers of those that were drawn.
    """
    scores = [score(rng.integers(0, count, count).tolist()) for _ in range(rounds)]
    low, high = np.percentile(scores, PERCENTILES)
    return float(low), float(high)


def _settled(centred: Numbers, given: Sequence[float]) -> Numbers:
    """Zeros where all numbers are equal, whatever rounding left of them."""
    return np.zeros_like(centred) if len(set(given)) == 1 else centred


def _divide(above: Numbers, below: Numbers) -> Numbers:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def _check_lengths(gold: Sequence[object], predicted: Sequence[object]) -> None:
    if len(gold) != len(predicted):
        raise ValueError(f"there are {len(predicted):,} predictions for {len(gold):,} examples: give one for each.")
    if not gold:
        raise ValueError("there is nothing to score: give at least one example with its label.")
