"""Weights in the type that products read, beside the float32 ones that the optimizer steps."""

from collections.abc import Sequence

import torch
from torch import Tensor

VOCABULARY_STEP = 64  # rows; products of other sizes are several times slower


class Copies:
    """Room for the copies, made once; what is in it is copied anew each time it is asked for, in one pass: whether a
    weight has changed cannot be seen from outside, as fused optimizers leave no trace in every torch."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.copies: list[Tensor] = []
        self.places: list[int] = []

    @torch.no_grad()
    def of(self, parameters: Sequence[Tensor], num_padded: int) -> list[Tensor]:
        """The copies of these, always the same ones in the same order; the last num_padded with rows of zeros up to a
        multiple of VOCABULARY_STEP."""
        places = [parameter.data_ptr() for parameter in parameters]
        if places != self.places:
            first_padded = len(parameters) - num_padded
            self.copies = [
                torch.zeros(
                    _num_rows(len(one), index >= first_padded), *one.shape[1:], dtype=self.dtype, device=one.device
                )
                for index, one in enumerate(parameters)
            ]
            self.places = places
        targets = [copy[: len(one)] for copy, one in zip(self.copies, parameters, strict=True)]
        torch._foreach_copy_(targets, list(parameters))
        return self.copies


def _num_rows(count: int, is_padded: bool) -> int:
    return -(-count // VOCABULARY_STEP) * VOCABULARY_STEP if is_padded else count
