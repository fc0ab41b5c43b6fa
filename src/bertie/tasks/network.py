"""Rows -> batches -> losses and outputs: where a task meets the model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertie.model.encoder import Batch
from bertie.model.heads import Model, pool
from bertie.model.losses import (
    Loss,
    choice_loss,
    class_loss,
    cosine_loss,
    labels_loss,
    number_loss,
    ranking_loss,
    span_loss,
    tag_loss,
)
from bertie.tasks.embed import Embed
from bertie.tasks.task import NONE, Output, Row, Task
from bertie.training.loop import Part

BATCH_TOKENS = 8192  # of one pass without gradients: more gains nothing on a CPU and little on a GPU


@dataclass(frozen=True)
class Labelled:
    """A batch with what its rows are to say, in the head's own form, and where each row's sequences start: row b has
    those from starts_B[b] to starts_B[b + 1]."""

    batch: Batch
    targets: Tensor | None
    starts_B: Tensor
    num_targets: int
    read: Tensor | None = None  # what the heads read of the encoder, where that is known

    def to(self, device: torch.device) -> "Labelled":
        """The same on another device."""
        targets = None if self.targets is None else self.targets.to(device)
        read = None if self.read is None else self.read.to(device)
        return Labelled(self.batch.to(device), targets, self.starts_B.to(device), self.num_targets, read)


def pack_rows(rows: Sequence[Row], form: str) -> Labelled:
    """The rows as one batch, on the CPU; with targets if all of them have some."""
    batch = _flat(rows)
    starts_B = torch.tensor([0, *(len(row.ids) for row in rows)]).cumsum(0)
    states = [row.read for row in rows if row.read is not None]
    read = torch.from_numpy(np.concatenate(states, -2)) if len(states) == len(rows) else None
    known = [row.targets for row in rows if row.targets is not None]
    if len(known) < len(rows):
        return Labelled(batch, None, starts_B, 0, read)
    targets = SHAPES[form](known)
    is_learned = targets.isfinite() if targets.is_floating_point() else targets != NONE
    per_target = targets.shape[1] if form in ("span", "texts") else 1  # one target of several numbers
    return Labelled(batch, targets, starts_B, int(is_learned.sum()) // per_target, read)


def _flat(rows: Sequence[Row]) -> Batch:
    ids = [sequence for row in rows for sequence in row.ids]
    lengths_S = np.array([len(sequence) for sequence in ids])
    starts_S = np.concatenate(([0], lengths_S.cumsum()))
    return Batch(
        ids_N=torch.from_numpy(np.concatenate(ids)),
        segments_N=torch.from_numpy(np.concatenate([sequence for row in rows for sequence in row.segments])),
        positions_N=torch.from_numpy(np.arange(starts_S[-1]) - starts_S[:-1].repeat(lengths_S)),
        starts_S=torch.from_numpy(starts_S.astype(np.int32)),
        max_length=int(lengths_S.max()),
    )


def form_of(task: Task) -> str:
    """How the targets of a task are shaped: a class head has three uses, vectors have two."""
    if isinstance(task, Embed):
        return "cosine" if task.form == "scores" else "texts"
    forms = {"regression": "number", "multi_label_classification": "labels"}
    return forms.get(task.problem_type or "", task.head)


def heads_of(task: Task) -> dict[str, int]:
    """The heads of a task's model, as `Model` takes them."""
    return {} if isinstance(task, Embed) else {task.head: task.num_classes}


def outputs_of(model: nn.Module, task: Task, labelled: Labelled) -> Tensor:
    """What the task reads of the model: its head's logits, or each text's vector (S D)."""
    outputs = model(labelled.batch, labelled.read)
    if isinstance(task, Embed):
        return pool(outputs["hidden"], labelled.batch.starts_S, task.pooling)
    logits: Tensor = outputs[task.head]
    return logits


SHAPES: Mapping[str, Callable[[Sequence[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]], Tensor]] = {
    "class": lambda known: torch.from_numpy(np.concatenate(known)).long(),
    "choice": lambda known: torch.from_numpy(np.concatenate(known)).long(),
    "tag": lambda known: torch.from_numpy(np.concatenate(known)).long(),
    "span": lambda known: torch.from_numpy(np.stack(known)).long(),
    "number": lambda known: torch.from_numpy(np.concatenate(known)).float(),
    "cosine": lambda known: torch.from_numpy(np.concatenate(known)).float(),
    "texts": lambda known: torch.from_numpy(np.stack(known)).long(),
    "labels": lambda known: torch.from_numpy(np.stack(known)).float(),
}


def task_loss(task: Task, weights_C: Tensor | None = None) -> Callable[[nn.Module, Labelled], Mapping[str, Part]]:
    """The loss that training descends; with weights, each class counts by its own."""

    def loss(model: nn.Module, labelled: Labelled) -> dict[str, Part]:
        logits = outputs_of(model, task, labelled)
        if weights_C is not None:
            return {task.head: Part(_weighted(task, logits, labelled, weights_C.to(logits.device)))}
        return {task.head: Part(_loss_of(task, logits, labelled)[0])}

    return loss


def _loss_of(task: Task, logits: Tensor, labelled: Labelled) -> Loss:
    if isinstance(task, Embed) and task.form != "scores":
        return ranking_loss(logits, _targets(labelled), task.scale, task.negatives == "own")
    return LOSSES[form_of(task)](logits, labelled)


def _weighted(task: Task, logits_SC: Tensor, labelled: Labelled, weights_C: Tensor) -> Tensor:
    targets = _targets(labelled)
    if form_of(task) == "labels":
        return functional.binary_cross_entropy_with_logits(
            logits_SC.float(), targets, pos_weight=weights_C, reduction="sum"
        )
    return functional.cross_entropy(logits_SC.float(), targets, weights_C, reduction="sum")


def balanced_weights(task: Task, rows: Sequence[Row]) -> Tensor:
    """A weight for each class, such that all classes together weigh the same and the mean over the rows is 1; where a
    text may have several labels a weight for having each, such that having it and not having it weigh the same."""
    targets = [row.targets for row in rows if row.targets is not None]
    if form_of(task) == "labels":
        num_with = np.sum(targets, 0)
        ratios = np.divide(len(targets) - num_with, num_with, where=num_with > 0, out=np.ones(task.num_classes))
        return torch.from_numpy(np.maximum(ratios, 1 / len(targets))).float()  # of a label that all have, a little
    classes = np.concatenate(targets).astype(np.int64)
    counts = np.bincount(classes, minlength=task.num_classes)
    weights = np.divide(len(classes) / max(1, (counts > 0).sum()), counts, where=counts > 0, out=np.zeros(len(counts)))
    return torch.from_numpy(weights).float()


def _targets(labelled: Labelled) -> Tensor:
    assert labelled.targets is not None, "rows without targets are not learned from"
    return labelled.targets


LOSSES: Mapping[str, Callable[[Tensor, Labelled], Loss]] = {
    "class": lambda logits, labelled: class_loss(logits, _targets(labelled)),
    "number": lambda logits, labelled: number_loss(logits, _targets(labelled)),
    "cosine": lambda vectors, labelled: cosine_loss(vectors, _targets(labelled)),
    "labels": lambda logits, labelled: labels_loss(logits, _targets(labelled)),
    "tag": lambda logits, labelled: tag_loss(logits, _targets(labelled)),
    "span": lambda logits, labelled: span_loss(logits, labelled.batch.starts_S, _targets(labelled)),
    "choice": lambda logits, labelled: choice_loss(logits, labelled.starts_B, _targets(labelled)),
}


def by_length(rows: Sequence[Row]) -> Iterator[list[int]]:
    """The rows' numbers in groups of like length, each of about as many tokens as a pass takes."""
    waiting = sorted(range(len(rows)), key=lambda number: -rows[number].num_tokens)
    while waiting:
        count = max(1, BATCH_TOKENS // rows[waiting[0]].num_tokens)
        yield waiting[:count]
        waiting = waiting[count:]


class Judged:
    """The outputs of all rows, in order, and the mean loss over those that have targets; None if none has."""

    def __init__(self, num_rows: int) -> None:
        self._found: dict[int, Output] = {}
        self._sum, self._count, self._num_rows = 0.0, 0, num_rows

    def add(self, numbers: Sequence[int], outputs: Sequence[Output], loss: tuple[float, int]) -> None:
        self._found |= zip(numbers, outputs, strict=True)
        self._sum, self._count = self._sum + loss[0], self._count + loss[1]

    @property
    def outputs(self) -> list[Output]:
        return [self._found[number] for number in range(self._num_rows)]

    @property
    def loss(self) -> float | None:
        return self._sum / self._count if self._count else None


@torch.inference_mode()
def judge(model: nn.Module, task: Task, rows: Sequence[Row], device: torch.device, precision: str) -> Judged:
    """What the model, which is put into its state for this, says of the rows."""
    model.eval()
    judged = Judged(len(rows))
    for numbers in by_length(rows):
        chosen = [rows[number] for number in numbers]
        labelled = pack_rows(chosen, form_of(task)).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            logits = outputs_of(model, task, labelled)
        loss = (0.0, 0)
        if labelled.targets is not None:
            total, count = _loss_of(task, logits, labelled)
            loss = float(total), int(count)
        judged.add(numbers, _split(chosen, logits, task.head), loss)
    return judged


def features_size(model: Model, rows: Sequence[Row]) -> int:
    """How many bytes it takes to keep what the heads read of the encoder for all rows."""
    features, config = model.config.features, model.config
    num_layers = 1 if features is None else len(features.numbers(config.num_layers))
    return sum(row.num_tokens for row in rows) * num_layers * config.width * 4


@torch.inference_mode()
def with_features(model: Model, rows: Sequence[Row], device: torch.device, precision: str) -> list[Row]:
    """The rows with what the heads read of the encoder, which is put into its state for judging."""
    model.eval()
    found: dict[int, Row] = {}
    for numbers in by_length(rows):
        chosen = [rows[number] for number in numbers]
        batch = _flat(chosen).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
            read = model.read(batch).float().cpu().numpy()
        parts = np.split(read, np.cumsum([row.num_tokens for row in chosen])[:-1], -2)
        found |= {number: replace(rows[number], read=part) for number, part in zip(numbers, parts, strict=True)}
    return [found[number] for number in range(len(rows))]


def _split(rows: Sequence[Row], logits: Tensor, head: str) -> list[Output]:
    """Each row's part of the logits."""
    sizes = {
        "class": [1] * len(rows),
        "choice": [len(row.ids) for row in rows],
        "vector": [len(row.ids) for row in rows],
    }.get(head) or [row.num_tokens for row in rows]
    parts = np.split(logits.float().cpu().numpy(), np.cumsum(sizes)[:-1])
    return [Output(row, part[0] if head == "class" else part) for row, part in zip(rows, parts, strict=True)]
