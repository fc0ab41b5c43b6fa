"""Kernels that are not in the package, and settings of those that are: what would be faster, measured before it stays.

Products whose epilogue is gelu or its gradient, the sum for the bias included, over settings of tiles, warps and
programs; attention and norms over settings of their launch. Each is compared with float64 before it is timed, on
BERT-base's shapes, and printed beside what the package has now. Without a GPU `--check` runs all of them, small,
through Triton's interpreter.

    python benchmarks/kernel_candidates.py --tokens 131072
"""

import argparse
import itertools
import os
import statistics
import sys
from collections.abc import Callable, Iterator

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from bertie.kernels import norms, short_attention
from bertie.kernels.cublaslt import CUBLASLT
from bertie.kernels.dropout import Drop
from bertie.kernels.packed_attention import attend
from bertie.kernels.sequences import Attended, Sequences, num_processors

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.bfloat16 if DEVICE == "cuda" else torch.float32


@triton.jit
def _tanh(x):
    return 1.0 - 2.0 / (1.0 + tl.exp2(x * 2.8853900817779268))


@triton.jit
def _product_gelu(
    x, weight, bias, before, out, num_tiles, inner,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WIDE: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """before = x weight^T + bias, out = gelu(before); WIDE: the number of tiles side by side."""
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLAT):
        row, column = tile // WIDE * BM, tile % WIDE * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, inner, BK):
            total = tl.dot(x.load([row, k]), tl.trans(weight.load([column, k])), total)
        total += tl.load(bias + column + tl.arange(0, BN)).to(tl.float32)[None, :]
        before.store([row, column], total.to(before.dtype))
        u = 0.7978845608028654 * total * (1.0 + 0.044715 * total * total)
        out.store([row, column], (0.5 * total * (1.0 + _tanh(u))).to(out.dtype))


@triton.jit
def _product_gelu_gradient(
    grad, weight, before, out, sums, num_tiles, num_columns, inner,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WIDE: tl.constexpr, FLAT: tl.constexpr,
):  # fmt: skip
    """out = (grad weight) gelu'(before), and the sum of each tile's columns."""
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=FLAT):
        row, column = tile // WIDE * BM, tile % WIDE * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(0, inner, BK):
            total = tl.dot(grad.load([row, k]), weight.load([k, column]), total)
        x = before.load([row, column]).to(tl.float32)
        squared = x * x
        t = _tanh(0.7978845608028654 * x * (1.0 + 0.044715 * squared))
        slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * 0.7978845608028654 * (1.0 + 0.134145 * squared)
        total *= slope
        out.store([row, column], total.to(out.dtype))
        tl.store(sums + tile // WIDE * num_columns + column + tl.arange(0, BN), tl.sum(total, 0))


def described(tensor: Tensor, *block: int) -> TensorDescriptor:
    return TensorDescriptor.from_tensor(tensor, list(block))


def num_programs(num_tiles: int, per_processor: int) -> int:
    return min(num_tiles, per_processor * num_processors(torch.device(DEVICE))) if per_processor else num_tiles


Tiles = tuple[
    int, int, int, int, int, int
]  # rows, columns, depth, warps, stages, programs a processor (0: a tile each)


def product_gelu(x: Tensor, weight: Tensor, bias: Tensor, tiles: Tiles) -> tuple[Tensor, Tensor]:
    bm, bn, bk, warps, stages, programs = tiles
    before, out = (x.new_empty(len(x), len(weight)) for _ in range(2))
    wide, down = triton.cdiv(len(weight), bn), triton.cdiv(len(x), bm)
    _product_gelu[(num_programs(wide * down, programs),)](
        described(x, bm, bk), described(weight, bn, bk), bias, described(before, bm, bn), described(out, bm, bn),
        wide * down, x.shape[1], BM=bm, BN=bn, BK=bk, WIDE=wide, FLAT=programs > 0,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return before, out


def product_gelu_gradient(grad: Tensor, weight: Tensor, before: Tensor, tiles: Tiles) -> tuple[Tensor, Tensor]:
    bm, bn, bk, warps, stages, programs = tiles
    out, width = torch.empty_like(before), before.shape[1]
    wide, down = triton.cdiv(width, bn), triton.cdiv(len(grad), bm)
    sums = torch.empty(down, width, dtype=torch.float32, device=grad.device)
    _product_gelu_gradient[(num_programs(wide * down, programs),)](
        described(grad, bm, bk), described(weight, bk, bn), described(before, bm, bn), described(out, bm, bn), sums,
        wide * down, width, grad.shape[1], BM=bm, BN=bn, BK=bk, WIDE=wide, FLAT=programs > 0,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out, sums.sum(0)


@triton.jit(do_not_specialize=["num_tokens", "num_tiles"])
def _backward_in_halves(
    grad, query, pair, scales, out, starts, num_tokens, num_tiles,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    """As short_attention's, a part of the queries at a time, so that two programs fit on a processor."""
    stride: tl.constexpr = 3 * HEADS * WIDTH
    factor: tl.constexpr = 1.4426950408889634 * WIDTH**-0.5
    rows, across, part = tl.arange(0, BLOCK), tl.arange(0, WIDTH), tl.arange(0, HALF)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        sequence, head = tile // HEADS, tile % HEADS
        start = tl.load(starts + sequence)
        length = tl.load(starts + sequence + 1) - start
        keys = pair.load([start, (HEADS + head) * WIDTH])
        values = pair.load([start, (2 * HEADS + head) * WIDTH])
        key_grad = tl.zeros((BLOCK, WIDTH), tl.float32)
        value_grad = tl.zeros((BLOCK, WIDTH), tl.float32)
        base = out + start.to(tl.int64) * stride + head * WIDTH
        for first in tl.range(0, length, HALF):
            columns = first + part
            is_column = columns < length
            queries = query.load([start + first, head * WIDTH])
            given = grad.load([start + first, head * WIDTH])
            scale = tl.load(scales + head * num_tokens + start + columns, is_column, 0.0)
            shares = tl.exp2(tl.dot(keys, tl.trans(queries)) * factor - scale[None, :])
            shares = tl.where((rows < length)[:, None] & is_column[None, :], shares, 0.0)
            share_grad = tl.dot(values, tl.trans(given))
            value_grad = tl.dot(shares.to(given.dtype), given, value_grad)
            delta = tl.sum(shares * share_grad, 0)
            score_grad = (shares * (share_grad - delta[None, :])).to(queries.dtype)
            key_grad = tl.dot(score_grad, queries, key_grad)
            query_grad = tl.dot(tl.trans(keys), score_grad) * WIDTH**-0.5
            target = base + columns[None, :] * stride + across[:, None]
            tl.store(target, query_grad.to(out.dtype.element_ty), is_column[None, :])
        target = base + rows[:, None] * stride + across[None, :]
        is_real = (rows < length)[:, None]
        tl.store(target + HEADS * WIDTH, (key_grad * WIDTH**-0.5).to(out.dtype.element_ty), is_real)
        tl.store(target + 2 * HEADS * WIDTH, value_grad.to(out.dtype.element_ty), is_real)


def backward_in_halves(
    grad: Tensor, qkv: Tensor, attended: Attended, sequences: Sequences, half: int, warps: int, programs: int
) -> Tensor:
    num_tokens, _, num_heads, width = qkv.shape
    out, block, num_tiles = torch.empty_like(qkv), sequences.block, num_heads * sequences.count
    flat = qkv.flatten(1)
    _backward_in_halves[(num_programs(num_tiles, programs),)](
        described(grad.flatten(1), half, width), described(flat, half, width), described(flat, block, width),
        attended.scale_HN, out, sequences.starts_S, num_tokens, num_tiles,
        HEADS=num_heads, WIDTH=width, BLOCK=block, HALF=half, num_warps=warps,
    )  # fmt: skip
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=131_072)
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--check", action="store_true", help="small, every setting, nothing timed")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    for name in arguments.only:
        times = []
        for label, work, wrong in GROUPS[name](192 if arguments.check else arguments.tokens, arguments.check):
            try:
                error = wrong()
                took = 0.0 if arguments.check else milliseconds(work)
            except (triton.OutOfResources, RuntimeError) as problem:
                print(f"{name}: {label}: {type(problem).__name__}: {str(problem)[:80]}", flush=True)
                continue
            times.append((took, f"{label:52} {took:7.3f} ms, off by {error:.1e}"))
            if error > 1e-2:
                sys.exit(f"{name}: {times[-1][1]}: wrong")
        for _, line in times[:1] + sorted(times[1:])[: 99 if arguments.check else 6]:
            print(f"{name}: {line}", flush=True)


def milliseconds(work: Callable[[], object]) -> float:
    for _ in range(3):
        work()
    times = []
    for _ in range(15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


Candidates = Iterator[tuple[str, Callable[[], object], Callable[[], float]]]


def numbers(*shape: int, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, device=DEVICE) * scale).to(DTYPE)


def distance(ours: Tensor, expected: Tensor) -> float:
    return float((ours.double() - expected.double()).norm() / expected.double().norm())


def tiles(is_check: bool) -> list[Tiles]:
    if is_check:
        return [(64, 32, 32, 4, 2, 0), (64, 32, 32, 4, 2, 1)]
    small = itertools.product([128], [128], [64], [4, 8], [3, 4], [0, 2])
    large = itertools.product([128], [256], [64], [8], [3, 4], [0, 1])
    tall = itertools.product([256], [128], [64], [8], [3], [0, 1])
    return [*small, *large, *tall, (128, 192, 64, 8, 3, 1), (64, 256, 64, 4, 3, 2)]


def gelu(num_tokens: int, is_check: bool) -> Candidates:
    width, inner = (64, 96) if is_check else (768, 3072)
    x, weight, bias = numbers(num_tokens, width), numbers(inner, width, scale=width**-0.5), numbers(inner)
    before = torch.nn.functional.linear(x.double()[:4096], weight.double(), bias.double())
    exact = torch.nn.functional.gelu(before, approximate="tanh")

    def wrong(found: tuple[Tensor, Tensor]) -> float:
        return max(distance(found[0][:4096], before), distance(found[1][:4096], exact))

    if not is_check:
        yield "now", lambda: CUBLASLT.dense_gelu(x, weight, bias), lambda: wrong(CUBLASLT.dense_gelu(x, weight, bias))
    for one in tiles(is_check):
        yield (
            str(one),
            lambda one=one: product_gelu(x, weight, bias, one),
            lambda one=one: wrong(product_gelu(x, weight, bias, one)),
        )


def gelu_gradient(num_tokens: int, is_check: bool) -> Candidates:
    width, inner = (64, 96) if is_check else (768, 3072)
    grad, weight = numbers(num_tokens, width), numbers(width, inner, scale=width**-0.5)
    before = numbers(num_tokens, inner)
    part = slice(0, 4096)
    exact = torch.ops.aten.gelu_backward(
        grad[part].double() @ weight.double(), before[part].double(), approximate="tanh"
    )

    def now() -> tuple[Tensor, Tensor]:
        out = CUBLASLT.gelu_input_gradient(grad, weight, before)
        return out, out.sum(0, dtype=torch.float32)

    def wrong(found: tuple[Tensor, Tensor]) -> float:
        return max(distance(found[0][part], exact), distance(found[1], found[0].double().sum(0)) / 4)

    if not is_check:
        yield "now, bias sums too", now, lambda: wrong(now())
    for one in tiles(is_check):
        yield (
            str(one),
            lambda one=one: product_gelu_gradient(grad, weight, before, one),
            lambda one=one: wrong(product_gelu_gradient(grad, weight, before, one)),
        )


def attention_backward(num_tokens: int, is_check: bool) -> Candidates:
    length, heads, width = (32, 2, 16) if is_check else (128, 12, 64)
    lengths = torch.randint(length * 3 // 4, length + 1, (num_tokens // (length * 3 // 4) + 1,))
    starts = torch.cat((torch.zeros(1, dtype=torch.long), torch.cumsum(lengths, 0).clamp(max=num_tokens))).int()
    qkv, grad = numbers(num_tokens, 3, heads, width), numbers(num_tokens, heads, width)
    sequences = Sequences(starts.to(DEVICE), length)
    attended = attend(qkv, sequences, Drop())

    def now() -> Tensor:
        return short_attention.attend_backward_short(grad, qkv, attended, sequences, Drop())

    exact = now()  # which a test compares with float64
    yield "now", now, lambda: 0.0
    settings = [(16, 4, 1)] if is_check else itertools.product([32, 64, 128], [4, 8], [1, 2, 3])
    for one in settings:
        yield (
            f"in parts of {one[0]}, {one[1]} warps, {one[2]} programs",
            lambda one=one: backward_in_halves(grad, qkv, attended, sequences, *one),
            lambda one=one: distance(backward_in_halves(grad, qkv, attended, sequences, *one), exact),
        )


def norm_backward(num_tokens: int, is_check: bool) -> Candidates:
    width = 96 if is_check else 768
    x, residual, grad = (numbers(num_tokens, width) for _ in range(3))
    weight, bias = (torch.randn(width, device=DEVICE) for _ in range(2))
    normed = norms.add_and_norm(x.clone(), residual, (weight, bias), 1e-12, Drop())

    def now() -> Tensor:
        return norms.norm_backward(grad, None, normed, weight, Drop())[0]

    exact, before = now(), (norms.PROGRAMS, norms.STAGES, norms.WARPS)
    yield "now", now, lambda: 0.0
    for programs, stages, warps in itertools.product([4, 8, 16, 24], [1, 2, 3], [1, 2, 4]):

        def work(chosen: tuple[int, int, int] = (programs, stages, warps)) -> Tensor:
            norms.PROGRAMS, norms.STAGES, norms.WARPS = chosen
            found = now()
            norms.PROGRAMS, norms.STAGES, norms.WARPS = before
            return found

        label = f"{programs} programs, {stages} stages, {warps} warps"
        yield label, work, lambda work=work: distance(work(), exact)
        if is_check:
            return


GROUPS: dict[str, Callable[[int, bool], Candidates]] = {
    "gelu": gelu,
    "gelu gradient": gelu_gradient,
    "attention backward": attention_backward,
    "norm backward": norm_backward,
}

if __name__ == "__main__":
    main()
