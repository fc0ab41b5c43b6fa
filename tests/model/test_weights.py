import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bertie.model.weights import find_weights, read_json, read_weights, write_weights

TENSORS = {
    "first": torch.arange(6.0).reshape(2, 3),
    "second": torch.tensor([1, 2, 3]).to(torch.bfloat16),
    "third": torch.arange(4),
}


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    return found.keys() == expected.keys() and all(
        found[name].dtype == expected[name].dtype and torch.equal(found[name], expected[name]) for name in expected
    )


def read(folder: Path, allow_pickle: bool = False) -> dict[str, torch.Tensor]:
    return read_weights(find_weights(folder, allow_pickle))


def test_there_and_back(tmp_path: Path) -> None:
    write_weights(tmp_path, TENSORS | {"view": TENSORS["first"].T})
    assert same(read(tmp_path), TENSORS | {"view": TENSORS["first"].T})


def test_in_8_bits_under_a_name_of_its_own(tmp_path: Path) -> None:
    write_weights(tmp_path, TENSORS, as_int8=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model.int8.safetensors"]
    found = read(tmp_path)
    torch.testing.assert_close(found["first"], TENSORS["first"], atol=0.02, rtol=0)
    assert found.keys() == TENSORS.keys()
    save_file({"first": torch.ones(2, 3, dtype=torch.int8)}, tmp_path / "model.int8.safetensors")
    with pytest.raises(ValueError, match=r"model\.int8\.safetensors: first is in 8 bits, but first\.scales is missing"):
        read(tmp_path)


def test_others_may_read_the_file_as_the_mask_says(tmp_path: Path) -> None:
    write_weights(tmp_path, TENSORS)
    (tmp_path / "other").touch()
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "other").stat().st_mode


def shard(folder: Path) -> Path:
    for number, name in enumerate(TENSORS):
        save_file({name: TENSORS[name]}, folder / f"model-{number}.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: f"model-{n}.safetensors" for n, name in enumerate(TENSORS)}}))
    return index


def test_shards(tmp_path: Path) -> None:
    shard(tmp_path)
    assert same(read(tmp_path), TENSORS)


@pytest.mark.parametrize(
    ("map_of", "says"),
    [
        ({"weight_map": {"first": "../model-0.safetensors"}}, "not the name of a shard"),
        ({"weight_map": {"first": "model.safetensors.index.json"}}, "not the name of a shard"),
        ({"weight_map": {"first": "model-9.safetensors"}}, r"model-9\.safetensors is missing"),
        ({"weight_map": {"first": "model-0.bin"}}, "of another format than the index"),
        ({"weight_map": {"fourth": "model-0.safetensors"}}, r"model-0\.safetensors: fourth is missing"),
        ({"weight_map": {}}, "has no weight_map"),
        ({}, "has no weight_map"),
        ([], "no JSON object but list"),
    ],
)
def test_an_index_that_cannot_be_followed_is_refused(tmp_path: Path, map_of: object, says: str) -> None:
    shard(tmp_path).write_text(json.dumps(map_of))
    (tmp_path / "model-0.bin").write_bytes(b"")
    with pytest.raises(ValueError, match=says):
        read(tmp_path)


def test_every_truncation_of_safetensors_is_refused_by_name(tmp_path: Path) -> None:
    write_weights(tmp_path, TENSORS)
    path = tmp_path / "model.safetensors"
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"model\.safetensors is damaged"):
            read(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_weights_that_may_not_be_read_are_not_called_missing(tmp_path: Path) -> None:
    write_weights(tmp_path, TENSORS)
    (tmp_path / "model.safetensors").chmod(0)
    with pytest.raises(PermissionError, match=r"model\.safetensors"):
        read(tmp_path)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no weights"):
        find_weights(tmp_path)
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(ValueError, match=r"model\.safetensors is missing or not a file"):
        read(tmp_path)


@pytest.mark.parametrize("is_zip", [True, False], ids=["today's", "old"])
def test_a_pickle_is_read_only_on_request(tmp_path: Path, is_zip: bool) -> None:
    torch.save(TENSORS, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=is_zip)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is a pickle.*--allow-pickle"):
        read(tmp_path)
    assert same(read(tmp_path, allow_pickle=True), TENSORS)


def test_safetensors_win_over_a_pickle(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"never opened")
    write_weights(tmp_path, TENSORS)
    assert same(read(tmp_path, allow_pickle=True), TENSORS)


def test_an_old_pickle_saved_on_a_gpu_is_read_without_one(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save(TENSORS, path, _use_new_zipfile_serialization=False)
    data = path.read_bytes()
    on_gpu = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    assert on_gpu != data
    path.write_bytes(on_gpu)
    assert same(read(tmp_path, allow_pickle=True), TENSORS)


class Trap:
    """Unpickled by a careless reader, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("is_zip", [True, False], ids=["today's", "old"])
def test_a_program_in_a_pickle_is_refused_and_does_not_run(tmp_path: Path, is_zip: bool) -> None:
    trapped = {**TENSORS, "trap": Trap(tmp_path / "sprung")}
    torch.save(trapped, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=is_zip)
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is damaged, or holds more than tensors"):
        read(tmp_path, allow_pickle=True)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_bare_pickle_is_refused_and_does_not_run(tmp_path: Path, protocol: int) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(tmp_path / "sprung"), protocol))
    with pytest.raises(ValueError, match=r"pytorch_model\.bin is damaged, or holds more than tensors"):
        read(tmp_path, allow_pickle=True)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("is_zip", [True, False], ids=["today's", "old"])
def test_a_truncated_pickle_is_refused_by_name(tmp_path: Path, is_zip: bool) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save(TENSORS, path, _use_new_zipfile_serialization=is_zip)
    data = path.read_bytes()
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=r"pytorch_model\.bin"):
            read(tmp_path, allow_pickle=True)


@pytest.mark.parametrize("content", [{"model": TENSORS}, [1, 2], 5], ids=["nested", "list", "number"])
def test_a_pickle_of_something_else_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="does not hold tensors by name"):
        read(tmp_path, allow_pickle=True)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[1]", b"null"])
def test_what_is_no_json_object_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "config.json").write_bytes(data)
    with pytest.raises(ValueError, match=r"config\.json (is not JSON|holds no JSON object)"):
        read_json(tmp_path / "config.json")
