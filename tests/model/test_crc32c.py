import numpy as np
import pytest

from bertie.model.crc32c import FOLDS, crc32c, mask


def bit_by_bit(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


# The vectors of RFC 3720, section B.4.
@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
    ],
)
def test_published_values(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


@pytest.mark.parametrize("fold", FOLDS)
def test_every_length_about_a_fold(fold: int) -> None:
    data = np.random.default_rng(fold).bytes(8 * fold + 8)
    for length in (4 * fold - 5, *range(4 * fold - 1, 4 * fold + 10), 8 * fold - 1, 8 * fold, 8 * fold + 5):
        assert crc32c(data[:length]) == bit_by_bit(data[:length])


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5])
def test_short_messages(length: int) -> None:
    assert crc32c(b"berty"[:length]) == bit_by_bit(b"berty"[:length])


def test_mask_is_that_of_leveldb() -> None:
    assert mask(0) == 0xA282EAD8
    assert mask(0xFFFFFFFF) == 0xA282EAD7
    assert mask(0x00008000) == 0xA282EAD9
