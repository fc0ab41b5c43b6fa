"""bertie pretrain, from top to bottom: a corpus and a recipe in, a run folder with a model out."""

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import nn

from bertie.carried import model_folder
from bertie.config import to_toml
from bertie.corpus.build import VOCABULARY_CARD
from bertie.corpus.shards import META, Corpus, open_corpus
from bertie.model.config import ModelConfig
from bertie.model.device import pick_device
from bertie.model.encoder import Batch
from bertie.model.folder import load, num_classes, require_model, save
from bertie.model.heads import Model, initialise, zero_outputs
from bertie.model.kernels import best_kernels
from bertie.pretraining.drawing import Ahead, Drawer, Place, phases, second_phase, validation_batches
from bertie.pretraining.evaluation import as_validation, evaluate
from bertie.pretraining.objective import HEADS, loss
from bertie.pretraining.recipe import Recipe, longest, model_config, with_dropout
from bertie.sealed import sha256
from bertie.text.wordpiece import Tokenizer
from bertie.training.distributed import Ranks, bare, joined, set_up_process, spread, whole
from bertie.training.loop import Batches, Budget, Hooks, LoopConfig, Loss, Part, State, fit, fraction_done, place_of
from bertie.training.optimizers import make_optimizers
from bertie.training.resume import load_state, save_state, saying_what_is_left
from bertie.training.run_folder import LOG, MODEL, STATES, begin, made_with, peak_memory, read_card, write_card
from bertie.training.runlog import Event, RunLog, read_log
from bertie.training.stopping import Asked, asked_to_stop
from bertie.training.tensorboard import Board, load_writer

logger = logging.getLogger(__name__)
FLOAT32 = 4  # bytes
BYTES_A_WEIGHT = 4 * FLOAT32  # itself, its gradient and the two that Adam remembers


@dataclass(frozen=True)
class Order:
    """What to train on what, and where it goes."""

    recipe: Recipe
    corpus: Path
    out: Path
    resumes: bool = False
    allows_changes: bool = False  # going on by another recipe than the run was begun with
    has_board: bool = False  # TensorBoard's files too


class Ending(NamedTuple):
    """How a run ended: by itself, or by a signal. One that came when there was nothing more to stop is for what would
    come after the run."""

    outcome: Literal["finished", "stopped", "finished before"]
    signal: int | None = None


Watch = Callable[[Event, float], None]  # is told each event, and the share of the run that is done


def pretrain(order: Order, watch: Watch) -> Ending:
    """Train as ordered until the budget is used up or somebody asks to stop. Under torchrun, each rank calls it."""
    recipe = order.recipe
    set_up_process(recipe.threads, recipe.deterministic)
    with (
        joined(pick_device(recipe.device).type) as ranks,
        asked_to_stop() as asked,
        _begun(order, ranks) as parts,
    ):
        state = State(make_optimizers(parts.model, recipe.optimizer))
        was_saved = load_state(order.out / STATES, parts.model, state, ranks)
        loop = loop_config(recipe, parts.corpus)
        if fraction_done(loop.budget, state) >= 1 and read_card(order.out).get("steps") == state.step:
            logger.info("%s is finished, with step %s: there is nothing to go on with.", order.out, f"{state.step:,}")
            return Ending("finished before")
        if order.resumes and was_saved:
            logger.info("%s goes on after step %s.", order.out, f"{state.step:,}")
        elif order.resumes:
            logger.info("%s has nothing saved yet: the run begins with its first step.", order.out)
        batches, place = _batches(parts, loop, state)
        with closing(_Log(order, state, ranks, loop.budget, watch)) as log:
            if ranks.rank == 0:
                write_card(order.out, parts.card)
            if was_saved:
                log.write({"event": "resume", **place_of(state)})
            outcome = fit(
                parts.model, batches, choose_loss(recipe), loop, state, ranks, _hooks(parts, place, asked, log)
            )
            if outcome == "stopped":
                return Ending("stopped", asked())
            log.write({"event": "end", **place_of(state)})
        if ranks.rank == 0:
            figures = {**_final_figures(order.out), "peak_memory": peak_memory(ranks.device)}
            write_card(order.out, parts.card | figures)  # the last of all, by which a finished run is known
        return Ending("finished", asked())


@dataclass(frozen=True)
class _Parts:
    """What a run is made of, once it is known to be possible."""

    order: Order
    corpus: Corpus
    tokenizer: Tokenizer
    model: nn.Module  # as the ranks train it together
    card: dict[str, object]
    ranks: Ranks


@contextmanager
def _begun(order: Order, ranks: Ranks) -> Iterator[_Parts]:
    """The run folder made, and held against other processes as long as it is trained in."""
    if ranks.rank > 0:
        logging.getLogger("bertie").setLevel(logging.ERROR)
    recipe = order.recipe
    if order.has_board:
        load_writer()  # what is missing is said before anything is written
    if recipe.init:
        require_model(model_folder(recipe.init))
    corpus = open_corpus(order.corpus, Tokenizer.load(recipe.init).fingerprint if recipe.init else None)
    tokenizer = Tokenizer.load(order.corpus)
    if not recipe.init:
        check_memory(recipe, model_config(recipe, tokenizer.size, tokenizer.pad_id), ranks.device, ranks.count)
    model = make_model(recipe, tokenizer, ranks.device)
    with begin(order.out, to_toml(recipe), order.resumes, order.allows_changes, ranks):
        card = _first_card(order.corpus, corpus, model, ranks)
        known = read_card(order.out).get("corpus", card["corpus"])
        if known != card["corpus"]:
            raise ValueError(f"{order.out} was begun with another corpus ({known}): give that one, or begin a new run.")
        yield _Parts(order, corpus, tokenizer, spread(model, recipe.sharding, ranks), card, ranks)


def make_model(recipe: Recipe, tokenizer: Tokenizer, device: torch.device) -> Model:
    """The model that the recipe starts from, on the device: a new one, or the one to go on from."""
    generator = torch.Generator().manual_seed(recipe.loop.seed)
    if recipe.init:
        found = load(model_folder(recipe.init), HEADS[recipe.objective], generator)
        model = new_network(recipe, with_dropout(found.config, recipe.dropout), device)
        model.load_state_dict(found.state_dict(), assign=True)
    else:
        model = new_network(recipe, model_config(recipe, tokenizer.size, tokenizer.pad_id), device)
        initialise(model, generator)
        if recipe.zero_outputs:
            zero_outputs(model)
    return model.to(device)


def new_network(recipe: Recipe, config: ModelConfig, device: torch.device) -> Model:
    """A model of this shape as the recipe computes it on the device, its weights yet to be given, on the CPU;
    ValueError if the recipe's sequences are too long for it."""
    if longest(recipe) > config.max_positions:
        raise ValueError(
            f"the recipe has sequences of {longest(recipe)} tokens, the model {config.max_positions} positions: make "
            "max_length smaller, or choose another preset."
        )
    paths = (choose_attention(recipe, config, device), choose_kernels(recipe, config, device))
    model = Model(config, HEADS[recipe.objective], *paths)
    model.encoder.recomputes = recipe.recompute
    return model


def choose_loss(recipe: Recipe) -> Loss[Batch]:
    """From a model and a batch to what is learned; compiled with all that the model does, if the recipe says so."""

    def learn(model: nn.Module, batch: Batch) -> dict[str, Part]:
        return loss(model, batch, recipe.replaced_weight)

    compiled: Loss[Batch] = torch.compile(learn, dynamic=False) if recipe.compile else learn
    return compiled


def choose_attention(recipe: Recipe, config: ModelConfig, device: torch.device) -> Literal["plain", "sdpa", "varlen"]:
    """The path that the recipe names; on its `auto`, FlashAttention over flat tokens where there is such."""
    if recipe.attention != "auto":
        return recipe.attention
    is_fast = device.type == "cuda" and recipe.loop.precision == "bf16" and not config.attention_dropout
    return "varlen" if is_fast else "sdpa"


def choose_kernels(recipe: Recipe, config: ModelConfig, device: torch.device) -> Literal["plain", "fused"]:
    """Those that the recipe names; on its `auto`, the best ones there are that can do the rest of what it wants."""
    if recipe.kernels != "auto":
        return recipe.kernels
    if recipe.compile or recipe.recompute or recipe.sharding == "fsdp" or "replaced" in HEADS[recipe.objective]:
        return "plain"
    return best_kernels(config, device, recipe.loop.precision)


def loop_config(recipe: Recipe, corpus: Corpus) -> LoopConfig:
    """The recipe's loop, with passes over the corpus counted in tokens."""
    if recipe.epochs is None:
        return recipe.loop
    num_tokens = recipe.epochs * corpus.counts["train"]["tokens"]
    return replace(recipe.loop, budget=Budget(max(1, round(num_tokens)), "tokens"))


def check_memory(recipe: Recipe, config: ModelConfig, device: torch.device, num_ranks: int) -> int:
    """How many weights a model of this shape has; ValueError if they alone, with what the optimizer keeps of each, are
    more than the memory there is."""
    with torch.device("meta"):  # to be counted, not to take memory
        model = Model(config, HEADS[recipe.objective])
    number = sum(parameter.numel() for parameter in model.parameters())
    num_sharing = num_ranks if recipe.sharding == "fsdp" else 1
    needed = number * max(BYTES_A_WEIGHT / num_sharing, FLOAT32)  # each begins with all weights, then keeps its part
    is_gpu = device.type == "cuda"
    there = torch.cuda.mem_get_info(device)[1] if is_gpu else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise ValueError(
            f"preset {recipe.preset!r} needs {needed / 1e9:,.0f} GB for weights, gradients and the optimizer, "
            f"but {'the GPU' if is_gpu else 'this machine'} has {there / 1e9:,.0f} GB: choose a smaller preset."
        )
    return number


def _batches(parts: _Parts, loop: LoopConfig, state: State) -> tuple[Batches[Batch], Callable[[int], Place]]:
    """The batches of the run by their number, and the place in the corpus that a number is found from quickly."""
    recipe, ranks, here = parts.order.recipe, parts.ranks, Place(*state.place)
    first = Drawer(parts.corpus.train, parts.tokenizer, recipe, here)
    if recipe.long_length is None:
        return Ahead(first, ranks.count, ranks.device), first.place
    switch = int(loop.budget.amount * (1 - recipe.long_share)) * loop.batches_per_step
    second = Drawer(parts.corpus.train, parts.tokenizer, second_phase(recipe), here if state.batches > switch else None)

    def place(number: int) -> Place:
        return first.place(number) if number < switch else second.place(number - switch)

    return Ahead(phases(first, second, switch), ranks.count, ranks.device), place


class _Log:
    """Hands the first rank's events to log.jsonl and to whoever watches."""

    def __init__(self, order: Order, state: State, ranks: Ranks, budget: Budget, watch: Watch) -> None:
        self._writers: list[RunLog | Board] = []
        if ranks.rank == 0:
            self._writers.append(RunLog(order.out / LOG, state.step))
        if ranks.rank == 0 and order.has_board:
            self._writers.append(Board(order.out / "tensorboard", state.step))
        self._folder, self._state, self._budget, self._watch = order.out, state, budget, watch

    def write(self, event: Event) -> None:
        with saying_what_is_left(self._folder, self._folder / STATES):
            for writer in self._writers:
                writer.write(event)
        if self._writers:
            self._watch(event, min(1.0, fraction_done(self._budget, self._state)))

    def close(self) -> None:
        with saying_what_is_left(self._folder, self._folder / STATES):
            for writer in self._writers:
                writer.close()


def _hooks(parts: _Parts, place: Callable[[int], Place], asked: Asked, log: _Log) -> Hooks:
    out, recipe, model, ranks = parts.order.out, parts.order.recipe, parts.model, parts.ranks
    held_back = validation_batches(parts.corpus.validation, parts.tokenizer, recipe)
    if not held_back:
        logger.warning("%s has no validation part: the run is not evaluated.", parts.corpus.folder)

    def save_all(state: State) -> None:
        found = place(state.batches)
        state.place = (found.unit, found.batch)
        with saying_what_is_left(out / MODEL, out / STATES):
            _save_model(out / MODEL, bare(model), parts.tokenizer, ranks)
        save_state(out / STATES, model, state, ranks, recipe.keep)  # after the model, which nothing would write again

    return Hooks(
        evaluate=lambda: as_validation(evaluate(bare(model), held_back, recipe.loop.precision, ranks)),
        save=save_all,
        report=log.write,
        stop=lambda: asked() is not None,
        clock=time.monotonic,
    )


def _save_model(folder: Path, model: nn.Module, tokenizer: Tokenizer, ranks: Ranks) -> None:
    """Write the model folder from the first rank, the weights gathered from all, without the head that no other program
    has: the one that tells replaced words, which has done its work when the run ends."""
    assert isinstance(model, Model)
    weights = {name: whole(tensor.detach()).cpu() for name, tensor in model.state_dict().items()}
    if ranks.rank == 0:
        heads = {name: number for name, number in num_classes(model).items() if name != "replaced"}
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("heads.replaced.")}
        copy = Model(model.config, heads)
        copy.load_state_dict(weights, assign=True)
        save(folder, copy, tokenizer.files())


def _first_card(folder: Path, corpus: Corpus, model: Model, ranks: Ranks) -> dict[str, object]:
    return {
        "kind": "pretrain",
        "corpus": {"sha256": sha256(folder / META), "counts": corpus.counts},
        "text": read_card(folder),
        "vocabulary": read_card(folder, VOCABULARY_CARD),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "kernels": "plain" if model.encoder.kernels is None else "fused",
        "ranks": ranks.count,
        **made_with(ranks.device),
    }


def _final_figures(out: Path) -> dict[str, object]:
    """What the run came to, by its log."""
    events = read_log(out / LOG)
    last = {str(event["event"]): event for event in events}
    steps, tokens, seconds = (last["end"][name] for name in ("step", "tokens", "seconds"))
    assert isinstance(tokens, int) and isinstance(seconds, float)
    validation = {name: figure for name, figure in last.get("evaluate", {}).items() if name.startswith("validation_")}
    return {
        "steps": steps,
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "skipped_steps": sum(event["event"] == "skip" for event in events),
        **validation,
    }
