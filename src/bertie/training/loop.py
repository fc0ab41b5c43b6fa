"""The loop that trains, for pre-training and fine-tuning alike: deal, forward, backward, clip, judge, step, report.

No step waits for the device. What a batch holds was counted where it was drawn; whether a step is skipped is decided on
the device; its figures are read while the next step runs. The hosts agree on counts, time and stopping beforehand.

A run does not depend on how many ranks share it. Batches are numbered through the whole run, a step takes the next
few, the ranks deal them out among themselves, and dropout is seeded by the number of the batch: there is no state of a
random generator to keep.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from bertie.training.distributed import Ranks, gradients_exchanged
from bertie.training.optimizers import clip_gradients, set_share, skip_where, trained
from bertie.training.runlog import Event, Reporter
from bertie.training.schedule import ScheduleConfig, share_at_fraction, share_at_step

Batch = TypeVar("Batch")
NUM_RECENT, NUM_ENOUGH = 128, 32  # losses remembered; how many it takes before one of them can be called a jump
LEAST_SIGMA = 0.01  # of the mean: once a model knows its text by heart, its losses have no spread to speak of


@dataclass(frozen=True)
class Drawn(Generic[Batch]):
    """What one backward pass reads, and what is in it."""

    batch: Batch
    num_tokens: int
    num_targets: Mapping[str, int]  # of each objective, the same ones in every batch: {"masked": 9830, "pair": 512}


class Part(NamedTuple):
    """What became of one objective's targets, summed over them, and how much its mean counts beside the others'."""

    loss: Tensor
    num_correct: Tensor | None = None
    weight: float = 1.0


Batches = Callable[[int], Drawn[Batch]]  # by their number in the run
Loss = Callable[[nn.Module, Batch], Mapping[str, Part]]  # calls the model once, as model(...)


@dataclass(frozen=True)
class Budget:
    """When the run is over."""

    amount: float
    unit: Literal["steps", "tokens", "minutes"] = "steps"

    def __post_init__(self) -> None:
        if not 0 < self.amount < math.inf or (self.unit != "minutes" and self.amount % 1):
            whole = "" if self.unit == "minutes" else "whole "
            raise ValueError(f"the budget is {self.amount:g} {self.unit}; it must be a {whole}number above 0.")


@dataclass(frozen=True)
class LoopConfig:
    """How steps are taken. A step is `batches_per_step` batches, whatever the number of ranks that share them."""

    budget: Budget
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    seed: int = 0  # of dropout
    precision: Literal["float32", "bf16"] = "float32"  # bf16: products in bfloat16, weights and optimizer in float32
    batches_per_step: int = 1
    batches_at_start: int = 1  # grows to batches_per_step ...
    batch_warmup: float = 0.0  # ... over this share of the run
    clip: float = 1.0  # the longest gradient there may be; inf for any
    max_sigma: float = 6.0  # a loss so far above the recent ones is a jump; inf for no such thing
    max_skips: int = 10  # steps skipped in a row that stop the run
    evaluate_every: int = 1000  # steps; 0 for at the end only
    save_every: int = 1000

    def __post_init__(self) -> None:
        for name, number in (("clip", self.clip), ("max_sigma", self.max_sigma), ("max_skips", self.max_skips)):
            if not number > 0:
                raise ValueError(f"{name} is {number}; it must be above 0.")
        for name, number in (("evaluate_every", self.evaluate_every), ("save_every", self.save_every)):
            if number < 0:
                raise ValueError(f"{name} is {number}; it is a number of steps, or 0 for at the end only.")
        if not 0 <= self.batch_warmup <= 1:
            raise ValueError(f"batch_warmup is {self.batch_warmup}; it is a share of the run, from 0 to 1.")
        if not 1 <= self.batches_at_start <= self.batches_per_step:
            raise ValueError(
                f"batches_at_start is {self.batches_at_start} and batches_per_step {self.batches_per_step}: "
                "a step grows, from at least 1."
            )


@dataclass
class State:
    """Where a run stands: beside the model's weights, all that is needed to go on as if it had never stopped."""

    optimizers: list[Optimizer]
    step: int = 0  # taken so far; so is the rest
    batches: int = 0
    tokens: int = 0
    seconds: float = 0.0
    place: tuple[int, int] = (0, 0)  # whoever draws the batches may note here where to go on; the loop does not look
    recent_losses: Tensor = field(default_factory=lambda: torch.full((NUM_RECENT,), math.nan))  # of steps not skipped
    num_skips: Tensor = field(default_factory=lambda: torch.zeros(()))  # in a row, up to now


@dataclass(frozen=True)
class Hooks:
    """What the loop calls without knowing it: on every rank, after the same step."""

    evaluate: Callable[[], Mapping[str, float]]  # figures under their names in the log: validation_loss ...
    save: Callable[[State], None]
    report: Callable[[Event], None]
    stop: Callable[[], bool]  # whether somebody has asked for the end; one rank that says so is enough
    clock: Callable[[], float]  # in seconds, from any zero


def fit(
    model: nn.Module,
    batches: Batches[Batch],
    loss: Loss[Batch],
    config: LoopConfig,
    state: State,
    ranks: Ranks,
    hooks: Hooks,
) -> Literal["finished", "stopped"]:
    """Train until the budget is used up or somebody asks to stop, evaluating and saving on the way; says which it was.

    ValueError if a batch does not fit into memory, found out before the first step, or if the loss is past mending.
    """
    state.recent_losses, state.num_skips = state.recent_losses.to(ranks.device), state.num_skips.to(ranks.device)
    if fraction_done(config.budget, state) < 1:
        _try_out(model, batches(state.batches), loss, config, state, ranks)
    begun = hooks.clock() - state.seconds  # what is compiled for the first batch is not in the run's minutes
    reporter = Reporter(hooks.report, lambda: hooks.clock() - begun, config.max_skips, state.tokens)
    while fraction_done(config.budget, state) < 1:
        turns = _deal(batches, config, state, ranks)
        totals = _agree(turns, hooks.stop(), hooks.clock() - begun, ranks)
        state.seconds = totals.seconds
        if totals.is_stopped:
            _save(state, hooks, reporter)
            return "stopped"
        set_share(state.optimizers, learning_rate_share(config, state))
        figures = _accumulate(model, turns, loss, config, totals, ranks)
        figures |= _judge_and_step(figures["loss"], config, state, ranks)
        state.step += 1
        state.batches += totals.num_batches
        state.tokens += totals.num_tokens
        reporter.hold({**place_of(state), "lr": state.optimizers[0].param_groups[0]["lr"]}, figures)
        is_over = fraction_done(config.budget, state) >= 1
        if is_over or _is_due(config.evaluate_every, state.step):
            _evaluate(state, hooks, reporter)
            model.train()
        if is_over or _is_due(config.save_every, state.step):
            _save(state, hooks, reporter)
    return "finished"


def fraction_done(budget: Budget, state: State) -> float:
    """How much of the budget is used up."""
    used = {"steps": state.step, "tokens": state.tokens, "minutes": state.seconds / 60}
    return used[budget.unit] / budget.amount


def learning_rate_share(config: LoopConfig, state: State) -> float:
    """The share of the peak learning rate for the next step."""
    if config.budget.unit == "steps":
        return share_at_step(config.schedule, state.step, int(config.budget.amount))
    return share_at_fraction(config.schedule, fraction_done(config.budget, state))


def num_batches(config: LoopConfig, state: State) -> int:
    """How many batches the next step takes."""
    done = fraction_done(config.budget, state)
    if done >= config.batch_warmup:
        return config.batches_per_step
    return config.batches_at_start + int(
        (config.batches_per_step - config.batches_at_start) * done / config.batch_warmup
    )


def _evaluate(state: State, hooks: Hooks, reporter: Reporter) -> None:
    reporter.report_held()
    reporter.tell({"event": "evaluate", **place_of(state), **hooks.evaluate()})


def _save(state: State, hooks: Hooks, reporter: Reporter) -> None:
    reporter.report_held()
    hooks.save(state)
    reporter.tell({"event": "save", **place_of(state)})


def place_of(state: State) -> dict[str, float]:
    """Where the run stands, as every event says it."""
    return {"step": state.step, "tokens": state.tokens, "seconds": state.seconds}


def _is_due(every: int, step: int) -> bool:
    return every > 0 and step % every == 0


class _Turn(NamedTuple, Generic[Batch]):
    """A batch for this rank to run."""

    number: int
    weight: float
    drawn: Drawn[Batch]


def _deal(batches: Batches[Batch], config: LoopConfig, state: State, ranks: Ranks) -> list[_Turn[Batch]]:
    """This rank's share of the next step: with n ranks, every n-th batch.

    Where they do not come out even, a rank runs the step's first batch with weight 0: ranks that exchange gradients
    must run equally often.
    """
    first, end = state.batches, state.batches + num_batches(config, state)
    numbers = [start + ranks.rank for start in range(first, end, ranks.count)]
    return [
        _Turn(number, 1.0, batches(number)) if number < end else _Turn(first, 0.0, batches(first)) for number in numbers
    ]


class _Totals(NamedTuple):
    """What a step holds on all ranks together."""

    is_stopped: bool
    seconds: float
    num_batches: int
    num_tokens: int
    num_targets: Mapping[str, int]


def _agree(turns: Sequence[_Turn[Batch]], stop: bool, seconds: float, ranks: Ranks) -> _Totals:
    """The same totals on every rank, before anything is computed: each knows only what it drew."""
    names = sorted(turns[0].drawn.num_targets)
    counts = [
        [turn.weight, turn.weight * turn.drawn.num_tokens]
        + [turn.weight * turn.drawn.num_targets[name] for name in names]
        for turn in turns
    ]
    mine = [sum(column) for column in zip(*counts, strict=True)]
    stops, seconds, batches, tokens, *targets = ranks.agree([stop, seconds / ranks.count, *mine])
    targets_of = {name: int(count) for name, count in zip(names, targets, strict=True)}
    return _Totals(stops > 0, seconds, int(batches), int(tokens), targets_of)


def _accumulate(
    model: nn.Module,
    turns: Sequence[_Turn[Batch]],
    loss: Loss[Batch],
    config: LoopConfig,
    totals: _Totals,
    ranks: Ranks,
) -> dict[str, Tensor]:
    """Leave in the weights the gradient of the step's mean loss over all ranks; its figures.

    Each objective is a mean over its targets in the whole step, so that it does not matter how they lie in batches.
    """
    figures: dict[str, Tensor] = {}
    for turn in turns:
        seed_draws(config.seed, turn.number, ranks.device)
        with gradients_exchanged(model, is_last=turn is turns[-1]):
            with torch.autocast(ranks.device.type, torch.bfloat16, enabled=config.precision == "bf16"):
                parts = loss(model, turn.drawn.batch)
            means = _means(parts, turn.weight, totals.num_targets)
            # Exchanging gradients takes their mean, and the sum is wanted.
            torch.autograd.backward(means["loss"] * ranks.count)
        for name, mean in means.items():
            figures[name] = figures.get(name, 0) + mean.detach()
    together = ranks.sum(torch.stack(list(figures.values())))
    return dict(zip(figures, together.unbind(), strict=True))


def _means(parts: Mapping[str, Part], weight: float, num_targets: Mapping[str, int]) -> dict[str, Tensor]:
    """What one batch adds to the step's figures: the loss to descend, and the loss and accuracy of each objective."""
    assert parts.keys() == num_targets.keys(), f"the loss is of {list(parts)}, the batch of {list(num_targets)}"
    scales = {name: weight / max(count, 1) for name, count in num_targets.items()}
    losses = {f"{name}_loss": part.loss.float() * scales[name] for name, part in parts.items()}
    accuracies = {
        f"{name}_accuracy": part.num_correct.float() * scales[name]
        for name, part in parts.items()
        if part.num_correct is not None
    }
    weighted = [losses[f"{name}_loss"] * part.weight for name, part in parts.items()]
    return {"loss": torch.stack(weighted).sum(), **losses, **accuracies}


def seed_draws(seed: int, number: int, device: torch.device) -> None:
    """Seed the generators that a pass draws from, as dropout does: torch has no other way to hand it one."""
    drawn = int(np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)[0])
    torch.default_generator.manual_seed(drawn)  # torch.manual_seed looks for devices that are not there, at 0.3 ms
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(drawn)


def _judge_and_step(loss: Tensor, config: LoopConfig, state: State, ranks: Ranks) -> dict[str, Tensor]:
    """Take the step, or none if the loss is not to be trusted: all of it on the device, the same on every rank."""
    norm = clip_gradients(state.optimizers, config.clip)
    is_bad = ~(loss.isfinite() & norm.isfinite()) | _is_jump(loss, state.recent_losses, config.max_sigma)
    skip = ranks.any(is_bad.float())
    _step(state.optimizers, skip)
    recent = state.recent_losses[state.step % NUM_RECENT]
    recent.copy_(torch.where(skip.bool(), recent, loss))
    state.num_skips = (state.num_skips + 1) * skip
    return {"gradient_norm": norm, "num_skips": state.num_skips}


def _is_jump(loss: Tensor, recent_losses: Tensor, max_sigma: float) -> Tensor:
    mean = recent_losses.nanmean()
    sigma = (recent_losses - mean).square().nanmean().sqrt().clamp(min=LEAST_SIGMA * mean.abs())
    is_known = recent_losses.isfinite().sum() >= NUM_ENOUGH
    return is_known & (loss > mean + max_sigma * sigma)


def _step(optimizers: Sequence[Optimizer], skip: Tensor) -> None:
    skip_where(optimizers, skip)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


def _try_out(
    model: nn.Module, drawn: Drawn[Batch], loss: Loss[Batch], config: LoopConfig, state: State, ranks: Ranks
) -> None:
    """Take all the memory a step takes and change nothing: what the optimizers will remember, then a batch, and if a
    step has several, a second one beside the first one's gradients."""
    totals = _Totals(False, 0.0, ranks.count, drawn.num_tokens * ranks.count, drawn.num_targets)
    turns = [_Turn(state.batches, 1.0, drawn)] * (2 if config.batches_per_step > ranks.count else 1)
    model.train()
    try:
        for parameter in trained(state.optimizers):
            parameter.grad = torch.zeros_like(parameter)
        _step(state.optimizers, torch.ones((), device=ranks.device))
        _accumulate(model, turns, loss, config, totals, ranks)
        for optimizer in state.optimizers:
            optimizer.zero_grad()
    except RuntimeError as error:
        # torch has a class for this on a GPU only; on the CPU there is the allocator's name.
        if not isinstance(error, torch.OutOfMemoryError) and "CPUAllocator" not in str(error):
            raise
        raise ValueError(
            f"One batch of {drawn.num_tokens:,} tokens does not fit into the memory of {ranks.device}. Let a step pass "
            "in more parts (--set batches_per_step=N, in fine-tuning --set parts=N), train in bf16 (--set "
            "precision=bf16), or have layers computed again (in pre-training, --set recompute=true)."
        ) from error
