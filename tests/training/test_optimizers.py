import copy
import math

import numpy as np
import pytest
import torch
from torch import nn

from bertie.training.optimizers import (
    OptimizerConfig,
    clip_gradients,
    make_optimizers,
    orthogonalize,
    set_share,
    skip_where,
)

RULES = ["adam_weight_decay", "adamw", "lamb", "muon"]


class Small(nn.Module):
    """The kinds of parameters a BERT has."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 6)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)) for _ in range(2))
        self.norm = nn.LayerNorm(6)
        self.pooler = nn.Linear(6, 6)
        self.head = nn.Linear(6, 3)

    def forward(self, ids_N):
        hidden_ND = self.words(ids_N)
        for layer in self.layers:
            hidden_ND = hidden_ND + layer(hidden_ND)
        return self.head(torch.tanh(self.pooler(self.norm(hidden_ND))))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Small()


def give_gradients(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)


def arrays(model, what="data"):
    return {name: getattr(p, what).detach().double().numpy().copy() for name, p in model.named_parameters()}


def google_rule(model, num_steps, rates, adapts):
    """The rule as the facts state it (4.4), a plain loop in float64; `adapts` adds LAMB's ratio to what decays."""
    weights, means, squares = arrays(model), {}, {}
    for step in range(num_steps):
        give_gradients(model, step)
        for name, g in arrays(model, "grad").items():
            # Google's exclusions, by name; only `norm` is called LayerNorm there.
            is_excluded = "bias" in name or "norm" in name
            means[name] = 0.9 * means.get(name, 0) + 0.1 * g
            squares[name] = 0.999 * squares.get(name, 0) + 0.001 * g**2
            update = means[name] / (np.sqrt(squares[name]) + 1e-6)
            if not is_excluded:
                update = update + 0.01 * weights[name]
            ratio = 1.0
            if adapts and not is_excluded:
                ratio = np.sqrt((weights[name] ** 2).sum()) / np.sqrt((update**2).sum())
            weights[name] = weights[name] - rates[step] * ratio * update
    return weights


@pytest.mark.parametrize("rule", ["adam_weight_decay", "lamb"])
def test_google_rules_are_the_plain_loop(model, rule):
    rates = [0.0, 0.005, 0.01, 0.004, 0.001]
    expected = google_rule(copy.deepcopy(model), 5, rates, rule == "lamb")
    optimizers = make_optimizers(model, OptimizerConfig(rule=rule, lr=0.01))
    for step, rate in enumerate(rates):
        give_gradients(model, step)
        set_share(optimizers, rate / 0.01)
        for optimizer in optimizers:
            optimizer.step()
    for name, found in arrays(model).items():
        np.testing.assert_allclose(found, expected[name], rtol=0, atol=1e-6, err_msg=name)


def test_lamb_leaves_zero_weights_their_plain_step(model):
    nn.init.zeros_(model.head.weight)
    plain = copy.deepcopy(model)
    for one, rule in ((model, "lamb"), (plain, "adam_weight_decay")):
        give_gradients(one, 0)
        make_optimizers(one, OptimizerConfig(rule=rule, lr=0.01))[0].step()
    assert torch.equal(model.head.weight, plain.head.weight)
    assert not torch.equal(model.pooler.weight, plain.pooler.weight)


def test_adamw_is_torchs(model):
    peer = copy.deepcopy(model)
    (optimizer,) = make_optimizers(model, OptimizerConfig(rule="adamw", lr=0.01))
    matrices = [p for p in peer.parameters() if p.ndim == 2]
    vectors = [p for p in peer.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    expected = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.999), eps=1e-6)
    for step in range(3):
        give_gradients(model, step)
        give_gradients(peer, step)
        optimizer.step()
        expected.step()
    for one, other in zip(model.parameters(), peer.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_muon_is_torchs(model):
    peer = copy.deepcopy(model)
    config = OptimizerConfig(rule="muon", lr=0.001, matrix_lr=0.1, weight_decay=0.05)
    rest, muon = make_optimizers(model, config)
    matrices = [p for name, p in peer.named_parameters() if name.startswith("layers") and p.ndim == 2]
    expected = torch.optim.Muon(matrices, lr=0.1, weight_decay=0.05, momentum=0.95, nesterov=True)
    for step in range(3):
        give_gradients(model, step)
        give_gradients(peer, step)
        rest.step()
        muon.step()
        expected.step()
    names = [name for name, p in model.named_parameters() if name.startswith("layers") and p.ndim == 2]
    assert len(names) == 4
    for name in names:  # torch's works in bfloat16: three steps of 0.1, each good to about 1%
        torch.testing.assert_close(model.get_parameter(name), peer.get_parameter(name), rtol=0, atol=5e-3)


def test_muon_takes_the_matrices_and_adamw_the_rest(model):
    rest, muon = make_optimizers(model, OptimizerConfig(rule="muon", lr=0.001))
    names = {parameter: name for name, parameter in model.named_parameters()}
    assert {names[p] for p in muon.param_groups[0]["params"]} == {
        f"layers.{layer}.{part}.weight" for layer in (0, 1) for part in (0, 2)
    }
    assert {names[p] for group in rest.param_groups for p in group["params"]} == {
        name for name in names.values() if not (name.startswith("layers") and name.endswith("weight"))
    }
    assert rest.param_groups[0]["peak_lr"] == 0.001
    assert muon.param_groups[0]["peak_lr"] == 0.02


def test_a_pattern_without_matrices_is_refused(model):
    with pytest.raises(ValueError, match="matrices = 'blocks' is part of no matrix's name"):
        make_optimizers(model, OptimizerConfig(rule="muon", lr=0.001, matrices="blocks"))


@pytest.mark.parametrize("shape", [(3, 12, 8), (2, 8, 12), (1, 9, 9)])
def test_orthogonalize(shape):
    matrices_LFD = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    found_LFD = orthogonalize(matrices_LFD)
    values = torch.linalg.svdvals(found_LFD)
    assert values.min() > 0.6
    assert values.max() < 1.25
    left, _, right = torch.linalg.svd(matrices_LFD, full_matrices=False)
    # The singular vectors are kept: seen from them, what is left is a diagonal.
    core = left.mT @ found_LFD @ right.mT
    torch.testing.assert_close(core, torch.diag_embed(core.diagonal(dim1=1, dim2=2)), rtol=0, atol=1e-4)


def test_what_decays(model):
    (optimizer,) = make_optimizers(model, OptimizerConfig(rule="adam_weight_decay", lr=0.001))
    decays = {p: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    found = {name: decays[p] for name, p in model.named_parameters()}
    assert found == {name: 0.0 if "bias" in name or "norm" in name else 0.01 for name in found}
    assert found["words.weight"] == found["pooler.weight"] == found["head.weight"] == 0.01


def test_frozen_parameters_are_left_out(model):
    model.words.weight.requires_grad_(False)
    (optimizer,) = make_optimizers(model, OptimizerConfig(lr=0.001))
    taken = {id(p) for group in optimizer.param_groups for p in group["params"]}
    assert len(taken) == len(list(model.parameters())) - 1
    assert id(model.words.weight) not in taken


@pytest.mark.parametrize("rule", RULES)
def test_a_skipped_step_changes_nothing(model, rule):
    """Weights and state to the bit, infinite gradients notwithstanding, before the first step and after it."""
    optimizers = make_optimizers(model, OptimizerConfig(rule=rule, lr=0.01))
    undisturbed = copy.deepcopy(model)
    peers = make_optimizers(undisturbed, OptimizerConfig(rule=rule, lr=0.01))

    def step(skip, seed):
        give_gradients(model, seed)
        if skip:
            model.layers[0][0].weight.grad[1, 2] = float("nan")
            model.head.bias.grad.fill_(float("inf"))
        skip_where(optimizers, torch.tensor(float(skip)))
        for optimizer in optimizers:
            optimizer.step()

    for seed, skip in enumerate([True, False, True, True, False]):
        step(skip, seed)
    for seed in (1, 4):
        give_gradients(undisturbed, seed)
        for optimizer in peers:
            optimizer.step()
    for one, other in zip(model.parameters(), undisturbed.parameters(), strict=True):
        assert torch.equal(one, other)
    for optimizer, peer in zip(optimizers, peers, strict=True):
        for mine, its in zip(optimizer.state.values(), peer.state.values(), strict=True):
            assert all(torch.equal(mine[key], its[key]) for key in its)


def test_clipping_is_googles(model):
    give_gradients(model, 0)
    before = torch.cat([p.grad.flatten() for p in model.parameters()])
    optimizers = make_optimizers(model, OptimizerConfig(rule="muon", lr=0.01))
    norm = clip_gradients(optimizers, limit=1.0)
    after = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert norm.item() == pytest.approx(before.norm().item())
    torch.testing.assert_close(after, before / before.norm(), rtol=1e-5, atol=0)
    for limit in (2.0, math.inf):  # now the norm is 1: nothing may change, to the bit
        assert clip_gradients(optimizers, limit).item() == pytest.approx(1.0)
    assert torch.equal(torch.cat([p.grad.flatten() for p in model.parameters()]), after)


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_learns(model, rule):
    optimizers = make_optimizers(model, OptimizerConfig(rule=rule, lr=0.02))
    ids_N = torch.arange(11)
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(ids_N), ids_N % 3)
        model.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    assert loss.item() < 0.1


@pytest.mark.parametrize(
    ("settings", "message"), [({"lr": 0.0}, "lr is 0.0"), ({"lr": 1e-4, "beta2": 1.0}, "beta2 is 1.0")]
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        OptimizerConfig(**settings)


@pytest.mark.parametrize("rule", ["adamw", "adam_weight_decay", "lamb"])
def test_rates_fall_from_layer_to_layer(rule):
    names = {"encoder.embeddings.words": 0, "encoder.layers.0.w": 1, "encoder.layers.1.w": 2, "heads.class": 3}
    model = nn.Module()
    for name in names:
        owner = model
        *modules, last = name.split(".")
        for module in modules:
            if module not in dict(owner.named_children()):
                owner.add_module(module, nn.Module())
            owner = owner.get_submodule(module)
        owner.add_module(last, nn.Linear(2, 2))
    optimizers = make_optimizers(model, OptimizerConfig(lr=1.0, rule=rule, layer_decay=0.5))
    rates = {id(one): group["lr"] for group in optimizers[0].param_groups for one in group["params"]}
    found = {name: rates[id(parameter)] for name, parameter in model.named_parameters()}
    assert found == {
        f"{name}.{kind}": 0.5 ** (3 - depth) for name, depth in names.items() for kind in ("weight", "bias")
    }
    assert optimizers[0].param_groups[0]["lr"] == 1.0
    assert len(optimizers[0].param_groups) == 8
    decays = {group["weight_decay"] for group in optimizers[0].param_groups if group["params"][0].ndim == 1}
    assert decays == {0.0}
    assert len(make_optimizers(model, OptimizerConfig(lr=1.0, rule=rule))[0].param_groups) == 2


def test_layer_decay_that_is_refused():
    with pytest.raises(ValueError, match="layer_decay is 0; it must be above 0"):
        OptimizerConfig(lr=1.0, layer_decay=0)
    with pytest.raises(ValueError, match="with muon all matrices learn at matrix_lr"):
        OptimizerConfig(lr=1.0, layer_decay=0.9, rule="muon")
