"""Several layers -> what the heads read: summed, side by side or mixed, then perhaps through a BiLSTM."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from bertie.model.config import Features, ModelConfig

NUM_LSTM_LAYERS = 2


class Mixed(nn.Module):
    """layers_LND, starts_S -> features_ND."""

    def __init__(self, config: ModelConfig, features: Features) -> None:
        super().__init__()
        how, _, _ = features.layers.partition("_")
        self.combine = COMBINATIONS[how if how in COMBINATIONS else "one"]
        self.is_stream = config.norm == "before"  # what layers pass on then grows from each to the next
        if how == "mix":
            self.weights = nn.Parameter(torch.empty(len(features.numbers(config.num_layers))))
            self.scale = nn.Parameter(torch.empty(1))
        self.lstm: nn.LSTM | None = None
        if features.lstm_width:
            self.lstm = nn.LSTM(
                config.mixed_width,
                features.lstm_width,
                num_layers=NUM_LSTM_LAYERS,
                bidirectional=True,
                dropout=config.dropout,
            )

    def forward(self, layers_LND: Tensor, starts_S: Tensor) -> Tensor:
        if self.is_stream:
            layers_LND = functional.layer_norm(layers_LND, layers_LND.shape[-1:])
        mixed_ND = self.combine(self, layers_LND)
        return mixed_ND if self.lstm is None else _through(self.lstm, mixed_ND, starts_S)


def _one(mixed: Mixed, layers_LND: Tensor) -> Tensor:
    return layers_LND[0]


def _sum(mixed: Mixed, layers_LND: Tensor) -> Tensor:
    return layers_LND.sum(0)


def _side_by_side(mixed: Mixed, layers_LND: Tensor) -> Tensor:
    return layers_LND.movedim(0, 1).flatten(1)


def _mix(mixed: Mixed, layers_LND: Tensor) -> Tensor:
    """As ELMo: weights that sum to 1, and a scale for the whole."""
    return mixed.scale * torch.einsum("l,lnd->nd", mixed.weights.softmax(0).to(layers_LND.dtype), layers_LND)


COMBINATIONS: Mapping[str, Callable[[Mixed, Tensor], Tensor]] = {
    "one": _one,
    "sum": _sum,
    "concat": _side_by_side,
    "mix": _mix,
}


def _through(lstm: nn.LSTM, mixed_ND: Tensor, starts_S: Tensor) -> Tensor:
    sequences = [mixed_ND[start:end] for start, end in pairwise(starts_S.tolist()) if end > start]
    read, _ = lstm(pack_sequence(sequences, enforce_sorted=False))
    return torch.cat(unpack_sequence(read))


def draw_feature_values(module: nn.Module, name: str, parameter: nn.Parameter, generator: torch.Generator) -> None:
    """Initial values: all layers weigh the same; an LSTM's are uniform, as torch has them."""
    if isinstance(module, nn.LSTM):
        limit = module.hidden_size**-0.5
        nn.init.uniform_(parameter, -limit, limit, generator=generator)
    else:
        nn.init.constant_(parameter, 1.0 if name == "scale" else 0.0)
