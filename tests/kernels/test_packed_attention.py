"""Attention that reads the packed projection against float64: any lengths, with dropout and without."""

from itertools import pairwise

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from bertie.kernels.dropout import Drop, kept
from bertie.kernels.packed_attention import attend, attend_backward
from bertie.kernels.sequences import Sequences

LENGTHS = {
    "one": [9],
    "one of length 1": [1],
    "many": [5, 1, 12, 7],
    "not used": [5, 11, 0, 0],
    "a block to the token": [128, 64, 3],
    "one block": [40, 17, 100],
    "several blocks": [150, 3, 257, 1, 0],
}
DROPS = {"no dropout": Drop(), "dropout": Drop(0.25, 1_999_999_999)}


def exact(qkv_N3HK: Tensor, sequences: Sequences, drop: Drop) -> Tensor:
    """The formula, in the type it is given, dropping what the kernel drops."""
    _, _, num_heads, width = qkv_N3HK.shape
    heads, device, outputs = torch.arange(num_heads)[:, None, None], qkv_N3HK.device, []
    for start, end in pairwise(sequences.starts_S.tolist()):
        q_HTK, k_HTK, v_HTK = qkv_N3HK[start:end].transpose(0, 2).transpose(1, 2).unbind(2)
        shares_HTT = (q_HTK @ k_HTK.transpose(1, 2) * width**-0.5).softmax(-1)
        if drop.rate and end > start:
            tokens, keys = torch.arange(start, end)[None, :, None], torch.arange(end - start)[None, None, :]
            places = (tokens * num_heads + heads) * (sequences.num_keys) + keys
            shares_HTT = shares_HTT * kept(places, drop.seed, drop.rate).to(device) / (1 - drop.rate)
        outputs.append((shares_HTT @ v_HTK).transpose(0, 1))
    return torch.cat(outputs)


def distance(ours: Tensor, expected: Tensor) -> float:
    return float((ours.detach().double() - expected.detach()).norm() / expected.detach().norm())


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS)
def test_equals_float64(drop: Drop, lengths: list[int], device: str) -> None:
    dtype, limit = (torch.bfloat16, 8e-3) if device == "cuda" else (torch.float32, 2e-6)
    generator = torch.Generator().manual_seed(sum(lengths))
    qkv = torch.randn(sum(lengths), 3, 2, 16, generator=generator).to(device, dtype)
    given = torch.randn(sum(lengths), 2, 16, generator=generator).to(device, dtype)
    sequences = Sequences(torch.tensor([0, *lengths]).cumsum(0).int().to(device), max(lengths))
    qkv_double = qkv.double().requires_grad_()
    expected = exact(qkv_double, sequences, drop)
    (expected_grad,) = torch.autograd.grad(expected, qkv_double, given.double())

    attended = attend(qkv, sequences, drop)
    grad, sums = attend_backward(given, qkv, attended, sequences, drop)
    assert distance(attended.out_NHK, expected) < limit
    for part in range(3 if max(lengths) > 1 else 0):
        assert distance(grad[:, part], expected_grad[:, part]) < limit
    assert distance(grad[:, 2], expected_grad[:, 2]) < limit
    assert distance(sums.view(3, 2, 16)[2], expected_grad[:, 2].sum(0)) < limit
    torch.testing.assert_close(
        sums.view(3, 2, 16)[:2].double(),
        expected_grad[:, :2].sum(0),
        atol=0.02 if device == "cuda" else 1e-5,
        rtol=0.01,
    )


def test_a_longer_limit_changes_nothing(device: str) -> None:
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    qkv = torch.randn(30, 3, 2, 16, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    starts = torch.tensor([0, 9, 30, 30], dtype=torch.int32, device=device)
    outputs = [attend(qkv, Sequences(starts, longest), Drop()).out_NHK for longest in (21, 128, 300)]
    for other in outputs[1:]:
        torch.testing.assert_close(other, outputs[0])
