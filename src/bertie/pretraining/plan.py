"""bertie plan: what a run will take, predicted from a network of one layer and one of two, and checked on the whole."""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from bertie.corpus.shards import open_corpus
from bertie.model.config import ModelConfig
from bertie.model.device import pick_device
from bertie.model.encoder import Batch
from bertie.model.heads import Model, initialise
from bertie.pretraining.drawing import Drawer, second_phase
from bertie.pretraining.recipe import Recipe, model_config
from bertie.pretraining.run import check_memory, choose_loss, loop_config, new_network
from bertie.text.wordpiece import Tokenizer
from bertie.training.distributed import Ranks, set_up_process
from bertie.training.loop import Budget, Drawn, Hooks, State, fit
from bertie.training.optimizers import make_optimizers, trained
from bertie.training.run_folder import peak_memory
from bertie.training.runlog import Event

NUM_STEPS = 8  # of a measurement, if they take no longer than ...
SECONDS = 20.0  # ... this, by the prediction; but no fewer than ...
FEWEST_STEPS = 3  # ... these


@dataclass(frozen=True)
class Needs:
    """What training takes: bytes of memory at the most, of the GPU or of the whole process; seconds a step."""

    memory: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What is predicted of a run, and what a short measurement says: None where none was wanted."""

    predicted: Needs
    measured: Needs | None
    num_parameters: int
    num_tokens: float  # of a step, on average
    num_steps: float

    @property
    def seconds(self) -> float:
        """Of the whole run, by what is known best."""
        return self.num_steps * (self.measured or self.predicted).seconds


def plan(recipe: Recipe, corpus_folder: Path, checks: bool, report: Callable[[int, int], None]) -> Plan:
    """The plan of a run on one device; if `checks`, some steps of the whole network are measured too."""
    set_up_process(recipe.threads, recipe.deterministic)
    device = pick_device(recipe.device)
    corpus, tokenizer = open_corpus(corpus_folder), Tokenizer.load(corpus_folder)
    config = model_config(recipe, tokenizer.size, tokenizer.pad_id)
    num_parameters = check_memory(recipe, config, device, num_ranks=1)
    trials = [_Trial(phase, Drawer(corpus.train, tokenizer, phase), device) for phase in _phases(recipe)]
    num_done, num_all = itertools.count(1), (2 + checks) * len(trials)

    def run(trial: _Trial, num_layers: int, num_steps: int) -> Needs:
        needs = trial.run(replace(config, num_layers=num_layers), num_steps)
        report(next(num_done), num_all)
        return needs

    small = [(run(trial, 1, NUM_STEPS), run(trial, 2, NUM_STEPS)) for trial in trials]
    predicted = [_extrapolate(one, two, config.num_layers) for one, two in small]
    measured = None
    if checks:
        limits = [max(FEWEST_STEPS, min(NUM_STEPS, int(SECONDS / needs.seconds))) for needs in predicted]
        needs = [run(trial, config.num_layers, limit) for trial, limit in zip(trials, limits, strict=True)]
        measured = _together(needs, recipe)
    num_tokens = recipe.loop.batches_per_step * _mean([trial.tokens_a_batch for trial in trials], recipe)
    budget, best = loop_config(recipe, corpus).budget, measured or _together(predicted, recipe)
    steps_of = {"steps": 1.0, "tokens": 1 / num_tokens, "minutes": 60 / best.seconds}
    num_steps = budget.amount * steps_of[budget.unit]
    return Plan(_together(predicted, recipe), measured, num_parameters, num_tokens, num_steps)


def _phases(recipe: Recipe) -> list[Recipe]:
    """A recipe for each phase, the one of longer sequences first: what a process took at the most only grows."""
    return [recipe] if recipe.long_length is None else [second_phase(recipe), recipe]


def _mean(figures: Sequence[float], recipe: Recipe) -> float:
    """Of figures for each of the phases, over all steps."""
    shares = [1.0] if recipe.long_length is None else [recipe.long_share, 1 - recipe.long_share]
    return sum(figure * share for figure, share in zip(figures, shares, strict=True))


def _together(needs: Sequence[Needs], recipe: Recipe) -> Needs:
    return Needs(max(one.memory for one in needs), _mean([one.seconds for one in needs], recipe))


def _extrapolate(one: Needs, two: Needs, num_layers: int) -> Needs:
    """What so many layers need if each needs what the second one added to the first."""
    more = num_layers - 1
    return Needs(
        one.memory + more * max(two.memory - one.memory, 0.0), one.seconds + more * max(two.seconds - one.seconds, 0.0)
    )


class _Trial:
    """Trains networks on one batch at a time, for a few steps each."""

    def __init__(self, recipe: Recipe, draw: Callable[[int], Drawn[Batch]], device: torch.device) -> None:
        self._recipe, self._device = recipe, device
        drawn = [draw(number) for number in range(NUM_STEPS)]
        self.tokens_a_batch = sum(one.num_tokens for one in drawn) / len(drawn)
        self._drawn = [replace(one, batch=one.batch.to(device)) for one in drawn]

    def run(self, config: ModelConfig, num_steps: int) -> Needs:
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        model = new_network(self._recipe, config, self._device)
        initialise(model, torch.Generator().manual_seed(0)).to(self._device)
        state = State(make_optimizers(model, self._recipe.optimizer))
        seconds, update = self._time_steps(model, state, num_steps), self._time_update(state)
        whole = self._recipe.loop.batches_per_step * max(seconds - update, 0.0) + update
        return Needs(peak_memory(self._device), whole)

    def _time_steps(self, model: Model, state: State, num_steps: int) -> float:
        """Seconds of the middling one of some steps of one batch each, taken by the loop that would train."""
        events: list[Event] = []
        loop = replace(self._recipe.loop, budget=Budget(num_steps), evaluate_every=0, save_every=0)
        loop = replace(loop, batches_per_step=1, batches_at_start=1)
        hooks = Hooks(dict, lambda state: None, events.append, lambda: False, time.monotonic)
        learn, ranks = choose_loss(self._recipe), Ranks(self._device)
        fit(model, lambda number: self._drawn[number % NUM_STEPS], learn, loop, state, ranks, hooks)
        begun = [float(event["seconds"]) for event in events if event["event"] in ("train", "skip")]
        return median(after - before for before, after in itertools.pairwise(begun))

    def _time_update(self, state: State) -> float:
        """Seconds of the optimizer's own work, which a step of several batches does once."""
        for parameter in trained(state.optimizers):
            parameter.grad = torch.zeros_like(parameter)
        begun = self._now()
        for optimizer in state.optimizers:
            optimizer.step()
        return self._now() - begun

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()
