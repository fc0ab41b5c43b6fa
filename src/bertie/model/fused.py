"""The encoder and the masked-word head over the fused kernels: which weights go where, and for whom there are none."""

import torch
from torch import Tensor, nn

from bertie.kernels.copies import Copies
from bertie.kernels.cublaslt import CUBLASLT
from bertie.kernels.dropout import Drop, draw_seeds
from bertie.kernels.fused_ends import EndConfig, Head, Ids, Tables, embeddings, masked_words
from bertie.kernels.fused_layer import LayerConfig, Weights, layer
from bertie.kernels.products import Products
from bertie.kernels.sequences import Sequences
from bertie.model.config import ModelConfig

TABLES = ("words.weight", "positions.weight", "segments.weight", "norm.weight", "norm.bias")
LAYER = (
    "attention.qkv.weight", "attention.qkv.bias", "attention.output.weight", "attention.output.bias",
    "attention_norm.weight", "attention_norm.bias", "feed_forward.inner.weight", "feed_forward.inner.bias",
    "feed_forward.output.weight", "feed_forward.output.bias", "feed_forward_norm.weight", "feed_forward_norm.bias",
)  # fmt: skip
HEAD = ("dense.weight", "dense.bias", "norm.weight", "norm.bias")
REQUIRED = {
    "positions": "learned",
    "norm": "after",
    "attention": "full",
    "embedding_width": None,
    "attention_bias": True,
    "feed_forward_bias": True,
    "norm_bias": True,
    "head_bias": True,
    "decoder_bias": True,
}
HEAD_WIDTHS = (16, 32, 64, 128)


class Fused:
    """The fused path of one model; it holds the weights in the type of the products, made anew for each batch."""

    def __init__(self, config: ModelConfig, products: Products = CUBLASLT, dtype: torch.dtype = torch.bfloat16) -> None:
        _refuse(config)
        self.config, self.products, self.dtype = config, products, dtype
        self.layer_copies, self.head_copies = Copies(dtype), Copies(dtype)

    def encode(
        self, encoder: nn.Module, ids_3N: tuple[Tensor, Tensor, Tensor], starts_S: Tensor, max_length: int
    ) -> Tensor:
        """The last layer's output (N, D); the ids are those of words, positions and segments."""
        self._refuse_place(starts_S.device)
        config = self.config
        is_training = encoder.training
        seeds = draw_seeds(1 + 3 * config.num_layers) if is_training else [0] * (1 + 3 * config.num_layers)
        embedding_dropout = config.dropout if config.embedding_dropout is None else config.embedding_dropout
        first_drop = Drop(embedding_dropout * is_training, seeds[-1], is_after=True)
        tables = Tables(*_parameters(encoder.get_submodule("embeddings"), TABLES))
        words_N, places_N, segments_N = ids_3N
        if config.num_segments == 1:  # RoBERTa: what it is given as segments has no meaning to it
            segments_N = torch.zeros_like(segments_N)
        ids = Ids(words_N, places_N + config.position_offset, segments_N)
        hidden_ND = embeddings(tables, ids, EndConfig(self.products, config.norm_eps, self.dtype, first_drop))
        layers = list(encoder.get_submodule("layers").children())
        masters = [Weights(*_parameters(one, LAYER)) for one in layers]
        weights = self._weights(masters)
        for index in range(config.num_layers):
            drops = [
                Drop(rate * is_training, seed)
                for rate, seed in zip(
                    (config.attention_dropout, config.output_dropout, config.dropout), seeds[3 * index :], strict=False
                )
            ]
            layer_config = LayerConfig(
                self.products, Sequences(starts_S, max_length), config.num_heads, config.norm_eps,
                "tanh" if config.feed_forward == "gelu_tanh" else "none", *drops,
            )  # fmt: skip
            which = 0 if config.shared_layers else index
            hidden_ND = layer(hidden_ND, masters[which], weights[which], layer_config)
        return hidden_ND

    def masked_words(
        self, head: nn.Module, words_VE: Tensor, hidden_ND: Tensor, targets: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The sum of the masked words' losses and how many are guessed right; targets are tokens and their words."""
        self._refuse_place(hidden_ND.device)
        dense, dense_bias, norm, norm_bias = _parameters(head, HEAD)
        bias = head.get_parameter("bias")
        dense_copy, dense_bias_copy, words_copy, bias_copy = self.head_copies.of([dense, dense_bias, words_VE, bias], 2)
        masters = Head(dense, dense_bias, norm, norm_bias, words_VE, bias)
        weights = Head(dense_copy, dense_bias_copy, norm, norm_bias, words_copy, bias_copy)
        approximate = "tanh" if self.config.head_activation == "gelu_tanh" else "none"
        config = EndConfig(self.products, self.config.norm_eps, self.dtype, approximate=approximate)
        return masked_words(hidden_ND.to(self.dtype), targets, masters, weights, config)

    def _weights(self, masters: list[Weights]) -> list[Weights]:
        """What is computed with: copies of the matrices and their biases, the norms as they are."""
        is_copied = ["norm" not in name for name in LAYER]
        copied = [parameter for one in masters for parameter, wanted in zip(one, is_copied, strict=True) if wanted]
        copies = iter(self.layer_copies.of(copied, 0))
        return [
            Weights(*(next(copies) if wanted else parameter for parameter, wanted in zip(one, is_copied, strict=True)))
            for one in masters
        ]

    def _refuse_place(self, device: torch.device) -> None:
        if self.dtype != torch.bfloat16:
            return
        if device.type != "cuda":
            raise ValueError(f"kernels 'fused' need a CUDA device, not {device.type}; use 'plain'.")
        if not torch.is_autocast_enabled("cuda") or torch.get_autocast_dtype("cuda") != torch.bfloat16:
            raise ValueError("kernels 'fused' compute in bfloat16: set precision to bf16, or use 'plain'.")


def _parameters(module: nn.Module, names: tuple[str, ...]) -> list[nn.Parameter]:
    return [module.get_parameter(name) for name in names]


def _refuse(config: ModelConfig) -> None:
    for name, wanted in REQUIRED.items():
        value = getattr(config, name)
        if value != wanted:
            raise ValueError(f"kernels 'fused' need {name} {wanted!r}, and the model's is {value!r}; use 'plain'.")
    if config.feed_forward == "geglu" or config.num_segments == 0:
        raise ValueError("kernels 'fused' have no geglu and need a segment table; use 'plain'.")
    if config.head_width not in HEAD_WIDTHS or config.width % 8 or config.inner_width % 8:
        raise ValueError(
            f"kernels 'fused' need heads of width {', '.join(map(str, HEAD_WIDTHS))} and widths that 8 divides, not "
            f"{config.head_width}, {config.width} and {config.inner_width}; use 'plain'."
        )
