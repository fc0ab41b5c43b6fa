"""LoRA: beside matrices that stay as they are, products of two thin ones that learn; taken in and given back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertie.model.encoder import Encoder, Layer


@dataclass(frozen=True)
class Place:
    """Where a matrix stands in a layer: a module, and which of its equal parts of rows."""

    module: str
    part: int = 0
    num_parts: int = 1


MATRICES: Mapping[str, Place] = {
    "query": Place("attention.qkv", 0, 3),
    "key": Place("attention.qkv", 1, 3),
    "value": Place("attention.qkv", 2, 3),
    "attention_output": Place("attention.output"),
    "inner": Place("feed_forward.inner"),
    "output": Place("feed_forward.output"),
}


class LowRank(nn.Module):
    """A linear layer as it was, and for parts of its rows what `up` makes of what `down` makes of the input."""

    def __init__(self, linear: nn.Linear, parts: Mapping[str, tuple[int, int]], rank: int, scale: float) -> None:
        super().__init__()
        self.linear, self.parts, self.scale = linear, parts, scale
        device, dtype = linear.weight.device, linear.weight.dtype
        self.down = nn.ParameterDict(
            {name: torch.empty(rank, linear.in_features, device=device, dtype=dtype) for name in parts}
        )
        self.up = nn.ParameterDict(
            {name: torch.empty(end - start, rank, device=device, dtype=dtype) for name, (start, end) in parts.items()}
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        for name, (start, end) in self.parts.items():
            added = functional.linear(functional.linear(x, self.down[name]), self.up[name])
            out[..., start:end] += self.scale * added
        return out

    def merged(self) -> Tensor:
        """The one matrix that does the same."""
        weight = self.linear.weight.detach().clone()
        for name, (start, end) in self.parts.items():
            weight[start:end] += self.scale * (self.up[name] @ self.down[name]).detach()
        return weight


def add_lora(encoder: Encoder, names: Sequence[str], rank: int, alpha: float, generator: torch.Generator) -> None:
    """Put low-rank products beside the named matrices of every layer: they add nothing until they have learned."""
    for layer in encoder.layers:
        assert isinstance(layer, Layer)
        for module in sorted({MATRICES[name].module for name in names}):
            linear = layer.get_submodule(module)
            assert isinstance(linear, nn.Linear)
            chosen = {name: MATRICES[name] for name in names if MATRICES[name].module == module}
            parts = {name: _rows(linear.out_features, place) for name, place in chosen.items()}
            low_rank = LowRank(linear, parts, rank, alpha / rank)
            for name in parts:
                limit = linear.in_features**-0.5
                nn.init.uniform_(low_rank.down[name], -limit, limit, generator=generator)
                nn.init.zeros_(low_rank.up[name])
            owner, _, attribute = module.rpartition(".")
            setattr(layer.get_submodule(owner), attribute, low_rank)


def _rows(num_rows: int, place: Place) -> tuple[int, int]:
    size = num_rows // place.num_parts
    return place.part * size, (place.part + 1) * size


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """The state of the same model without any products beside its matrices: they are added into them."""
    state = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    for place, module in model.named_modules():
        if isinstance(module, LowRank):
            own = [name for name in state if name.startswith(f"{place}.")]
            kept = {name: state.pop(name) for name in own}
            state[f"{place}.weight"] = module.merged()
            if f"{place}.linear.bias" in kept:
                state[f"{place}.bias"] = kept[f"{place}.linear.bias"]
    return state
