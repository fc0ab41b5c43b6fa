"""A recipe: everything that decides what a run learns and how, in one file that can be read and changed."""

import dataclasses
import difflib
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from bertie.config import from_toml, override, unknown_key
from bertie.model.config import ModelConfig, preset
from bertie.pretraining.masking import MaskingConfig
from bertie.pretraining.objective import HEADS, Objective
from bertie.pretraining.pairs import PairsConfig
from bertie.training.loop import Budget, LoopConfig
from bertie.training.optimizers import OptimizerConfig

FOLDER = Path(__file__).parents[1] / "recipes"
PAIRED = ("next_sentence", "sentence_order")


@dataclass(frozen=True)
class ShapeConfig:
    """What a model has in place of its preset's; none: as the preset."""

    num_layers: int | None = None
    width: int | None = None
    num_heads: int | None = None
    inner_width: int | None = None
    max_positions: int | None = None


@dataclass(frozen=True)
class Recipe:
    """A run of pre-training, whatever the corpus."""

    preset: str  # the shape of the model; its vocabulary is the corpus's
    batch: int  # what a step learns from, in units of `counts`; passed through the model in loop.batches_per_step parts
    loop: LoopConfig
    optimizer: OptimizerConfig
    counts: Literal["sequences", "tokens"] = "sequences"  # tokens: parts of equal size, filled with whole sequences
    objective: Objective = "masked+pair"
    replaced_weight: float = (
        10.0  # of that objective's loss beside the masked words'; at ELECTRA's 50 one network learns neither
    )
    shape: ShapeConfig = field(default_factory=ShapeConfig)
    zero_outputs: bool = False  # projections back into the stream start at zero: each layer adds nothing yet
    pairs: PairsConfig = field(default_factory=PairsConfig)
    masking: MaskingConfig = field(default_factory=MaskingConfig)
    long_length: int | None = None  # max_length in a second phase ...
    long_share: float = 0.1  # ... which is this share of the steps, the last ones
    dupe_factor: int | None = None  # passes after which the first one's sequences and masks come again; none: never
    epochs: float | None = None  # passes over the corpus, in place of loop.budget
    init: str | None = None  # a model folder to go on from, in place of a new model of the preset's shape
    dropout: float | None = None  # of all kinds, in place of the preset's
    attention: Literal["auto", "plain", "sdpa", "varlen"] = "sdpa"  # auto: varlen where device and precision have it
    kernels: Literal["auto", "plain", "fused"] = "plain"  # auto: fused where model, device and precision have them
    recompute: bool = False  # layers run again in the backward pass, so that less is kept in memory; a third slower
    compile: bool = False  # by torch.compile; takes a minute or more to begin with
    sharding: Literal["ddp", "fsdp"] = "ddp"  # between ranks: a copy on each, or the weights divided
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    threads: int | None = None  # of the processor; none: as many as torch sees fit
    deterministic: bool = False  # on a GPU: the same to the bit each time, and slower; a CPU always is
    keep: int = 2  # saved states
    validation_sequences: int = 2000  # that each evaluation reads, always the same ones with the same masks

    def __post_init__(self) -> None:
        preset(self.preset)  # a name there is none of is refused here, not when the corpus has been read
        parts = self.loop.batches_per_step
        if self.batch < 1 or self.batch % parts:
            raise ValueError(
                f"batch is {self.batch}; it must be at least 1 and divide into batches_per_step = {parts}."
            )
        if self.counts == "tokens" and self.batch // parts < max(self.pairs.max_length, self.long_length or 0):
            raise ValueError(
                f"batch is {self.batch // parts} tokens in each of {parts} parts, too few for a sequence: make it "
                "larger, or batches_per_step smaller."
            )
        if "pair" in HEADS[self.objective] and self.pairs.kind not in PAIRED:
            raise ValueError(
                f"objective {self.objective!r} needs pairs, but pairs.kind is {self.pairs.kind!r}; "
                f"allowed: {' or '.join(PAIRED)}, or objective 'masked'."
            )
        if not 0 < self.long_share < 1:
            raise ValueError(f"long_share is {self.long_share}; it is a share of the steps, between 0 and 1.")
        if self.long_length is not None and self.long_length <= self.pairs.max_length:
            raise ValueError(f"long_length is {self.long_length}; it must be more than {self.pairs.max_length}.")
        if self.long_length is not None and (self.loop.budget.unit != "steps" or self.loop.batch_warmup):
            raise ValueError("two phases need a budget in steps of equal size: say long_length=none for one.")
        if self.loop.seed < 0:
            raise ValueError(f"seed is {self.loop.seed}; it must be 0 or more.")
        chosen = {
            "compile": self.compile,
            "recompute": self.recompute,
            "replaced words": "replaced" in HEADS[self.objective],
        }
        unfused = [name for name, is_chosen in chosen.items() if is_chosen]
        if self.kernels == "fused" and unfused:
            raise ValueError(f"kernels 'fused' go without {' and '.join(unfused)}: leave out one or the other.")
        for name, least in (
            ("replaced_weight", 0.0),
            ("epochs", 0.0),
            ("threads", 0),
            ("keep", 0),
            ("validation_sequences", 0),
        ):
            number = getattr(self, name)
            if number is not None and not number > least:
                raise ValueError(f"{name} is {number}; it must be more than {least:g}.")
        if self.dupe_factor is not None and self.dupe_factor < 1:
            raise ValueError(f"dupe_factor is {self.dupe_factor}; it must be at least 1, or none.")


def read_recipe(name: str) -> Recipe:
    """The recipe of that name, or of that file."""
    if name.endswith(".toml") or "/" in name:
        return from_toml(Recipe, Path(name))
    path = FOLDER / f"{name}.toml"
    if not path.is_file():
        close = difflib.get_close_matches(name, recipe_names(), n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(
            f"unknown recipe {name!r}; {hint}There are: {', '.join(recipe_names())}; or give the path of a .toml file."
        )
    return from_toml(Recipe, path)


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def change(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """The recipe with each `key=value` put in; a key of a group needs no group before it: lr is optimizer.lr."""
    return override(recipe, [_full_key(setting) for setting in settings])


def with_budget(recipe: Recipe, budget: Budget) -> Recipe:
    """The recipe with another end."""
    return replace(recipe, loop=replace(recipe.loop, budget=budget), epochs=None)


def model_config(recipe: Recipe, vocabulary_size: int, pad_id: int) -> ModelConfig:
    """The shape of a new model for a vocabulary of this size."""
    shape = {name: number for name, number in dataclasses.asdict(recipe.shape).items() if number is not None}
    config = replace(preset(recipe.preset), vocabulary_size=vocabulary_size, pad_id=pad_id, **shape)
    if recipe.objective == "causal":
        config = replace(config, family="bertie", attention="causal")
    return with_dropout(config, recipe.dropout)


def with_dropout(config: ModelConfig, dropout: float | None) -> ModelConfig:
    """The shape with this dropout everywhere; None leaves it."""
    return config if dropout is None else replace(config, dropout=dropout, attention_dropout=dropout)


def longest(recipe: Recipe) -> int:
    """The most tokens a sequence has in any phase."""
    return max(recipe.pairs.max_length, recipe.long_length or 0)


def _full_key(setting: str) -> str:
    """The setting with the group its key is in before it, where the key is in one group alone."""
    key, equals, value = setting.partition("=")
    key, own = key.strip(), [field.name for field in dataclasses.fields(Recipe)]
    groups = {group: names for group, names in _groups() if key in names}
    if "." in key or key in own or not equals:
        return setting
    if not groups:
        known = [*own, *(name for _, names in _groups() for name in sorted(names))]
        raise ValueError(f"{setting}: {unknown_key(key, known)}")
    if len(groups) > 1:
        raise ValueError(f"{setting}: say which: {' or '.join(f'{group}.{key}' for group in groups)}.")
    return f"{next(iter(groups))}.{key}{equals}{value}"


def _groups(settings: type = Recipe, above: str = "") -> Iterable[tuple[str, set[str]]]:
    """Each group of settings inside a recipe, however deep, and the names in it; the budget has flags of its own."""
    for name, group in typing.get_type_hints(settings).items():
        if dataclasses.is_dataclass(group) and isinstance(group, type) and group is not Budget:
            yield above + name, {field.name for field in dataclasses.fields(group)}
            yield from _groups(group, f"{above}{name}.")
