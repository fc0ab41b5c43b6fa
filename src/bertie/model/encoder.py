"""ids -> hidden: a batch of flat tokens, the embedding tables, the layers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bertie.kernels.attention import Attend, attention_path
from bertie.kernels.plain import Pattern, attend_and_show
from bertie.model.config import ModelConfig
from bertie.model.kernels import kernels_by_name


@dataclass(frozen=True)
class Batch:
    """Sequences laid end to end, without padding. Sequence s is tokens starts_S[s] to starts_S[s + 1]; every token
    belongs to one, so what fills a batch up to a fixed size is a sequence of its own."""

    ids_N: Tensor
    segments_N: Tensor
    positions_N: Tensor  # from 0 in each sequence
    starts_S: Tensor  # int32, one more than there are sequences; those not used start and end at N
    max_length: int  # no sequence is longer; a Python number, so that no kernel has to ask the device
    masked_M: Tensor | None = None  # the tokens whose words are to be predicted
    labels_M: Tensor | None = None  # their words, -100 where masked_M is not used
    pair_S: Tensor | None = None  # the label of each pair, -100 for none

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return self._each(lambda tensor: _moved(tensor, device))

    def pinned(self) -> "Batch":
        """The same batch in memory that a GPU can copy from while it computes."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return Batch(
            ids_N=change(self.ids_N),
            segments_N=change(self.segments_N),
            positions_N=change(self.positions_N),
            starts_S=change(self.starts_S),
            max_length=self.max_length,
            masked_M=None if self.masked_M is None else change(self.masked_M),
            labels_M=None if self.labels_M is None else change(self.labels_M),
            pair_S=None if self.pair_S is None else change(self.pair_S),
        )


def _moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    # Only a copy from pinned memory may go on in the background: one to the CPU would be read too early.
    return tensor.to(device, non_blocking=tensor.is_pinned())


def pack(
    sequences: Sequence[Sequence[int]],
    segments: Sequence[Sequence[int]] | None = None,
    max_positions: int | None = None,
) -> Batch:
    """The sequences of ids as one batch on the CPU; ValueError for one that is empty or longer than max_positions."""
    lengths_S = torch.tensor([len(sequence) for sequence in sequences])
    for index, sequence in enumerate(sequences):
        if len(sequence) == 0:
            raise ValueError(f"text {index + 1} has no tokens.")
        if max_positions is not None and len(sequence) > max_positions:
            raise ValueError(
                f"text {index + 1} has {len(sequence):,} tokens, but the model has {max_positions:,} positions: "
                "cut it, or ask for truncation."
            )
    if not sequences:
        raise ValueError("there is no text.")
    starts_S = functional.pad(lengths_S.cumsum(0), (1, 0))
    num_tokens = int(starts_S[-1])
    ids_N = torch.tensor([id_ for sequence in sequences for id_ in sequence])
    flat_segments = [0] * num_tokens if segments is None else [id_ for sequence in segments for id_ in sequence]
    assert len(flat_segments) == num_tokens, "segments and sequences differ in length"
    return Batch(
        ids_N=ids_N,
        segments_N=torch.tensor(flat_segments),
        positions_N=torch.arange(num_tokens) - starts_S[:-1].repeat_interleave(lengths_S),
        starts_S=starts_S.int(),
        max_length=int(lengths_S.max()),
    )


@dataclass(frozen=True)
class Context:
    """What each layer of one pass is handed beside the hidden states."""

    attend: Attend
    batch: Batch
    pattern: Pattern
    rotation_NK: Tensor | None  # cosines, then sines, of the first half of each head's width


@dataclass(frozen=True)
class Trace:
    """All that one pass computed: for the viewer, for features, for tests."""

    hidden_LND: list[Tensor]  # the embeddings, then each layer's output; the last is the encoder's
    probabilities_LSHTT: list[list[Tensor]]  # of each layer, of each sequence


class Encoder(nn.Module):
    """Batch -> hidden_ND. Born on the meta device, without values: see `bertie.model.heads.initialise`. `attention` is
    a path of the plain kernels; the fused ones have their own."""

    def __init__(self, config: ModelConfig, attention: str = "sdpa", kernels: str = "plain") -> None:
        super().__init__()
        self.config = config
        self.attend = attention_path(attention)
        self.kernels = kernels_by_name(kernels, config)
        self.recomputes = False  # whether each layer runs again in the backward pass, so that less is kept in memory
        with torch.device("meta"):
            self.embeddings = Embeddings(config)
            num_layers = 1 if config.shared_layers else config.num_layers
            self.layers = nn.ModuleList(Layer(config, is_first=index == 0) for index in range(num_layers))
            self.norm = _norm(config, config.width) if config.norm == "before" else nn.Identity()
        self.patterns = [_pattern(config, index) for index in range(config.num_layers)]

    def forward(self, batch: Batch) -> Tensor:
        if self.kernels is not None:
            ids_3N = (batch.ids_N, batch.positions_N, batch.segments_N)
            return self.kernels.encode(self, ids_3N, batch.starts_S, batch.max_length)
        hidden_ND: Tensor = self.embeddings(batch)
        for layer, context in self._steps(batch, self.attend):
            if self.recomputes and self.training:
                hidden_ND = checkpoint(layer, hidden_ND, context, use_reentrant=False)
            else:
                hidden_ND = layer(hidden_ND, context)
        last_ND: Tensor = self.norm(hidden_ND)
        return last_ND

    def layer_outputs(self, batch: Batch, numbers: range) -> Tensor:
        """What these layers give (one after another, N D), 0 being the embeddings; none beyond them is run."""
        hidden_ND: Tensor = self.embeddings(batch)
        outputs = [hidden_ND] if 0 in numbers else []
        for number, (layer, context) in enumerate(self._steps(batch, self.attend)[: numbers[-1]], 1):
            hidden_ND = layer(hidden_ND, context)
            if number in numbers:
                outputs.append(self.norm(hidden_ND) if number == self.config.num_layers else hidden_ND)
        return torch.stack(outputs)

    def trace(self, batch: Batch) -> Trace:
        """The output of every layer and the attention probabilities, along the plain path."""
        probabilities_LSHTT: list[list[Tensor]] = []

        def attend_and_keep(
            q_NHK: Tensor, k_NHK: Tensor, v_NHK: Tensor, starts_S: Tensor, max_length: int, pattern: Pattern
        ) -> Tensor:
            out_NHK, probabilities_SHTT = attend_and_show(q_NHK, k_NHK, v_NHK, starts_S, max_length, pattern)
            probabilities_LSHTT.append(probabilities_SHTT)
            return out_NHK

        hidden_LND: list[Tensor] = [self.embeddings(batch)]
        for layer, context in self._steps(batch, attend_and_keep):
            hidden_LND.append(layer(hidden_LND[-1], context))
        hidden_LND[-1] = self.norm(hidden_LND[-1])
        return Trace(hidden_LND, probabilities_LSHTT)

    def _steps(self, batch: Batch, attend: Attend) -> list[tuple[nn.Module, Context]]:
        """Each layer in turn, with what it is handed."""
        rotations = _rotations(self.config, batch.positions_N)
        steps = []
        for index, pattern in enumerate(self.patterns):
            if not self.training:
                pattern = replace(pattern, dropout=0.0)
            context = Context(attend, batch, pattern, rotations[self.config.is_local(index)])
            steps.append((self.layers[0 if self.config.shared_layers else index], context))
        return steps


class Embeddings(nn.Module):
    """ids_N -> hidden_ND: the sum of the tables, normed, dropped, and projected where the tables are narrower."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        width = config.table_width
        self.words = nn.Embedding(config.vocabulary_size, width)
        if config.num_segments:
            self.segments = nn.Embedding(config.num_segments, width)
        if config.positions == "learned":
            self.positions = nn.Embedding(config.max_positions + config.position_offset, width)
        self.norm = _norm(config, width)
        self.dropout = nn.Dropout(config.dropout if config.embedding_dropout is None else config.embedding_dropout)
        if config.embedding_width is not None:
            self.projection = nn.Linear(width, config.width)

    def forward(self, batch: Batch) -> Tensor:
        hidden_NE: Tensor = self.words(batch.ids_N)
        if self.config.num_segments == 1:  # RoBERTa: what it is given as segments has no meaning to it
            hidden_NE = hidden_NE + self.segments.weight[0]
        elif self.config.num_segments:
            hidden_NE = hidden_NE + self.segments(batch.segments_N)
        if self.config.positions == "learned":
            hidden_NE = hidden_NE + self.positions(batch.positions_N + self.config.position_offset)
        elif self.config.positions == "sinusoidal":
            hidden_NE = hidden_NE + _sinusoids(batch.positions_N, self.config.table_width).to(hidden_NE.dtype)
        hidden_NE = self.dropout(self.norm(hidden_NE))
        hidden_ND: Tensor = hidden_NE if self.config.embedding_width is None else self.projection(hidden_NE)
        return hidden_ND


class Layer(nn.Module):
    """hidden_ND -> hidden_ND: attention, then the feed-forward part, each added to what came in."""

    def __init__(self, config: ModelConfig, is_first: bool) -> None:
        super().__init__()
        self.is_norm_before = config.norm == "before"
        self.attention = SelfAttention(config)
        # With the norm before, the first layer reads the embeddings, which have just been normed.
        self.attention_norm = nn.Identity() if self.is_norm_before and is_first else _norm(config, config.width)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = _norm(config, config.width)

    def forward(self, hidden_ND: Tensor, context: Context) -> Tensor:
        if self.is_norm_before:
            hidden_ND = hidden_ND + self.attention(self.attention_norm(hidden_ND), context)
            hidden_ND = hidden_ND + self.feed_forward(self.feed_forward_norm(hidden_ND))
        else:
            hidden_ND = self.attention_norm(hidden_ND + self.attention(hidden_ND, context))
            hidden_ND = self.feed_forward_norm(hidden_ND + self.feed_forward(hidden_ND))
        return hidden_ND


class SelfAttention(nn.Module):
    """hidden_ND -> what each token gathers from its sequence."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads, self.head_width = config.num_heads, config.head_width
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=config.attention_bias)  # rows: queries, keys, values
        self.output = nn.Linear(config.width, config.width, bias=config.attention_bias)
        self.dropout = nn.Dropout(config.output_dropout)

    def forward(self, hidden_ND: Tensor, context: Context) -> Tensor:
        q_NHK, k_NHK, v_NHK = self.qkv(hidden_ND).view(-1, 3, self.num_heads, self.head_width).unbind(1)
        if context.rotation_NK is not None:
            q_NHK, k_NHK = _rotate(q_NHK, context.rotation_NK), _rotate(k_NHK, context.rotation_NK)
        batch = context.batch
        out_NHK = context.attend(q_NHK, k_NHK, v_NHK, batch.starts_S, batch.max_length, context.pattern)
        gathered_ND: Tensor = self.dropout(self.output(out_NHK.flatten(1)))
        return gathered_ND


class FeedForward(nn.Module):
    """hidden_ND -> hidden_ND, each token alone."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.is_gated = config.feed_forward == "geglu"
        self.approximate = "tanh" if config.feed_forward == "gelu_tanh" else "none"
        num_inner = 2 * config.inner_width if self.is_gated else config.inner_width
        self.inner = nn.Linear(config.width, num_inner, bias=config.feed_forward_bias)
        self.output = nn.Linear(config.inner_width, config.width, bias=config.feed_forward_bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, hidden_ND: Tensor) -> Tensor:
        if self.is_gated:  # rows of `inner`: what passes through gelu, then the gate; dropout is before the output
            inner_NF, gate_NF = self.inner(hidden_ND).chunk(2, -1)
            out_ND: Tensor = self.output(self.dropout(functional.gelu(inner_NF) * gate_NF))
        else:
            inner_NF = functional.gelu(self.inner(hidden_ND), approximate=self.approximate)
            out_ND = self.dropout(self.output(inner_NF))
        return out_ND


def _norm(config: ModelConfig, width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=config.norm_eps, bias=config.norm_bias)


def _pattern(config: ModelConfig, layer: int) -> Pattern:
    window = config.window if config.is_local(layer) else None
    return Pattern(causal=config.attention == "causal", window=window, dropout=config.attention_dropout)


def _rotations(config: ModelConfig, positions_N: Tensor) -> dict[bool, Tensor | None]:
    """The rotation of the layers that see everything (False) and of those that see a window (True)."""
    if config.positions != "rotary":
        return {False: None, True: None}
    bases = {False: config.rotary_base, True: config.local_rotary_base}
    angles = {is_local: _angles(positions_N, config.head_width, base) for is_local, base in bases.items()}
    return {is_local: torch.cat((a_NK.cos(), a_NK.sin()), -1) for is_local, a_NK in angles.items()}


def _angles(positions_N: Tensor, width: int, base: float) -> Tensor:
    """position / base^(2i / width), for i up to half the width, in float32."""
    exponents = torch.arange(0, width, 2, device=positions_N.device, dtype=torch.float32) / width
    return positions_N[:, None].float() * base**-exponents


def _sinusoids(positions_N: Tensor, width: int) -> Tensor:
    """The Transformer's fixed positions: sine in the even columns, cosine in the odd ones."""
    angles_NE = _angles(positions_N, width, 10_000.0)
    return torch.stack((angles_NE.sin(), angles_NE.cos()), -1).flatten(1)[:, :width]


def _rotate(x_NHK: Tensor, rotation_NK: Tensor) -> Tensor:
    """Each pair (i, i + K / 2) of a head's numbers, turned by its angle."""
    cos_NK, sin_NK = rotation_NK[:, None].chunk(2, -1)
    first_NHK, second_NHK = x_NHK.float().chunk(2, -1)
    turned_NHK = torch.cat((first_NHK * cos_NK - second_NHK * sin_NK, second_NHK * cos_NK + first_NHK * sin_NK), -1)
    return turned_NHK.to(x_NHK.dtype)
