"""Which tokens of a batch are to be guessed, and what stands in their place: tokens, whole words, or spans of words.

Array work over the whole batch; the plain loop it is equal to is in its test. W: the words of a batch.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Booleans = NDArray[np.bool_]

UNUSED = -100  # the label that cross entropy passes over


@dataclass(frozen=True)
class MaskingConfig:
    """What is masked together, how much of it, and by what; the defaults are the paper's."""

    unit: Literal["tokens", "words", "spans"] = "tokens"
    rate: float = 0.15  # of a sequence's tokens, special ones counted
    cap: int = 0  # the most in a sequence; 0 for any. Google: 20 at 128 tokens, around 80 at 512
    longest_span: int = 3  # words; a span of n words is drawn with probability in proportion to 1/n (ALBERT)
    mask_share: float = 0.8  # of what is to be guessed becomes [MASK],
    keep_share: float = 0.1  # stays as it is; the rest becomes any entry of the vocabulary

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is {self.rate}; it is a share of the tokens, between 0 and 1.")
        if self.cap < 0 or self.longest_span < 1:
            raise ValueError(f"cap is {self.cap} and longest_span {self.longest_span}; allowed: from 0, and from 1.")
        if not (self.mask_share >= 0 and self.keep_share >= 0 and self.mask_share + self.keep_share <= 1):
            shares = f"mask_share is {self.mask_share} and keep_share {self.keep_share}"
            raise ValueError(f"{shares}; each is at least 0, both together at most 1.")


@dataclass(frozen=True)
class Text:
    """Sequences laid end to end, as they are before masking."""

    ids_N: Ints
    starts_S: Ints  # one more than there are sequences; those not used start and end at N
    is_special_N: Booleans  # [CLS], [SEP]: never masked
    goes_on_N: Booleans  # the token goes on with the word before it (English: its piece begins with ##)


class Masked(NamedTuple):
    """The text as the model sees it, and what it is to guess; slots not used have position 0 and label -100."""

    ids_N: Ints
    masked_M: Ints  # ascending
    labels_M: Ints


def mask(
    text: Text, config: MaskingConfig, mask_id: int, vocabulary_size: int, num_slots: int, rng: np.random.Generator
) -> Masked:
    """The text with some tokens replaced, each piece by its own draw, and what they were, in `num_slots` slots."""
    words, word_of_N = find_words(text, whole=config.unit != "tokens")
    order_W = np.argsort(words.sequences_W + rng.random(len(words.lengths_W)))
    num_S = num_to_mask(np.diff(text.starts_S), config)
    if config.unit == "spans":
        chances = 1 / np.arange(1, config.longest_span + 1)
        spans_W = rng.choice(np.arange(1, config.longest_span + 1), len(order_W), p=chances / chances.sum())
        is_picked_W = pick_spans(words, num_S, order_W, spans_W)
    else:
        is_picked_W = pick_words(words, num_S, order_W)
    positions = np.flatnonzero((word_of_N >= 0) & np.append(is_picked_W, False)[word_of_N])
    assert len(positions) <= num_slots, f"{len(positions)} masked tokens do not fit into {num_slots} slots"
    masked_M, labels_M = np.zeros(num_slots, np.int64), np.full(num_slots, UNUSED, np.int64)
    masked_M[: len(positions)], labels_M[: len(positions)] = positions, text.ids_N[positions]
    ids_N = text.ids_N.copy()
    ids_N[positions] = _replace(ids_N[positions], config, mask_id, vocabulary_size, rng)
    return Masked(ids_N, masked_M, labels_M)


def num_to_mask(lengths_S: Ints, config: MaskingConfig) -> Ints:
    """How many tokens of each sequence are to be guessed: rounded half to even as in Python, at least 1, and capped."""
    num_S: Ints = np.maximum(1, np.rint(lengths_S * config.rate)).astype(np.int64)
    return num_S.clip(max=config.cap) if config.cap else num_S


def most_masked(num_tokens: int, num_sequences: int, config: MaskingConfig) -> int:
    """Slots that are enough for any batch of so many tokens in at most so many sequences."""
    most = int(num_tokens * config.rate) + num_sequences  # a sequence rounds up by at most one
    return min(most, config.cap * num_sequences) if config.cap else most


@dataclass(frozen=True)
class Words:
    """The words that may be masked, in order of text."""

    lengths_W: Ints  # in tokens
    sequences_W: Ints  # each word's sequence
    firsts_S: Ints  # each sequence's first word, and the end


def find_words(text: Text, whole: bool) -> tuple[Words, Ints]:
    """The words of a text, and the word of each token, -1 for special ones; if not `whole`, each token is a word.

    A token that goes on a word belongs to the last one before it that can be masked, even beyond a [SEP], as Google's
    code has it; a sequence's first is a word of its own.
    """
    num_sequences = len(text.starts_S) - 1
    sequence_N = np.repeat(np.arange(num_sequences), np.diff(text.starts_S))
    candidates = np.flatnonzero(~text.is_special_N)
    is_first = np.diff(sequence_N[candidates], prepend=-1) > 0
    is_start = is_first | ~text.goes_on_N[candidates] if whole else np.ones(len(candidates), np.bool_)
    word_of_N = np.full(len(text.ids_N), -1)
    word_of_N[candidates] = np.cumsum(is_start) - 1
    sequences_W = sequence_N[candidates[is_start]]
    lengths_W = np.bincount(word_of_N[candidates], minlength=len(sequences_W))
    return Words(lengths_W, sequences_W, np.searchsorted(sequences_W, np.arange(num_sequences + 1))), word_of_N


def pick_words(words: Words, num_S: Ints, order_W: Ints) -> Booleans:
    """Which words are masked if each sequence takes its words in this order, passing over those longer than what is
    left of its number."""
    is_picked_W = np.zeros(len(order_W), np.bool_)
    left_S, waiting = num_S.copy(), order_W
    while len(waiting):
        waiting = waiting[words.lengths_W[waiting] <= left_S[words.sequences_W[waiting]]]  # the others never will fit
        lengths, sequences = words.lengths_W[waiting], words.sequences_W[waiting]
        before = np.cumsum(lengths) - lengths
        is_first = np.diff(sequences, prepend=-1) > 0
        taken = before - np.repeat(before[is_first], np.diff(np.flatnonzero(np.append(is_first, True)))) + lengths
        fits = taken <= left_S[sequences]
        is_picked_W[waiting[fits]] = True
        np.subtract.at(left_S, sequences[fits], lengths[fits])
        waiting = waiting[~fits]
    return is_picked_W


def pick_spans(words: Words, num_S: Ints, order_W: Ints, spans_W: Ints) -> Booleans:
    """Which words are masked if each sequence takes spans of words, that begin with its words in this order and have
    these lengths: shortened to what is left of its number, and passed over where they meet one that is masked.

    One round a draw, all sequences at once.
    """
    ends = np.append(0, np.cumsum(words.lengths_W))
    is_picked_W = np.zeros(len(order_W), np.bool_)
    left_S, turn_S, last_S = num_S.copy(), words.firsts_S[:-1].copy(), words.firsts_S[1:]
    active = np.flatnonzero((turn_S < last_S) & (left_S > 0))
    while len(active):
        start = order_W[turn_S[active]]
        num_words = np.minimum(spans_W[start], last_S[active] - start)
        for _ in range(int(spans_W.max()) - 1):
            num_words -= (num_words > 1) & (ends[start + num_words] - ends[start] > left_S[active])
        covers = start[:, None] + np.minimum(np.arange(spans_W.max()), num_words[:, None] - 1)
        num_tokens = ends[start + num_words] - ends[start]
        is_taken = (num_tokens <= left_S[active]) & ~is_picked_W[covers].any(axis=1)
        is_picked_W[covers[is_taken]] = True
        left_S[active] -= num_tokens * is_taken
        turn_S[active] += 1
        active = active[(turn_S[active] < last_S[active]) & (left_S[active] > 0)]
    return is_picked_W


def _replace(ids: Ints, config: MaskingConfig, mask_id: int, vocabulary_size: int, rng: np.random.Generator) -> Ints:
    """[MASK], the token itself, or any entry of the whole vocabulary, special and unused ones included."""
    draws = rng.random(len(ids))
    is_kept = draws < config.mask_share + config.keep_share
    replaced = np.where(is_kept, ids, rng.integers(0, vocabulary_size, len(ids)))
    return np.where(draws < config.mask_share, mask_id, replaced)
