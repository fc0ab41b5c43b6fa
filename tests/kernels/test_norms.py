"""Residual, dropout and norm in one pass against float64."""

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from bertie.kernels.dropout import Drop, kept
from bertie.kernels.norms import add_and_norm, norm_backward

DROPS = {"none": Drop(), "before": Drop(0.25, 1234567), "after": Drop(0.25, 2_000_000_001, is_after=True)}
LIMITS = {torch.float32: 1e-6, torch.bfloat16: 6e-3}


def distance(ours: Tensor, exact: Tensor) -> float:
    return float((ours.detach().double() - exact.detach()).norm() / exact.detach().norm())


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize(("num_tokens", "width"), [(7, 96), (33, 64), (1, 128)])
@pytest.mark.parametrize("drop", DROPS.values(), ids=DROPS)
@pytest.mark.parametrize("has_residual", [True, False])
def test_equals_float64(
    has_residual: bool, drop: Drop, num_tokens: int, width: int, dtype: torch.dtype, device: str
) -> None:
    generator = torch.Generator().manual_seed(num_tokens)
    x, residual, given = (torch.randn(num_tokens, width, generator=generator).to(device, dtype) for _ in range(3))
    weight, bias = (torch.randn(width, generator=generator).to(device) for _ in range(2))
    exact = [one.double().requires_grad_() for one in (x, residual, weight, bias)]
    factor = torch.ones((), device=device, dtype=torch.float64)
    if drop.rate:
        places = torch.arange(num_tokens * width, device=device).view(num_tokens, width)
        factor = kept(places, drop.seed, drop.rate).double() / (1 - drop.rate)
    total = exact[0] * (1.0 if drop.is_after else factor) + (exact[1] if has_residual else 0.0)
    expected = torch.nn.functional.layer_norm(total, (width,), exact[2], exact[3], 1e-5)
    expected = expected * factor if drop.is_after else expected
    x_grad, weight_grad, bias_grad = torch.autograd.grad(expected, (exact[0], *exact[2:]), given.double())

    normed = add_and_norm(x.clone(), residual if has_residual else None, (weight, bias), 1e-5, drop)
    parts = (given / 2, given / 2) if has_residual else (given, None)  # halves are exact
    sum_grad_ND, x_grad_ND, grads_3D = norm_backward(*parts, normed, weight, drop)
    ours = (normed.out_ND, x_grad_ND, grads_3D[0], grads_3D[1], grads_3D[2])
    for one, other in zip(ours, (expected, x_grad, weight_grad, bias_grad, x_grad.sum(0)), strict=True):
        assert distance(one, other) < LIMITS[dtype]
    if drop.rate and not drop.is_after:
        assert distance(torch.where(factor > 0, sum_grad_ND * factor, 0), x_grad) < LIMITS[dtype]
