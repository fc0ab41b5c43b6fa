"""Stretches of text -> what the model reads and what it is to guess -> the loss, for each thing there is to learn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertie.model.encoder import Batch
from bertie.model.losses import Loss, labels_loss, masked_loss, pair_loss
from bertie.pretraining.masking import UNUSED, Masked, MaskingConfig, Text, mask, most_masked, num_to_mask
from bertie.pretraining.pairs import NO_PAIR, Sequences
from bertie.training.loop import Drawn, Part

Ints = NDArray[np.int64]
Booleans = NDArray[np.bool_]

Objective = Literal["masked", "pair", "masked+pair", "masked+replaced", "causal"]
# The heads of each. `masked+replaced` asks besides which words of a text are the model's own: ELECTRA's question, with
# one network to put them in and to find them. `causal` is the paper's control: each word guessed from those before it,
# by the masked-word head.
HEADS: Mapping[Objective, Mapping[str, int]] = {
    "masked": {"masked": 0},
    "pair": {"pair": 0},
    "masked+pair": {"masked": 0, "pair": 0},
    "masked+replaced": {"masked": 0, "replaced": 0},
    "causal": {"masked": 0},
}


@dataclass(frozen=True)
class Specials:
    """The ids that a batch is put together with, and how many there are in all."""

    cls_id: int
    sep_id: int
    mask_id: int
    pad_id: int
    vocabulary_size: int


@dataclass(frozen=True)
class Slots:
    """The size of every batch, whatever is in it, so that a compiler sees one shape."""

    num_tokens: int
    num_sequences: int
    max_length: int


@dataclass(frozen=True)
class Rows:
    """Sequences as the model will read them, before anything is hidden."""

    text: Text
    segments_N: Ints
    labels_S: Ints  # of the pairs


def lay_out(tokens: Ints, goes_on: Booleans, sequences: Sequences, specials: Specials) -> Rows:
    """[CLS] A [SEP] B [SEP] for each sequence. `tokens` are those of its ranges, one after the other; `goes_on`: does
    the token go on with the word before it?"""
    firsts_R = np.zeros(len(sequences.starts_R), np.int64)
    firsts_R[sequences.firsts_S[:-1]] = 1
    lengths_R = sequences.ends_R - sequences.starts_R + 1 + firsts_R
    ends_R = np.cumsum(lengths_R)
    starts_S = np.append(0, ends_R)[sequences.firsts_S]
    ids_N = np.full(starts_S[-1], specials.sep_id, np.int64)
    is_special_N = np.zeros(len(ids_N), np.bool_)
    is_special_N[starts_S[:-1]] = is_special_N[ends_R - 1] = True
    ids_N[starts_S[:-1]] = specials.cls_id
    ids_N[~is_special_N] = tokens
    goes_on_N = np.zeros(len(ids_N), np.bool_)
    goes_on_N[~is_special_N] = goes_on
    nth_R = np.arange(len(lengths_R)) - np.repeat(sequences.firsts_S[:-1], np.diff(sequences.firsts_S))
    is_pair_R = np.repeat(sequences.labels_S != NO_PAIR, np.diff(sequences.firsts_S))
    segments_N = np.repeat(nth_R * is_pair_R, lengths_R)
    return Rows(Text(ids_N, starts_S, is_special_N, goes_on_N), segments_N, sequences.labels_S)


def make_batch(
    rows: Rows,
    objective: Objective,
    masking: MaskingConfig,
    specials: Specials,
    slots: Slots | None,
    rng: np.random.Generator,
) -> Drawn[Batch]:
    """The batch, on the CPU, with what it holds counted. Without slots it is as large as what is in it."""
    text = rows.text
    lengths_S = np.diff(text.starts_S)
    hidden: Masked | None = None
    if objective == "causal":
        hidden = _guess_next(text, slots.num_tokens if slots else len(text.ids_N) - len(lengths_S))
    elif objective != "pair":
        num_slots = (
            most_masked(slots.num_tokens, slots.num_sequences, masking)
            if slots
            else int(num_to_mask(lengths_S, masking).sum())
        )
        hidden = mask(text, masking, specials.mask_id, specials.vocabulary_size, num_slots, rng)
    has_pairs = "pair" in HEADS[objective]
    num_targets = {} if hidden is None else {"masked": int((hidden.labels_M != UNUSED).sum())}
    if has_pairs:
        num_targets["pair"] = int((rows.labels_S != NO_PAIR).sum())
    if "replaced" in HEADS[objective]:
        num_targets["replaced"] = len(text.ids_N)
    ids_N = text.ids_N if hidden is None else hidden.ids_N
    starts_S, num_fill = _filled_starts(text.starts_S, slots)
    positions_N = np.arange(starts_S[-1]) - np.repeat(starts_S[:-1], np.diff(starts_S))
    num_unused = len(starts_S) - 1 - len(lengths_S)
    batch = Batch(
        ids_N=torch.from_numpy(np.pad(ids_N, (0, num_fill), constant_values=specials.pad_id)),
        segments_N=torch.from_numpy(np.pad(rows.segments_N, (0, num_fill))),
        positions_N=torch.from_numpy(positions_N),
        starts_S=torch.from_numpy(starts_S.astype(np.int32)),
        max_length=slots.max_length if slots else int(lengths_S.max()),
        masked_M=None if hidden is None else torch.from_numpy(hidden.masked_M),
        labels_M=None if hidden is None else torch.from_numpy(hidden.labels_M),
        pair_S=torch.from_numpy(np.pad(rows.labels_S, (0, num_unused), constant_values=NO_PAIR)) if has_pairs else None,
    )
    return Drawn(batch, len(ids_N), num_targets)


def num_fillers(num_tokens: int, max_length: int) -> int:
    """The sequences that so many tokens of nothing make up."""
    return -(-num_tokens // max_length)


def loss(model: nn.Module, batch: Batch, replaced_weight: float = 1.0) -> dict[str, Part]:
    """What the model makes of the batch, by objective."""
    outputs: Mapping[str, Tensor] = model(batch)
    parts: dict[str, Part] = {}
    if "masked_loss" in outputs:
        parts["masked"] = Part(outputs["masked_loss"], outputs["masked_correct"])
    elif batch.labels_M is not None:
        parts["masked"] = _part(masked_loss, outputs["masked"], batch.labels_M)
    if batch.pair_S is not None:
        parts["pair"] = _part(pair_loss, outputs["pair"], batch.pair_S)
    if "replaced" in outputs:
        logits_N, labels_N = outputs["replaced"].squeeze(-1), outputs["is_replaced"]
        total, _ = labels_loss(logits_N, labels_N)
        parts["replaced"] = Part(total, ((logits_N > 0).float() == labels_N).sum(), replaced_weight)
    return parts


def _part(loss_of: Callable[[Tensor, Tensor], Loss], logits: Tensor, labels: Tensor) -> Part:
    total, _ = loss_of(logits, labels)
    return Part(total, (logits.argmax(-1) == labels).sum())


def _guess_next(text: Text, num_slots: int) -> Masked:
    """Nothing is hidden; each token but a sequence's last is to guess the one after it."""
    is_last_N = np.zeros(len(text.ids_N), np.bool_)
    is_last_N[text.starts_S[1:] - 1] = True
    positions = np.flatnonzero(~is_last_N)
    masked_M, labels_M = np.zeros(num_slots, np.int64), np.full(num_slots, UNUSED, np.int64)
    masked_M[: len(positions)], labels_M[: len(positions)] = positions, text.ids_N[positions + 1]
    return Masked(text.ids_N, masked_M, labels_M)


def _filled_starts(starts_S: Ints, slots: Slots | None) -> tuple[Ints, int]:
    """Where all the sequences start once the batch is filled up, and by how many tokens it is."""
    if slots is None:
        return starts_S, 0
    num_tokens = int(starts_S[-1])
    fillers = np.arange(num_tokens, slots.num_tokens, slots.max_length) + slots.max_length
    filled = np.append(starts_S, np.minimum(fillers, slots.num_tokens))
    num_unused = slots.num_sequences + 1 - len(filled)
    assert filled[-1] == slots.num_tokens and num_unused >= 0, "more sequences than there are slots"
    return np.pad(filled, (0, num_unused), constant_values=slots.num_tokens), slots.num_tokens - num_tokens
