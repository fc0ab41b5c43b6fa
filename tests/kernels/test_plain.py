"""The reference itself, against the formula spelled out number by number."""

import math

import pytest
import torch

from bertie.kernels.plain import Pattern, attend_and_show, plain


@pytest.mark.parametrize(
    ("pattern", "seen"),
    [
        (Pattern(), [[1, 1, 1, 1]] * 4),
        (Pattern(causal=True), [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]),
        (Pattern(window=2), [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]),
        (Pattern(causal=True, window=2), [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]),
    ],
    ids=["full", "causal", "window", "causal window"],
)
def test_equals_the_formula(pattern: Pattern, seen: list[list[int]]) -> None:
    q, k, v = torch.randn(3, 4, 1, 3, generator=torch.Generator().manual_seed(0))
    starts = torch.tensor([0, 4], dtype=torch.int32)
    out, (shown,) = attend_and_show(q, k, v, starts, 4, pattern)
    for row in range(4):
        weights = [seen[row][column] * math.exp(float(q[row, 0] @ k[column, 0]) / math.sqrt(3)) for column in range(4)]
        probabilities = torch.tensor(weights) / sum(weights)
        torch.testing.assert_close(shown[0, row], probabilities)
        torch.testing.assert_close(out[row, 0], probabilities @ v[:, 0])


def test_sequences_do_not_see_each_other() -> None:
    q, k, v = torch.randn(3, 7, 2, 4, generator=torch.Generator().manual_seed(0))
    starts = torch.tensor([0, 3, 7, 7], dtype=torch.int32)
    out, shown = attend_and_show(q, k, v, starts, 4, Pattern())
    assert [tuple(each.shape) for each in shown] == [(2, 3, 3), (2, 4, 4)]
    alone = plain(q[3:], k[3:], v[3:], torch.tensor([0, 4]), 4, Pattern())
    torch.testing.assert_close(out[3:], alone)
