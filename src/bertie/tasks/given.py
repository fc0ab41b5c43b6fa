"""What is given to an estimator's fit, predict and score, checked: ValueError says which example it is."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from bertie.tasks.task import Example

Classes = NDArray[np.str_ | np.int64 | np.float64 | np.bool_ | np.object_]
One = TypeVar("One")
Label = TypeVar("Label")


def take_texts(given: Iterable[object], allowed: Sequence[int] = (1, 2)) -> list[tuple[str, ...]]:
    """Each text, or pair, or whatever is allowed, as a tuple; ValueError for anything else."""
    if isinstance(given, str):
        raise ValueError("X is a single text: put it in a list.")
    kinds = {1: "a text", 2: "a pair of texts", 3: "a triplet of texts"}
    found: list[tuple[str, ...]] = []
    for number, one in enumerate(given):
        parts = (one,) if isinstance(one, str) else tuple(one) if isinstance(one, Sequence | np.ndarray) else ()
        texts = tuple(str(part) for part in parts if isinstance(part, str))
        if len(parts) not in allowed or len(texts) < len(parts):
            raise ValueError(f"X[{number}] is {one!r}; give {' or '.join(kinds[count] for count in allowed)}.")
        found.append(texts)
    return found


def take_related(X: Iterable[object], y: Iterable[float] | None) -> list[tuple[tuple[str, ...], float | None]]:
    """Pairs with their scores, or pairs or triplets without."""
    texts = take_texts(X, (2, 3) if y is None else (2,))
    for number, parts in enumerate(texts):
        if len(parts) != len(texts[0]):
            raise ValueError(
                f"X[{number}] has {len(parts)} texts, X[0] {len(texts[0])}: give pairs or triplets, not both."
            )
    scores: list[float | None] = [None] * len(texts) if y is None else [float(one) for one in take_stated(y)]
    return pair_up(texts, scores)


def make_example(parts: tuple[str, ...]) -> Example:
    return Example(text=parts[0], pair=parts[1] if len(parts) == 2 else None)


def label_rows(texts: Sequence[tuple[str, ...]], labels: Sequence[object]) -> list[dict[str, object]]:
    """The rows of a file; whether they are texts or pairs is said by the first."""
    rows = []
    for number, (parts, label) in enumerate(pair_up(texts, labels)):
        if len(parts) != len(texts[0]):
            raise ValueError(
                f"X[{number}] has {len(parts)} texts, X[0] {len(texts[0])}: give texts or pairs, not both."
            )
        names = ("text",) if len(parts) == 1 else ("text_a", "text_b")
        rows.append({**dict(zip(names, parts, strict=True)), "label": label})
    return rows


def take_stated(y: Iterable[Label], name: str = "y") -> list[Label]:
    """The labels as a list; ValueError for one that is missing, None or no number."""
    labels = list(y)
    for number, label in enumerate(labels):
        if label is None or (isinstance(label, float | np.floating) and label != label):
            raise ValueError(f"{name}[{number}] is {label!r}: give each example its label, or leave the example out.")
    return labels


def pair_up(x: Sequence[One], y: Sequence[Label]) -> list[tuple[One, Label]]:
    if len(x) != len(y):
        raise ValueError(f"X has {len(x)} examples, y {len(y)} labels: give one for each.")
    if not x:
        raise ValueError("X is empty: give at least one example.")
    return list(zip(x, y, strict=True))


@dataclass(frozen=True)
class Targets:
    """What y says of classes: which there are, those of each example by name, and how y put it: one class each, lists
    of labels, or a matrix with a row for each example and a column for each label, 1 where it has that."""

    classes: Classes
    of_each: list[tuple[str, ...]]
    form: Literal["one", "lists", "matrix"]


def take_targets(y: Iterable[object]) -> Targets:
    """The classes in y; ValueError for what is none of the three forms."""
    if getattr(y, "ndim", 1) == 2:
        return _take_matrix(np.asarray(y), type(y).__name__)
    labels = take_stated(y)
    is_list = [isinstance(one, Collection) and not isinstance(one, str) for one in labels]
    if not any(is_list):
        found = np.asarray(labels)
        return Targets(np.unique(found), [(str(one),) for one in found.tolist()], "one")
    if not all(is_list):
        raise ValueError(
            f"y[{is_list.index(False)}] is a single label, others are lists: give lists of labels for all."
        )
    lists = [take_stated(one, f"y[{number}]") for number, one in enumerate(labels) if isinstance(one, Collection)]
    for number, one in enumerate(lists):
        if len(set(one)) < len(one):
            raise ValueError(f"y[{number}] is {one!r}, which has a label twice: a matrix of 0 and 1 is to be an array.")
    classes = np.unique(np.asarray([label for one in lists for label in one]))
    return Targets(classes, [tuple(map(str, one)) for one in lists], "lists")


def _take_matrix(matrix: NDArray[np.int64], kind: str) -> Targets:
    if matrix.ndim != 2 or not np.isin(matrix, (0, 1)).all():
        raise ValueError(
            f"y is a {kind} that is no matrix of 0 and 1: give one as an array, with a row for each example and a "
            "column for each label (of a sparse one its toarray()), or lists of labels."
        )
    if matrix.shape[1] == 1:
        raise ValueError("y has one column: give one label for each example, as y.ravel() does, or lists of labels.")
    of_each = [tuple(map(str, np.flatnonzero(row).tolist())) for row in matrix]
    return Targets(np.arange(matrix.shape[1]), of_each, "matrix")
