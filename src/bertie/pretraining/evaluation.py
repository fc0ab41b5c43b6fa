"""How well a model does what it was pre-trained for, on sequences and masks that stay the same."""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from bertie.carried import model_folder
from bertie.corpus.shards import open_corpus
from bertie.model.device import pick_device
from bertie.model.encoder import Batch
from bertie.model.folder import load
from bertie.model.heads import Model
from bertie.pretraining.drawing import VALIDATION_SEED, validation_batches
from bertie.pretraining.objective import HEADS, Objective, loss
from bertie.pretraining.recipe import Recipe, read_recipe
from bertie.text.wordpiece import Tokenizer
from bertie.training.distributed import Ranks
from bertie.training.loop import Drawn, seed_draws
from bertie.training.run_folder import MODEL, RECIPE, read_card

logger = logging.getLogger(__name__)

Precision = Literal["float32", "bf16"]
Report = Callable[[int, int], None]  # batches done, batches in all


@dataclass(frozen=True)
class CorpusScores:
    """What a model scored on text that was held back, over so many sequences."""

    num_sequences: int
    scores: dict[str, float]


def evaluate_folder(
    folder: Path, corpus_folder: Path, device: str, precision: Precision, report: Report
) -> CorpusScores:
    """The scores of a run's model, on the sequences and masks of its log, or of any model folder, on Google's masks.

    Read is what the corpus holds back, or where it holds nothing back, all of it.
    """
    is_run = (folder / MODEL).is_dir()
    place = model_folder(folder)
    model, tokenizer = load(place), Tokenizer.load(place)
    corpus = open_corpus(corpus_folder, tokenizer.fingerprint)
    if not corpus.validation:
        logger.info("%s holds no text back: its training part is read.", corpus_folder)
    is_pretrained = is_run and read_card(folder).get("kind") == "pretrain"
    recipe = read_recipe(str(folder / RECIPE)) if is_pretrained else google_masks(model, place)
    if "replaced" in HEADS[recipe.objective]:
        recipe = replace(recipe, objective="masked")  # the other head is not in the model folder
    batches = validation_batches(corpus.validation or corpus.train, tokenizer, recipe)
    chosen = pick_device(device)
    found = evaluate(model.to(chosen), batches, precision, Ranks(chosen), report)
    scores = (
        {**found, "pseudo_perplexity": pseudo_perplexity(found["masked_loss"])} if "masked_loss" in found else found
    )
    return CorpusScores(sum(len(drawn.batch.starts_S) - 1 for drawn in batches), scores)


def google_masks(model: Model, place: Path) -> Recipe:
    """A recipe by which any models of one vocabulary can be compared: Google's masks and pairs, up to 128 tokens."""
    recipe, config, heads = read_recipe("faithful-base"), model.config, set(model.heads) & {"masked", "pair"}
    if not heads:
        raise ValueError(f"{place} has no head for masked words or pairs: a corpus has nothing to ask it.")
    has_pairs = "pair" in heads
    objective: Objective = "masked+pair" if len(heads) == 2 else "pair" if has_pairs else "masked"
    if config.attention == "causal":
        objective = "causal"
    kind: Literal["next_sentence", "sentence_order", "packed"] = "next_sentence" if has_pairs else "packed"
    if config.family == "albert" and has_pairs:
        kind = "sentence_order"
    pairs = replace(recipe.pairs, kind=kind, max_length=min(recipe.pairs.max_length, config.max_positions))
    return replace(recipe, objective=objective, pairs=pairs, long_length=None)


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    batches: Sequence[Drawn[Batch]],
    precision: Precision,
    ranks: Ranks,
    report: Report = lambda done, total: None,
) -> dict[str, float]:
    """The mean loss and the accuracy of each objective over all batches, and the sum of the losses; nothing where there
    is no batch. The ranks share the batches out, each running equally many."""
    model.eval()
    totals = dict.fromkeys((f"{name}_{what}" for name in _objectives(batches) for what in ("loss", "accuracy")), 0.0)
    for first in range(0, len(batches), ranks.count):
        index = first + ranks.rank
        drawn = batches[min(index, len(batches) - 1)]
        seed_draws(VALIDATION_SEED, index, ranks.device)  # words that the model puts in are drawn alike each time
        with torch.autocast(ranks.device.type, torch.bfloat16, enabled=precision == "bf16"):
            parts = loss(model, drawn.batch.to(ranks.device))
        for name, part in parts.items() if index < len(batches) else ():
            totals[f"{name}_loss"] += float(part.loss)
            totals[f"{name}_accuracy"] += float(_required(part.num_correct))
        report(index + 1, len(batches))
    sums = dict(zip(totals, ranks.agree(list(totals.values())), strict=True))
    counts = {name: sum(drawn.num_targets.get(name, 0) for drawn in batches) for name in _objectives(batches)}
    means = {name: total / max(counts[name.rpartition("_")[0]], 1) for name, total in sums.items()}
    whole = sum(mean for name, mean in means.items() if name.endswith("_loss"))
    return {"loss": whole, **means} if means else {}


def as_validation(figures: Mapping[str, float]) -> dict[str, float]:
    """The figures under their names in the log."""
    return {f"validation_{name}": figure for name, figure in figures.items()}


def pseudo_perplexity(masked_loss: float) -> float:
    """How many words a model hesitates between, on average, where one is masked."""
    return math.exp(min(masked_loss, 700.0))


def _objectives(batches: Sequence[Drawn[Batch]]) -> list[str]:
    return sorted({name for drawn in batches for name in drawn.num_targets})


def _required(count: Tensor | None) -> Tensor:
    assert count is not None
    return count
