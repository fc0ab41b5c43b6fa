"""How well a model does what it was pre-trained for, on sequences and masks that stay the same."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from bertie.model.encoder import Batch
from bertie.pretraining.objective import loss
from bertie.training.distributed import Ranks
from bertie.training.loop import Drawn


@torch.inference_mode()
def evaluate(
    model: nn.Module, batches: Sequence[Drawn[Batch]], precision: Literal["float32", "bf16"], ranks: Ranks
) -> dict[str, float]:
    """The mean loss and the accuracy of each objective over all batches, and the sum of the losses; nothing where there
    is no batch. The ranks share the batches out, each running equally many."""
    model.eval()
    totals = dict.fromkeys((f"{name}_{what}" for name in _objectives(batches) for what in ("loss", "accuracy")), 0.0)
    for first in range(0, len(batches), ranks.count):
        index = first + ranks.rank
        drawn = batches[min(index, len(batches) - 1)]
        with torch.autocast(ranks.device.type, torch.bfloat16, enabled=precision == "bf16"):
            parts = loss(model, drawn.batch.to(ranks.device))
        for name, part in parts.items() if index < len(batches) else ():
            totals[f"{name}_loss"] += float(part.loss)
            totals[f"{name}_accuracy"] += float(_required(part.num_correct))
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
