"""Attention over flat tokens: the paths by name."""

from collections.abc import Callable

from torch import Tensor

from bertie.kernels.plain import Pattern, plain

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, int, Pattern], Tensor]
PATHS: dict[str, Attend] = {"plain": plain, "sdpa": plain}


def attention_path(name: str) -> Attend:
    """The named path; ValueError for a name there is none of."""
    if name not in PATHS:
        raise ValueError(f"attention path {name!r} does not exist; allowed: {', '.join(PATHS)}.")
    return PATHS[name]
