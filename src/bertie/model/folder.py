"""The model folder, in Hugging Face's layout with a seal: save, load, build."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from bertie.config import from_values, to_values
from bertie.model.config import ModelConfig
from bertie.model.heads import NUM_OUTPUTS, Model, initialise
from bertie.model.hf_config import config_from_hf, config_to_hf
from bertie.model.names import from_hf, heads_from_hf, to_hf
from bertie.model.weights import SAFETENSORS, find_weights, read_json, read_weights, write_weights
from bertie.sealed import replacing_folder, seal, unseal

CONFIG, SEAL = "config.json", "bertie.json"
GOOGLE_CONFIGS = ("bert_config.json", "albert_config.json")
PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")
FRACTIONS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Labels:
    """What the classes of a class or tag head mean."""

    names: tuple[str, ...] = ()  # none: LABEL_0, LABEL_1 ...
    problem_type: str | None = None  # one of PROBLEM_TYPES, or unsaid

    def __post_init__(self) -> None:
        if len(self.names) != len(set(self.names)):
            raise ValueError(f"the labels {list(self.names)} are not all different: give each class its own.")
        if self.problem_type not in (None, *PROBLEM_TYPES):
            raise ValueError(f"problem_type is {self.problem_type!r}; allowed: {', '.join(PROBLEM_TYPES)}.")


def build(config: ModelConfig, heads: Mapping[str, int], generator: torch.Generator) -> Model:
    """A new model with its initial values."""
    return initialise(Model(config, heads), generator)


def save(
    path: Path,
    model: Model,
    tokenizer_files: Mapping[str, bytes],
    labels: Labels | None = None,
    as_int8: bool = False,
) -> None:
    """The folder holds the model, the tokenizer's files and a seal; a kill at any moment leaves the old or the new."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: give the name of a folder.")
    heads = num_classes(model)
    config = config_to_hf(model.config, heads) | _describe(labels or Labels(), heads)
    config["dtype"] = str(model.encoder.embeddings.words.weight.dtype).removeprefix("torch.")
    tensors = to_hf(model.config, heads, model.state_dict())
    with replacing_folder(path) as new:
        for name, data in tokenizer_files.items():
            _write_beside(new, name, data)
        (new / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")
        write_weights(new, tensors, as_int8)
        seal(new, SEAL, {"model": to_values(model.config)})


def load(
    path: Path,
    heads: Mapping[str, int] | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype | None = torch.float32,
    attention: str = "sdpa",
    allow_pickle: bool = False,
) -> Model:
    """The model in the folder, ready to predict.

    `heads`: those the model shall have, by default the folder's. One the folder has not is drawn from `generator`, or
    refused where none is given. `dtype`: what the weights are converted to; None leaves them as they were stored.
    """
    require_model(path)
    sealed = unseal(path, SEAL) if (path / SEAL).exists() else None
    _require_config(path)
    values = read_json(path / CONFIG)
    config = _read_shape(path, values, sealed)
    weights = find_weights(path, allow_pickle)
    tensors = as_dtype(read_weights(weights), dtype, weights)
    try:
        found = heads_from_hf(config, _architectures(values), {name: one.shape for name, one in tensors.items()})
        state = from_hf(config, found, tensors)
    except ValueError as error:
        raise ValueError(f"{weights}: {error}") from error
    model = Model(config, found if heads is None else heads, attention)
    fill(model, state, generator, weights)
    if sealed is None:
        logger.warning("%s has no %s: its files are not verified (`bertie convert` makes a sealed copy).", path, SEAL)
    return model.eval()


def read_labels(path: Path, model: Model) -> Labels:
    """What the folder says of the classes of the model that was loaded from it."""
    values = read_json(path / CONFIG)
    counts = [count for count in num_classes(model).values() if count]
    stated, problem_type = values.get("id2label"), values.get("problem_type")
    try:
        names = _names(stated) if counts and isinstance(stated, dict) else ()
        if names and len(names) not in counts:
            logger.info("%s names %d classes for a head of %d.", path / CONFIG, len(names), counts[0])
            names = ()
        return Labels(
            names or tuple(f"LABEL_{number}" for number in range(max(counts, default=0))),
            None if problem_type is None else str(problem_type),
        )
    except ValueError as error:
        raise ValueError(f"{path / CONFIG}: {error}") from error


def parse_config(values: Mapping[str, object], where: Path) -> ModelConfig:
    """The shape that the values state; what is said of a wrong one names the file."""
    try:
        return config_from_hf(values)
    except ValueError as error:
        raise ValueError(f"{where}: {str(error).removeprefix('config.json: ')}") from error


def num_classes(model: Model) -> dict[str, int]:
    """The model's heads as `Model` takes them."""
    return {name: 0 if name in NUM_OUTPUTS else shape.num_outputs for name, shape in model.shapes.items()}


def as_dtype(tensors: Mapping[str, Tensor], dtype: torch.dtype | None, where: Path) -> dict[str, Tensor]:
    """The tensors with all fractions in one type: `dtype`, or when that is None the one they have, or float32."""
    stored = {tensor.dtype for tensor in tensors.values()} & FRACTIONS
    wanted = dtype or (next(iter(stored)) if len(stored) == 1 else torch.float32)
    if stored - {wanted}:
        names = ", ".join(sorted(str(one).removeprefix("torch.") for one in stored - {wanted}))
        logger.info("%s: %s converted to %s.", where, names, str(wanted).removeprefix("torch."))
    return {name: one.to(wanted) if one.dtype in FRACTIONS else one for name, one in tensors.items()}


def fill(model: Model, state: Mapping[str, Tensor], generator: torch.Generator | None, where: Path) -> None:
    """Give the model the values of the state, and its heads that are not in the state new ones from the generator."""
    for name, tensor in state.items():
        if tensor.dtype not in FRACTIONS:
            raise ValueError(
                f"{where}: {name} has type {tensor.dtype}; a quantised model is not read: "
                "give one in float32, float16 or bfloat16."
            )
        if tensor.isnan().any():
            raise ValueError(f"{where}: {name} holds what is no number (NaN): the training that made it went astray.")
    shapes = {name: tensor.shape for name, tensor in state.items()}
    wanted = {name: tensor.shape for name, tensor in model.state_dict().items()}
    new = sorted({_head_of(name) for name, shape in wanted.items() if shapes.get(name) != shape})
    unused = sorted({_head_of(name) for name in state.keys() - wanted.keys()})
    if new and generator is None:
        raise ValueError(f"{where} has no head {' and '.join(new)} of this shape: train one, or ask for another head.")
    if generator is not None and new:
        logger.warning("%s has no head %s of this shape: made new, to be trained.", where, " and ".join(new))
        initialise(model, generator).to("cpu", next(iter(state.values())).dtype)
    if unused:
        logger.info("%s: head %s left out.", where, " and ".join(unused))
    kept = {name: state[name] for name in wanted if _head_of(name) not in new}
    model.load_state_dict(kept, strict=not new, assign=True)


def _head_of(name: str) -> str:
    """The head that a weight of ours belongs to, `heads.class.scores.bias` to "class"; else "encoder"."""
    part, head, *_ = name.split(".")
    return head if part == "heads" else part


def require_model(path: Path) -> None:
    """Refuse at once what cannot be opened, saying what it is; a sealed folder's files are looked at when it is."""
    if not path.is_dir():
        raise ValueError(f"{path} is {'a file' if path.exists() else 'not there'}: a model is a folder.")
    if not (path / SEAL).exists():
        _require_config(path)


def _require_config(path: Path) -> None:
    """Refuse a folder of another kind with the way on."""
    if (path / CONFIG).exists():
        return
    ways = {
        **dict.fromkeys(GOOGLE_CONFIGS, "it is in Google's layout, which `bertie convert FOLDER NEW --to hf` turns"),
        f"model/{CONFIG}": f"it is a run, whose model is {path / 'model'}",
        "vocab.txt": "it is a vocabulary without a model",
    }
    way = next((way for name, way in ways.items() if (path / name).exists()), "it is no model folder")
    raise ValueError(f"{path} has no {CONFIG}: {way}.")


def _read_shape(path: Path, values: Mapping[str, object], sealed: Mapping[str, object] | None) -> ModelConfig:
    """The seal's word on the shape, since it has some that config.json has no key for; else config.json's."""
    if sealed is None:
        return parse_config(values, path / CONFIG)
    shape = sealed.get("model")
    if not isinstance(shape, dict):
        raise ValueError(f"{path / SEAL} does not seal a model. Copy the folder anew.")
    return from_values(ModelConfig, shape, str(path / SEAL))


def _architectures(values: Mapping[str, object]) -> list[str]:
    stated = values.get("architectures")
    return [str(name) for name in stated] if isinstance(stated, list) else []


def _describe(labels: Labels, heads: Mapping[str, int]) -> dict[str, object]:
    """What config.json says of the classes, as transformers' pipelines read it."""
    counts = [count for count in heads.values() if count]
    names = labels.names or tuple(f"LABEL_{number}" for number in range(max(counts, default=0)))
    if names and len(names) not in counts:
        raise ValueError(f"there are {len(names)} labels for a model whose heads have {counts or 'no'} classes.")
    described: dict[str, object] = {} if labels.problem_type is None else {"problem_type": labels.problem_type}
    if names:
        described["id2label"] = {str(number): name for number, name in enumerate(names)}
        described["label2id"] = {name: number for number, name in enumerate(names)}
    return described


def _names(id2label: Mapping[str, object]) -> tuple[str, ...]:
    keys = [str(number) for number in range(len(id2label))]
    if id2label.keys() != set(keys):
        raise ValueError(f"the keys of id2label are not the numbers of the classes, 0 to {len(keys) - 1}.")
    return tuple(str(id2label[key]) for key in keys)


def _write_beside(folder: Path, name: str, data: bytes) -> None:
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts or name in (CONFIG, SEAL, SAFETENSORS):
        raise ValueError(f"{name!r} is not the name of a file that can stand beside the model's own.")
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
