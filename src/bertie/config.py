"""Settings: frozen dataclasses read from TOML or JSON, overridden by `key=value`, written back; no unknown keys."""

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeVar


class Settings(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]


Config = TypeVar("Config", bound=Settings)


def from_toml(cls: type[Config], path: Path) -> Config:
    """The settings in a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not TOML: {error}.") from error
    return from_values(cls, values, str(path))


def from_values(cls: type[Config], values: Mapping[str, object], where: str) -> Config:
    """The settings in a mapping; `where` names its origin in what is said of a wrong key or value."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    for key in values:
        if key not in fields:
            raise ValueError(f"{where}: {unknown_key(key, fields)}")
    missing = [name for name, field in fields.items() if name not in values and _is_required(field)]
    if missing:
        raise ValueError(f"{where}: {', '.join(missing)} missing, which has no default.")
    hints = typing.get_type_hints(cls)
    arguments = {key: _convert(value, hints[key], f"{where}: {key}") for key, value in values.items()}
    try:
        return cls(**arguments)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def override(config: Config, settings: Iterable[str]) -> Config:
    """The same settings with each `key=value` (or `table.key=value`) put in: values as in TOML, quotes optional.

    All are put in at once, so that their order does not matter where one is allowed only with another.
    """
    changes: dict[str, object] = {}
    said = []
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"{setting!r} is not of the form key=value.")
        said.append(setting)
        keys = path.strip().split(".")
        inner = changes
        for key in keys[:-1]:
            deeper = inner.setdefault(key, {})
            assert isinstance(deeper, dict)
            inner = deeper
        inner[keys[-1]] = _read(type(config), keys, text.strip(), said[-1])
    return _replace(config, changes, " ".join(said))


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """What is said of a key that is none of these: the one that is meant if there is a guess, else all of them."""
    names = list(allowed)
    meant = [name for name in ELSEWHERE.get(key, ()) if name in names] or difflib.get_close_matches(key, names, n=1)
    hint = f"did you mean {meant[0]!r}?" if meant else f"allowed: {', '.join(names)}."
    return f"unknown key {key!r}; {hint}"


# What transformers, google-research/bert and others call what is meant by a key here.
ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "learning_rate": ("lr",),
    "peak_lr": ("lr",),
    "per_device_train_batch_size": ("batch",),
    "train_batch_size": ("batch",),
    "batch_size": ("batch",),
    "gradient_accumulation_steps": ("parts", "batches_per_step"),
    "num_train_epochs": ("epochs",),
    "num_epochs": ("epochs",),
    "max_epochs": ("epochs",),
    "max_steps": ("epochs",),
    "num_train_steps": ("epochs",),
    "max_seq_length": ("max_length",),
    "max_len": ("max_length",),
    "doc_stride": ("stride",),
    "warmup_ratio": ("warmup",),
    "warmup_proportion": ("warmup",),
    "warmup_steps": ("warmup",),
    "num_warmup_steps": ("warmup",),
    "lr_scheduler_type": ("curve",),
    "max_grad_norm": ("clip",),
    "optim": ("rule",),
    "optimizer_type": ("rule",),
    "adam_beta1": ("beta1",),
    "adam_beta2": ("beta2",),
    "adam_epsilon": ("epsilon",),
    "layerwise_lr_decay": ("layer_decay",),
    "hidden_dropout_prob": ("dropout",),
    "attention_probs_dropout_prob": ("dropout",),
    "early_stopping_patience": ("patience",),
    "eval_steps": ("evaluate_every", "evaluations"),
    "save_steps": ("save_every",),
    "save_total_limit": ("keep",),
    "validation_split": ("held_out",),
    "test_size": ("held_out",),
    "mlm_probability": ("rate",),
    "masked_lm_prob": ("rate",),
    "max_predictions_per_seq": ("cap",),
    "short_seq_prob": ("short_share",),
    "hidden_size": ("width",),
    "num_hidden_layers": ("num_layers",),
    "num_attention_heads": ("num_heads",),
    "intermediate_size": ("inner_width",),
    "max_position_embeddings": ("max_positions",),
    "bf16": ("precision",),
    "fp16": ("precision",),
    "no_cuda": ("device",),
    "use_cpu": ("device",),
}


def to_values(config: Settings) -> dict[str, object]:
    """The settings as plain values, nested ones as mappings; what is None is left out, as TOML has no word for it."""
    return dataclasses.asdict(
        config, dict_factory=lambda items: {key: value for key, value in items if value is not None}
    )


def to_toml(config: Settings) -> str:
    """The settings as a TOML file: plain values first, then one table for each nested group."""
    return "\n".join(_toml_lines(to_values(config), "")).strip() + "\n"


def _read(cls: type[Settings], keys: list[str], text: str, where: str) -> object:
    """The value that the text stands for at the end of the keys."""
    names = [field.name for field in dataclasses.fields(cls)]
    if keys[0] not in names:
        raise ValueError(f"{where}: {unknown_key(keys[0], names)}")
    hint = typing.get_type_hints(cls)[keys[0]]
    if len(keys) == 1:
        return _convert(_parse(text, hint), hint, where)
    if not (dataclasses.is_dataclass(hint) and isinstance(hint, type)):
        raise ValueError(f"{where}: {keys[0]!r} is a value, not a group of settings.")
    return _read(hint, keys[1:], text, where)


def _replace(config: Config, changes: Mapping[str, object], where: str) -> Config:
    values = {
        key: _replace(getattr(config, key), change, where) if isinstance(change, dict) else change
        for key, change in changes.items()
    }
    try:
        return dataclasses.replace(config, **values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _parse(text: str, hint: object) -> object:
    if hint is str:
        return text.strip("\"'")
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _convert(value: object, hint: object, where: str) -> object:
    """The value as the type of its field wants it, or a ValueError saying what is allowed."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return from_values(hint, value, where)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = [argument for argument in arguments if argument is not types.NoneType]
        is_none = value is None or value == "none"
        return None if is_none and len(inner) < len(arguments) else _convert(value, inner[0], where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(item, arguments[0], where) for item in value)
    if origin is Literal and value in arguments:
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and origin is None and type(value) is hint:
        return value
    raise ValueError(f"{where} is {value!r}; allowed: {_describe(hint)}.")


def _describe(hint: object) -> str:
    if typing.get_origin(hint) is Literal:
        return ", ".join(str(choice) for choice in typing.get_args(hint))
    words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    for kind, word in words.items():
        if hint is kind:
            return word
    return "a list in brackets" if typing.get_origin(hint) is tuple else "a group of settings"


def _is_required(field: dataclasses.Field[object]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _toml_lines(values: Mapping[str, object], table: str) -> list[str]:
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if not isinstance(value, dict)]
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", f"[{table}{key}]", *_toml_lines(value, f"{table}{key}.")]
    return lines


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)
