"""What a pre-trained model has learned, as a person can see it: masks filled, where heads look, nearest sentences."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertie.corpus.shards import Corpus
from bertie.model.encoder import pack
from bertie.pretraining.drawing import validation_batches
from bertie.pretraining.pairs import IS_NEXT
from bertie.pretraining.recipe import Recipe
from bertie.serving.predict import Bert
from bertie.text.wordpiece import Tokenizer

MASKED = (
    "Return [MASK] if the graph is connected and False otherwise.",
    "An error is raised if the file does not [MASK].",
    "This function returns the number of [MASK] in the array.",
    "If the argument is [MASK], the default value is used.",
)
QUERIES = (
    "Find the shortest path between two nodes.",
    "Compute the inverse of a matrix.",
    "An exception is raised if the file cannot be opened.",
    "Split a string into words.",
)
# What the page shows the model at work on: a pair, and one word in two senses.
TEXTS = (
    "The iterator returns the next item. ||| It raises an exception when no item is left.",
    "Return the value of the key in the dictionary.",
    "Press the enter key on the keyboard to continue.",
    "If the graph has no edges, an error is raised.",
)
WORDS_IN_CONTEXT = ("key",)
TOP = 4  # ways to fill a mask that are shown


class Guess(NamedTuple):
    """The most frequent piece of a corpus, the share of the masked words that whoever always says it has right, and of
    the pairs whoever always gives the more frequent answer."""

    piece: str
    words: float
    pairs: float


class Look(NamedTuple):
    """Where a head looks: the shares of its attention, by words that are neither [CLS] nor [SEP], on average."""

    layer: int
    head: int
    before: float
    itself: float
    after: float
    marks: float

    @property
    def elsewhere(self) -> float:
        return 1 - self.before - self.itself - self.after - self.marks


class Near(NamedTuple):
    """A sentence, the one nearest to it, and the cosine between them."""

    sentence: str
    nearest: str
    cosine: float


def guess_by_count(corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe) -> Guess:
    """How far counting alone comes, on the masked words that a run's evaluations ask for."""
    counts = sum(np.bincount(shard.tokens, minlength=tokenizer.size) for shard in corpus.train)
    most_frequent = int(np.argmax(counts))
    batches = [drawn.batch for drawn in validation_batches(corpus.validation, tokenizer, recipe)]
    labels_M = torch.cat([batch.labels_M for batch in batches if batch.labels_M is not None])
    is_next_S = torch.cat([batch.pair_S for batch in batches if batch.pair_S is not None]) == IS_NEXT
    share_next = float(is_next_S.float().mean())
    words = float((labels_M == most_frequent).float().mean())
    return Guess(tokenizer.vocabulary[most_frequent], words, max(share_next, 1 - share_next))


def fill(model: Bert) -> list[tuple[str, str]]:
    """Sentences with a mask, and the likeliest ways to fill it."""
    filled = model.fill(MASKED, TOP)
    shown = ["  ".join(f"{one.token} {one.score:.0%}" for one in masks[0]) for masks in filled]
    return list(zip(MASKED, shown, strict=True))


@torch.inference_mode()
def looks(model: Bert, sentences: Sequence[str]) -> list[Look]:
    """Where each head looks when it reads the sentences."""
    encodings = [
        model.tokenizer.encode(sentence, max_length=model.model.config.max_positions) for sentence in sentences
    ]
    trace = model.model.encoder.trace(pack([encoding.ids for encoding in encodings]))
    found = []
    for layer, sequences in enumerate(trace.probabilities_LSHTT, 1):
        shares_H4 = torch.cat([_shares(probabilities_HTT) for probabilities_HTT in sequences], 1).mean(1)
        found += [Look(layer, head, *shares) for head, shares in enumerate(shares_H4.tolist(), 1)]
    return found


def _shares(probabilities_HTT: Tensor) -> Tensor:
    """For each head and each word: the shares that go to the word before, itself, the word after, [CLS] and [SEP]."""
    words = probabilities_HTT[:, 1:-1]  # rows of [CLS] and [SEP] are left out
    before, itself, after = (words.diagonal(offset, 1, 2) for offset in (0, 1, 2))
    marks = words[:, :, 0] + words[:, :, -1]
    before, after = before.clone(), after.clone()
    before[:, 0] = after[:, -1] = 0  # those are [CLS] and [SEP]
    return torch.stack([before, itself, after, marks], -1)


def nearest(model: Bert, sentences: Sequence[str]) -> list[Near]:
    """Of some sentences of our own the nearest of those given."""
    vectors_SD = model.encode([*QUERIES, *sentences])
    vectors_SD = vectors_SD - vectors_SD.mean(0)  # what all have in common says nothing
    vectors_SD /= np.linalg.norm(vectors_SD, axis=1, keepdims=True)
    cosines_QS = vectors_SD[: len(QUERIES)] @ vectors_SD[len(QUERIES) :].T
    found = zip(QUERIES, cosines_QS, strict=True)
    return [Near(query, sentences[int(row.argmax())], float(row.max())) for query, row in found]
