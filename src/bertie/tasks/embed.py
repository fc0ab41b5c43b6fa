"""Texts -> vectors, such that texts which belong together are near: learned from pairs with a score, from pairs that
belong together, or from triplets whose third text does not."""

import json
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from bertie.tasks.metrics import pearson, spearman
from bertie.tasks.sequences import frame, token_lists
from bertie.tasks.task import Example, Floats, Logits, Output, Prediction, Row, missing_label, stated_number
from bertie.text.wordpiece import Tokenizer

log = logging.getLogger(__name__)
Form = Literal["scores", "pairs", "triplets"]
SENTENCE_MODULES = "modules.json"  # by which sentence-transformers knows its folders
CHUNK = 256  # texts whose cosines with all others are held at once


@dataclass(frozen=True)
class Embed:
    """A vector for each text: its hidden states, pooled. Of pairs with scores the cosines learn to be those, lowest to
    highest as 0 to 1 (Reimers and Gurevych 2019). Of pairs that belong together, and of triplets, each first text
    learns to be nearer to its second one than to the second and third ones of the whole batch (Henderson et al. 2017),
    so that a larger batch teaches more; with negatives=own than to its own third one."""

    head: ClassVar[str] = "vector"
    num_classes: ClassVar[int] = 0
    labels: ClassVar[tuple[str, ...]] = ()
    problem_type: ClassVar[str | None] = None

    form: Form | None = None  # what is learned from; none: as the examples say
    pooling: Literal["mean", "cls"] = "mean"
    normalize: bool = True  # whether the vectors are given the length 1
    negatives: Literal["batch", "own"] = "batch"
    scale: float = 20.0  # of cosines, before they compete
    max_length: int = 128
    lowest: float = 0.0  # the scores that mean a cosine of 0 and of 1
    highest: float = 1.0

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise ValueError(f"scale is {self.scale}; it must be more than 0.")
        if self.negatives == "own" and self.form not in (None, "triplets"):
            raise ValueError(f"negatives=own is for triplets: {self.form} have no negatives of their own.")

    @property
    def main_score(self) -> str:
        return {"scores": "spearman", "triplets": "accuracy"}.get(self.form or "", "mrr")

    def learn(self, examples: Sequence[Example]) -> Self:
        form = self.form or _form_of(examples[0])
        for example in examples:
            _check_form(example, form, None if self.form else examples[0])
        learned = replace(self, form=form)
        if form != "scores":
            return learned
        scores = [stated_number(example) for example in examples]
        if min(scores) == max(scores):
            raise ValueError(f"all {len(scores):,} pairs have the score {scores[0]:g}: there is nothing to learn.")
        return replace(learned, lowest=min(scores), highest=max(scores))

    def encode(self, examples: Sequence[Example], tokenizer: Tokenizer) -> list[Row]:
        texts = [self._texts_of(example) for example in examples]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(text for row in texts for text in row))}
        tokens = token_lists(tokenizer, [text for row in texts for text in row])
        rows, num_cut = [], 0
        for number, (example, mine) in enumerate(zip(examples, texts, strict=True)):
            framed = [frame(tokenizer, [next(tokens)], self.max_length) for _ in mine]
            num_cut += sum(one.num_cut > 0 for one in framed)
            targets = self._targets(example, [numbers[text] for text in mine])
            rows.append(Row(number, tuple(one.ids for one in framed), tuple(one.segments for one in framed), targets))
        if num_cut:
            num_texts = sum(map(len, texts))
            log.warning("%d of %d texts are longer than %d tokens: cut.", num_cut, num_texts, self.max_length)
        return rows

    def decode(self, outputs: Sequence[Output], examples: Sequence[Example], tokenizer: Tokenizer) -> list[Prediction]:
        pooled = {row.example: vectors for row, vectors in outputs}
        return [self._decide(pooled[number]) for number in range(len(examples))]

    def score(self, predictions: Sequence[Prediction], examples: Sequence[Example]) -> dict[str, float]:
        form = self.form or _form_of(examples[0])
        for example in examples:
            _check_form(example, form, None)
        if form == "scores":
            gold = [stated_number(example) for example in examples]
            called = [prediction.number or 0.0 for prediction in predictions]
            return {"spearman": spearman(gold, called), "pearson": pearson(gold, called)}
        vectors = np.stack([_unit(_vectors(prediction)) for prediction in predictions])
        if form == "triplets":
            nearness = (vectors[:, 0, None] * vectors[:, 1:]).sum(-1)
            return {"accuracy": float((nearness[:, 0] > nearness[:, 1]).mean())}
        ranks = ranks_of_own(vectors, [(example.text, example.pair or "") for example in examples])
        return {"mrr": float((1 / ranks).mean()), "accuracy": float((ranks == 1).mean())}

    def tune(self, scores: Mapping[str, float]) -> Self:
        return self

    def describe(self, prediction: Prediction, example: Example) -> dict[str, object]:
        vectors = _vectors(prediction)
        if len(vectors) == 1:
            return {"id": example.id, "vector": [float(f"{number:.7g}") for number in vectors[0].tolist()]}
        score = {"score": prediction.number} if self.form == "scores" else {}
        named = zip(("similarity", "negative_similarity"), cosines(vectors), strict=False)
        return {"id": example.id, **score, **dict(named)}

    def _texts_of(self, example: Example) -> list[str]:
        negative = None if self.form in ("scores", "pairs") else example.negative
        return [text for text in (example.text, example.pair, negative) if text is not None]

    def _targets(self, example: Example, texts: Sequence[int]) -> Floats | None:
        """The cosine that is wanted, or the numbers of texts, so that equal ones are known; None where not known."""
        if self.form == "scores":
            is_stated = example.label is not None or example.number is not None
            return np.array([self._cosine(stated_number(example))]) if is_stated and len(texts) == 2 else None
        return np.array(texts, np.float64) if len(texts) == (3 if self.form == "triplets" else 2) else None

    def _cosine(self, score: float) -> float:
        return (score - self.lowest) / (self.highest - self.lowest)

    def _decide(self, pooled: Logits) -> Prediction:
        vectors = _unit(pooled) if self.normalize else pooled
        if len(pooled) == 1:
            return Prediction(vectors=vectors)
        cosine = cosines(pooled)[0]
        if self.form == "scores":
            cosine = self.lowest + cosine * (self.highest - self.lowest)
        return Prediction(number=cosine, vectors=vectors)


def cosines(vectors: Logits) -> list[float]:
    """How near the second vector is to the first, and the third if there is one: 1 for the same direction."""
    unit = _unit(vectors)
    found: list[float] = (unit[1:] @ unit[0]).tolist()
    return found


def ranks_of_own(vectors: Logits, pairs: Sequence[tuple[str, str]]) -> NDArray[np.int64]:
    """Of each pair of texts the place of its second one among all different second ones, by their nearness to the
    first, from 1. What is right too does not compete: a text equal to the first one, and all second ones of first
    texts equal to it. Ties count against it.

    vectors: those of the pairs, of length 1 (pairs, texts, width).
    """
    columns = {second: number for number, second in enumerate(dict.fromkeys(second for _, second in pairs))}
    first_places = {second: number for number, (_, second) in reversed(list(enumerate(pairs)))}
    candidates = vectors[[first_places[second] for second in columns], 1]
    right: defaultdict[str, set[int]] = defaultdict(set)
    for first, second in pairs:
        right[first].add(columns[second])
        right[first] |= {columns[first]} if first in columns else set()
    ranks = []
    for start in range(0, len(pairs), CHUNK):
        nearness = vectors[start : start + CHUNK, 0] @ candidates.T
        for (first, second), mine in zip(pairs[start : start + CHUNK], nearness, strict=True):
            is_nearer = mine >= mine[columns[second]]
            is_nearer[list(right[first])] = False
            ranks.append(1 + int(is_nearer.sum()))
    return np.array(ranks)


def sentence_files(task: Embed, width: int) -> dict[str, bytes]:
    """The files beside a model by which sentence-transformers makes the same vectors, and so do we."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if task.normalize else [])]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": "" if number == 0 else f"{number}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    pooling = {
        "word_embedding_dimension": width,
        "pooling_mode_cls_token": task.pooling == "cls",
        "pooling_mode_mean_tokens": task.pooling == "mean",
        "pooling_mode_max_tokens": False,
    }
    files: dict[str, object] = {
        SENTENCE_MODULES: modules,
        "sentence_bert_config.json": {"max_seq_length": task.max_length, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": pooling,
    }
    return {name: (json.dumps(contents, indent=1) + "\n").encode() for name, contents in files.items()}


def _form_of(example: Example) -> Form:
    if example.negative is not None:
        return "triplets"
    return "pairs" if example.label is None and example.number is None else "scores"


def _check_form(example: Example, form: Form, first: Example | None) -> None:
    """ValueError for an example that has not what the form needs, or where the first one says the form, another one."""
    if example.pair is None:
        raise ValueError(f"{example.where} has one text: give a second one, in a column named with --pair.")
    if first is not None and _form_of(example) != form:
        raise ValueError(
            f"{example.where} is {FORMS[_form_of(example)]}, {first.where} {FORMS[form]}: give rows of one form, or "
            "say with --set form=pairs that only the pairs are meant."
        )
    if form == "triplets" and example.negative is None:
        raise ValueError(f"{example.where} has no third text: name its column with --negative.")
    if form == "scores" and example.label is None and example.number is None:
        raise missing_label(example)


FORMS: Mapping[Form, str] = {
    "scores": "a pair with a score",
    "pairs": "a pair without a score",
    "triplets": "a triplet",
}


def _vectors(prediction: Prediction) -> Logits:
    assert prediction.vectors is not None
    return prediction.vectors


def _unit(vectors: Logits) -> Logits:
    """The same directions with the length 1; nothing stays nothing."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Logits = vectors / np.maximum(lengths, 1e-12)
    return unit
