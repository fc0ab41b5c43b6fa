"""CRC-32C, the checksum in TensorFlow's and LevelDB's files, over whole arrays at a time."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
MASK_DELTA = 0xA282EAD8
# Rows of 64 KiB stay in the cache; a second fold leaves so little that a loop over its bytes costs nothing.
FOLDS = (1 << 14, 1 << 6)


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The checksum of the bytes.

    A CRC is linear: cut into rows of equal width, the message has the checksum of one row into which all were folded,
    each step moving what was gathered on by a row (two table look-ups) and adding the next. Fold, then fold smaller.
    """
    state = 0xFFFFFFFF
    if len(data) >= 4 * FOLDS[-1]:
        words = np.frombuffer(data, "<u4", len(data) // 4)
        data, tail = b"", bytes(data[4 * len(words) :])
        for width in FOLDS:
            words, state = _fold(words, width, state) if len(words) > width else (words, state)
        data = words.tobytes() + tail
    table = _byte_table()
    for byte in data:
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    return state ^ 0xFFFFFFFF


def mask(checksum: int) -> int:
    """The checksum as these formats store it, so that a checksum of bytes which hold checksums stays a good one."""
    return (((checksum >> 15) | (checksum << 17)) + MASK_DELTA) & 0xFFFFFFFF


def _fold(words: Words, width: int, state: int) -> tuple[Words, int]:
    """`width` words with the same checksum when begun from state 0, which is what follows them."""
    low_table, high_table = _advance_tables(width)
    head = (len(words) - 1) % width + 1
    # Zeros before the message change nothing, once the state it begins with is part of its first word.
    folded = np.zeros(width, np.uint32)
    folded[width - head :] = words[:head]
    folded[width - head] ^= np.uint32(state)
    halves = folded.view("<u2").reshape(width, 2)
    for row in words[head:].reshape(-1, width):
        np.bitwise_xor(low_table[halves[:, 0]], high_table[halves[:, 1]], out=folded)
        folded ^= row
    return folded, 0


@cache
def _byte_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


@cache
def _advance_tables(num_words: int) -> tuple[Words, Words]:
    """What a state's low half and its high half become after `num_words` (a power of two) words of zeros."""
    table = _byte_table()
    columns = [1 << bit for bit in range(32)]
    for _ in range(4):
        columns = [table[column & 0xFF] ^ (column >> 8) for column in columns]
    while num_words > 1:
        columns = [_apply(columns, column) for column in columns]
        num_words //= 2
    return _expand(columns[:16]), _expand(columns[16:])


def _apply(columns: list[int], state: int) -> int:
    result = 0
    for bit, column in enumerate(columns):
        result ^= column if state >> bit & 1 else 0
    return result


def _expand(columns: list[int]) -> Words:
    """The image of every number from the images of its bits."""
    table = np.zeros(1, np.uint32)
    for column in columns:
        table = np.concatenate([table, table ^ np.uint32(column)])
    return table
