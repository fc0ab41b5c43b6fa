"""Whether attention on the CPU gains by its own ways: a call a sequence against padding, bands against all pairs."""

import argparse
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from bertie.kernels.attention import Attend, by_bands, one_by_one, padded
from bertie.kernels.plain import Pattern

HEADS, HEAD_WIDTH, WINDOW = 12, 64, 128
# Lengths of the sequences: searches, sentences, paragraphs, one document among questions.
PADDING_CASES = {
    "64 of 24": [24] * 64,
    "64 of 5 to 40": list(range(5, 41)) + list(range(12, 40)),
    "8 of 100 to 512": [100, 130, 180, 250, 300, 380, 450, 512],
    "1 of 512, 31 of 10": [512] + [10] * 31,
}
WINDOW_CASES = {"16 of 256": [256] * 16, "8 of 512": [512] * 8, "2 of 2048": [2048] * 2, "1 of 8192": [8192]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(
        f"{HEADS} heads of {HEAD_WIDTH}, float32, {arguments.threads} threads; best of {arguments.rounds}, alternating"
    )
    compare(PADDING_CASES, {"padded": padded, "one by one": one_by_one}, Pattern(), arguments.rounds)
    compare(WINDOW_CASES, {"all pairs": one_by_one, "bands": by_bands}, Pattern(window=WINDOW), arguments.rounds)


def compare(cases: Mapping[str, list[int]], ways: Mapping[str, Attend], pattern: Pattern, rounds: int) -> None:
    """A table: milliseconds of each way, forward alone and with the gradient, and the gain of the second."""
    names = list(ways)
    print(f"\n{'sequences':20} {'':8} {names[0] + ' ms':>14} {names[1] + ' ms':>14} {'ratio':>6}")
    for case, lengths in cases.items():
        starts = torch.tensor([0, *lengths]).cumsum(0).int()
        qkv = torch.randn(sum(lengths), 3, HEADS, HEAD_WIDTH, generator=torch.Generator().manual_seed(0))
        for kind, run in (("forward", forward), ("training", training)):
            best = dict.fromkeys(names, float("inf"))
            for _ in range(rounds):
                for name, attend in ways.items():
                    best[name] = min(best[name], run(attend, qkv, starts, max(lengths), pattern))
            slow, fast = (best[name] for name in names)
            print(f"{case:20} {kind:8} {1000 * slow:14.2f} {1000 * fast:14.2f} {slow / fast:5.1f}x")


def forward(attend: Attend, qkv: Tensor, starts: Tensor, max_length: int, pattern: Pattern) -> float:
    q, k, v = qkv.unbind(1)
    with torch.no_grad():
        return seconds(lambda: attend(q, k, v, starts, max_length, pattern))


def training(attend: Attend, qkv: Tensor, starts: Tensor, max_length: int, pattern: Pattern) -> float:
    q, k, v = qkv.clone().requires_grad_().unbind(1)
    return seconds(lambda: attend(q, k, v, starts, max_length, pattern).sum().backward())


def seconds(work: Callable[[], object]) -> float:
    """Of the processor, since others may be at work on the machine."""
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
