"""The fused cross-entropy against float64: losses, right guesses, gradient, rows that do not count, padded columns."""

import pytest
import torch

pytest.importorskip("triton")

from bertie.kernels import cross_entropy
from bertie.kernels.cross_entropy import NONE, cross_entropy_


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("block", [32, 4096])
def test_equals_float64(block: int, dtype: torch.dtype, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "BLOCK", block)
    logits = torch.randn(9, 104, generator=torch.Generator().manual_seed(0)).to(device, dtype)
    labels = torch.tensor([5, NONE, 99, 0, 0, NONE, 50, 31, 32], device=device)
    logits[3, 0] = 9  # guessed right
    logits[4] = 0  # all as large: the first one is the guess
    words = logits[:, :100].double().requires_grad_()
    losses = torch.nn.functional.cross_entropy(words, labels, reduction="none", ignore_index=NONE)
    (gradient,) = torch.autograd.grad(losses.sum(), words)

    losses_M, correct_M = cross_entropy_(logits, labels, 100)
    assert torch.equal(correct_M.bool(), words.argmax(-1) == labels)
    torch.testing.assert_close(losses_M.double(), losses.detach(), atol=1e-6, rtol=1e-6)
    limit = 1e-6 if dtype == torch.float32 else 4e-3
    assert (logits[:, :100].double() - gradient).norm() < limit * gradient.norm()
    assert not logits[:, 100:].any()
