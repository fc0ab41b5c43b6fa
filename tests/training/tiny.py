"""A run small enough to be killed, stopped, divided and compared in the tests; `python tiny.py WHAT ...` for those that
need processes of their own."""

import itertools
import math
import os
import random
import signal
import socket
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn

from bertie.training.distributed import Ranks, joined, spread
from bertie.training.loop import Budget, Drawn, Hooks, LoopConfig, Part, State, fit
from bertie.training.optimizers import OptimizerConfig, make_optimizers
from bertie.training.resume import load_state, save_state
from bertie.training.runlog import RunLog

NUM_WORDS, WIDTH = 13, 8
CPU = Ranks(torch.device("cpu"))
CONFIG = LoopConfig(budget=Budget(12), batches_per_step=2, batches_at_start=2, save_every=4, evaluate_every=0)


class Tiny(nn.Module):
    """Guesses the word three places on, and whether a batch's words are mostly low."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.words = nn.Embedding(NUM_WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 12), nn.Tanh(), nn.Dropout(0.1), nn.Linear(12, WIDTH)) for _ in range(2)
        )
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, NUM_WORDS)
        self.pair = nn.Linear(WIDTH, 2)

    def forward(self, ids_N):
        hidden_ND = self.words(ids_N)
        for layer in self.layers:
            hidden_ND = hidden_ND + layer(hidden_ND)
        hidden_ND = self.norm(hidden_ND)
        return self.head(hidden_ND), self.pair(hidden_ND.mean(0, keepdim=True))


def draw(number):
    """Batches of different sizes; every third has no pair."""
    rng = np.random.default_rng((7, number))
    ids_N = torch.from_numpy(rng.integers(0, NUM_WORDS, size=rng.integers(5, 20)))
    labels_N = (ids_N + 3) % NUM_WORDS
    pair_S = None if number % 3 == 2 else (ids_N.double().mean() < NUM_WORDS / 2).long()[None]
    return Drawn((ids_N, labels_N, pair_S), len(ids_N), {"masked": len(ids_N), "pair": 0 if pair_S is None else 1})


def draw_poisoned(poisoned):
    """The same batches, but those of these numbers lead to a loss that is not a number."""

    def draw_one(number):
        drawn = draw(number)
        ids_N, labels_N, pair_S = drawn.batch
        return replace(drawn, batch=(ids_N, labels_N * math.nan, pair_S)) if number in poisoned else drawn

    return draw_one


def loss(model, batch):
    ids_N, labels_N, pair_S = batch
    words_NV, pair_SC = model(ids_N)
    if labels_N.is_floating_point():
        words_NV, labels_N = words_NV * labels_N[:, None], ids_N
    masked = nn.functional.cross_entropy(words_NV, labels_N, reduction="sum")
    pair = pair_SC.sum() * 0 if pair_S is None else nn.functional.cross_entropy(pair_SC, pair_S, reduction="sum")
    return {"masked": Part(masked, (words_NV.argmax(1) == labels_N).sum()), "pair": Part(pair)}


def hooks(save=lambda state: None, report=lambda event: None, stop=lambda: False, clock=time.monotonic):
    return Hooks(lambda: {"validation_loss": 1.0}, save, report, stop, clock)


def stop_after(num_steps):
    """A person who asks for the end before the step after these."""
    asked = itertools.count()
    return lambda: next(asked) >= num_steps


def train(folder, config=CONFIG, ranks=CPU, sharding="ddp", rule="adamw", batches=draw, stop=lambda: False):
    """Train from what the folder holds; how it ended, the model and the state."""
    model = spread(Tiny(), sharding, ranks)
    state = State(make_optimizers(model, OptimizerConfig(rule=rule, lr=0.01)))
    load_state(folder / "state", model, state, ranks)

    def save(state):
        save_state(folder / "state", model, state, ranks, keep=2)

    with closing(RunLog(folder / f"log-{ranks.rank}.jsonl", state.step)) as log:
        outcome = fit(model, batches, loss, config, state, ranks, hooks(save, log.write, stop))
    return outcome, model, state


def kill_often(undisturbed, folder, seed, num_kills):
    """The run twice: in one go, and killed at random moments, saving included, and gone on with until it ends."""
    train(undisturbed / "first", KILLED)  # whatever torch prepares on first use
    begun = time.monotonic()
    train(undisturbed, KILLED)
    longest = (time.monotonic() - begun) / num_kills  # so that, on average, half of the run is done when kills end
    rng = random.Random(seed)
    for kill in range(num_kills + 1):
        child = os.fork()
        if child == 0:
            train(folder, KILLED)
            os._exit(0)
        if kill < num_kills:
            time.sleep(rng.uniform(0.0, longest))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        print("killed" if status == signal.SIGKILL else "ended" if status == 0 else "failed", flush=True)


KILLED = replace(CONFIG, budget=Budget(40), save_every=1)
DIVIDED = replace(
    CONFIG, batches_per_step=3, batches_at_start=3, save_every=0
)  # over 2 and 4 ranks, which does not come out even


def in_ranks(folder, count, sharding, rule, num_steps, poisoned):
    """Some steps of the run in processes that train together; this one only gives them what torchrun would."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ |= {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    children = []
    for rank in range(count):
        children.append(os.fork())
        if children[-1] == 0:
            os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
            with joined("cpu") as ranks:
                stop = stop_after(num_steps if rank == count - 1 else 1000)  # one that asks is enough
                train(folder, DIVIDED, ranks, sharding, rule, draw_poisoned(poisoned), stop)
            os._exit(0)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * count


def tensors(folder, step):
    return load_file(folder / "state" / f"step-{step}" / "state.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    what, *arguments = sys.argv[1:]
    if what == "kill":
        kill_often(Path(arguments[0]), Path(arguments[1]), int(arguments[2]), int(arguments[3]))
    import torch._dynamo  # which sharding imports, slowly: once for all, like torch itself

    for line in arguments if what == "ranks" else ():
        where, count, sharding, rule, num_steps, *poisoned = line.split()
        in_ranks(Path(where), int(count), sharding, rule, int(num_steps), [int(number) for number in poisoned])
