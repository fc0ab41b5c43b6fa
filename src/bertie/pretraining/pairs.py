"""Which stretches of text make the sequences of a pass over a corpus: pairs of sentences with a label, or plain text.

Nothing is read but where sentences and documents start. A sequence is some ranges of tokens: a [CLS], then each range
and a [SEP]. The walk through a document is sequential, so many documents are walked at once.
R: ranges; G: the documents that are walked as a group; U: sentences, or pieces of those too long for a sequence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Booleans = NDArray[np.bool_]

IS_NEXT, IS_NOT, NO_PAIR = 0, 1, -100
NUM_TOGETHER = 4096  # documents walked at once, at most; part of what a seed means
MAX_DRAWS = 10  # of a document that is to be another one


@dataclass(frozen=True)
class PairsConfig:
    """What makes a sequence.

    `next_sentence` is Google's: A, and in half of the cases what follows, else something from another document.
    `sentence_order` is ALBERT's: what follows, swapped with A in half of the cases. `full_sentences` is RoBERTa's: as
    many sentences as fit, from one document or several. `packed` cuts documents where a sequence is full.
    """

    kind: Literal["next_sentence", "sentence_order", "full_sentences", "packed"] = "next_sentence"
    max_length: int = 128  # tokens, special ones counted
    short_share: float = 0.1  # of the documents, whose pairs aim at a shorter length, drawn once

    def __post_init__(self) -> None:
        if self.max_length < 5:
            raise ValueError(f"max_length is {self.max_length}; a pair and its special tokens need at least 5.")
        if not 0 <= self.short_share <= 1:
            raise ValueError(f"short_share is {self.short_share}; it is a share of the documents, from 0 to 1.")


@dataclass(frozen=True)
class Offsets:
    """Where sentences and documents start in one stream of tokens. None is empty."""

    sentences: Ints  # the token each sentence starts at, and the end of the last
    documents: Ints  # the sentence each document starts at, and the end of the last

    def __post_init__(self) -> None:
        assert self.sentences.dtype == self.documents.dtype == np.int64  # unsigned ones would become floats
        assert (np.diff(self.sentences) > 0).all() and (np.diff(self.documents) > 0).all()


@dataclass(frozen=True)
class Sequences:
    """The ranges of tokens of some sequences, one after the other."""

    starts_R: Ints
    ends_R: Ints
    firsts_S: Ints  # each sequence's first range, and the end
    labels_S: Ints  # 0: B follows A; 1: it does not; -100: no pair

    def lengths(self) -> Ints:
        """The tokens of each sequence, special ones counted."""
        ends = np.append(0, np.cumsum(self.ends_R - self.starts_R + 1))
        return 1 + np.diff(ends[self.firsts_S])

    def select(self, chosen_C: Ints) -> "Sequences":
        """Those of the sequences, in this order."""
        num_ranges_C = np.diff(self.firsts_S)[chosen_C]
        firsts_C = np.append(0, np.cumsum(num_ranges_C))
        ranges = np.repeat(self.firsts_S[chosen_C] - firsts_C[:-1], num_ranges_C) + np.arange(firsts_C[-1])
        return Sequences(self.starts_R[ranges], self.ends_R[ranges], firsts_C, self.labels_S[chosen_C])


def joined(several: Sequence[Sequences]) -> Sequences:
    """The sequences of all, one after the other."""
    num_ranges = np.cumsum([0, *(len(one.starts_R) for one in several)])
    firsts = [one.firsts_S[:-1] + before for one, before in zip(several, num_ranges, strict=False)]
    return Sequences(
        np.concatenate([one.starts_R for one in several]),
        np.concatenate([one.ends_R for one in several]),
        np.append(np.concatenate(firsts), num_ranges[-1]),
        np.concatenate([one.labels_S for one in several]),
    )


def num_parts(offsets: Offsets) -> int:
    """In how many parts a pass over the documents is drawn."""
    return -(-(len(offsets.documents) - 1) // NUM_TOGETHER)


def draw_part(offsets: Offsets, config: PairsConfig, seeds: Sequence[int], part: int) -> Sequences:
    """The sequences of one part of a pass, whose documents and all else are drawn from the pass's seeds alone.

    Neighbours are from the same documents, so that whoever trains on them shuffles first.
    """
    order = np.random.default_rng(seeds).permutation(len(offsets.documents) - 1)
    rng = np.random.default_rng((*seeds, part + 1))  # not 0, which numpy takes for nothing
    return KINDS[config.kind](offsets, np.array_split(order, num_parts(offsets))[part], config, rng)


def _draw_pairs(offsets: Offsets, documents_G: Ints, config: PairsConfig, rng: np.random.Generator) -> Sequences:
    """Google's procedure, a sequence of every document a round.

    Sentences are collected up to the target length, and cut into A and B at random. Where B is replaced by a random
    one, or there is none, what was not used is put back: the next round starts where A ended.
    """
    most = config.max_length - 3
    is_short_G = rng.random(len(documents_G)) < config.short_share
    target_G = np.where(is_short_G, rng.integers(2, most + 1, len(documents_G)), most)
    at_G, end_G = offsets.documents[documents_G], offsets.documents[documents_G + 1]
    rounds, walking = [], np.arange(len(documents_G))
    while len(walking):
        start, target = at_G[walking], target_G[walking]
        full = _first_reaching(offsets, start, target, end_G[walking])
        cut = start + rng.integers(1, np.maximum(full - start, 2))
        is_heads = rng.random(len(walking)) < 0.5
        is_random = (cut == full) | (is_heads & (config.kind == "next_sentence"))
        is_swapped = ~is_random & is_heads & (config.kind == "sentence_order")
        a, b = np.stack([start, cut], axis=1), np.stack([cut, full], axis=1)
        missing = target - (offsets.sentences[cut] - offsets.sentences[start])
        b[is_random] = _random_ranges(offsets, documents_G[walking[is_random]], missing[is_random], rng)
        a[is_swapped], b[is_swapped] = b[is_swapped], a[is_swapped]
        starts, ends = _truncate(offsets.sentences[a], offsets.sentences[b], most, rng)
        rounds.append((starts, ends, np.where(is_random | is_swapped, IS_NOT, IS_NEXT)))
        at_G[walking] = np.where(is_random, cut, full)
        walking = walking[at_G[walking] < end_G[walking]]
    starts_R, ends_R, labels_S = (np.concatenate(parts) for parts in zip(*rounds, strict=True))
    return Sequences(starts_R.ravel(), ends_R.ravel(), np.arange(0, starts_R.size + 1, 2), labels_S)


def _first_reaching(offsets: Offsets, start: Ints, num_tokens: Ints, end: Ints) -> Ints:
    """The first sentence that starts at least so many tokens after `start` does, or `end` where that comes before."""
    return np.minimum(np.searchsorted(offsets.sentences, offsets.sentences[start] + num_tokens), end)


def _random_ranges(offsets: Offsets, not_from: Ints, num_tokens: Ints, rng: np.random.Generator) -> Ints:
    """A range of sentences for each of these documents from another one, at least one sentence long, as long as asked
    for where that document goes on long enough."""
    num_documents = len(offsets.documents) - 1
    drawn = rng.integers(0, num_documents, len(not_from))
    for _ in range(MAX_DRAWS - 1):
        is_same = drawn == not_from
        drawn[is_same] = rng.integers(0, num_documents, is_same.sum())
    first, end = offsets.documents[drawn], offsets.documents[drawn + 1]
    start = rng.integers(first, end)
    return np.stack([start, _first_reaching(offsets, start, np.maximum(num_tokens, 1), end)], axis=1)


def _truncate(a: Ints, b: Ints, most: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Where both ranges start, and where they end, once the longer one (B where none is) has lost a token, at its front
    or at its back, as often as it took to have `most` of them."""
    lengths = np.stack([a[:, 1] - a[:, 0], b[:, 1] - b[:, 0]], axis=1)
    excess = np.maximum(lengths.sum(axis=1) - most, 0)
    a_is_longer = lengths[:, 0] > lengths[:, 1]
    until_even = np.minimum(excess, np.abs(lengths[:, 0] - lengths[:, 1]))
    by_turns = excess - until_even  # B first
    lost: Ints = np.stack([by_turns // 2, (by_turns + 1) // 2], axis=1)
    lost[np.arange(len(lost)), np.where(a_is_longer, 0, 1)] += until_even
    lost_in_front = rng.binomial(lost, 0.5)
    starts, ends = np.stack([a[:, 0], b[:, 0]], axis=1), np.stack([a[:, 1], b[:, 1]], axis=1)
    return starts + lost_in_front, ends - (lost - lost_in_front)


def _draw_full_sentences(
    offsets: Offsets, documents_G: Ints, config: PairsConfig, rng: np.random.Generator
) -> Sequences:
    """As many sentences as fit, whole unless one alone would not; where a document ends, the next one goes on."""
    first_G, end_G = offsets.documents[documents_G], offsets.documents[documents_G + 1]
    sentences, _, document_of = _cut(first_G, end_G, 1)
    starts_U, ends_U, sentence_of = _cut(
        offsets.sentences[sentences], offsets.sentences[sentences + 1], config.max_length - 2
    )
    document_U = document_of[sentence_of]
    # What the units from 0 to each one's end take, with a [SEP] for each document before the last.
    taken_U = np.cumsum(ends_U - starts_U) + document_U
    before_U = taken_U - (ends_U - starts_U)
    next_U = np.searchsorted(taken_U, before_U + config.max_length - 2, side="right")
    firsts = _follow(next_U)
    is_first_U = np.zeros(len(next_U), np.bool_)
    is_first_U[firsts] = True
    ranges = np.flatnonzero(is_first_U | (np.diff(document_U, prepend=-1) > 0))
    last_units = np.append(ranges[1:], len(next_U)) - 1
    firsts_S = np.searchsorted(ranges, np.append(firsts, len(next_U)))
    return Sequences(starts_U[ranges], ends_U[last_units], firsts_S, np.full(len(firsts), NO_PAIR))


def _follow(next_U: Ints) -> list[int]:
    """The units that are met from the first on, each leading to its next."""
    following, met, unit = next_U.tolist(), [], 0
    while unit < len(following):
        met.append(unit)
        unit = following[unit]
    return met


def _draw_packed(offsets: Offsets, documents_G: Ints, config: PairsConfig, rng: np.random.Generator) -> Sequences:
    """Each document cut into full sequences, after a first one of any length, so that each pass cuts elsewhere."""
    room = config.max_length - 2
    start_G = offsets.sentences[offsets.documents[documents_G]]
    end_G = offsets.sentences[offsets.documents[documents_G + 1]]
    is_cut_G = end_G - start_G > room
    first_end_G = np.where(is_cut_G, start_G + rng.integers(1, room + 1, len(documents_G)), end_G)
    starts_R, ends_R, document_of = _cut(first_end_G - room, end_G, room)
    starts_R = np.maximum(starts_R, start_G[document_of])
    return Sequences(starts_R, ends_R, np.arange(len(starts_R) + 1), np.full(len(starts_R), NO_PAIR))


def _cut(starts: Ints, ends: Ints, length: int) -> tuple[Ints, Ints, Ints]:
    """Ranges in pieces of at most this length: where the pieces start, where they end, which range each is of."""
    num_pieces = -((starts - ends) // length)
    range_of = np.repeat(np.arange(len(starts)), num_pieces)
    nth = np.arange(len(range_of)) - np.repeat(np.cumsum(num_pieces) - num_pieces, num_pieces)
    piece_starts = starts[range_of] + nth * length
    return piece_starts, np.minimum(piece_starts + length, ends[range_of]), range_of


# Each draws the sequences of some documents.
KINDS: dict[str, Callable[[Offsets, Ints, PairsConfig, np.random.Generator], Sequences]] = {
    "next_sentence": _draw_pairs,
    "sentence_order": _draw_pairs,
    "full_sentences": _draw_full_sentences,
    "packed": _draw_packed,
}
