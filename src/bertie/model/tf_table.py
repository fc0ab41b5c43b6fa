"""LevelDB's sorted table: the file of keys and values in which a TensorFlow checkpoint keeps its index.

A file is a run of blocks and a footer of 48 bytes. A block is entries in the order of their keys, each key without what
it shares with the one before (from time to time whole: a restart), the places of the restarts, and how many there are;
behind it stand one byte for its compression and the masked CRC-32C of both. The footer says where the block lies
that lists the other blocks.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from bertie.model.crc32c import crc32c, mask

MAGIC = struct.pack("<Q", 0xDB4775248B80FB57)
FOOTER_SIZE = 48
CHECKSUM_SIZE = 4
STORED, SNAPPY = 0, 1
BLOCK_SIZE = 1 << 18  # as TensorFlow cuts them
RESTART_INTERVAL = 16

Entry = tuple[bytes, bytes]
Handle = tuple[int, int]


def read_table(path: Path) -> dict[bytes, bytes]:
    """All keys and values of the table in order; ValueError when any of its bytes is not as it was written."""
    data = path.read_bytes()
    if len(data) < FOOTER_SIZE or not data.endswith(MAGIC):
        raise ValueError(f"{path} is not a TensorFlow checkpoint index, or it is cut short. Copy it anew.")
    try:
        return dict(_entries_of_table(data))
    except (IndexError, struct.error) as error:  # a number that points outside the data
        raise ValueError(f"{path} is damaged: {error}. Copy it anew.") from error
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error} Copy it anew.") from error


def write_table(path: Path, entries: Iterable[Entry]) -> None:
    """A table of these entries, which come in the order of their keys."""
    file = bytearray()
    index = []
    for last_key, block in _cut_into_blocks(entries):
        index.append((last_key, _render_handle(_append_block(file, block))))
    meta_handle = _append_block(file, _render_block([], RESTART_INTERVAL))
    index_handle = _append_block(file, _render_block(index, 1))
    path.write_bytes(file + _render_footer(meta_handle, index_handle))


def write_varint(value: int) -> bytes:
    """The number in groups of seven bits, the lowest first; all but the last byte have their top bit set."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number that begins there, and the position behind it; IndexError when the data ends inside it."""
    value = shift = 0
    while data[position] & 0x80:
        value |= (data[position] & 0x7F) << shift
        shift += 7
        position += 1
    return value | data[position] << shift, position + 1


def _entries_of_table(data: bytes) -> Iterator[Entry]:
    footer = data[-FOOTER_SIZE:]
    meta_handle, position = _read_handle(footer, 0)
    index_handle, _ = _read_handle(footer, position)
    if footer != _render_footer(meta_handle, index_handle):
        raise ValueError("its footer is not as it was written.")
    _read_block(data, meta_handle)  # holds nothing, but must be whole
    for _, value in _entries_of_block(_read_block(data, index_handle)):
        handle, _ = _read_handle(value, 0)
        yield from _entries_of_block(_read_block(data, handle))


def _read_handle(data: bytes, position: int) -> tuple[Handle, int]:
    """The offset and size of a block, which stand there, and the position behind them."""
    offset, position = read_varint(data, position)
    size, position = read_varint(data, position)
    return (offset, size), position


def _read_block(data: bytes, handle: Handle) -> bytes:
    offset, size = handle
    end = offset + size + 1  # with the byte for the compression
    if end + CHECKSUM_SIZE > len(data):
        raise ValueError(f"the block at byte {offset:,} reaches beyond its end.")
    stored = data[offset:end]
    (checksum,) = struct.unpack_from("<I", data, end)
    if mask(crc32c(stored)) != checksum:
        raise ValueError(f"the block at byte {offset:,} does not match its checksum.")
    if stored[-1] not in (STORED, SNAPPY):
        raise ValueError(f"the block at byte {offset:,} has compression {stored[-1]}, allowed: 0 (none), 1 (snappy).")
    return _unpack_snappy(stored[:-1]) if stored[-1] == SNAPPY else stored[:-1]


def _entries_of_block(block: bytes) -> Iterator[Entry]:
    (num_restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 * (num_restarts + 1)
    position, key = 0, b""
    while position < end:
        shared, position = read_varint(block, position)
        unshared, position = read_varint(block, position)
        value_size, position = read_varint(block, position)
        value_start = position + unshared
        if shared > len(key) or value_start + value_size > end:
            raise ValueError("an entry reaches beyond its block.")
        key = key[:shared] + block[position:value_start]
        position = value_start + value_size
        yield key, block[value_start:position]


def _unpack_snappy(packed: bytes) -> bytes:
    """The bytes behind a raw snappy stream: its length, then literal bytes and copies of what came before."""
    size, position = read_varint(packed, 0)
    result = bytearray()
    while position < len(packed):
        tag = packed[position]
        if tag & 3 == 0:
            start, length = _read_literal(packed, position)
            result += packed[start : start + length]
            position = start + length
        else:
            back, length, position = _read_copy(packed, position)
            if not 0 < back <= len(result):
                raise ValueError("a compressed block copies from before its start.")
            whole, rest = divmod(length, back)  # a copy may reach into itself
            source = bytes(result[-back:])
            result += source * whole + source[:rest]
    if len(result) != size:
        raise ValueError("a compressed block has another length than it says.")
    return bytes(result)


def _read_literal(packed: bytes, position: int) -> tuple[int, int]:
    """Where the literal bytes start and how many they are; lengths over 60 stand in one to four bytes of their own."""
    length = packed[position] >> 2
    extra = max(0, length - 59)
    start = position + 1 + extra
    return start, (int.from_bytes(packed[position + 1 : start], "little") if extra else length) + 1


def _read_copy(packed: bytes, position: int) -> tuple[int, int, int]:
    """How far back the copy begins, how long it is, and the position behind it."""
    tag = packed[position]
    if tag & 3 == 1:
        return (tag >> 5) << 8 | packed[position + 1], (tag >> 2 & 7) + 4, position + 2
    end = position + 1 + (2 if tag & 3 == 2 else 4)
    return int.from_bytes(packed[position + 1 : end], "little"), (tag >> 2) + 1, end


def _cut_into_blocks(entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
    """Rendered blocks, each with the last of its keys."""
    waiting: list[Entry] = []
    size = 0
    for entry in entries:
        waiting.append(entry)
        size += len(entry[0]) + len(entry[1])
        if size >= BLOCK_SIZE:
            yield entry[0], _render_block(waiting, RESTART_INTERVAL)
            waiting, size = [], 0
    if waiting:
        yield waiting[-1][0], _render_block(waiting, RESTART_INTERVAL)


def _render_block(entries: Iterable[Entry], restart_interval: int) -> bytes:
    block = bytearray()
    restarts = []
    previous = b""
    for number, (key, value) in enumerate(entries):
        if number % restart_interval == 0:
            restarts.append(len(block))
            previous = b""
        shared = _shared_length(previous, key)
        block += write_varint(shared) + write_varint(len(key) - shared) + write_varint(len(value))
        block += key[shared:] + value
        previous = key
    restarts = restarts or [0]
    return bytes(block) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def _shared_length(left: bytes, right: bytes) -> int:
    for position, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return position
    return min(len(left), len(right))


def _append_block(file: bytearray, block: bytes) -> Handle:
    """Put the block and its trailer into the file; the handle to find it by."""
    handle = len(file), len(block)
    stored = block + bytes([STORED])
    file += stored + struct.pack("<I", mask(crc32c(stored)))
    return handle


def _render_handle(handle: Handle) -> bytes:
    return write_varint(handle[0]) + write_varint(handle[1])


def _render_footer(meta_handle: Handle, index_handle: Handle) -> bytes:
    return (_render_handle(meta_handle) + _render_handle(index_handle)).ljust(FOOTER_SIZE - len(MAGIC), b"\0") + MAGIC
