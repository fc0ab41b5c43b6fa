"""From gradients to steps: which weights decay, and Google's AdamWeightDecay, AdamW, LAMB and Muon.

Each optimizer here leaves weights and state as they are, to the bit, when the tensor `found_inf` (torch's name, which
its fused optimizers read too) is 1: a step is skipped where that is decided, on the device, and no host waits for it.
"""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from bertie.training.distributed import norms, part, part_of_whole, whole_of_parts


@dataclass(frozen=True)
class OptimizerConfig:
    """Which rule, and its constants; those given are Google's. `matrix_…` and `matrices` are read by `muon` alone."""

    lr: float  # at the peak
    rule: Literal["adam_weight_decay", "adamw", "lamb", "muon"] = "adamw"
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    weight_decay: float = 0.01
    layer_decay: float = 1.0  # the rate of a layer as a share of that of the layer above, the heads' being `lr`
    matrices: str = r"\blayers\."  # which two-dimensional weights are Muon's: those whose name has this pattern
    matrix_lr: float = 0.02
    matrix_momentum: float = 0.95

    def __post_init__(self) -> None:
        for name, rate in (("lr", self.lr), ("matrix_lr", self.matrix_lr), ("epsilon", self.epsilon)):
            if not rate > 0:
                raise ValueError(f"{name} is {rate}; it must be above 0.")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"weight_decay is {self.weight_decay}; it must be at least 0.")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay is {self.layer_decay}; it must be above 0 and at most 1.")
        if self.layer_decay < 1 and self.rule == "muon":
            raise ValueError("layer_decay is for the other rules: with muon all matrices learn at matrix_lr.")
        for name, share in (("beta1", self.beta1), ("beta2", self.beta2), ("matrix_momentum", self.matrix_momentum)):
            if not 0 <= share < 1:
                raise ValueError(f"{name} is {share}; it must be at least 0 and below 1.")


NamedParameters = Sequence[tuple[str, nn.Parameter]]


def make_optimizers(model: nn.Module, config: OptimizerConfig) -> list[Optimizer]:
    """The optimizers of a model's trained parameters; the first is the one whose rate is `lr`."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    return RULES[config.rule](named, config)


def set_share(optimizers: Iterable[Optimizer], share: float) -> None:
    """Set every learning rate to this share of its peak."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = share * group["peak_lr"]


def skip_where(optimizers: Iterable[Optimizer], skip: Tensor) -> None:
    """Have the next step change nothing if the tensor is 1; it stays on the device."""
    for optimizer in optimizers:
        optimizer.found_inf = skip  # type: ignore[attr-defined]  # where torch's own GradScaler puts it


def trained(optimizers: Iterable[Optimizer]) -> list[nn.Parameter]:
    """All parameters of the optimizers."""
    return [parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]]


def clip_gradients(optimizers: Iterable[Optimizer], limit: float) -> Tensor:
    """The norm of all gradients together; where it is above the limit they are scaled down to it, as Google's are."""
    parameters = [parameter for parameter in trained(optimizers) if parameter.grad is not None]
    gradients = _gradients(parameters, skip=None)
    norm: Tensor = torch.linalg.vector_norm(norms(gradients, parameters[0]))
    if limit < math.inf:
        torch._foreach_mul_(gradients, limit / norm.clamp(min=limit))
    return norm


def parameter_groups(named: NamedParameters, config: OptimizerConfig) -> list[dict[str, object]]:
    """The parameters that decay and those that do not, with layer_decay for each layer apart, the heads first.

    Google leaves out `LayerNorm|layer_norm|bias`, by name. Those are its vectors, everything else (embeddings, pooler,
    kernels of heads too) its matrices: the number of dimensions says the same whatever a model calls its norms.
    """
    depths = _depths([name for name, _ in named]) if config.layer_decay < 1 else [0] * len(named)
    top = max(depths, default=0)
    groups: list[dict[str, object]] = []
    for depth in sorted(set(depths), reverse=True):
        here = [parameter for (_, parameter), its in zip(named, depths, strict=True) if its == depth]
        rate = config.lr * config.layer_decay ** (top - depth)
        rates = {"lr": rate, "peak_lr": rate}
        is_adapted = config.rule == "lamb"
        decayed = [parameter for parameter in here if parameter.ndim >= 2]
        others = [parameter for parameter in here if parameter.ndim < 2]
        groups.append({"params": decayed, "weight_decay": config.weight_decay, "is_adapted": is_adapted, **rates})
        groups.append({"params": others, "weight_decay": 0.0, "is_adapted": False, **rates})
    return [group for group in groups if group["params"]]


def _depths(names: Sequence[str]) -> list[int]:
    """How deep each parameter is in its model: embeddings 0, layers from 1, all else above the last layer."""
    numbers = [_layer(name) for name in names]
    above = 1 + max((number for number in numbers if number is not None), default=0)
    return [above if number is None else number for number in numbers]


def _layer(name: str) -> int | None:
    layer = re.search(r"\blayers\.(\d+)\.", name)
    if layer:
        return int(layer[1]) + 1
    return 0 if "embeddings." in name else None


class AdamWeightDecay(Optimizer):
    """Google's Adam: decay beside the moments, no bias correction, epsilon outside the root.

    Groups with `is_adapted` take steps as long as their weights are (LAMB, as ALBERT's code has it).
    """

    found_inf: Tensor | None = None

    def __init__(self, groups: Iterable[dict[str, object]], config: OptimizerConfig) -> None:
        self.config = config
        super().__init__(groups, {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closures
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._update(parameters, group["lr"], group["weight_decay"], group["is_adapted"])

    def _update(self, parameters: list[nn.Parameter], lr: float, weight_decay: float, is_adapted: bool) -> None:
        beta1, beta2 = self.config.beta1, self.config.beta2
        weights = [part(parameter) for parameter in parameters]
        gradients = _gradients(parameters, self.found_inf)
        means = _state(self, parameters, "exp_avg")
        squares = _state(self, parameters, "exp_avg_sq")
        torch._foreach_mul_(means, _unless(self.found_inf, beta1, 1.0))
        torch._foreach_add_(means, gradients, alpha=1 - beta1)
        torch._foreach_mul_(squares, _unless(self.found_inf, beta2, 1.0))
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, self.config.epsilon)
        updates = torch._foreach_div(means, roots)
        torch._foreach_add_(updates, weights, alpha=weight_decay)
        if is_adapted:
            torch._foreach_mul_(updates, _trust_ratios(weights, updates, parameters[0]))
        torch._foreach_mul_(updates, _unless(self.found_inf, lr, 0.0))
        torch._foreach_sub_(weights, updates)


def _trust_ratios(weights: Sequence[Tensor], updates: Sequence[Tensor], like: Tensor) -> list[Tensor]:
    weight_norms, update_norms = norms(weights, like), norms(updates, like)
    is_measurable = (weight_norms > 0) & (update_norms > 0)
    return list(torch.where(is_measurable, weight_norms / update_norms, 1.0).unbind())


class Muon(Optimizer):
    """Momentum, then the nearest orthogonal matrix instead of the gradient (Jordan et al., 2024), for matrices only.

    torch has one, which ours is tested against; ours can skip, and takes all matrices of one shape at once.
    """

    found_inf: Tensor | None = None

    def __init__(self, matrices: list[nn.Parameter], config: OptimizerConfig) -> None:
        self.config = config
        rates = {"lr": config.matrix_lr, "peak_lr": config.matrix_lr}
        super().__init__([{"params": matrices, **rates}], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closures
        same_shape: defaultdict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None:
                same_shape[parameter.shape].append(parameter)
        for parameters in same_shape.values():
            self._update(parameters, self.param_groups[0]["lr"])

    def _update(self, parameters: list[nn.Parameter], lr: float) -> None:
        momentum = self.config.matrix_momentum
        gradients = _gradients(parameters, self.found_inf)
        means = _state(self, parameters, "momentum_buffer")
        torch._foreach_mul_(means, _unless(self.found_inf, momentum, 1.0))
        torch._foreach_add_(means, gradients, alpha=1 - momentum)
        looks_ahead = torch._foreach_lerp(gradients, means, momentum)  # Nesterov's
        whole_LFD = torch.stack(
            [whole_of_parts(look, like) for look, like in zip(looks_ahead, parameters, strict=True)]
        )
        num_rows, num_columns = whole_LFD.shape[1:]
        steps_LFD = orthogonalize(whole_LFD) * max(1, num_rows / num_columns) ** 0.5  # as long whatever the shape
        steps = [part_of_whole(step, like) for step, like in zip(steps_LFD, parameters, strict=True)]
        weights = [part(parameter) for parameter in parameters]
        torch._foreach_mul_(weights, _unless(self.found_inf, 1 - lr * self.config.weight_decay, 1.0))
        torch._foreach_mul_(steps, _unless(self.found_inf, lr, 0.0))
        torch._foreach_sub_(weights, steps)


def orthogonalize(matrices_LFD: Tensor, num_rounds: int = 5) -> Tensor:
    """Matrices with the same singular vectors and all singular values near 1 (0.7 to 1.2), by Newton and Schulz.

    The coefficients are Jordan's: they trade exactness at 1 for few rounds. In bfloat16 on a GPU, where it is enough.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x_LFD = matrices_LFD.bfloat16() if matrices_LFD.is_cuda else matrices_LFD
    is_tall = x_LFD.shape[1] > x_LFD.shape[2]
    if is_tall:
        x_LFD = x_LFD.mT
    x_LFD = x_LFD / x_LFD.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(num_rounds):
        gram_LFF = x_LFD @ x_LFD.mT
        polynomial_LFF = torch.baddbmm(gram_LFF, gram_LFF, gram_LFF, beta=b, alpha=c)
        x_LFD = torch.baddbmm(x_LFD, polynomial_LFF, x_LFD, beta=a)
    return (x_LFD.mT if is_tall else x_LFD).to(matrices_LFD.dtype)


def _gradients(parameters: list[nn.Parameter], skip: Tensor | None) -> list[Tensor]:
    """This rank's part of each gradient, all zeros if the step is skipped: the infinite must not reach the state."""
    gradients = [part(parameter.grad) for parameter in parameters if parameter.grad is not None]
    if skip is not None:
        for gradient in gradients:
            gradient.masked_fill_(skip.bool(), 0.0)
    return gradients


def _state(optimizer: Optimizer, parameters: list[nn.Parameter], key: str) -> list[Tensor]:
    for parameter in parameters:
        if key not in optimizer.state[parameter]:
            optimizer.state[parameter][key] = torch.zeros_like(parameter)
    return [part(optimizer.state[parameter][key]) for parameter in parameters]


def _unless(skip: Tensor | None, value: float, otherwise: float) -> Tensor | float:
    return value if skip is None else torch.where(skip.bool(), otherwise, value)


def _adamw(named: NamedParameters, config: OptimizerConfig) -> list[Optimizer]:
    groups = parameter_groups(named, config)
    return [AdamW(groups, betas=(config.beta1, config.beta2), eps=config.epsilon, fused=True)]


def _adam_weight_decay(named: NamedParameters, config: OptimizerConfig) -> list[Optimizer]:
    return [AdamWeightDecay(parameter_groups(named, config), config)]


def _muon(named: NamedParameters, config: OptimizerConfig) -> list[Optimizer]:
    """AdamW for tables, norms, biases and heads, Muon for the matrices between them."""
    is_matrix = {name: parameter.ndim == 2 and bool(re.search(config.matrices, name)) for name, parameter in named}
    matrices = [parameter for name, parameter in named if is_matrix[name]]
    if not matrices:
        raise ValueError(f"matrices = {config.matrices!r} is part of no matrix's name, so that muon has nothing to do.")
    rest = [(name, parameter) for name, parameter in named if not is_matrix[name]]
    return [*_adamw(rest, config), Muon(matrices, config)]


RULES: dict[str, Callable[[NamedParameters, OptimizerConfig], list[Optimizer]]] = {
    "adam_weight_decay": _adam_weight_decay,
    "adamw": _adamw,
    "lamb": _adam_weight_decay,
    "muon": _muon,
}
