"""Words -> a label each: the first piece speaks for its word; long sentences, or documents, through windows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import ClassVar, Literal, Self

import numpy as np

from bertie.tasks.entities import OUTSIDE, entity_scores, find_entities, has_entities, tag_accuracy
from bertie.tasks.sequences import best_window, cut_windows, frame, token_lists
from bertie.tasks.task import NONE, Example, Ints, Logits, Output, Prediction, Row, missing_label, number_of
from bertie.text.wordpiece import Tokenizer


@dataclass(frozen=True)
class Tag:
    """A tag for each word. With context "document" a sentence is read among its neighbours, as many as there is room
    for, as the paper does; each word is judged in the window that shows most around it."""

    head: ClassVar[str] = "tag"
    problem_type: ClassVar[str | None] = None

    labels: tuple[str, ...] = ()  # none: those of the examples
    max_length: int = 128
    context: Literal["sentence", "document"] = "sentence"
    stride: int | None = None  # tokens from one window to the next; none: half a window

    @property
    def num_classes(self) -> int:
        return len(self.labels)

    @property
    def main_score(self) -> str:
        return "f1" if has_entities(self.labels) else "accuracy"

    def learn(self, examples: Sequence[Example]) -> Self:
        found = {label for example in examples for label in example.labels or ()}
        if self.labels:
            return self
        if len(found) < 2:
            if not found:
                raise missing_label(examples[0])
            raise ValueError(
                f"all words have the label {next(iter(found))!r}: there is nothing to tell apart. Is the "
                "column of the labels the right one?"
            )
        return replace(self, labels=tuple(sorted(found, key=lambda label: (label != OUTSIDE, label[2:], label))))

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Row]:
        room = max(1, self.max_length - tokenizer.num_special(1))
        stride = self.stride or (room + 1) // 2
        rows = []
        for ids, places in self._units(examples, tokenizer):
            windows = cut_windows(len(ids), room, stride)
            best = best_window(windows, len(ids))
            for number, (start, end) in enumerate(windows):
                mine = np.where((best == number)[:, None], places, -1)[start:end]
                rows.append(self._row(ids[start:end], mine, examples, tokenizer))
        return rows

    def decode(self, outputs: Sequence[Output], examples: Sequence[Example], tokenizer: Tokenizer) -> list[Prediction]:
        found = [np.zeros((len(example.words), len(self.labels)), np.float32) for example in examples]
        for row, logits in outputs:
            assert row.places is not None
            for token in np.flatnonzero(row.places[:, 0] >= 0):
                example, word = row.places[token]
                found[example][word] = logits[token]
        return [
            Prediction(labels=tuple(self.labels[chosen] for chosen in one.argmax(-1).tolist()), shares=_shares(one))
            for one in found
        ]

    def score(self, predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
        gold = [_labels(example, self.labels) for example in examples]
        called = [prediction.labels for prediction in predictions]
        if has_entities(self.labels):
            return entity_scores(gold, called)
        return {"accuracy": tag_accuracy(gold, called)}

    def tune(self, scores: Mapping[str, float]) -> Self:
        return self

    def describe(self, prediction: Prediction, example: Example) -> dict[str, object]:
        described: dict[str, object] = {
            "id": example.id,
            "words": list(example.words),
            "tags": list(prediction.labels),
        }
        if has_entities(self.labels):
            described["entities"] = [
                {
                    "type": one.type,
                    "start": one.start,
                    "end": one.end,
                    "words": list(example.words[one.start : one.end]),
                }
                for one in find_entities(prediction.labels)
            ]
        return described

    def _units(self, examples: Sequence[Example], tokenizer: Tokenizer) -> Iterator[tuple[list[int], Ints]]:
        """The tokens of each sentence, or document, and for each first piece the numbers of example and word."""
        words = token_lists(tokenizer, [word for example in examples for word in example.words])
        numbered = enumerate(examples)
        is_whole = self.context == "document"
        for _, unit in groupby(numbered, lambda one: one[1].document if is_whole else one[0]):
            ids: list[int] = []
            places: list[tuple[int, int]] = []
            for number, example in unit:
                for word in range(len(example.words)):
                    pieces = next(words) or [tokenizer.unk_id]  # a word of nothing but controls has no piece
                    ids += pieces
                    places += [(number, word), *[(-1, -1)] * (len(pieces) - 1)]
            yield ids, np.array(places, np.int64).reshape(-1, 2)

    def _row(self, ids: list[int], places: Ints, examples: Sequence[Example], tokenizer: Tokenizer) -> Row:
        framed = frame(tokenizer, [ids])
        of_tokens = np.where(framed.sources[:, :1] >= 0, places[framed.sources[:, 1]], -1)
        targets = np.full(len(framed.ids), float(NONE))
        for token in np.flatnonzero(of_tokens[:, 0] >= 0):
            example, word = of_tokens[token]
            labels = examples[example].labels
            if labels is not None:
                targets[token] = number_of(labels[word], self.labels, examples[example].where)
        is_labelled = bool((targets != NONE).any())
        first = of_tokens[:, 0].max()
        return Row(int(first), (framed.ids,), (framed.segments,), targets if is_labelled else None, of_tokens)


def _shares(logits: Logits) -> Logits:
    """Each label's probability, row by row."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    shares: Logits = powers / powers.sum(-1, keepdims=True)
    return shares


def _labels(example: Example, known: Sequence[str]) -> tuple[str, ...]:
    if example.labels is None:
        raise missing_label(example)
    for label in example.labels:
        number_of(label, known, example.where)
    if len(example.labels) != len(example.words):
        raise ValueError(f"{example.where} has {len(example.words)} words and {len(example.labels)} tags.")
    return example.labels
