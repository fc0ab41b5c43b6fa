"""Claim: each fused kernel is faster than the plain operations it stands for, on BERT-base's shapes, 65,536 tokens.

Forward and backward of each, in bf16 on a GPU, against torch: flash attention (varlen), torch.compile over the plain
operations, cuBLAS with separate passes. Medians of CUDA events.

    python benchmarks/kernels.py
"""

import argparse
import statistics
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from bertie.kernels import products
from bertie.kernels.attention import attention_path
from bertie.kernels.cross_entropy import cross_entropy_
from bertie.kernels.cublaslt import CUBLASLT
from bertie.kernels.dropout import Drop
from bertie.kernels.embeddings import embed, embed_backward
from bertie.kernels.norms import add_and_norm, norm_backward
from bertie.kernels.packed_attention import attend, attend_backward
from bertie.kernels.plain import Pattern
from bertie.kernels.sequences import Sequences

WIDTH, HEADS, INNER, WORDS, MASKED = 768, 12, 3072, 30_528, 9_830
NO_DROP = Drop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=65_536)
    parser.add_argument("--only", help="names with this in them")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    print(f"{'':34} {'ours':>9} {'torch':>9}")
    for name, make in PAIRS.items():
        if arguments.only is None or arguments.only in name:
            ours, theirs = (milliseconds(work) for work in make(arguments.tokens))
            print(f"{name:34} {ours:6.3f} ms {theirs:6.3f} ms  {theirs / ours:.2f} times", flush=True)


def milliseconds(work: Callable[[], object]) -> float:
    for _ in range(5):
        work()
    times = []
    for _ in range(30):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


Pair = tuple[Callable[[], object], Callable[[], object]]


def numbers(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def attention(length: int, drop: float, is_backward: bool) -> Callable[[int], Pair]:
    def make(num_tokens: int) -> Pair:
        lengths = torch.randint(length * 3 // 4, length + 1, (num_tokens // (length * 3 // 4) + 1,))
        ends = torch.cumsum(lengths, 0).clamp(max=num_tokens)
        starts = torch.cat((torch.zeros(1, dtype=torch.long), ends)).int().cuda()
        qkv, grad = numbers(num_tokens, 3, HEADS, 64), numbers(num_tokens, HEADS, 64)
        sequences, dropped = Sequences(starts, length), Drop(drop, 7)
        attended = attend(qkv, sequences, dropped)
        varlen, leaf = attention_path("varlen"), qkv.clone().requires_grad_()
        # Flash attention has no dropout in torch: it is timed without.
        theirs = varlen(*leaf.unbind(1), starts, length, Pattern())
        if is_backward:
            return (
                lambda: attend_backward(grad, qkv, attended, sequences, dropped),
                lambda: torch.autograd.grad(theirs, leaf, grad, retain_graph=True),
            )
        return lambda: attend(qkv, sequences, dropped), lambda: varlen(*qkv.unbind(1), starts, length, Pattern())

    return make


def norm(drop: float, is_backward: bool) -> Callable[[int], Pair]:
    def make(num_tokens: int) -> Pair:
        x, residual, grad = (numbers(num_tokens, WIDTH) for _ in range(3))
        weight, bias, before = (numbers(WIDTH, dtype=torch.float32).requires_grad_() for _ in range(3))
        dropped = Drop(drop, 7)
        normed = add_and_norm(x.clone(), residual, (weight.detach(), bias.detach()), 1e-12, dropped)

        @torch.compile
        def plain(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor, before: Tensor) -> Tensor:
            summed = functional.dropout(x + before.to(x.dtype), drop) + residual
            return functional.layer_norm(summed.float(), (WIDTH,), weight, bias, 1e-12).to(x.dtype)

        leaves = [x.clone().requires_grad_(), residual.clone().requires_grad_(), weight, bias, before]
        if is_backward:
            theirs = plain(*leaves)
            return (
                lambda: norm_backward(grad, None, normed, weight.detach(), dropped),
                lambda: torch.autograd.grad(theirs, leaves, grad, retain_graph=True),
            )
        # The bias is added by the product before; the sum is written over x: repeating it changes numbers alone.
        return lambda: add_and_norm(x, residual, (weight.detach(), bias.detach()), 1e-12, dropped), lambda: plain(
            *leaves
        )

    return make


def product(name: str) -> Callable[[int], Pair]:
    def make(num_tokens: int) -> Pair:
        x, wide, before = numbers(num_tokens, WIDTH), numbers(num_tokens, INNER), numbers(num_tokens, INNER)
        inner, outer, bias = numbers(INNER, WIDTH), numbers(WIDTH, INNER), numbers(INNER)
        arguments = {
            "dense_gelu": (x, inner, bias),
            "gelu_input_gradient": (x, outer, before),
            "weight_and_bias_gradient": (wide, x),
        }[name]
        return lambda: getattr(CUBLASLT, name)(*arguments), lambda: getattr(products, name)(*arguments)

    return make


def entropy(num_tokens: int) -> Pair:
    logits, labels = numbers(MASKED, WORDS), torch.randint(WORDS, (MASKED,), device="cuda")

    @torch.compile
    def plain(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        scores = logits.float()
        chosen = functional.cross_entropy(scores, labels, reduction="sum")
        gradient = scores.softmax(-1).scatter_add(
            1, labels[:, None], -torch.ones_like(labels, dtype=torch.float32)[:, None]
        )
        return chosen, gradient.to(logits.dtype)

    return lambda: cross_entropy_(logits, labels, WORDS), lambda: plain(logits, labels)


def tables(is_backward: bool) -> Callable[[int], Pair]:
    def make(num_tokens: int) -> Pair:
        words, places, segments = (numbers(rows, WIDTH, dtype=torch.float32) for rows in (30_522, 512, 2))
        leaves = [table.requires_grad_() for table in (words, places, segments)]
        ids = tuple(torch.randint(rows, (num_tokens,), device="cuda") for rows in (30_522, 128, 2))
        grad = numbers(num_tokens, WIDTH)

        @torch.compile
        def plain(*tables: Tensor) -> Tensor:
            return sum(functional.embedding(rows, table) for rows, table in zip(ids, tables, strict=True)).to(
                grad.dtype
            )

        if is_backward:
            theirs = plain(*leaves)
            return (
                lambda: embed_backward(grad, ids, (30_522, 512, 2), CUBLASLT),
                lambda: torch.autograd.grad(theirs, leaves, grad, retain_graph=True),
            )
        detached = [table.detach() for table in leaves]
        return lambda: embed(*detached, ids, grad.dtype), lambda: plain(*detached)

    return make


PAIRS: dict[str, Callable[[int], Pair]] = {
    "short attention": attention(128, 0.0, False),
    "short attention backward": attention(128, 0.0, True),
    "short attention, dropout": attention(128, 0.1, False),
    "short attention backward, dropout": attention(128, 0.1, True),
    "long attention": attention(512, 0.0, False),
    "long attention backward": attention(512, 0.0, True),
    "norm": norm(0.0, False),
    "norm backward": norm(0.0, True),
    "norm, dropout": norm(0.1, False),
    "norm backward, dropout": norm(0.1, True),
    "dense and gelu": product("dense_gelu"),
    "gelu's and dense's gradient": product("gelu_input_gradient"),
    "weight and bias gradient": product("weight_and_bias_gradient"),
    "cross-entropy": entropy,
    "embeddings": tables(False),
    "embeddings backward": tables(True),
}

if __name__ == "__main__":
    main()
