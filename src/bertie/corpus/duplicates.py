"""Documents met before: the same text exactly, or nearly, in memory of a few bytes a document."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from bertie.corpus.shards import Booleans, Documents, Ids

Numbers = NDArray[np.uint64]

SHINGLE = 5  # tokens
# Of the documents that share 80% of their shingles, 19 in 20 are found; of those that share half, 1 in 16 is.
NUM_BANDS, BAND_SIZE = 16, 8
SEED = 1  # of the signatures
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplying loses nothing
SHIFT = np.uint64(29)


def digest(text: str) -> int:
    """64 bits of the text. Of 100 million different texts, the odds that any two share theirs are 1 to 3,700."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Seen:
    """Which numbers came before. They lie in sorted runs, each at least twice as long as the next: 8 bytes a number,
    16 while two runs become one."""

    def __init__(self) -> None:
        self._runs: list[Numbers] = []

    def add(self, numbers: Numbers) -> Booleans:
        """Of each of the numbers, whether it is new: not seen before, nor earlier among these."""
        _, firsts = np.unique(numbers, return_index=True)
        is_new = np.zeros(len(numbers), dtype=np.bool_)
        is_new[firsts] = True
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, numbers), len(run) - 1)
            is_new &= run[places] != numbers
        if is_new.any():
            self._runs.append(np.sort(numbers[is_new]))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            merged = np.concatenate([self._runs.pop(), self._runs.pop()])
            merged.sort(kind="stable")  # this kind merges what is sorted already
            self._runs.append(merged)
        return is_new


class SeenNearly:
    """Which documents are like one that came before: 16 times the memory of `Seen`."""

    def __init__(self) -> None:
        self._bands = [Seen() for _ in range(NUM_BANDS)]

    def add(self, bands: Numbers) -> Booleans:
        """Of each row of `band_numbers`, whether none of its bands came before, in a document that was kept or not."""
        is_new = np.ones(len(bands), dtype=np.bool_)
        for seen, numbers in zip(self._bands, bands.T, strict=True):
            is_new &= seen.add(numbers)
        return is_new


def band_numbers(documents: Documents, digests: Numbers) -> Numbers:
    """For each document a row of NUM_BANDS numbers; two documents that are alike probably share one in its column.

    Those too short for a shingle are like none but themselves. ValueError if the extra is not installed.
    """
    try:
        from rensa import RMinHash
    except ImportError:
        raise ValueError(
            "Finding near-duplicates needs rensa, which is not installed: pip install 'bertie[duplicates]'."
        ) from None
    ends = np.append(0, np.cumsum(documents.sentence_lengths))[np.cumsum(documents.document_lengths)]
    lengths = np.diff(ends, prepend=0)
    is_inside = np.repeat(ends, lengths) - np.arange(len(documents.tokens)) >= SHINGLE
    num_places = max(len(documents.tokens) - SHINGLE + 1, 0)
    shingles = _mix([documents.tokens[at : at + num_places] for at in range(SHINGLE)])[is_inside[:num_places]]
    is_long = lengths >= SHINGLE
    row_offsets = np.append(0, np.cumsum(lengths[is_long] - SHINGLE + 1)).astype(np.uint64)
    bands = np.repeat(digests, NUM_BANDS).reshape(-1, NUM_BANDS)
    if is_long.any():
        matrix = RMinHash.digest_matrix_from_flat_token_hashes(shingles, row_offsets, NUM_BANDS * BAND_SIZE, SEED)
        rows = np.array(matrix.to_rows(), np.uint64).reshape(-1, NUM_BANDS, BAND_SIZE)
        bands[is_long] = _mix([rows[..., at] for at in range(BAND_SIZE)])
    return bands


def _mix(columns: Sequence[Numbers | Ids]) -> Numbers:
    """One number for each row of the columns, all of its bits mixed."""
    mixed = np.zeros(columns[0].shape, np.uint64)
    for column in columns:
        mixed = (mixed ^ column ^ (mixed >> SHIFT)) * MULTIPLIER
    return mixed ^ (mixed >> SHIFT)
