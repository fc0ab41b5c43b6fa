"""What the attention kernels share: where sequences lie, what the forward pass leaves for the backward one."""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

SHORT = 128  # a whole sequence fits into one block up to this length


@dataclass(frozen=True)
class Sequences:
    """Where the sequences of a batch start, and that none is longer than max_length."""

    starts_S: Tensor
    max_length: int

    @property
    def count(self) -> int:
        return len(self.starts_S) - 1

    @property
    def block(self) -> int:
        """Tokens of a sequence that are computed together."""
        return min(max(1 << (self.max_length - 1).bit_length(), 16), SHORT)

    @property
    def num_blocks(self) -> int:
        """Of the longest sequence."""
        return -(-self.max_length // self.block)

    @property
    def num_keys(self) -> int:
        """By which pairs of a query and a key are numbered, for dropout."""
        return self.block * self.num_blocks


@dataclass(frozen=True)
class Attended:
    """What each token gathers, and what the backward pass needs."""

    out_NHK: Tensor
    scale_HN: Tensor  # logarithm to base 2 of what each row of the softmax was divided by


@functools.cache
def num_processors(device: torch.device) -> int:
    """Of the device, each of which runs a few programs at a time."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 4
