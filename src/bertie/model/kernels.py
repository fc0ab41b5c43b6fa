"""What computes a model in place of its plain modules, by name, and which of them a device has."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal, Protocol

import torch
from torch import Tensor, nn

from bertie.model.config import ModelConfig

LEAST_CAPABILITY = (9, 0)  # Hopper: the kernels load their blocks by its copy engine


class Kernels(Protocol):
    """What computes a model in place of its modules, out of their weights."""

    def encode(
        self, encoder: nn.Module, ids_3N: tuple[Tensor, Tensor, Tensor], starts_S: Tensor, max_length: int
    ) -> Tensor:
        """The last layer's output (N, D); the ids are those of words, positions and segments."""
        ...

    def masked_words(
        self, head: nn.Module, words_VE: Tensor, hidden_ND: Tensor, targets: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The sum of the masked words' losses and how many are guessed right; targets are tokens and their words."""
        ...


def kernels_by_name(name: str, config: ModelConfig) -> Kernels | None:
    """The named kernels, none for the plain modules; ValueError for a name or a model there are none for."""
    if name not in KERNELS:
        raise ValueError(f"kernels {name!r} do not exist; allowed: {', '.join(KERNELS)}.")
    return KERNELS[name](config)


def _plain(config: ModelConfig) -> None:
    return None


def _fused(config: ModelConfig) -> Kernels:
    if find_spec("triton") is None:
        raise ValueError("kernels 'fused' need triton, which torch brings for NVIDIA on Linux; use 'plain'.")
    from bertie.model.fused import Fused

    return Fused(config)


KERNELS: dict[str, Callable[[ModelConfig], Kernels | None]] = {"plain": _plain, "fused": _fused}


def best_kernels(config: ModelConfig, device: torch.device, precision: str) -> Literal["plain", "fused"]:
    """The fastest kernels for this model on this device: the fused ones where there are such, else the plain ones."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device) < LEAST_CAPABILITY or precision != "bf16":
        return "plain"
    try:
        kernels_by_name("fused", config)
    except ValueError:
        return "plain"
    return "fused"
