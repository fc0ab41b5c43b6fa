"""bertie plan: what a run will take, predicted from a network of one layer and one of two, and checked on the whole."""

import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch

from bertie.corpus.shards import open_corpus
from bertie.model.config import ModelConfig
from bertie.model.device import pick_device
from bertie.model.encoder import Batch
from bertie.model.heads import Model, initialise
from bertie.pretraining.drawing import Drawer
from bertie.pretraining.objective import HEADS, loss
from bertie.pretraining.recipe import Recipe, model_config
from bertie.pretraining.run import check_memory, choose_attention, loop_config, set_up_process
from bertie.text.wordpiece import Tokenizer
from bertie.training.distributed import Ranks
from bertie.training.loop import Budget, Drawn, Hooks, State, fit
from bertie.training.optimizers import make_optimizers, trained
from bertie.training.runlog import Event

NUM_STEPS = 8  # of a measurement, if they take no longer than ...
SECONDS = 20.0  # ... this, by the prediction; but no fewer than ...
FEWEST_STEPS = 3  # ... these
STATM = Path("/proc/self/statm")  # what Linux says of the process's memory


@dataclass(frozen=True)
class Needs:
    """What training takes: bytes of memory at the most, the text not counted; seconds a step."""

    memory: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What is predicted of a run, and what a short measurement says: None where none was wanted."""

    predicted: Needs
    measured: Needs | None
    num_parameters: int
    num_tokens: float  # of a step
    num_steps: float

    @property
    def seconds(self) -> float:
        """Of the whole run, by what is known best."""
        return self.num_steps * (self.measured or self.predicted).seconds


def plan(recipe: Recipe, corpus_folder: Path, checks: bool, report: Callable[[int, int], None]) -> Plan:
    """The plan of a run on one device; if `checks`, some steps of the whole network are measured too."""
    set_up_process(recipe)
    device = pick_device(recipe.device)
    corpus, tokenizer = open_corpus(corpus_folder), Tokenizer.load(corpus_folder)
    config = model_config(recipe, tokenizer.size, tokenizer.pad_id)
    whole = Model(config, HEADS[recipe.objective])
    check_memory(recipe, whole, device)
    num_parameters = sum(parameter.numel() for parameter in whole.parameters())
    trial = _Trial(recipe, Drawer(corpus.train, tokenizer, recipe), device)
    one = trial.run(replace(config, num_layers=1), NUM_STEPS)
    report(1, 2 + checks)
    two = trial.run(replace(config, num_layers=2), NUM_STEPS)
    report(2, 2 + checks)
    predicted = _extrapolate(one, two, config.num_layers)
    measured = None
    if checks:
        measured = trial.run(config, max(FEWEST_STEPS, min(NUM_STEPS, int(SECONDS / predicted.seconds))))
        report(3, 3)
    num_tokens = recipe.loop.batches_per_step * trial.tokens_a_batch
    budget = loop_config(recipe, corpus).budget
    best = measured or predicted
    steps_of = {"steps": 1.0, "tokens": 1 / num_tokens, "minutes": 60 / best.seconds}
    return Plan(predicted, measured, num_parameters, num_tokens, budget.amount * steps_of[budget.unit])


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
        self._before = self._memory(at_most=False)

    def run(self, config: ModelConfig, num_steps: int) -> Needs:
        attention = choose_attention(self._recipe, config, self._device)
        model = Model(config, HEADS[self._recipe.objective], attention)
        model.encoder.recomputes = self._recipe.recompute
        initialise(model, torch.Generator().manual_seed(0)).to(self._device)
        state = State(make_optimizers(model, self._recipe.optimizer))
        seconds, update = self._time_steps(model, state, num_steps), self._time_update(state)
        whole = self._recipe.loop.batches_per_step * max(seconds - update, 0.0) + update
        return Needs(self._memory(at_most=True) - self._before, whole)

    def _time_steps(self, model: Model, state: State, num_steps: int) -> float:
        """Seconds of the middling one of some steps of one batch each, taken by the loop that would train."""
        events: list[Event] = []
        loop = replace(self._recipe.loop, budget=Budget(num_steps), evaluate_every=0, save_every=0)
        loop = replace(loop, batches_per_step=1, batches_at_start=1)
        hooks = Hooks(dict, lambda state: None, events.append, lambda: False, time.monotonic)
        fit(model, lambda number: self._drawn[number % NUM_STEPS], loss, loop, state, Ranks(self._device), hooks)
        begun = [float(event["seconds"]) for event in events if event["event"] in ("train", "skip")]
        return median(after - before for before, after in pairwise(begun))

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

    def _memory(self, at_most: bool) -> float:
        """Bytes in use, now or at the most: of the GPU since this was last asked, else of the whole process."""
        if self._device.type == "cuda":
            used = torch.cuda.max_memory_allocated() if at_most else torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            return float(used)
        if at_most or not STATM.exists():
            unit = 1 if sys.platform == "darwin" else 1024
            return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
        return float(int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
