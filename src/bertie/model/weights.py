"""The tensors of a model folder by name: safetensors whole, in shards or in 8 bits; a pickle only on request."""

import json
import logging
import os
import pickle
import re
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertie.model.rows8 import from_rows8, to_rows8

OS_ERROR = re.compile(r"\(os error ([0-9]+)\)")  # how safetensors says what the system said
SAFETENSORS, PICKLE, INDEX = "model.safetensors", "pytorch_model.bin", ".index.json"
INT8 = "model.int8.safetensors"  # a name of its own: others would take the numbers for the weights

# All that torch.load was seen to raise for 12,000 damaged files.
UNPICKLING_ERRORS = (
    *(pickle.UnpicklingError, RuntimeError, EOFError, ValueError, TypeError, LookupError, AttributeError),
    *(AssertionError, struct.error),
)

logger = logging.getLogger(__name__)


def find_weights(folder: Path, allow_pickle: bool = False) -> Path:
    """The file of the folder's weights, or the index of their shards."""
    for name in (SAFETENSORS, SAFETENSORS + INDEX, INT8, PICKLE, PICKLE + INDEX):
        if not (folder / name).exists():
            continue
        if name.startswith(PICKLE) and not allow_pickle:
            raise ValueError(
                f"{folder / name} is a pickle, a format that can carry programs: if you trust where it is from, allow "
                "it (--allow-pickle; allow_pickle=True), and nothing but its tensors will be read."
            )
        return folder / name
    raise ValueError(f"{folder} holds no weights: there is no {SAFETENSORS} in it, whole or in shards.")


def read_weights(path: Path) -> dict[str, Tensor]:
    """All tensors of the file, or of the shards it lists, on the CPU, in the types they were stored in."""
    if path.name.endswith(INDEX):
        return _read_shards(path)
    if not path.is_file():
        raise ValueError(f"{path} is missing or not a file.")
    if path.name == INT8:
        return _read_int8(path)
    return _read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)


def write_weights(folder: Path, tensors: Mapping[str, Tensor], as_int8: bool = False) -> None:
    """`model.safetensors` with these tensors, marked as transformers wants it, or `model.int8.safetensors`."""
    stored = to_rows8(tensors) if as_int8 else tensors
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in stored.items()}
    path = folder / (INT8 if as_int8 else SAFETENSORS)
    path.touch()
    mode = path.stat().st_mode  # what the user's mask makes it; safetensors leaves the file to its owner alone
    try:
        save_file(whole, path, metadata={"format": "pt"})
    except SafetensorError as error:  # the disk is full, say
        number = OS_ERROR.search(str(error))
        if number is None:
            raise OSError(f"{path} cannot be written: {error}.") from error
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    path.chmod(mode)


def read_json(path: Path) -> dict[str, object]:
    """The object in a JSON file; ValueError when there is no file, or something else in it."""
    if not path.is_file():
        raise ValueError(f"{path} is missing or not a file.")
    try:
        values = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no JSON object but {type(values).__name__}.")
    return values


def _read_shards(index: Path) -> dict[str, Tensor]:
    shard_of = read_json(index).get("weight_map")
    if not isinstance(shard_of, dict) or not shard_of:
        raise ValueError(f"{index} has no weight_map, which says in which file each tensor is.")
    tensors: dict[str, Tensor] = {}
    for shard in sorted({str(shard) for shard in shard_of.values()}):
        if Path(shard).name != shard or shard.endswith(INDEX):
            raise ValueError(f"{index}: {shard!r} is not the name of a shard in the folder.")
        if shard.endswith(".safetensors") != index.name.startswith(SAFETENSORS):
            raise ValueError(f"{index}: {shard!r} is of another format than the index.")
        tensors |= read_weights(index.with_name(shard))
    missing = sorted(shard_of.keys() - tensors.keys())
    if missing:
        raise ValueError(
            f"{index.with_name(str(shard_of[missing[0]]))}: {missing[0]} is missing, which the index lists."
        )
    return tensors


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    path.open("rb").close()  # of a file that may not be read safetensors says that it is not there
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or not in the safetensors format: {error}. Copy it anew.") from error


def _read_int8(path: Path) -> dict[str, Tensor]:
    try:
        return from_rows8(_read_safetensors(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read_pickle(path: Path) -> dict[str, Tensor]:
    logger.warning("%s is a pickle: only the tensors in it are read.", path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about how a file was made that is then refused in our words
            # Tensors that were saved on a GPU are put on the CPU.
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except UNPICKLING_ERRORS as error:
        raise ValueError(f"{path} is damaged, or holds more than tensors, which is refused.") from error
    is_table = isinstance(tensors, dict) and all(isinstance(value, Tensor) for value in tensors.values())
    if not is_table:
        raise ValueError(f"{path} does not hold tensors by name.")
    return {str(name): tensor.detach() for name, tensor in tensors.items()}
