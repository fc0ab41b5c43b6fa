"""Matrices as whole numbers of 8 bits with a scale for each row: a fourth of float32, and for reading back only."""

from collections.abc import Mapping

import torch
from torch import Tensor

SCALES = ".scales"
MOST = 127


def to_rows8(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with each matrix of fractions as int8, its rows' scales beside it; vectors stay as they are."""
    packed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim != 2 or not tensor.is_floating_point():
            packed[name] = tensor
            continue
        rows_RC = tensor.detach().float()
        scales_R = rows_RC.abs().amax(1) / MOST
        # A row of zeros has no scale: any will do.
        packed[name] = (rows_RC / scales_R.where(scales_R > 0, 1.0)[:, None]).round().to(torch.int8)
        packed[name + SCALES] = scales_R
    return packed


def from_rows8(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as float32; ValueError for a matrix whose scales are missing, or not one a row."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in packed.items():
        if name.endswith(SCALES):
            continue
        if tensor.dtype != torch.int8:
            tensors[name] = tensor.float() if tensor.is_floating_point() else tensor
            continue
        scales_R = packed.get(name + SCALES)
        if scales_R is None or scales_R.shape != tensor.shape[:1]:
            raise ValueError(f"{name} is in 8 bits, but {name}{SCALES} is missing or not one number a row.")
        tensors[name] = tensor.float() * scales_R.float()[:, None]
    return tensors
