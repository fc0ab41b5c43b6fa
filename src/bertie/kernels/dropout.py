"""Which numbers dropout keeps, computed from place and seed: the backward pass finds them again, none is stored."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

# Odd, and spread the bits of what they multiply; kernels have them written out.
FIRST, SECOND, THIRD, FOURTH = 0x7FEB352D, 0x846CA68B, 0x9E3779B1, 0x85EBCA6B
MOST = 2**31 - 1


@dataclass(frozen=True)
class Drop:
    """How many numbers are dropped, which, and in a norm whether of what is added to the residual or of what the norm
    gives."""

    rate: float = 0.0
    seed: int = 0
    is_after: bool = False


@triton.jit
def is_kept(place, seed, dropped: tl.constexpr):
    """Whether each place is kept. The seed goes in twice, before a multiplication and after it, so that the masks of
    two seeds are not each other in another order."""
    seeds = (place * 0 + seed).to(tl.uint32, bitcast=True)
    bits = (place.to(tl.uint32, bitcast=True) ^ seeds) * 0x7FEB352D + (seeds * 0x9E3779B1 + 0x85EBCA6B)
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = (bits ^ (bits >> 16)) * 0x9E3779B1
    return bits >= int(dropped * 4294967296)


def kept(places: Tensor, seed: int, dropped: float) -> Tensor:
    """What `is_kept` gives, in torch: for tests."""
    word = 0xFFFFFFFF
    bits = (((places.long() ^ seed) & word) * FIRST + (seed * THIRD + FOURTH)) & word
    bits = ((bits ^ (bits >> 15)) * SECOND) & word
    bits = ((bits ^ (bits >> 16)) * THIRD) & word
    return bits >= int(dropped * 2**32)


def draw_seeds(count: int) -> list[int]:
    """Seeds from the generator that torch's own dropout on the CPU draws from: no device is asked for a number."""
    seeds: list[int] = torch.randint(MOST, (count,)).tolist()
    return seeds
