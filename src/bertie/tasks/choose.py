"""One of several endings: each is read after what it ends, and the one with the highest score is taken."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from bertie.tasks.sequences import frame, token_lists
from bertie.tasks.task import Example, Output, Prediction, Row, missing_label, softmax
from bertie.text.wordpiece import Tokenizer

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choose:
    """The right ending of each beginning."""

    head: ClassVar[str] = "choice"
    num_classes: ClassVar[int] = 0
    labels: ClassVar[tuple[str, ...]] = ()
    problem_type: ClassVar[str | None] = None
    main_score: ClassVar[str] = "accuracy"

    max_length: int = 128
    num_endings: int | None = None  # how many each must have; none: any number, which may differ

    def learn(self, examples: Sequence[Example]) -> Self:
        for example in examples:
            _right(example)
        return self

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Row]:
        for example in examples:
            self._check_endings(example)
        beginnings = token_lists(tokenizer, [example.text for example in examples])
        endings = token_lists(tokenizer, [ending for example in examples for ending in example.endings])
        rows = []
        num_cut = 0
        for number, (example, begun) in enumerate(zip(examples, beginnings, strict=True)):
            framed = [frame(tokenizer, [begun, next(endings)], self.max_length) for _ in example.endings]
            num_cut += any(one.num_cut for one in framed)
            targets = None if example.right is None else np.array([float(_right(example))])
            rows.append(Row(number, tuple(one.ids for one in framed), tuple(one.segments for one in framed), targets))
        if num_cut:
            log.warning("%d of %d examples were cut to %d tokens.", num_cut, len(examples), self.max_length)
        return rows

    def decode(self, outputs: Sequence[Output], examples: Sequence[Example], tokenizer: Tokenizer) -> list[Prediction]:
        logits = {row.example: logits for row, logits in outputs}
        return [
            Prediction(
                right=int(logits[number].argmax()),
                probabilities={str(ending): share for ending, share in enumerate(softmax(logits[number]))},
            )
            for number in range(len(examples))
        ]

    def score(self, predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
        pairs = zip(predictions, examples, strict=True)
        return {"accuracy": sum(one.right == _right(example) for one, example in pairs) / len(examples)}

    def tune(self, scores: Mapping[str, float]) -> Self:
        return self

    def _check_endings(self, example: Example) -> None:
        found = len(example.endings)
        if self.num_endings not in (None, found):
            raise ValueError(f"{example.where} has {found} endings; this task has {self.num_endings}: mend that row.")

    def describe(self, prediction: Prediction, example: Example) -> dict[str, object]:
        assert prediction.right is not None
        shares = list(prediction.probabilities.values())
        ending = example.endings[prediction.right]
        return {"id": example.id, "right": prediction.right, "ending": ending, "probabilities": shares}


def _right(example: Example) -> int:
    if example.right is None:
        raise missing_label(example)
    if not 0 <= example.right < len(example.endings):
        raise ValueError(
            f"{example.where}: the right ending is number {example.right}, but there are {len(example.endings)}, "
            "counted from 0."
        )
    return example.right
