"""TensorFlow checkpoints (the V2 "tensor bundle"), read and written without TensorFlow.

A checkpoint named `X` is a sorted table `X.index` from the name of each tensor to its type, shape, place and CRC-32C
(protocol buffers: tensor_bundle.proto), and shards `X.data-00000-of-00001` ... with the bytes of the tensors.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from bertie.model.crc32c import crc32c, mask
from bertie.model.tf_table import read_table, read_varint, write_table, write_varint

HEADER_KEY = b""
# The numbers are those of `DataType` in TensorFlow's types.proto.
DTYPES = {
    1: torch.float32,
    2: torch.float64,
    3: torch.int32,
    4: torch.uint8,
    5: torch.int16,
    6: torch.int8,
    9: torch.int64,
    10: torch.bool,
    14: torch.bfloat16,
    19: torch.float16,
}
STRING = 7
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how a protocol buffer stores a field
SIZES = {FIXED64: 8, FIXED32: 4}


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies and what it is; nothing of it has been read."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    shard: Path
    offset: int
    size: int
    checksum: int


def find_checkpoint(folder: Path) -> Path:
    """The one checkpoint in the folder, as the path that its files begin with."""
    found = sorted(path.with_suffix("") for path in folder.glob("*.index"))
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(path.name for path in found)
        raise ValueError(f"{folder} holds {len(found)} TensorFlow checkpoints ({names}): leave one in it.")
    if any(folder.glob("*.ckpt")):
        raise ValueError(
            f"{folder} holds a TensorFlow checkpoint of the old V1 format (.ckpt without .index), which is not read; "
            "save it with tf.train.Saver(write_version=2)."
        )
    raise ValueError(f"{folder} holds no TensorFlow checkpoint: no file in it ends in .index.")


def list_tensors(checkpoint: Path) -> dict[str, StoredTensor]:
    """The tensors of the checkpoint by name; texts (TensorFlow 2 keeps its object graph as one) are left out."""
    index = _index(checkpoint)
    if not index.is_file():
        raise ValueError(f"{index} is missing or not a file.")
    table = read_table(index)
    try:
        num_shards = _read_header(table.pop(HEADER_KEY, b""))
        described = [_describe(key.decode(), value, checkpoint, num_shards) for key, value in table.items()]
    except (IndexError, ValueError) as error:
        raise ValueError(f"{index} cannot be read: {error}") from error
    return {stored.name: stored for stored in described if stored}


def read_tensor(stored: StoredTensor) -> Tensor:
    """The tensor itself; ValueError when its bytes are not those that were written."""
    where = f"{stored.shard}: {stored.name}"
    if not stored.shard.is_file():
        raise ValueError(f"{where}: this shard of the checkpoint is missing.")
    if stored.shard.stat().st_size < stored.offset + stored.size:
        raise ValueError(f"{where} lies beyond the end of the file, which was cut short. Copy it anew.")
    with stored.shard.open("rb") as file:
        file.seek(stored.offset)
        data = bytearray(file.read(stored.size))
    if mask(crc32c(data)) != stored.checksum:
        raise ValueError(f"{where} is damaged: its bytes do not match their checksum. Copy the file anew.")
    if not data:
        return torch.empty(stored.shape, dtype=stored.dtype)
    return torch.frombuffer(data, dtype=stored.dtype).reshape(stored.shape)


def write_checkpoint(checkpoint: Path, tensors: Mapping[str, Tensor]) -> None:
    """A checkpoint of one shard, as TensorFlow's own writer would have made it."""
    version = _field(1, 1)
    table = [(HEADER_KEY, _field(1, 1) + _field(3, version))]  # one shard, version 1 of the format
    with _shard(checkpoint, 0, 1).open("wb") as file:
        for name in sorted(tensors, key=str.encode):
            tensor = tensors[name]
            data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            table.append((name.encode(), _render_entry(tensor, file.tell(), data)))
            file.write(data)
    write_table(_index(checkpoint), table)


def _index(checkpoint: Path) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.index")


def _shard(checkpoint: Path, number: int, num_shards: int) -> Path:
    return checkpoint.with_name(f"{checkpoint.name}.data-{number:05d}-of-{num_shards:05d}")


def _read_header(message: bytes) -> int:
    """The number of shards (BundleHeaderProto)."""
    numbers, _ = _parse_message(message)
    if numbers.get(2):
        raise ValueError("it was written on a big-endian machine, which is not read.")
    if 1 not in numbers:
        raise ValueError("it has no header.")
    return numbers[1]


def _describe(name: str, message: bytes, checkpoint: Path, num_shards: int) -> StoredTensor | None:
    """The tensor that a BundleEntryProto tells of, None for a text."""
    numbers, parts = _parse_message(message)
    if 7 in parts:
        raise ValueError(f"{name} is stored in slices, which are not read; save it whole.")
    type_number = numbers.get(1, 0)
    if type_number == STRING:
        return None
    if type_number not in DTYPES:
        raise ValueError(f"{name} has TensorFlow's type {type_number}; allowed: {sorted(DTYPES)}.")
    dtype = DTYPES[type_number]
    shape = _read_shape(parts.get(2, [b""])[-1])
    size = numbers.get(5, 0)
    if math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name} has {size:,} bytes, which is not the size of a {dtype} of shape {list(shape)}.")
    shard = _shard(checkpoint, numbers.get(3, 0), num_shards)
    return StoredTensor(name, dtype, shape, shard, offset=numbers.get(4, 0), size=size, checksum=numbers.get(6, 0))


def _read_shape(message: bytes) -> tuple[int, ...]:
    """TensorShapeProto: a message for each dimension, whose first field is its size."""
    _, parts = _parse_message(message)
    return tuple(_parse_message(dimension)[0].get(1, 0) for dimension in parts.get(2, []))


def _render_entry(tensor: Tensor, offset: int, data: bytes) -> bytes:
    """The BundleEntryProto of a tensor whose bytes begin at the offset of the first shard."""
    type_numbers = {dtype: number for number, dtype in DTYPES.items()}
    shape = b"".join(_field(2, _field(1, size)) for size in tensor.shape)
    checksum = write_varint(6 << 3 | FIXED32) + struct.pack("<I", mask(crc32c(data)))
    return (
        _field(1, type_numbers[tensor.dtype]) + _field(2, shape) + _field(4, offset) + _field(5, len(data)) + checksum
    )


def _parse_message(message: bytes) -> tuple[dict[int, int], dict[int, list[bytes]]]:
    """A protocol buffer's numbers and its byte strings, by field number; of a number given twice, the last."""
    numbers: dict[int, int] = {}
    parts: dict[int, list[bytes]] = {}
    position = 0
    while position < len(message):
        tag, position = read_varint(message, position)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            numbers[number], position = read_varint(message, position)
            continue
        size, position = read_varint(message, position) if kind == BYTES else (SIZES.get(kind, 0), position)
        part = message[position : position + size]
        position += size
        if kind not in (BYTES, *SIZES) or position > len(message):
            raise ValueError("its index holds something that is no protocol buffer.")
        if kind == BYTES:
            parts.setdefault(number, []).append(part)
        else:
            numbers[number] = int.from_bytes(part, "little")
    return numbers, parts


def _field(number: int, value: int | bytes) -> bytes:
    """A field of a protocol buffer, which leaves out a number that is 0."""
    if isinstance(value, bytes):
        return write_varint(number << 3 | BYTES) + write_varint(len(value)) + value
    return write_varint(number << 3 | VARINT) + write_varint(value) if value else b""
