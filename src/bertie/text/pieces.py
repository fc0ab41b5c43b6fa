"""Which pieces make the best vocabulary: those that leave frequent words whole and cut rare ones in few.

Not by merging pairs from below, as is usual, but from above: all frequent substrings are candidates, all words are cut
by the tokenizer's own rule, the longest piece first, and the candidates that save the fewest tokens are dropped, a
fifth of them at a time, until the vocabulary has its size. docs/en/vocabulary.md compares it with other ways.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import WordPiece

from bertie.text.rules import LONGEST_WORD

CANDIDATES = 8  # times the size: with 4 a vocabulary of 30,522 needs 1% more tokens, with 11 as many
LONGEST_PIECE = 24  # characters
STEP = 0.2  # of the candidates are dropped at a time; a twentieth is no better
CONTINUATION = "##"
UNKNOWN, MARK = "[UNK]", "\0"  # no word holds either
CODE_BITS = 21  # of a character

Report = Callable[[int, int], None]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


def choose_pieces(
    words: Sequence[str], counts: Integers, needed: Sequence[str], size: int, report: Report
) -> list[str]:
    """The needed pieces, then others up to `size` in all, the most used first.

    counts: how often each word occurs. needed: what spells every word piece by piece. report: called with the number of
    candidates dropped and to drop.
    """
    candidates = count_candidates(words, counts, CANDIDATES * size)
    others = by_number({piece: candidates[piece] for piece in candidates.keys() - set(needed)})
    cuts = Cuts(words, counts, [*needed, *others])
    num_extra = max(cuts.num_kept - size, 0)
    while cuts.num_kept > size:
        report(num_extra - (cuts.num_kept - size), num_extra)
        unused = np.flatnonzero(cuts.is_kept[len(needed) :] & (cuts.usage[len(needed) :] == 0)) + len(needed)
        dropped = unused if len(unused) else _cheapest(cuts, len(needed))
        cuts.drop(dropped[-(cuts.num_kept - size) :])
    report(num_extra, num_extra)
    usage = cuts.usage
    kept = [at for at in range(len(needed), len(cuts.pieces)) if cuts.is_kept[at]]
    return [*needed, *(cuts.pieces[at] for at in sorted(kept, key=lambda at: (-usage[at], cuts.pieces[at])))]


def by_number(numbers: Mapping[str, int]) -> list[str]:
    """The strings, those with the largest number first, equal ones in alphabetical order."""
    return sorted(sorted(numbers), key=numbers.__getitem__, reverse=True)  # twice is faster than by a pair


def count_candidates(words: Sequence[str], counts: Integers, most: int) -> dict[str, int]:
    """The most frequent substrings of the words, about `most` of them, as pieces, and how often each occurs.

    Longer and longer substrings are counted, each told from others by its beginning's number and its last character. A
    substring is at most as frequent as its beginning, so what cannot be among the most frequent is not made longer.
    """
    text = "\n".join(words) + "\n"
    codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
    ends = np.flatnonzero(codes == ord("\n"))
    starts = np.concatenate([[0], ends[:-1] + 1])
    at = np.flatnonzero(codes != ord("\n"))  # where a substring begins
    word = np.searchsorted(ends, at)
    numbers, room, weights = (at == starts[word]).astype(np.int64), ends[word] - at, counts[word]
    found: list[tuple[Integers, Integers]] = []  # by length: where an example begins, how often it occurs
    fewest = 2
    for length in range(1, LONGEST_PIECE + 1):
        is_long_enough = room >= length
        at, numbers, room, weights = (array[is_long_enough] for array in (at, numbers, room, weights))
        keys, examples, numbers = np.unique(
            (numbers << CODE_BITS) | codes[at + length - 1], return_index=True, return_inverse=True
        )
        totals = np.bincount(numbers, weights=weights, minlength=len(keys)).astype(np.int64)
        found.append((at[examples[totals >= fewest]], totals[totals >= fewest]))
        occurrences = np.concatenate([several for _, several in found])
        if len(occurrences) > most:
            fewest = max(fewest, int(np.partition(occurrences, -most)[-most]))
        is_frequent = totals[numbers] >= fewest
        at, numbers, room, weights = (array[is_frequent] for array in (at, numbers, room, weights))
    return {
        ("" if begin == 0 or text[begin - 1] == "\n" else CONTINUATION) + text[begin : begin + length]: number
        for length, (begins, several) in enumerate(found, 1)
        for begin, number in zip(begins.tolist(), several.tolist(), strict=True)
        if number >= fewest
    }


class Cuts:
    """How all words are cut with the pieces that are kept."""

    def __init__(self, words: Sequence[str], counts: Integers, pieces: list[str]) -> None:
        self.pieces = pieces
        self.is_kept = np.ones(len(pieces), dtype=np.bool_)
        self._words, self._counts = words, counts
        self._model = self._build_model()
        self._cut = Cut.of(self._model, words)
        self.usage = self._count_usage()

    @property
    def num_kept(self) -> int:
        return int(self.is_kept.sum())

    def drop(self, pieces: Integers) -> None:
        """Do without these pieces: cut the words that had them anew."""
        self.is_kept[pieces] = False
        self._model = self._build_model()
        affected = self._cut.holding(~self.is_kept)
        if affected.any():
            fresh = Cut.of(self._model, [self._words[at] for at in np.flatnonzero(affected).tolist()])
            self._cut = self._cut.replaced(affected, fresh)
            self.usage = self._count_usage()

    def spell_without(self, pieces: Iterable[int]) -> Integers:
        """How many other pieces spell each of the pieces: the longest that it begins with, then as the rule goes on."""
        kept = {self.pieces[at] for at in np.flatnonzero(self.is_kept)}
        lengths = []
        for piece in (self.pieces[at] for at in pieces):
            end = len(piece) - 1
            while piece[:end] not in kept:  # what spells a single character always is
                end -= 1
            rest = piece[end:]
            # The mark counts for the beginning. Most often one piece is all the rest, and that needs no cutting.
            lengths.append(2 if CONTINUATION + rest in kept else len(self._model.tokenize(MARK + rest)))
        return np.array(lengths, dtype=np.int64)

    def _build_model(self) -> WordPiece:
        ids = {self.pieces[at]: at for at in np.flatnonzero(self.is_kept).tolist()}
        ids |= {UNKNOWN: len(self.pieces), MARK: len(self.pieces) + 1}
        return WordPiece(ids, unk_token=UNKNOWN, max_input_chars_per_word=LONGEST_WORD)

    def _count_usage(self) -> Integers:
        times = np.repeat(self._counts, self._cut.lengths)
        return np.bincount(self._cut.pieces, weights=times, minlength=len(self.pieces)).astype(np.int64)


@dataclass(frozen=True)
class Cut:
    """The pieces of one word after the other, and how many each word has."""

    pieces: Integers
    lengths: Integers

    @classmethod
    def of(cls, model: WordPiece, words: Iterable[str]) -> "Cut":
        ids = [[token.id for token in model.tokenize(word)] for word in words]
        lengths = np.array(list(map(len, ids)), dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(ids), dtype=np.int64, count=int(lengths.sum())), lengths)

    def holding(self, are_asked_for: Booleans) -> Booleans:
        """Which words hold one of the pieces."""
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        return np.logical_or.reduceat(are_asked_for[self.pieces], starts)

    def replaced(self, are_new: Booleans, fresh: "Cut") -> "Cut":
        """The same with these words cut otherwise."""
        lengths = self.lengths.copy()
        lengths[are_new] = fresh.lengths
        is_fresh = np.repeat(are_new, lengths)
        pieces = np.empty(len(is_fresh), dtype=np.int64)
        pieces[is_fresh] = fresh.pieces
        pieces[~is_fresh] = self.pieces[~np.repeat(are_new, self.lengths)]
        return Cut(pieces, lengths)


def _cheapest(cuts: Cuts, num_needed: int) -> Integers:
    """The fifth of the kept pieces without which the words have the fewest more pieces, the cheapest last."""
    kept = np.flatnonzero(cuts.is_kept)[num_needed:]
    costs = cuts.usage[kept] * (cuts.spell_without(kept) - 1)
    order = np.lexsort((kept, -costs))  # of those that cost the same, the rarest is last
    return kept[order][-max(1, int(cuts.num_kept * STEP)) :]
