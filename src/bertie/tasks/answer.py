"""A question and a passage -> the span that answers, or none: windows, n-best and null score as run_squad.py has them.

Two things differ from it. There, the best starts and ends are looked for among padding too; here nothing is padded. And
where no span can be an answer it fails; here the answer is empty.
"""

import logging
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from bertie.tasks.final_text import final_text
from bertie.tasks.sequences import best_window, cut_windows, frame, token_lists
from bertie.tasks.spans import SPAN_SCORES, Answered, squad_null_scores
from bertie.tasks.task import (
    Candidate,
    Example,
    Floats,
    Output,
    Prediction,
    Row,
    Span,
    missing_label,
    softmax,
    some_of,
)
from bertie.text.encoding import Encoding
from bertie.text.wordpiece import Tokenizer

log = logging.getLogger(__name__)
WORDS = re.compile(r"[^ \t\r\n\u202f]+")  # what run_squad.py takes for words
NEVER = 1e6  # the odds of no answer where no span can be one


@dataclass(frozen=True)
class Answer:
    """Where the passage answers the question. projection: how tokens become text again; "offsets" takes the characters
    that they came from, "google" looks for what they spell in the words they came from, as run_squad.py does. scorer:
    which official script counts."""

    head: ClassVar[str] = "span"
    num_classes: ClassVar[int] = 0
    labels: ClassVar[tuple[str, ...]] = ()
    problem_type: ClassVar[str | None] = None

    has_nulls: bool | None = None  # whether questions may have no answer; none: as the examples say
    null_threshold: float = 0.0  # how much better no answer must score; found on held-out examples
    max_length: int = 384
    stride: int = 128
    max_question: int = 64
    max_answer: int = 30  # tokens
    num_best: int = 20
    projection: Literal["google", "offsets"] = "offsets"
    scorer: Literal["squad", "cmrc"] = "squad"

    def __post_init__(self) -> None:
        for name in ("max_length", "stride", "max_answer", "num_best"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1.")

    @property
    def main_score(self) -> str:
        if self.scorer == "cmrc":
            return "average"
        return "best_f1" if self.has_nulls else "f1"

    def learn(self, examples: Sequence[Example]) -> Self:
        if all(example.answers is None for example in examples):
            raise missing_label(examples[0])
        some_null = any(example.answers == () for example in examples)
        return replace(self, has_nulls=some_null) if self.has_nulls is None else self

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Row]:
        questions = token_lists(tokenizer, [example.pair or "" for example in examples])
        rows: list[Row] = []
        lost: list[str] = []
        cut: tuple[str, Encoding] = ("", tokenizer.pieces(""))
        for number, (example, question) in enumerate(zip(examples, questions, strict=True)):
            if example.text != cut[0]:  # many questions in a row are about one passage
                cut = example.text, tokenizer.pieces(example.text)
            target = self._target(example, cut[1], tokenizer)
            if example.answers and target is None:
                lost.append(example.where)
            rows += self._windows(number, question[: self.max_question], cut[1], target, tokenizer)
        nulls = [one.where for one in examples if one.answers == () and not self.has_nulls]
        if nulls:
            log.warning(
                "%d of %d questions have no answer, which this task does not know: they are not learned from and count "
                "as wrong (has_nulls=true if that is an answer): %s.",
                *(len(nulls), len(examples), some_of(nulls)),
            )
        if lost:
            log.warning(
                "%d of %d answers are not in their passage, and so not learned from: %s.",
                *(len(lost), len(examples), some_of(lost)),
            )
        return rows

    def decode(self, outputs: Sequence[Output], examples: Sequence[Example], tokenizer: Tokenizer) -> list[Prediction]:
        found: list[list[Output]] = [[] for _ in examples]
        for output in outputs:
            found[output.row.example].append(output)
        project = PROJECTIONS[self.projection]
        return [
            self._decide(mine, project(example.text, tokenizer)) for mine, example in zip(found, examples, strict=True)
        ]

    def score(self, predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
        questions = []
        for prediction, example in zip(predictions, examples, strict=True):
            if example.answers is None:
                raise missing_label(example)
            texts = [span.text for span in example.answers]
            questions.append(Answered(texts, prediction.best, prediction.null_odds))
        if self.has_nulls:
            return squad_null_scores(questions, self.null_threshold)
        return SPAN_SCORES[self.scorer](questions)

    def tune(self, scores: Mapping[str, float]) -> Self:
        return replace(self, null_threshold=scores.get("best_f1_threshold", self.null_threshold))

    def describe(self, prediction: Prediction, example: Example) -> dict[str, object]:
        odds = {"null_odds": prediction.null_odds} if self.has_nulls else {}
        candidates = [vars(one) for one in prediction.candidates]
        return {"id": example.id, "answer": prediction.answer, **odds, "candidates": candidates}

    def _target(self, example: Example, passage: Encoding, tokenizer: Tokenizer) -> "_Tokens | None":
        """The answer's first and last token in the passage; (-1, -1) for none; None for one that is not there, or where
        none is an answer that the task does not know."""
        if not example.answers:
            return None if example.answers is None or not self.has_nulls else _Tokens(-1, -1)
        return TARGETS[self.projection](example.text, example.answers[0], passage, tokenizer)

    def _windows(
        self, number: int, question: Sequence[int], passage: Encoding, target: "_Tokens | None", tokenizer: Tokenizer
    ) -> Iterator[Row]:
        room = self.max_length - len(question) - tokenizer.num_special(2)
        if room < 1:
            raise ValueError(f"max_length={self.max_length} leaves no room for the passage: give a larger one.")
        offsets = np.array(passage.offsets, np.int64).reshape(-1, 2)
        windows = cut_windows(len(passage), room, self.stride)
        best = best_window(windows, len(passage))
        for at, (start, end) in enumerate(windows):
            framed = frame(tokenizer, [question, passage.ids[start:end]])
            is_passage = framed.sources[:, 0] == 1
            places = np.full((len(framed.ids), 2), -1, np.int64)
            places[is_passage] = offsets[start:end]
            is_best = np.zeros(len(framed.ids), np.bool_)
            is_best[is_passage] = best[start:end] == at
            targets = None if target is None else _in_window(target, start, end, int(is_passage.argmax()))
            yield Row(number, (framed.ids,), (framed.segments,), targets, places, is_best)

    def _decide(self, outputs: Sequence[Output], spell: "Spell") -> Prediction:
        weighed = [one for output in outputs for one in self._weigh(output)]
        null: tuple[float, float] | None = None
        if self.has_nulls and outputs:
            firsts = [output.logits[0].astype(np.float64) for output in outputs]
            null = min(((float(one[0]), float(one[1])) for one in firsts), key=sum)
        best: dict[str, tuple[float, float]] = {}
        for one in sorted(weighed, key=lambda one: -one.logit):
            if null is not None and "" not in best and sum(null) > one.logit:
                best[""] = null
            if len(best) >= self.num_best:
                break
            best.setdefault(spell(one), (one.start_logit, one.end_logit))
        if null is not None:
            best.setdefault("", null)
        return self._prediction(best, null)

    def _prediction(self, best: Mapping[str, tuple[float, float]], null: tuple[float, float] | None) -> Prediction:
        shares = softmax(np.array([sum(pair) for pair in best.values()] or [0.0], np.float64))
        candidates = tuple(
            Candidate(text, share, *pair) for (text, pair), share in zip(best.items(), shares, strict=False)
        )
        spans = [one for one in candidates if one.text]
        if not spans:
            return Prediction(null_odds=NEVER if self.has_nulls else 0.0, candidates=candidates)
        first = spans[0] if self.has_nulls else candidates[0]
        odds = 0.0 if null is None else sum(null) - first.start_logit - first.end_logit
        said = "" if null is not None and odds > self.null_threshold else first.text
        return Prediction(answer=said, best=first.text, null_odds=odds, candidates=candidates)

    def _weigh(self, output: Output) -> Iterator["_Weighed"]:
        """The spans of one window that may be an answer, by their starts from the best on, then by their ends."""
        row, logits = output.row, output.logits.astype(np.float64)
        assert row.places is not None and row.is_best is not None
        starts, ends = (np.argsort(-logits[:, side], kind="stable")[: self.num_best] for side in (0, 1))
        length = ends[None, :] - starts[:, None] + 1
        is_passage = row.places[:, 0] >= 0
        allowed = (length >= 1) & (length <= self.max_answer) & is_passage[ends][None, :]
        allowed &= (is_passage & row.is_best)[starts][:, None]
        start_ranks, end_ranks = allowed.nonzero()
        chosen = zip(starts[start_ranks].tolist(), ends[end_ranks].tolist(), strict=True)
        first, last = logits[:, 0].tolist(), logits[:, 1].tolist()
        for start, end in chosen:
            yield _Weighed(row, start, end, first[start], last[end], first[start] + last[end])


class _Tokens(NamedTuple):
    """From one token of a passage to another, both in it."""

    first: int
    last: int


class _Weighed(NamedTuple):
    """A span of tokens of a window, and how it scored."""

    row: Row
    start: int
    end: int
    start_logit: float
    end_logit: float
    logit: float  # of both together


def _in_window(target: _Tokens, start: int, end: int, first_place: int) -> Floats:
    """The target by the window's own tokens; its first token, [CLS], where the answer is not wholly in it."""
    is_inside = target.first >= start and target.last < end
    moved = [first_place + token - start for token in target] if is_inside else [0, 0]
    return np.array(moved, np.float64)


def _google_target(text: str, span: Span, passage: Encoding, tokenizer: Tokenizer) -> _Tokens | None:
    """The tokens of the words that the answer touches, drawn in to the first, longest run that is spelled as it is."""
    words = [found.span() for found in WORDS.finditer(text)]
    first, last = (_word_at(words, place) for place in (span.start, span.start + len(span.text) - 1))
    if first is None or last is None or span.start + len(span.text) > len(text):
        return None
    said = " ".join(text[start:end] for start, end in words[first : last + 1])
    if " ".join(span.text.split()) not in said:
        return None
    inside = [
        token
        for token, offset in enumerate(passage.offsets)
        if offset is not None and words[first][0] <= offset[0] < words[last][1]
    ]
    if not inside:
        return None
    wanted = next(token_lists(tokenizer, [span.text]))
    for start in range(inside[0], inside[-1] + 1):
        end = start + len(wanted)
        if wanted and end <= inside[-1] + 1 and passage.ids[start:end] == wanted:
            return _Tokens(start, end - 1)
    return _Tokens(inside[0], inside[-1])


def _word_at(words: Sequence[tuple[int, int]], place: int) -> int | None:
    """The word of a character, or for what parts words the word before; None before the first."""
    if not words or not words[0][0] <= place:
        return None
    return bisect_right(words, place, key=lambda word: word[0]) - 1


def _offset_target(text: str, span: Span, passage: Encoding, tokenizer: Tokenizer) -> _Tokens | None:
    """The tokens that share a character with the answer."""
    end = span.start + len(span.text)
    if span.start < 0 or not span.text or text[span.start : end] != span.text:
        return None
    inside = [
        token
        for token, offset in enumerate(passage.offsets)
        if offset is not None and offset[0] < end and offset[1] > span.start
    ]
    return _Tokens(inside[0], inside[-1]) if inside else None


TARGETS = {"google": _google_target, "offsets": _offset_target}


Spell = Callable[[_Weighed], str]


def _google_text(text: str, tokenizer: Tokenizer) -> Spell:
    """Gives the words that a span touches, drawn in to what its pieces spell."""
    words = [found.span() for found in WORDS.finditer(text)]

    def spell(one: _Weighed) -> str:
        start, end = _characters(one)
        first, last = _word_at(words, start), _word_at(words, end - 1)
        assert first is not None and last is not None
        original = " ".join(text[begun:over] for begun, over in words[first : last + 1])
        pieces = [tokenizer.vocabulary[piece] for piece in one.row.ids[0][one.start : one.end + 1]]
        spelled = " ".join(" ".join(pieces).replace(" ##", "").replace("##", "").split())
        return final_text(spelled, original, tokenizer.words)

    return spell


def _offset_text(text: str, tokenizer: Tokenizer) -> Spell:
    """Gives the characters that a span came from."""

    def spell(one: _Weighed) -> str:
        start, end = _characters(one)
        return text[start:end]

    return spell


def _characters(one: _Weighed) -> tuple[int, int]:
    assert one.row.places is not None
    return int(one.row.places[one.start, 0]), int(one.row.places[one.end, 1])


PROJECTIONS: Mapping[str, Callable[[str, Tokenizer], Spell]] = {"google": _google_text, "offsets": _offset_text}
