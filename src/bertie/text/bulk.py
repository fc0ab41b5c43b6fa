"""Ids for whole corpora: texts are cut where words surely part, and each distinct part goes through the rules once.

A part of up to 16 bytes is two integers, so numpy compares a million parts, exactly and at once, with a table of those
met lately. The others (longer, new, or driven from their place in the table) are looked up in a dictionary one by one.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from threading import Lock

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint16] | NDArray[np.uint32]
Positions = NDArray[np.intp]
Bytes = NDArray[np.uint8]
Keys = NDArray[np.uint64]

SLAB = 1 << 20  # characters cut at a time
MOST_PARTS, MOST_IDS = 1 << 18, 1 << 22  # then the tables are emptied, so that memory is bounded whatever the corpus
LONGEST_KEPT = 64  # bytes; a longer part hardly comes again
PLACE_BITS = 19
END_OF_TEXT = b"\xff"  # UTF-8 has no such byte
SIGMA = "Σ".encode()
WORD, ALONE, SPACE = range(3)
MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
FACTORS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64
)  # odd numbers that mix all bits into the upper ones


class Packer:
    """Texts to ids: `cut` gives those of one part; `splits_cjk`: Chinese characters are parts of their own."""

    def __init__(self, cut: Callable[[str], Iterable[int]], splits_cjk: bool, typecode: str) -> None:
        self._cut, self._splits_cjk, self._typecode = cut, splits_cjk, typecode
        self._block_end = re.compile("[ \n\u5000-\u9fff]" if splits_cjk else "[ \n]")
        self._lock = Lock()
        self._forget()

    def encode(self, texts: Iterable[str]) -> tuple[Ids, NDArray[np.int64]]:
        """All texts' ids in one array, and where in it each text starts, with the end after them."""
        ids = [np.zeros(0, self._typecode)]
        ends = [np.zeros(1, np.int64)]
        num_ids = 0
        for slab in self._slabs(texts):
            with self._lock:
                slab_ids, slab_ends = self._encode(slab)
            ids.append(slab_ids)
            ends.append(slab_ends + num_ids)
            num_ids += len(slab_ids)
        return np.concatenate(ids), np.concatenate(ends)

    def _forget(self) -> None:
        self._parts = _Parts(self._cut, self._typecode)
        # Part 0 is in every place: its key is that of a part of NUL characters, which has no ids either.
        self._keys = np.zeros((2, 1 << PLACE_BITS), np.uint64)
        self._numbers = np.zeros(1 << PLACE_BITS, np.int32)

    def _slabs(self, texts: Iterable[str]) -> Iterator[bytes]:
        """The texts as UTF-8, each followed by END_OF_TEXT, about SLAB characters at a time."""
        held: list[bytes] = []
        size = 0
        for text in texts:
            for block in self._blocks(text):
                held.append(block.encode("utf-8", "surrogatepass"))
                size += len(block)
                if size >= SLAB:
                    yield b"".join(held)
                    held, size = [], 0
            held.append(END_OF_TEXT)
        yield b"".join(held)

    def _blocks(self, text: str) -> Iterator[str]:
        """The text in pieces of about SLAB characters, each but the first beginning where a word cannot go on."""
        start = 0
        while len(text) - start > SLAB:
            found = self._block_end.search(text, start + SLAB)
            end = found.start() if found else len(text)
            yield text[start:end]
            start = end
        yield text[start:]

    def _encode(self, slab: bytes) -> tuple[Ids, NDArray[np.int64]]:
        """The slab's ids, and how many of them come before each END_OF_TEXT in it."""
        if len(self._parts.firsts) > MOST_PARTS or len(self._parts.ids) > MOST_IDS:
            self._forget()
        data = np.frombuffer(slab, np.uint8)
        # A sigma's form depends on what is around it, punctuation included.
        starts, ends = _edges(data, SPACED if SIGMA in slab else PARTED, self._splits_cjk)
        numbers = self._look_up(slab, starts, ends)
        firsts = np.frombuffer(self._parts.firsts, np.int64)[numbers]
        counts = np.frombuffer(self._parts.firsts, np.int64)[numbers + 1] - firsts
        totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        sources = np.repeat(firsts - totals[:-1], counts) + np.arange(totals[-1])
        ids: Ids = np.frombuffer(self._parts.ids, self._typecode)[sources]
        texts_end = np.flatnonzero(data == END_OF_TEXT[0])
        return ids, totals[np.searchsorted(starts, texts_end)]

    def _look_up(self, slab: bytes, starts: Positions, ends: Positions) -> NDArray[np.int32]:
        """The number of each part."""
        sizes = ends - starts
        windows = np.ndarray((len(slab) + 9,), "<u8", slab + bytes(16), 0, (1,))  # the 8 bytes from each on
        low = windows[starts] & MASKS[np.minimum(sizes, 8)]
        high = windows[starts + 8] & MASKS[np.clip(sizes - 8, 0, 8)]
        places = ((low * FACTORS[0] + high * FACTORS[1]) >> np.uint64(64 - PLACE_BITS)).astype(np.intp)
        numbers: NDArray[np.int32] = self._numbers[places]
        is_other = (self._keys[0][places] != low) | (self._keys[1][places] != high) | (sizes > 16)
        others = np.flatnonzero(is_other)
        spans = zip(starts[others].tolist(), ends[others].tolist(), strict=True)
        number = self._parts.__getitem__
        numbers[others] = [number(slab[start:end]) for start, end in spans]
        kept = others[sizes[others] <= 16]
        self._keys[0][places[kept]] = low[kept]
        self._keys[1][places[kept]] = high[kept]
        self._numbers[places[kept]] = numbers[kept]
        return numbers


class _Parts(dict[bytes, int]):
    """Each part's number; the ids of part n are `ids[firsts[n] : firsts[n + 1]]`, and part 0 has none."""

    def __init__(self, cut: Callable[[str], Iterable[int]], typecode: str) -> None:
        super().__init__()
        self._cut = cut
        self.ids = array(typecode)
        self.firsts = array("q", [0, 0])

    def __missing__(self, part: bytes) -> int:
        number = len(self.firsts) - 1
        self.ids.extend(self._cut(part.decode("utf-8", "surrogatepass")))
        self.firsts.append(len(self.ids))
        if len(part) <= LONGEST_KEPT:
            self[part] = number
        return number


def _edges(data: Bytes, kinds: Bytes, splits_cjk: bool) -> tuple[Positions, Positions]:
    """Where parts start and end: at white space, around every ASCII sign, around most Chinese characters."""
    kind = kinds[data]
    begins = np.ones(len(data) + 1, np.bool_)
    begins[1:-1] = (kind[1:] != WORD) | (kind[:-1] != WORD)
    if splits_cjk:
        is_cjk = (data >= 0xE5) & (data <= 0xE9)  # the first byte of three: U+5000 to U+9FFF
        begins[:-1] |= is_cjk
        begins[3:] |= is_cjk[:-2]
    is_inside = kind != SPACE
    return np.flatnonzero(begins[:-1] & is_inside), np.flatnonzero(begins[1:] & is_inside) + 1


def _kinds(alone: Iterable[int]) -> Bytes:
    kinds = np.full(256, WORD, np.uint8)
    kinds[list(alone)] = ALONE
    kinds[[*b"\t\n\r ", *END_OF_TEXT]] = SPACE
    return kinds


SPACED = _kinds([])
PARTED = _kinds(code for code in range(33, 127) if not chr(code).isalnum())
