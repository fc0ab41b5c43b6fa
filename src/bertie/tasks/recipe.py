"""How a model is fine-tuned: the recipe, the two that come with the package, and the settings that change them."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from bertie.config import override, unknown_key
from bertie.model.config import FeatureLayers
from bertie.model.lora import MATRICES
from bertie.tasks.files import Columns
from bertie.tasks.named import AnyTask, named
from bertie.training.loop import Budget, LoopConfig
from bertie.training.optimizers import OptimizerConfig
from bertie.training.schedule import ScheduleConfig

# The stable recipe goes through a small set often: until so many examples have been read, in so many passes.
ENOUGH_EXAMPLES, FEWEST_EPOCHS, MOST_EPOCHS = 60_000, 3, 20
LR, SMALL_LR, LORA_LR, FROZEN_LR = 2e-5, 1e-4, 3e-4, 1e-3
BERT_WIDTH, SMALL_WIDTH = 768, 384


@dataclass(frozen=True)
class ModeConfig:
    """How much of the model learns, and what its head reads. Features are of a frozen encoder, as in the paper's
    feature-based approach; of what is frozen nothing is dropped out and nothing runs backwards."""

    train_layers: int | None = None  # the top ones, with the heads; 0: the heads alone; none: everything
    features: FeatureLayers | None = None  # none: the last layer, as the family's heads read it
    head: Literal["linear", "bilstm"] = "linear"  # bilstm: two layers of it, over the features
    lstm_width: int = 768  # of each direction, as the paper's
    features_memory: float = 4.0  # GiB: features that fit in are computed once, others anew for each batch
    reinitialise: int = 0  # top layers that begin anew, and with them the pooler
    lora_rank: int = 0  # 0: no LoRA
    lora_alpha: float = 16.0
    lora_matrices: tuple[str, ...] = ("query", "value")

    def __post_init__(self) -> None:
        for name in ("train_layers", "reinitialise", "lora_rank", "features_memory"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 0.")
        if not self.lora_alpha > 0 or self.lstm_width < 1:
            name = "lstm_width" if self.lstm_width < 1 else "lora_alpha"
            raise ValueError(f"{name} is {getattr(self, name)}; it must be more than 0.")
        unknown = [name for name in self.lora_matrices if name not in MATRICES]
        if unknown or not self.lora_matrices:
            raise ValueError(f"lora_matrices are {list(self.lora_matrices)}; allowed: {', '.join(MATRICES)}.")
        ways = {
            "features": self.reads_features,
            "train_layers": self.train_layers is not None,
            "lora_rank": self.lora_rank > 0,
        }
        chosen = [name for name, is_chosen in ways.items() if is_chosen]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} each say what learns: give one of them.")
        most = 0 if self.is_frozen or self.lora_rank else self.train_layers
        if most is not None and self.reinitialise > most:
            raise ValueError(f"reinitialise is {self.reinitialise}, but only {most} layers learn: lower it.")

    @property
    def reads_features(self) -> bool:
        return self.features is not None or self.head == "bilstm"

    @property
    def is_frozen(self) -> bool:
        """Whether only heads learn."""
        return self.reads_features or self.train_layers == 0


@dataclass(frozen=True)
class FinetuneRecipe:
    """Everything but the task's own settings. The defaults are the stable recipe: Adam with its bias corrected, a tenth
    of the steps warming up, more passes over small sets (Mosbach et al. 2020; Zhang et al. 2020)."""

    optimizer: OptimizerConfig = field(default_factory=lambda: OptimizerConfig(lr=LR))
    schedule: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(curve="linear", warmup=0.1))
    mode: ModeConfig = field(default_factory=ModeConfig)
    epochs: float | None = None  # none: as many as it takes to read 60,000 examples, at least 3, at most 20
    batch: int = 16  # rows a step; passed through the model in `parts`
    parts: int = 1
    seed: int = 0  # of the new head, the order of the rows and dropout
    clip: float = 1.0
    held_out: float = 0.1  # share of the examples, where no file is given; 0: none, and the last model is kept
    held_out_seed: int = 0  # of which those are, the same for every seed of a run
    evaluations: int | None = None  # over the run; none: one an epoch
    patience: int | None = None  # evaluations without a better score that end the run; none: it goes to its end
    save_every: int | None = None  # steps; none: with every evaluation
    keep: int = 1  # saved states
    dropout: float | None = None  # of all kinds, in place of the model's
    attention: Literal["plain", "sdpa", "varlen"] = "sdpa"
    precision: Literal["float32", "bf16"] = "float32"
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    threads: int | None = None
    deterministic: bool = False

    def __post_init__(self) -> None:
        if self.batch < 1 or self.parts < 1 or self.batch % self.parts:
            raise ValueError(f"batch is {self.batch}; it must be at least 1 and divide into parts = {self.parts}.")
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out is {self.held_out}; it is a share of the examples, at least 0 and below 1.")
        for name in ("epochs", "evaluations", "patience", "save_every", "keep", "threads"):
            number = getattr(self, name)
            if number is not None and not number > 0:
                raise ValueError(f"{name} is {number}; it must be more than 0.")


# The paper's, with the code's optimizer and curve: what it says of a task, and otherwise of GLUE.
FAITHFUL = FinetuneRecipe(
    optimizer=OptimizerConfig(lr=5e-5, rule="adam_weight_decay"),
    schedule=ScheduleConfig(curve="google", warmup=0.1),
    epochs=3.0,
    batch=32,
)
FAITHFUL_TO: Mapping[str, Mapping[str, float]] = {
    "squad-v2": {"epochs": 2.0, "batch": 48},
    "swag": {"batch": 16, "lr": 2e-5},
}
RECIPES = ("stable", "faithful")


def make_recipe(name: str, task: str) -> FinetuneRecipe:
    """The recipe of that name for a task."""
    if name not in RECIPES:
        raise ValueError(f"recipe {name!r} does not exist; allowed: {', '.join(RECIPES)}.")
    if name == "stable":
        return FinetuneRecipe()
    said = FAITHFUL_TO.get(task, {})
    return replace(
        FAITHFUL,
        optimizer=replace(FAITHFUL.optimizer, lr=float(said.get("lr", FAITHFUL.optimizer.lr))),
        epochs=float(said.get("epochs", 3.0)),
        batch=int(said.get("batch", FAITHFUL.batch)),
    )


def change(recipe: FinetuneRecipe, task: str, settings: Iterable[str]) -> tuple[FinetuneRecipe, AnyTask]:
    """The recipe, and the task with its own settings, with each `key=value` put where it belongs: `lr` is the
    optimizer's, `warmup` the schedule's, `max_length` the task's. Where the rate is not said, it is one for what
    learns: new heads and LoRA's thin matrices take longer steps than a model that is to stay near where it was."""
    changed = named(task).task()
    own = {field.name for field in dataclasses.fields(changed)}
    settled: list[str] = []
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = key.strip()
        if key in own:
            changed = override(changed, [setting])
            continue
        group = next((group for group, config in GROUPS.items() if key in _names(config)), None)
        is_plain = "." in key or key in _names(FinetuneRecipe) or group is None
        if is_plain and key.partition(".")[0] not in _names(FinetuneRecipe):
            known = sorted({*own, *_names(FinetuneRecipe), *(name for one in GROUPS.values() for name in _names(one))})
            raise ValueError(f"{setting}: {unknown_key(key, known)}")
        settled.append(setting if is_plain else f"{group}.{key}{equals}{value}")
    recipe = override(recipe, settled)  # at once: one mode is allowed without another only
    is_said = any(setting.partition("=")[0].strip() == "optimizer.lr" for setting in settled)
    if (recipe.mode.is_frozen or recipe.mode.lora_rank) and not is_said:
        recipe = replace(recipe, optimizer=replace(recipe.optimizer, lr=usual_lr(recipe.mode)))
    return recipe, changed


def usual_lr(mode: ModeConfig, width: int = BERT_WIDTH) -> float:
    """The least rate at which what learns can be expected to; narrow models were measured (docs/en/log.md)."""
    if mode.is_frozen:
        return FROZEN_LR
    return LORA_LR if mode.lora_rank else SMALL_LR if width <= SMALL_WIDTH else LR


Group = type[OptimizerConfig] | type[ScheduleConfig] | type[ModeConfig]
GROUPS: Mapping[str, Group] = {"optimizer": OptimizerConfig, "schedule": ScheduleConfig, "mode": ModeConfig}


def _names(settings: type[FinetuneRecipe] | Group) -> set[str]:
    return {field.name for field in dataclasses.fields(settings)}


@dataclass(frozen=True)
class Written:
    """What recipe.toml holds: all that decides what a run does."""

    task: str
    model: str
    data: str
    dev: str | None
    columns: Columns
    run: FinetuneRecipe
    settings: AnyTask


def num_epochs(recipe: FinetuneRecipe, num_rows: int) -> float:
    """How often all rows are read."""
    if recipe.epochs is not None:
        return recipe.epochs
    return float(min(MOST_EPOCHS, max(FEWEST_EPOCHS, math.ceil(ENOUGH_EXAMPLES / num_rows))))


def loop_config(recipe: FinetuneRecipe, num_rows: int) -> LoopConfig:
    """The loop that goes through the rows: whole steps, as many as Google's scripts take."""
    epochs = num_epochs(recipe, num_rows)
    num_steps = max(1, int(num_rows / recipe.batch * epochs))
    evaluate_every = math.ceil(num_steps / (recipe.evaluations or math.ceil(epochs)))
    return LoopConfig(
        budget=Budget(num_steps),
        schedule=recipe.schedule,
        seed=recipe.seed,
        precision=recipe.precision,
        batches_per_step=recipe.parts,
        batches_at_start=recipe.parts,
        clip=recipe.clip,
        max_sigma=math.inf,  # a hard example among easy ones is a jump that is wanted
        evaluate_every=evaluate_every,
        save_every=recipe.save_every or evaluate_every,
    )
