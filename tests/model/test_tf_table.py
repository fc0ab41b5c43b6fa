import struct
from pathlib import Path

import numpy as np
import pytest

from bertie.model.crc32c import crc32c, mask
from bertie.model.tf_table import BLOCK_SIZE, MAGIC, read_table, read_varint, write_table, write_varint

RESTART = struct.pack("<II", 0, 1)
# A block packed by Google's snappy: four long keys with 60 zeros each, and "end" with the bytes 0 to 79.
SNAPPY = bytes.fromhex(
    "fa03b000283c626572742f656e636f6465722f6c617965725f302f6f75747075742f64656e73652f6b65726e656c0000ea02"
    "005267000031fe67009667000032fe67009667000033fe6700426700f05c0350656e64000102030405060708090a0b0c0d0e"
    "0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f40"
    "4142434445464748494a4b4c4d4e4f0000000001000000"
)


def stored(block: bytes, kind: int = 0) -> bytes:
    return block + bytes([kind]) + struct.pack("<I", mask(crc32c(block + bytes([kind]))))


def table_of(block: bytes, kind: int = 0) -> bytes:
    """A table of one block, put together by hand."""
    data = stored(block, kind)
    meta_place = len(data)
    data += stored(RESTART)
    handle = write_varint(0) + write_varint(len(block))
    index_place = len(data)
    index = bytes([0, 1, len(handle)]) + b"z" + handle + RESTART
    data += stored(index)
    footer = write_varint(meta_place) + b"\x08" + write_varint(index_place) + write_varint(len(index))
    return data + footer.ljust(40, b"\0") + MAGIC


def test_varints() -> None:
    for value in (0, 1, 127, 128, 300, 1 << 32, (1 << 64) - 1):
        data = write_varint(value)
        assert read_varint(b"\xff" + data + b"\x01", 1) == (value, 1 + len(data))
    assert write_varint(300) == b"\xac\x02"  # the example of the protocol buffers' documentation


def test_a_table_of_several_blocks_there_and_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    entries = {f"layer_{number:04d}/kernel".encode(): rng.bytes(number) for number in range(1200)}
    write_table(tmp_path / "table", entries.items())
    assert sum(map(len, entries.values())) > 2 * BLOCK_SIZE
    assert list(read_table(tmp_path / "table").items()) == list(entries.items())


def test_an_empty_table(tmp_path: Path) -> None:
    write_table(tmp_path / "table", [])
    assert read_table(tmp_path / "table") == {}


def test_a_block_packed_by_snappy(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(table_of(SNAPPY, kind=1))
    keys = [f"bert/encoder/layer_{layer}/output/dense/kernel".encode() for layer in range(4)]
    assert read_table(tmp_path / "table") == {**dict.fromkeys(keys, bytes(60)), b"end": bytes(range(80))}


@pytest.mark.parametrize(
    ("block", "kind", "says"),
    [
        (b"\x05\x01\x01kv" + RESTART, 0, "an entry reaches beyond its block"),  # shares 5 bytes with nothing
        (b"\x00\x01\x7fkv" + RESTART, 0, "an entry reaches beyond its block"),  # a value longer than the block
        (b"\x00", 0, "not enough data"),
        (RESTART, 2, "compression 2"),
        (b"\x04\x01\x09", 1, "copies from before its start"),
        (b"\x09\x00a", 1, "another length"),
        (b"\x80", 1, "index out of range"),
    ],
)
def test_a_block_that_makes_no_sense_is_refused(tmp_path: Path, block: bytes, kind: int, says: str) -> None:
    (tmp_path / "table").write_bytes(table_of(block, kind))
    with pytest.raises(ValueError, match=f"table is damaged: .*{says}"):
        read_table(tmp_path / "table")


def test_every_flipped_bit_and_every_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_table(path, {b"a": b"one", b"abc": b"two"}.items())
    data = path.read_bytes()
    read_table(path)
    damaged = [data[:length] for length in range(len(data))]
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for bad in damaged:
        path.write_bytes(bad)
        with pytest.raises(ValueError, match="table"):
            read_table(path)
