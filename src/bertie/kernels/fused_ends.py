"""What stands before and after the layers, forward and backward written out: the embeddings, and the loss of the masked
words without logits that leave it. What is gained stands in cross_entropy.py and embeddings.py."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from bertie.kernels.cross_entropy import NONE, cross_entropy_
from bertie.kernels.dropout import Drop
from bertie.kernels.embeddings import embed, embed_backward
from bertie.kernels.norms import Normed, add_and_norm, norm_backward
from bertie.kernels.products import Products

NO_DROP = Drop()


class Tables(NamedTuple):
    """The weights of the embeddings, in float32."""

    words_VE: Tensor
    positions_TE: Tensor
    segments_CE: Tensor
    norm_E: Tensor
    norm_bias_E: Tensor


class Ids(NamedTuple):
    """The rows that each token takes from the tables."""

    words_N: Tensor
    positions_N: Tensor
    segments_N: Tensor


@dataclass(frozen=True)
class EndConfig:
    """What the embeddings and the head are told beside their weights."""

    products: Products
    eps: float
    dtype: torch.dtype
    drop: Drop = NO_DROP  # of the embeddings
    approximate: str = "tanh"  # gelu of the head: "tanh" or "none"


def embeddings(tables: Tables, ids: Ids, config: EndConfig) -> Tensor:
    """The embeddings, normed and dropped (N, E)."""
    out_NE: Tensor = _Embeddings.apply(ids, config, *tables)  # type: ignore[no-untyped-call]
    return out_NE


class Head(NamedTuple):
    """The weights of the masked-word head; words and their bias padded to what products want."""

    dense_ED: Tensor
    dense_bias_E: Tensor
    norm_E: Tensor
    norm_bias_E: Tensor
    words_VE: Tensor
    bias_V: Tensor


def masked_words(
    hidden_ND: Tensor, targets: tuple[Tensor, Tensor], masters: Head, weights: Head, config: EndConfig
) -> tuple[Tensor, Tensor]:
    """The sum of the masked words' losses, and how many are guessed right; targets are tokens and their words, NONE for
    those that do not count."""
    loss, num_correct = _MaskedWords.apply(hidden_ND, targets, weights, config, *masters)  # type: ignore[no-untyped-call]
    return loss, num_correct


class _Embeddings(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, ids: Ids, config: EndConfig, *weights: Tensor) -> Tensor:
        tables = Tables(*weights)
        sum_NE = embed(tables.words_VE, tables.positions_TE, tables.segments_CE, ids, config.dtype)
        drop = config.drop
        normed = add_and_norm(sum_NE, None, (tables.norm_E, tables.norm_bias_E), config.eps, drop)
        ctx.kept = (normed, tables, ids, config)  # type: ignore[attr-defined]
        return normed.out_ND

    @staticmethod
    def backward(ctx: FunctionCtx, grad_NE: Tensor) -> tuple[Tensor | None, ...]:
        kept: tuple[Normed, Tables, Ids, EndConfig] = ctx.kept  # type: ignore[attr-defined]
        normed, tables, ids, config = kept
        sum_grad_NE, _, norm_3E = norm_backward(grad_NE.contiguous(), None, normed, tables.norm_E, config.drop)
        sizes = (len(tables.words_VE), len(tables.positions_TE), len(tables.segments_CE))
        grads = embed_backward(sum_grad_NE, ids, sizes, config.products)
        ctx.kept = None  # type: ignore[attr-defined]
        return None, None, *grads, norm_3E[0], norm_3E[1]


class _MaskedWords(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden_ND: Tensor,
        targets: tuple[Tensor, Tensor],
        weights: Head,
        config: EndConfig,
        *masters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        masked_M, labels_M = targets
        products = config.products
        x_MD = hidden_ND.index_select(0, masked_M)
        if config.approximate == "tanh":
            before_ME, dense_ME = products.dense_gelu(x_MD, weights.dense_ED, weights.dense_bias_E)
        else:
            before_ME = products.dense(x_MD, weights.dense_ED, weights.dense_bias_E, None)
            dense_ME = functional.gelu(before_ME)
        normed = add_and_norm(dense_ME, None, (weights.norm_E, weights.norm_bias_E), config.eps, NO_DROP)
        logits_MV = products.dense(normed.out_ND, weights.words_VE, weights.bias_V, None)
        losses_M, correct_M = cross_entropy_(logits_MV, labels_M, len(masters[-1]))
        # Tokens that do not count would all write to the first one: they get a row of their own, behind the last.
        rows_M = torch.where(labels_M == NONE, len(hidden_ND), masked_M)
        ctx.kept = _Kept(x_MD, before_ME, normed, logits_MV, rows_M, len(hidden_ND))  # type: ignore[attr-defined]
        ctx.weights, ctx.config, ctx.num_words = weights, config, len(masters[-1])  # type: ignore[attr-defined]
        num_correct = correct_M.sum()
        ctx.mark_non_differentiable(num_correct)
        return losses_M.sum(), num_correct

    @staticmethod
    def backward(ctx: FunctionCtx, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        kept: _Kept = ctx.kept  # type: ignore[attr-defined]
        weights: Head = ctx.weights  # type: ignore[attr-defined]
        config: EndConfig = ctx.config  # type: ignore[attr-defined]
        num_words: int = ctx.num_words  # type: ignore[attr-defined]
        products, normed, logits_grad_MV = config.products, kept.normed, kept.logits_grad_MV
        words_VE = products.weight_gradient(logits_grad_MV, normed.out_ND * scale)
        bias_V = logits_grad_MV[:, :num_words].sum(0, dtype=torch.float32) * scale
        normed_grad_ME = products.input_gradient(logits_grad_MV, weights.words_VE, None) * scale
        dense_grad_ME, _, norm_3E = norm_backward(normed_grad_ME, None, normed, weights.norm_E, NO_DROP)
        before_grad_ME = torch.ops.aten.gelu_backward(dense_grad_ME, kept.before_ME, approximate=config.approximate)
        dense_ED, dense_bias_E = products.weight_and_bias_gradient(before_grad_ME, kept.x_MD)
        x_grad_MD = products.input_gradient(before_grad_ME, weights.dense_ED, None)
        hidden_grad_ND = x_grad_MD.new_zeros(kept.num_tokens + 1, x_grad_MD.shape[1])
        hidden_grad_ND.index_copy_(0, kept.rows_M, x_grad_MD)
        head = Head(dense_ED, dense_bias_E, norm_3E[0], norm_3E[1], words_VE[:num_words], bias_V)
        ctx.kept = None  # type: ignore[attr-defined]
        return hidden_grad_ND[:-1], None, None, None, *head


class _Kept(NamedTuple):
    x_MD: Tensor
    before_ME: Tensor
    normed: Normed
    logits_grad_MV: Tensor
    rows_M: Tensor
    num_tokens: int
