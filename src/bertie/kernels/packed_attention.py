"""Attention that reads queries, keys and values where the projection left them and writes their gradient in the same
place: nothing is copied, padded or kept but one number a row. Which kernels do it depends on the longest sequence."""

import torch
from torch import Tensor

from bertie.kernels.dropout import Drop
from bertie.kernels.long_attention import attend_backward_long, attend_long
from bertie.kernels.sequences import SHORT, Attended, Sequences
from bertie.kernels.short_attention import attend_backward_short, attend_short


def attend(qkv_N3HK: Tensor, sequences: Sequences, drop: Drop) -> Attended:
    """softmax(q k / sqrt(K)) v within each sequence, with dropout of the probabilities."""
    assert qkv_N3HK.is_contiguous()
    kernel = attend_short if sequences.max_length <= SHORT else attend_long
    return kernel(qkv_N3HK, sequences, drop)


def attend_backward(
    grad_NHK: Tensor, qkv_N3HK: Tensor, attended: Attended, sequences: Sequences, drop: Drop
) -> tuple[Tensor, Tensor]:
    """The gradient of qkv, from that of what `attend` gave; and its sum over the tokens (3 H K), that of a bias: 0 for
    the keys', which adds the same to all scores of a row."""
    assert grad_NHK.is_contiguous() and qkv_N3HK.is_contiguous()
    kernel = attend_backward_short if sequences.max_length <= SHORT else attend_backward_long
    qkv_grad_N3HK = kernel(grad_NHK, qkv_N3HK, attended, sequences, drop)
    # Summing in the kernels was slower by a fifth of the backward pass.
    query_D, value_D = (qkv_grad_N3HK[:, part].flatten(1).sum(0, dtype=torch.float32) for part in (0, 2))
    return qkv_grad_N3HK, torch.cat((query_D, torch.zeros_like(query_D), value_D))
