import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from bertie.model.tf_checkpoint import find_checkpoint, list_tensors, read_tensor, write_checkpoint
from bertie.model.tf_table import read_table, write_table

# Made by TensorFlow itself: see make.py in the folder.
FIXTURE = Path(__file__).parent / "tf_fixture"
BERT = FIXTURE / "bert" / "bert_model.ckpt"
KINDS = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint8": torch.uint8,
    "int16": torch.int16,
    "int8": torch.int8,
    "bool": torch.bool,
}


def read_all(checkpoint: Path) -> dict[str, torch.Tensor]:
    return {name: read_tensor(stored) for name, stored in list_tensors(checkpoint).items()}


def expected(name: str, shape: tuple[int, ...]) -> np.ndarray:
    numbers = np.arange(np.prod(shape, dtype=int)) * 37 + zlib.crc32(name.encode())
    return ((numbers % 64 - 32) / 256).astype(np.float32).reshape(shape)


def test_a_checkpoint_of_tensorflow_is_read() -> None:
    tensors = read_all(BERT)
    assert tensors.pop("global_step") == 7
    assert len(tensors) == 36
    assert "bert/encoder/layer_0/attention/self/query/kernel" in tensors
    for name, tensor in tensors.items():
        assert tensor.dtype == torch.float32
        np.testing.assert_array_equal(tensor.numpy(), expected(name, tuple(tensor.shape)))


def test_every_type_of_number_from_two_shards() -> None:
    tensors = read_all(FIXTURE / "kinds")
    for name, dtype in KINDS.items():
        wanted = torch.tensor([[0, 1, 2], [3, 5, 8]]).to(dtype)
        assert tensors[name].dtype == dtype
        assert torch.equal(tensors[name], wanted), name
    assert tensors["scalar"].shape == ()
    assert tensors["scalar"] == 2.5
    assert tensors["empty"].shape == (0, 4)
    assert "text" not in tensors


def test_what_we_write_is_what_tensorflow_wrote(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / BERT.name, read_all(BERT))
    data = f"{BERT.name}.data-00000-of-00001"
    assert (tmp_path / data).read_bytes() == BERT.with_name(data).read_bytes()
    index = f"{BERT.name}.index"
    assert list(read_table(tmp_path / index).items()) == list(read_table(BERT.with_name(index)).items())


def test_every_type_of_number_there_and_back(tmp_path: Path) -> None:
    tensors = read_all(FIXTURE / "kinds") | {"transposed": torch.arange(6.0).reshape(2, 3).T}
    write_checkpoint(tmp_path / "mine", tensors)
    again = read_all(tmp_path / "mine")
    assert again.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert again[name].dtype == tensor.dtype
        assert torch.equal(again[name], tensor)


def copy_kinds(folder: Path) -> Path:
    for path in FIXTURE.glob("kinds.*"):
        shutil.copy(path, folder)
    return folder / "kinds"


def test_every_damaged_byte_and_truncation_of_a_shard_is_refused(tmp_path: Path) -> None:
    checkpoint = copy_kinds(tmp_path)
    (tmp_path / "kinds.data-00001-of-00002").unlink()
    stored = [one for one in list_tensors(checkpoint).values() if one.shard.name.endswith("0-of-00002")]
    shard = tmp_path / "kinds.data-00000-of-00002"
    data = shard.read_bytes()
    for place in range(len(data)):
        for bad in (data[:place], data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]):
            shard.write_bytes(bad)
            with pytest.raises(ValueError, match=r"kinds\.data-00000-of-00002: \w+"):
                [read_tensor(one) for one in stored]


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    checkpoint = copy_kinds(tmp_path)
    (tmp_path / "kinds.data-00001-of-00002").unlink()
    with pytest.raises(ValueError, match=r"kinds\.data-00001-of-00002: scalar: this shard"):
        read_tensor(list_tensors(checkpoint)["scalar"])


def number(field: int, value: int) -> bytes:
    return bytes([field << 3, value])


HEADER = number(1, 1)
FLOATS_2 = b"\x12\x04\x12\x02\x08\x02"  # a shape of one dimension of 2


@pytest.mark.parametrize(
    ("header", "entry", "says"),
    [
        (b"", b"", "has no header"),
        (HEADER + number(2, 1), b"", "big-endian"),
        (HEADER, number(1, 1) + FLOATS_2 + number(5, 7), "w has 7 bytes, which is not the size"),
        (HEADER, number(1, 8) + FLOATS_2 + number(5, 16), "type 8; allowed"),  # complex
        (HEADER, number(1, 1) + FLOATS_2 + b"\x3a\x00", "slices"),
        (HEADER, b"\x12\x7f", "no protocol buffer"),
        (HEADER, b"\x0b", "no protocol buffer"),
        (HEADER, b"\x08\x80", "index out of range"),
    ],
)
def test_an_index_that_cannot_be_used_is_refused(tmp_path: Path, header: bytes, entry: bytes, says: str) -> None:
    write_table(tmp_path / "x.index", [(b"", header), (b"w", entry)])
    with pytest.raises(ValueError, match=rf"x\.index cannot be read: .*{says}"):
        list_tensors(tmp_path / "x")


def test_a_place_far_beyond_the_file_is_refused_without_reading(tmp_path: Path) -> None:
    size = b"\x28\x80\x80\x80\x80\x40"  # 2 to the power of 34 bytes
    shape = b"\x12\x08\x12\x06\x08\x80\x80\x80\x80\x10"
    entry = number(1, 1) + shape + size + b"\x35" + struct.pack("<I", 0)
    write_table(tmp_path / "x.index", [(b"", HEADER), (b"w", entry)])
    (tmp_path / "x.data-00000-of-00001").write_bytes(bytes(100))
    with pytest.raises(ValueError, match=r"x\.data-00000-of-00001: w lies beyond the end"):
        read_tensor(list_tensors(tmp_path / "x")["w"])


def test_the_checkpoint_of_a_folder_is_found(tmp_path: Path) -> None:
    assert find_checkpoint(BERT.parent) == BERT
    with pytest.raises(ValueError, match="holds no TensorFlow checkpoint"):
        find_checkpoint(tmp_path)
    (tmp_path / "a.index").touch()
    (tmp_path / "b.index").touch()
    with pytest.raises(ValueError, match=r"holds 2 TensorFlow checkpoints \(a, b\)"):
        find_checkpoint(tmp_path)
    with pytest.raises(ValueError, match="old V1 format"):
        find_checkpoint(FIXTURE / "old")


def test_a_missing_or_empty_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.index is missing"):
        list_tensors(tmp_path / "x")
    (tmp_path / "x.index").touch()
    with pytest.raises(ValueError, match=r"x\.index is not a TensorFlow checkpoint index"):
        list_tensors(tmp_path / "x")
