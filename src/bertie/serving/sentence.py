"""How a folder wants its sentence vectors made: pooling, projections, normalisation, prompt and longest text, as
sentence-transformers writes them; mean pooling where the folder is silent."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from bertie.model.heads import POOLINGS
from bertie.model.weights import read_weights

Step = Callable[[Tensor], Tensor]
ACTIVATIONS: dict[str, Step] = {
    "torch.nn.modules.activation.Tanh": torch.tanh,
    "torch.nn.modules.activation.ReLU": functional.relu,
    "torch.nn.modules.activation.GELU": functional.gelu,
    "torch.nn.modules.activation.Sigmoid": torch.sigmoid,
    "torch.nn.modules.linear.Identity": torch.nn.Identity(),
}
OLD_POOLING_KEYS = {  # in the order in which several are joined
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True)
class SentenceSettings:
    poolings: tuple[str, ...] = ("mean",)
    steps: tuple[Step, ...] = ()  # what is done to the pooled vectors, in order
    max_length: int | None = None  # tokens a text is cut to, if the model has as many positions; None: nothing is cut
    prompt: str = ""  # put before every text
    pools_prompt: bool = True  # whether the prompt's own tokens count
    lowers: bool = False  # whether texts are lower-cased before the tokenizer


def read_sentence_settings(folder: Path) -> SentenceSettings:
    """The settings of a sentence-transformers folder; the defaults for any other folder."""
    if not (folder / "modules.json").exists():
        return SentenceSettings()
    poolings: tuple[str, ...] = ()
    pools_prompt = True
    steps: list[Step] = []
    limit: int | None = None
    lowers = False
    for module in _read_modules(folder):
        kind, place = str(module["type"]).rpartition(".")[2], folder / str(module["path"])
        if kind == "Transformer":
            transformer = _read_object(place / "sentence_bert_config.json")
            limit, lowers = _limit(transformer, place), transformer.get("do_lower_case") is True
        elif kind == "Pooling":
            pooling = _read_config(place)
            poolings, pools_prompt = _poolings(pooling, place), pooling.get("include_prompt", True) is True
        elif kind == "Dense":
            steps.append(_dense(place))
        elif kind == "Normalize":
            steps.append(_normalize)
        else:
            raise ValueError(f"{folder / 'modules.json'}: module {kind!r} is not one of {', '.join(KINDS)}.")
    prompt = _prompt(folder / "config_sentence_transformers.json")
    if "weightedmean" in poolings and prompt and not pools_prompt:
        raise ValueError(f"{folder}: pooling 'weightedmean' without the prompt's tokens is not supported.")
    # Stated here by older versions, in the tokenizer's file by newer ones; the model's positions are the last bound.
    limits = (limit, _read_object(folder / "tokenizer_config.json").get("model_max_length"))
    return SentenceSettings(
        poolings=poolings or ("mean",),
        steps=tuple(steps),
        max_length=next((limit for limit in limits if isinstance(limit, int)), sys.maxsize),
        prompt=prompt,
        pools_prompt=pools_prompt,
        lowers=lowers,
    )


KINDS = ("Transformer", "Pooling", "Dense", "Normalize")


def _normalize(vectors_SD: Tensor) -> Tensor:
    return functional.normalize(vectors_SD, dim=-1)


def _dense(place: Path) -> Step:
    """A linear layer and its activation, which is picked from a table: nothing a file names is imported."""
    config = _read_config(place)
    name = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    if name not in ACTIVATIONS:
        raise ValueError(f"{place / 'config.json'}: activation {name!r} is not one of {', '.join(ACTIVATIONS)}.")
    weights = place / "model.safetensors"
    if not weights.exists():
        raise ValueError(f"{weights} is missing: a projection is read from safetensors only.")
    tensors = {key: tensor.float() for key, tensor in read_weights(weights).items()}
    if "linear.weight" not in tensors:
        raise ValueError(f"{weights} has no linear.weight, by which a projection is made.")
    num_taken = tensors["linear.weight"].shape[-1]
    has_residual = config.get("use_residual") is True

    def project(vectors_SD: Tensor) -> Tensor:
        if vectors_SD.shape[-1] != num_taken:
            raise ValueError(f"{weights} projects {num_taken} numbers, but is given {vectors_SD.shape[-1]}.")
        here = {key: tensor.to(vectors_SD.device) for key, tensor in tensors.items()}
        projected_SD = ACTIVATIONS[name](functional.linear(vectors_SD, here["linear.weight"], here.get("linear.bias")))
        if has_residual:
            projected_SD = projected_SD + (
                functional.linear(vectors_SD, here["residual.weight"]) if "residual.weight" in here else vectors_SD
            )
        return projected_SD

    return project


def _poolings(config: Mapping[str, object], place: Path) -> tuple[str, ...]:
    stated = config.get("pooling_mode", [mode for key, mode in OLD_POOLING_KEYS.items() if config.get(key) is True])
    modes = (stated,) if isinstance(stated, str) else tuple(stated) if isinstance(stated, list) else ()
    asked_for = [key for key, is_on in config.items() if key.startswith("pooling_mode_") and is_on is True]
    unknown = [mode for mode in (*modes, *asked_for) if mode not in POOLINGS and mode not in OLD_POOLING_KEYS]
    if unknown:
        raise ValueError(f"{place / 'config.json'}: pooling {unknown[0]!r} is not one of {', '.join(POOLINGS)}.")
    return modes


def _limit(config: Mapping[str, object], place: Path) -> int | None:
    limit = config.get("max_seq_length")
    if limit is None or (isinstance(limit, int) and limit > 0):
        return limit
    file = place / "sentence_bert_config.json"
    raise ValueError(f"{file}: max_seq_length is {limit!r}; allowed: a whole number from 1, or null.")


def _prompt(path: Path) -> str:
    config = _read_object(path)
    prompts, name = config.get("prompts"), config.get("default_prompt_name")
    if name is None:
        return ""
    if not isinstance(prompts, dict) or name not in prompts:
        raise ValueError(f"{path}: default_prompt_name is {name!r}, which its prompts do not have.")
    return str(prompts[name] or "")


def _read_modules(folder: Path) -> list[Mapping[str, object]]:
    path = folder / "modules.json"
    modules = _read(path)
    if not isinstance(modules, list) or not all(
        isinstance(one, dict) and {"type", "path"} <= set(one) for one in modules
    ):
        raise ValueError(f"{path} is not a list of modules with a type and a path each.")
    for module in modules:
        if not (folder / str(module["path"])).resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{path}: {module['path']!r} leads out of the folder.")
    return modules


def _read_config(place: Path) -> Mapping[str, object]:
    path = place / "config.json"
    if not path.exists():
        raise ValueError(f"{path} is missing, though modules.json names its folder. Copy the folder anew.")
    return _read_object(path)


def _read_object(path: Path) -> Mapping[str, object]:
    """The JSON object in a file; an empty one where there is no file."""
    values = _read(path) if path.exists() else {}
    if not isinstance(values, dict):
        raise ValueError(f"{path} does not hold a JSON object.")
    return values


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON in UTF-8: {error}.") from error
