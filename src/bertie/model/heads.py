"""hidden -> logits: the heads as each family has them, pooling, and the whole model with its initial values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertie.kernels.plain import sequence_of_tokens
from bertie.model.config import ModelConfig
from bertie.model.encoder import Batch, Encoder, Layer
from bertie.model.features import Mixed, draw_feature_values
from bertie.model.losses import NONE

# Heads whose number of outputs is given by what they are; the others ("class", "tag") are told their classes.
NUM_OUTPUTS = {"masked": 0, "pooler": 0, "pair": 2, "span": 2, "choice": 1, "replaced": 1}
HEADS = (*NUM_OUTPUTS, "class", "tag")


class Model(nn.Module):
    """An encoder and its heads. `heads` says which: {"masked": 0, "pair": 0, "class": 3}, the number being that of the
    classes for "class" and "tag" and 0 for the rest. Born without values (on the meta device): `initialise` draws them,
    `load_state_dict(state, assign=True)` takes them. `kernels`: "plain" or, for bfloat16 on a GPU, "fused"."""

    def __init__(
        self, config: ModelConfig, heads: Mapping[str, int], attention: str = "sdpa", kernels: str = "plain"
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, attention, kernels)
        self.shapes = {name: head_shape(config, name, num_classes) for name, num_classes in heads.items()}
        with torch.device("meta"):
            modules = {name: _build(config, shape) for name, shape in self.shapes.items()}
            if any(shape.reads == "pooler" for shape in self.shapes.values()) and "pooler" not in modules:
                modules = {"pooler": Pooler(config), **modules}
            if config.features is not None and modules:
                modules = {"features": Mixed(config, config.features), **modules}
        self.heads = nn.ModuleDict(modules)

    def read(self, batch: Batch) -> Tensor:
        """What the heads read of the encoder: its last layer (N D), or those that config.features names (L N D)."""
        features = self.config.features
        if features is None:
            hidden_ND: Tensor = self.encoder(batch)
            return hidden_ND
        return self.encoder.layer_outputs(batch, features.numbers(self.config.num_layers))

    def forward(self, batch: Batch, read: Tensor | None = None) -> dict[str, Tensor]:
        """The hidden states, or the features in their place ("hidden", N D), and each head's logits under its name:
        "masked" (M V) where the batch names positions, "pair" and "class" (S C), "choice" (S), "tag" (N C), "span"
        (N 2), "pooler" (S D). With fused kernels and labels in the batch, "masked_loss" (a sum) and "masked_correct" (a
        count) stand in place of "masked": the logits are written over. "replaced" (N 1), where the batch has labels, is
        of the text with words of the model's own in the masked places, and "is_replaced" (N) what is right. `read`:
        what `read` gives for the batch, where that is known already."""
        hidden_ND = self.read(batch) if read is None else read
        if "features" in self.heads:
            hidden_ND = self.heads["features"](hidden_ND, batch.starts_S)
        outputs = {"hidden": hidden_ND}
        if "pooler" in self.heads:
            outputs["pooler"] = self.heads["pooler"](pool(hidden_ND, batch.starts_S, "cls"))
        words_VE, kernels = self.encoder.embeddings.words.weight, self.encoder.kernels
        if "masked" in self.heads and kernels and batch.masked_M is not None and batch.labels_M is not None:
            targets = (batch.masked_M, batch.labels_M)
            scored = kernels.masked_words(self.heads["masked"], words_VE, hidden_ND, targets)
            outputs["masked_loss"], outputs["masked_correct"] = scored
        elif "masked" in self.heads and batch.masked_M is not None:
            outputs["masked"] = self.heads["masked"](hidden_ND.index_select(0, batch.masked_M), words_VE)
        for name, shape in self.shapes.items():
            if name in ("masked", "pooler", "replaced"):
                continue
            if shape.reads == "tokens":
                read = hidden_ND
            elif shape.reads == "pooler":
                read = outputs["pooler"]
            else:
                read = pool(hidden_ND, batch.starts_S, shape.reads)
            logits = self.heads[name](read)
            outputs[name] = logits.squeeze(-1) if name == "choice" else logits
        if "replaced" in self.heads and batch.labels_M is not None:
            outputs["replaced"], outputs["is_replaced"] = self._spot(batch, outputs["masked"])
        return outputs

    def _spot(self, batch: Batch, logits_MV: Tensor) -> tuple[Tensor, Tensor]:
        """Of each token of the text with the masked words replaced by what the model itself says, drawn by its
        probabilities: the logit of its being another than the text's, and the label (N 1, N). Nothing is learned
        through the draw; what fills the batch up has no label."""
        assert batch.masked_M is not None and batch.labels_M is not None
        scores_MV = logits_MV.detach().float()
        drawn_M = (scores_MV - torch.empty_like(scores_MV).exponential_().log()).argmax(-1)
        is_used_M = batch.labels_M != NONE
        here_M = batch.ids_N[batch.masked_M]  # what stands there, [MASK] in most places; where no slot is used it stays
        text_N = batch.ids_N.index_copy(0, batch.masked_M, torch.where(is_used_M, batch.labels_M, here_M))
        ids_N = batch.ids_N.index_copy(0, batch.masked_M, torch.where(is_used_M, drawn_M, here_M))
        logits_N1 = self.heads["replaced"](self.encoder(replace(batch, ids_N=ids_N)))
        labels_N = (ids_N != text_N).float().masked_fill(batch.ids_N == self.config.pad_id, torch.nan)
        return logits_N1, labels_N


@dataclass(frozen=True)
class HeadShape:
    """How a family builds a head."""

    name: str
    num_outputs: int
    reads: Literal["tokens", "pooler", "cls", "mean"]
    dense: Literal["none", "tanh", "normed"]  # what stands before the scores
    dropout: float


def head_shape(config: ModelConfig, name: str, num_classes: int) -> HeadShape:
    """How the config's family builds the named head; ValueError for a head or number of classes there cannot be."""
    if name not in HEADS:
        raise ValueError(f"head {name!r} does not exist; allowed: {', '.join(HEADS)}.")
    if num_classes < 1 if name not in NUM_OUTPUTS else num_classes != 0:
        allowed = "0, since its size is given" if name in NUM_OUTPUTS else "at least 1"
        raise ValueError(f"head {name!r} is given {num_classes} classes; allowed: {allowed}.")
    num_outputs = NUM_OUTPUTS.get(name, num_classes)
    dropout = config.dropout if config.classifier_dropout is None else config.classifier_dropout
    if config.features is not None and name in ("masked", "pooler", "pair", "replaced"):
        raise ValueError(f"head {name!r} reads the last layer: a model with features has none; leave one of them out.")
    if name in ("masked", "pooler"):
        return HeadShape(name, 0, "tokens" if name == "masked" else "cls", "none", 0.0)
    if name == "pair":
        return HeadShape(name, 2, "pooler", "none", dropout if config.family == "albert" else 0.0)
    if name == "replaced":
        return HeadShape(name, 1, "tokens", "normed", 0.0)
    is_token_wise = name in ("tag", "span")
    if config.features is not None:
        return HeadShape(name, num_outputs, "tokens" if is_token_wise else "mean", "none", dropout)
    if config.family == "modernbert":
        reads = "tokens" if is_token_wise else config.classifier_pooling
        return HeadShape(name, num_outputs, reads, "normed", dropout)
    if config.family == "roberta" and name == "class":
        return HeadShape(name, num_outputs, "cls", "tanh", dropout)
    if name == "span":
        dropout = 0.0  # run_squad.py has none
    return HeadShape(name, num_outputs, "tokens" if is_token_wise else "pooler", "none", dropout)


def _build(config: ModelConfig, shape: HeadShape) -> nn.Module:
    if shape.name == "masked":
        return MaskedWords(config)
    return Pooler(config) if shape.name == "pooler" else Scores(config, shape)


class Pooler(nn.Module):
    """first_SD -> pooled_SD: BERT's dense layer with tanh over each sequence's first token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.width, config.width)

    def forward(self, first_SD: Tensor) -> Tensor:
        return torch.tanh(self.dense(first_SD))


class MaskedWords(nn.Module):
    """hidden_MD -> logits_MV, by the word table itself and a bias for each word."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.approximate = "tanh" if config.head_activation == "gelu_tanh" else "none"
        self.dense = nn.Linear(config.width, config.table_width, bias=config.head_bias)
        self.norm = nn.LayerNorm(config.table_width, eps=config.norm_eps, bias=config.norm_bias)
        self.bias = nn.Parameter(torch.empty(config.vocabulary_size)) if config.decoder_bias else None

    def forward(self, hidden_MD: Tensor, words_VE: Tensor) -> Tensor:
        return functional.linear(self.transform(hidden_MD), words_VE, self.bias)

    def transform(self, hidden_MD: Tensor) -> Tensor:
        """What is compared with each word (M, E)."""
        transformed_ME: Tensor = self.norm(functional.gelu(self.dense(hidden_MD), approximate=self.approximate))
        return transformed_ME


class Scores(nn.Module):
    """... D -> ... C, with what the family puts before the scores."""

    def __init__(self, config: ModelConfig, shape: HeadShape) -> None:
        super().__init__()
        self.kind = shape.dense
        self.dropout = nn.Dropout(shape.dropout)
        if self.kind != "none":
            self.dense = nn.Linear(config.width, config.width, bias=config.head_bias)
        if self.kind == "normed":
            self.norm = nn.LayerNorm(config.width, eps=config.norm_eps, bias=config.norm_bias)
        self.scores = nn.Linear(config.features_width, shape.num_outputs)

    def forward(self, read_D: Tensor) -> Tensor:
        if self.kind == "tanh":
            read_D = torch.tanh(self.dense(self.dropout(read_D)))
        elif self.kind == "normed":
            read_D = self.norm(functional.gelu(self.dense(read_D)))
        logits_C: Tensor = self.scores(self.dropout(read_D))
        return logits_C


def initialise(model: Model, generator: torch.Generator) -> Model:
    """The same model with its initial values, on the generator's device: weights from a normal distribution cut at two
    standard deviations, biases 0, norms 1."""
    model.to_empty(device=generator.device)
    draw_values(model, "", model.config, generator)
    return model


def zero_outputs(model: Model) -> None:
    """Have each layer begin as one that adds nothing: the weights that lead back into the stream are zero."""
    for layer in model.encoder.layers:
        assert isinstance(layer, Layer)
        nn.init.zeros_(layer.attention.output.weight)
        nn.init.zeros_(layer.feed_forward.output.weight)


def draw_values(part: nn.Module, place: str, config: ModelConfig, generator: torch.Generator) -> None:
    """Give a part of a model, which stands in it under the name `place`, new initial values."""
    for module_name, module in part.named_modules(prefix=place):
        std = config.initial_std
        if config.scaled_initial and module_name.startswith("encoder.layers.") and module_name.endswith(".output"):
            std /= (2 * config.num_layers) ** 0.5
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, Mixed | nn.LSTM):
                draw_feature_values(module, name, parameter, generator)
            elif name == "bias":
                nn.init.zeros_(parameter)
            elif isinstance(module, nn.LayerNorm):
                nn.init.ones_(parameter)
            else:
                nn.init.trunc_normal_(parameter, std=std, a=-2 * std, b=2 * std, generator=generator)


def pool(hidden_ND: Tensor, starts_S: Tensor, mode: str) -> Tensor:
    """One vector for each sequence (S, D), by the modes and names of sentence-transformers."""
    if mode not in POOLINGS:
        raise ValueError(f"pooling mode {mode!r} does not exist; allowed: {', '.join(POOLINGS)}.")
    return POOLINGS[mode](hidden_ND, starts_S)


def _first(hidden_ND: Tensor, starts_S: Tensor) -> Tensor:
    return hidden_ND.index_select(0, starts_S[:-1].clamp(max=len(hidden_ND) - 1))  # one that is not used starts at N


def _last(hidden_ND: Tensor, starts_S: Tensor) -> Tensor:
    return hidden_ND.index_select(0, starts_S[1:] - 1)


def _weighted_sum(hidden_ND: Tensor, starts_S: Tensor, weights_N: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of each sequence's weighted hidden states (S, D), and of its weights (S, 1), at least 1."""
    sequence_N = sequence_of_tokens(starts_S, len(hidden_ND))
    num_sequences = len(starts_S) - 1
    sums_SD = hidden_ND.new_zeros(num_sequences, hidden_ND.shape[1])
    sums_SD = sums_SD.index_add(0, sequence_N, hidden_ND * weights_N[:, None])
    totals_S = weights_N.new_zeros(num_sequences).index_add(0, sequence_N, weights_N)
    return sums_SD, totals_S[:, None].clamp(min=1)


def _mean(hidden_ND: Tensor, starts_S: Tensor) -> Tensor:
    sums_SD, totals_S1 = _weighted_sum(hidden_ND, starts_S, torch.ones_like(hidden_ND[:, 0]))
    return sums_SD / totals_S1


def _mean_sqrt_length(hidden_ND: Tensor, starts_S: Tensor) -> Tensor:
    sums_SD, totals_S1 = _weighted_sum(hidden_ND, starts_S, torch.ones_like(hidden_ND[:, 0]))
    return sums_SD / totals_S1.sqrt()


def _mean_by_position(hidden_ND: Tensor, starts_S: Tensor) -> Tensor:
    tokens_N = torch.arange(len(hidden_ND), device=hidden_ND.device)
    weights_N = tokens_N - starts_S[sequence_of_tokens(starts_S, len(hidden_ND))] + 1
    sums_SD, totals_S1 = _weighted_sum(hidden_ND, starts_S, weights_N.to(hidden_ND.dtype))
    return sums_SD / totals_S1


def _max(hidden_ND: Tensor, starts_S: Tensor) -> Tensor:
    sequence_ND = sequence_of_tokens(starts_S, len(hidden_ND))[:, None].expand_as(hidden_ND)
    lowest_SD = hidden_ND.new_full((len(starts_S) - 1, hidden_ND.shape[1]), torch.finfo(hidden_ND.dtype).min)
    return lowest_SD.scatter_reduce(0, sequence_ND, hidden_ND, "amax")


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _first,
    "lasttoken": _last,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt_length,
    "weightedmean": _mean_by_position,
}
