"""What a task is: four functions over examples, rows, outputs and predictions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bertie.text.wordpiece import Tokenizer

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Logits = NDArray[np.float32]
NONE = -100  # the label of what is not learned from, as in the losses


@dataclass(frozen=True)
class Span:
    """An answer: its text, and at which character of the passage it starts."""

    text: str
    start: int


@dataclass(frozen=True, kw_only=True)
class Example:
    """One thing as it stands in a file. A task reads the fields that are its own; the others stay empty, and what was
    not labelled is None."""

    where: str = ""  # file and row, for what is said of it
    id: str = ""
    text: str = ""  # of `answer` the passage, of `choose` what comes before the endings
    pair: str | None = None  # the second text; of `answer` the question
    negative: str | None = None  # of `embed` a third text, which does not belong to the first as the second does
    words: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    document: int = 0  # neighbours of one document may be read together
    label: str | None = None
    labels: tuple[str, ...] | None = None  # of each word, or all that a text has
    number: float | None = None
    right: int | None = None  # the ending, from 0
    answers: tuple[Span, ...] | None = None  # none: the passage does not say

    @property
    def is_labelled(self) -> bool:
        """Whether anything is known of it that a task could learn."""
        return any(one is not None for one in (self.label, self.labels, self.number, self.right, self.answers))


@dataclass(frozen=True, eq=False)
class Row:
    """What the model reads at once: one sequence, or of `choose` one for each ending.

    targets: what its head is to say, NONE or NaN where that is not known; None if there is nothing to learn here.
    places: for each token two numbers that say what its output stands for, -1 where nothing is asked of it: a word by
    the numbers of its example and in that, or the first and last characters of the passage's part, the last excluded.
    """

    example: int
    ids: tuple[Ints, ...]
    segments: tuple[Ints, ...]
    targets: Floats | None = None
    places: Ints | None = None
    is_best: NDArray[np.bool_] | None = None  # of several windows, whether this one shows most around the token
    read: Logits | None = None  # what a frozen encoder makes of its tokens, where that was computed once

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.ids))


class Output(NamedTuple):
    """What the model said: a number or several for the row, for each token, or for each ending."""

    row: Row
    logits: Logits


@dataclass(frozen=True)
class Candidate:
    """One of the answers that were weighed."""

    text: str
    probability: float
    start_logit: float
    end_logit: float


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What is said of one example, in the fields of Example that the task's labels have."""

    label: str | None = None
    labels: tuple[str, ...] = ()
    number: float | None = None
    right: int | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    answer: str = ""
    best: str = ""  # the best answer that is a part of the passage, whatever the odds
    null_odds: float = 0.0
    candidates: tuple[Candidate, ...] = ()
    shares: Logits | None = field(default=None, compare=False, repr=False)  # of `tag`, each label's of each word
    vectors: Logits | None = field(default=None, compare=False, repr=False)  # of `embed`, one for each of its texts


class Task(Protocol):
    """A kind of task with its settings; frozen, and made of values that stand in a file."""

    @property
    def head(self) -> str:
        """Which head of the model it reads; "vector" is none, but each text's hidden states, pooled."""

    @property
    def num_classes(self) -> int:
        """As the head's number of classes is given: 0 where it follows from what the head is."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What the classes of the head are called; none where it has no classes."""

    @property
    def problem_type(self) -> str | None:
        """What a class head is for, in the words of transformers."""

    @property
    def main_score(self) -> str:
        """By which score a model is chosen; more is better."""

    def learn(self, examples: Sequence[Example]) -> Self:
        """The task with whatever is found in the examples: which labels there are. ValueError without any label."""

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Row]:
        """The rows of all examples, in order."""

    def decode(self, outputs: Sequence[Output], examples: Sequence[Example], tokenizer: Tokenizer) -> list[Prediction]:
        """A prediction for each example, from the outputs of its rows; the tokenizer says how answers are spelled."""

    def score(self, predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
        """The scores by name; ValueError for an example without its label."""

    def tune(self, scores: Mapping[str, float]) -> Self:
        """The task with what its scores on held-out examples have shown to be best."""

    def describe(self, prediction: Prediction, example: Example) -> dict[str, object]:
        """The prediction as an object of JSON."""


def softmax(logits: Logits) -> list[float]:
    """The probabilities of one row of logits."""
    shifted = np.exp(logits.astype(np.float64) - logits.max())
    return [float(share) for share in shifted / shifted.sum()]


def number_of(label: str, labels: Sequence[str], where: str) -> int:
    """Which of the labels it is; ValueError for one that is none of them."""
    if label not in labels:
        shown = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
        raise ValueError(f"{where}: label {label!r} is not one of this task's: {shown}.")
    return labels.index(label)


def stated_number(example: Example) -> float:
    """The example's number, which a table holds as a label; ValueError if it has none."""
    if example.number is not None:
        return example.number
    if example.label is None:
        raise missing_label(example)
    try:
        number = float(example.label)
    except ValueError:
        number = float("nan")
    if not np.isfinite(number):
        raise ValueError(f"{example.where}: {example.label!r} is not a number: to learn names, the task is classify.")
    return number


def some_of(places: Sequence[str]) -> str:
    """The first few of many, for what is said of them."""
    return ", ".join(places[:3]) + (" ..." if len(places) > 3 else "")


def missing_label(example: Example) -> ValueError:
    """What is said of an example that has no label where one is needed."""
    return ValueError(f"{example.where} has no label: if a column holds it, name that with --label.")
