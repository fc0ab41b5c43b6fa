"""The products and what is done to their results, by cuBLASLt and plainly, against autograd in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bertie.kernels.products import PLAIN, Products

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
NAMES = ["plain", pytest.param("cublaslt", marks=[pytest.mark.gpu, CUDA])]


def products_by_name(name: str) -> Products:
    if name == "plain":
        return PLAIN
    from bertie.kernels.cublaslt import CUBLASLT

    return CUBLASLT


def distance(ours: Tensor, expected: Tensor) -> float:
    return float((ours.detach().double() - expected.detach()).norm() / expected.detach().norm())


@pytest.mark.parametrize("name", NAMES)
def test_equals_float64(name: str, device: str) -> None:
    dtype, limit = (torch.bfloat16, 6e-3) if device == "cuda" else (torch.float32, 1e-5)
    products, generator = products_by_name(name), torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(device, dtype)

    x, weight, bias, add, given = draw(72, 32), draw(48, 32), draw(48), draw(72, 48), draw(72, 48)
    exact = [one.double().requires_grad_() for one in (x, weight, bias)]
    linear = functional.linear(*exact)
    x_grad, weight_grad, bias_grad = torch.autograd.grad(linear, exact, given.double(), retain_graph=True)
    before, after = products.dense_gelu(x, weight, bias)
    x_add = draw(72, 32)
    ours_and_exact = [
        (products.dense(x, weight, bias, None), linear),
        (products.dense(x, weight, bias, add), linear + add.double()),
        (before, linear),
        (after, functional.gelu(linear, approximate="tanh")),
        (products.input_gradient(given, weight, None), x_grad),
        (products.input_gradient(given, weight, x_add), x_grad + x_add.double()),
        (products.weight_gradient(given, x), weight_grad),
        *zip(products.weight_and_bias_gradient(given, x), (weight_grad, bias_grad), strict=True),
    ]
    outer, outer_given, before_double = draw(32, 48), draw(72, 32), before.double().requires_grad_()
    out = functional.linear(functional.gelu(before_double, approximate="tanh"), outer.double())
    (before_grad,) = torch.autograd.grad(out, before_double, outer_given.double())
    ours_and_exact.append((products.gelu_input_gradient(outer_given, outer, before), before_grad))
    for index, (ours, expected) in enumerate(ours_and_exact):
        assert distance(ours, expected) < limit, index
