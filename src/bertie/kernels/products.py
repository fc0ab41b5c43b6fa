"""The matrix products of a layer and their gradients, each with what is done to the result on its way to memory: as a
table, plainly in torch here and by cuBLASLt in `cublaslt.py`."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Products:
    """Weights are (outputs, inputs), as torch has them; a bias has the numbers' type, gradients of weights float32."""

    dense: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]  # x, weight, bias, what is added
    dense_gelu: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # x, weight, bias -> before gelu, after it
    input_gradient: Callable[[Tensor, Tensor, Tensor | None], Tensor]  # gradient, weight, what is added
    gelu_input_gradient: Callable[[Tensor, Tensor, Tensor], Tensor]  # gradient, weight, before gelu
    weight_gradient: Callable[[Tensor, Tensor], Tensor]  # gradient, x
    weight_and_bias_gradient: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # gradient, x


def dense(x_ND: Tensor, weight_FD: Tensor, bias_F: Tensor, add_NF: Tensor | None) -> Tensor:
    """x weight^T + bias, and what is added."""
    out_NF = functional.linear(x_ND, weight_FD, bias_F)
    return out_NF if add_NF is None else out_NF + add_NF


def dense_gelu(x_ND: Tensor, weight_FD: Tensor, bias_F: Tensor) -> tuple[Tensor, Tensor]:
    """x weight^T + bias, and its gelu by tanh."""
    before_NF = functional.linear(x_ND, weight_FD, bias_F)
    return before_NF, functional.gelu(before_NF, approximate="tanh")


def input_gradient(grad_NF: Tensor, weight_FD: Tensor, add_ND: Tensor | None) -> Tensor:
    """The gradient of `dense`'s x, and what is added."""
    out_ND = grad_NF @ weight_FD
    return out_ND if add_ND is None else out_ND + add_ND


def gelu_input_gradient(grad_ND: Tensor, weight_DF: Tensor, before_NF: Tensor) -> Tensor:
    """The gradient of what stood before the gelu whose result `dense` took for x."""
    out_NF: Tensor = torch.ops.aten.gelu_backward(grad_ND @ weight_DF, before_NF, approximate="tanh")
    return out_NF


def weight_gradient(grad_NF: Tensor, x_ND: Tensor) -> Tensor:
    """The gradient of `dense`'s weight."""
    return (grad_NF.T @ x_ND).float()


def weight_and_bias_gradient(grad_NF: Tensor, x_ND: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of `dense`'s weight and bias."""
    return weight_gradient(grad_NF, x_ND), grad_NF.float().sum(0)


PLAIN = Products(dense, dense_gelu, input_gradient, gelu_input_gradient, weight_gradient, weight_and_bias_gradient)
