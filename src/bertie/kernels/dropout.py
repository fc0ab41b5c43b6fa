"""Which numbers dropout keeps, computed from place and seed: the backward pass finds them again, none is stored."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

FIRST, SECOND, THIRD = 0x7FEB352D, 0x846CA68B, 0x9E3779B1  # odd, and spread the bits of what they multiply
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
    """Whether each place is kept. The seed goes in twice, between two mixings, so that the masks of two seeds are not
    each other in another order."""
    seeds = place * 0 + seed
    bits = (place ^ seeds).to(tl.uint32, bitcast=True)
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    bits = (bits ^ (bits >> 16)) + seeds.to(tl.uint32, bitcast=True) * 0x9E3779B1
    bits = (bits ^ (bits >> 15)) * 0x7FEB352D
    bits = bits ^ (bits >> 16)
    return (bits >> 8).to(tl.int32) >= int(dropped * 16777216)


def kept(places: Tensor, seed: int, dropped: float) -> Tensor:
    """What `is_kept` gives, in torch: for tests."""
    word = 0xFFFFFFFF
    bits = (places.long() ^ seed) & word
    bits = ((bits ^ (bits >> 16)) * FIRST) & word
    bits = ((bits ^ (bits >> 15)) * SECOND) & word
    bits = ((bits ^ (bits >> 16)) + seed * THIRD) & word
    bits = ((bits ^ (bits >> 15)) * FIRST) & word
    bits = bits ^ (bits >> 16)
    return (bits >> 8) >= int(dropped * 2**24)


def draw_seeds(count: int) -> list[int]:
    """Seeds from the generator that torch's own dropout on the CPU draws from: no device is asked for a number."""
    seeds: list[int] = torch.randint(MOST, (count,)).tolist()
    return seeds
