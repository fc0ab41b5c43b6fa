"""The fused path against the plain one in float64, for a whole model; and whom it refuses."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from bertie.kernels.copies import Copies
from bertie.kernels.products import PLAIN
from bertie.model.config import ModelConfig, preset
from bertie.model.encoder import Batch, pack
from bertie.model.fused import Fused
from bertie.model.heads import Model, initialise
from bertie.model.losses import masked_loss

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LIMIT = 3e-6 if DEVICE == "cpu" else 3e-3  # Triton's products of float32 on a GPU are TF32's
CONFIG = ModelConfig(
    vocabulary_size=60,
    num_layers=2,
    width=32,
    num_heads=2,
    inner_width=48,
    max_positions=40,
    dropout=0.0,
    attention_dropout=0.0,
    feed_forward="gelu_tanh",
    norm_eps=1e-5,
    initial_std=0.1,
)
CONFIGS = {
    "tanh": CONFIG,
    "erf": replace(CONFIG, feed_forward="gelu"),
    "roberta": replace(CONFIG, family="roberta", num_segments=1, pad_id=1, feed_forward="gelu"),
    "shared": replace(CONFIG, family="bertie", shared_layers=True),
}


def make_batch() -> Batch:
    texts = [[1, 2, 3, 4, 5], [7, 8], [9] * 12, [11, 50, 32, 1]]
    batch = pack(texts, [[0, 0, 0, 1, 1], [0, 0], [0] * 12, [1, 1, 1, 1]])
    masked_M, labels_M = torch.tensor([1, 6, 9, 20, 0, 0]), torch.tensor([5, 59, 0, 31, -100, -100])
    return replace(batch, masked_M=masked_M, labels_M=labels_M).to(torch.device(DEVICE))


def make_pair(config: ModelConfig) -> tuple[Model, Model]:
    """The same weights, plain in float64 and fused in float32."""
    plain = initialise(Model(config, {"masked": 0, "pair": 0}), torch.Generator().manual_seed(0))
    with torch.no_grad():
        for index, parameter in enumerate(plain.parameters()):
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(index)) * 0.1)
    fused = Model(config, {"masked": 0, "pair": 0})
    fused.load_state_dict({name: value.clone() for name, value in plain.state_dict().items()}, assign=True)
    fused.encoder.kernels = Fused(config, PLAIN, torch.float32)
    return plain.double().to(DEVICE), fused.to(DEVICE)


def losses(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    outputs = model(batch)
    assert batch.labels_M is not None
    masked = outputs["masked_loss"] if "masked_loss" in outputs else masked_loss(outputs["masked"], batch.labels_M)[0]
    return masked, masked / 4 + outputs["pair"].sin().sum()


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_losses_and_gradients_equal_float64(config: ModelConfig) -> None:
    plain, fused = make_pair(config)
    (masked, total), (fused_masked, fused_total) = (losses(model, make_batch()) for model in (plain, fused))
    torch.testing.assert_close(fused_masked.double(), masked.double(), atol=0, rtol=LIMIT)
    total.backward()
    fused_total.backward()
    theirs = dict(plain.named_parameters())
    for name, parameter in fused.named_parameters():
        exact = theirs[name].grad
        assert parameter.grad is not None and exact is not None
        assert (parameter.grad.double() - exact).norm() < LIMIT * exact.norm(), name


def test_counts_what_is_guessed_right_and_gives_no_logits() -> None:
    plain, fused = make_pair(CONFIG)
    batch = make_batch()
    ours, theirs = fused(batch), plain(batch)
    assert "masked" not in ours
    assert int(ours["masked_correct"]) == int((theirs["masked"].argmax(-1) == batch.labels_M).sum())
    assert fused(replace(batch, labels_M=None))["masked"].shape == (6, 60)


def test_sees_that_weights_have_changed() -> None:
    _, fused = make_pair(CONFIG)
    before, _ = losses(fused, make_batch())
    before.backward()
    optimizer = torch.optim.AdamW(fused.parameters(), lr=0.1, fused=True)
    optimizer.step()
    after, _ = losses(fused, make_batch())
    assert after != before
    fused.encoder.kernels = Fused(CONFIG, PLAIN, torch.float32)  # one that has seen nothing before
    assert losses(fused, make_batch())[0] == after
    fused.load_state_dict({name: value.clone() * 2 for name, value in fused.state_dict().items()}, assign=True)
    doubled, _ = losses(fused, make_batch())
    assert doubled != after


def test_drops_while_training_only() -> None:
    _, fused = make_pair(replace(CONFIG, dropout=0.2, attention_dropout=0.2))
    values = [float(losses(fused, make_batch())[0].detach()) for _ in range(2)]
    assert values[0] != values[1]
    torch.default_generator.manual_seed(0)
    first = float(losses(fused, make_batch())[0].detach())
    torch.default_generator.manual_seed(0)
    assert float(losses(fused, make_batch())[0].detach()) == first
    fused.eval()
    values = [float(losses(fused, make_batch())[0].detach()) for _ in range(2)]
    assert values[0] == values[1]


def test_copies_are_padded_and_stay_where_they_are() -> None:
    weights = [torch.nn.Parameter(torch.ones(5, 3)), torch.nn.Parameter(torch.ones(5))]
    copies = Copies(torch.bfloat16)
    first = copies.of(weights, 1)
    assert [tuple(copy.shape) for copy in first] == [(5, 3), (64,)]
    assert first[1].sum() == 5
    again = copies.of(weights, 1)
    assert all(one is other for one, other in zip(first, again, strict=True))
    with torch.no_grad():
        weights[0].mul_(3)
    assert copies.of(weights, 1)[0].sum() == 45


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (preset("modernbert-base"), "need positions 'learned', and the model's is 'rotary'; use 'plain'"),
        (preset("albert-base"), "need embedding_width None, and the model's is 128"),
        (replace(CONFIG, num_heads=4), "need heads of width 16, 32, 64, 128"),
        (replace(CONFIG, family="bertie", decoder_bias=False), "need decoder_bias True"),
        (replace(CONFIG, family="bertie", feed_forward="geglu"), "no geglu"),
    ],
)
def test_refuses_models_it_has_no_kernels_for(config: ModelConfig, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Model(config, {"masked": 0}, kernels="fused")


def test_refuses_names_and_devices() -> None:
    with pytest.raises(ValueError, match="'quick' do not exist; allowed: plain, fused"):
        Model(CONFIG, {"masked": 0}, kernels="quick")
    model = initialise(Model(CONFIG, {"masked": 0}, kernels="fused"), torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="need a CUDA device, not cpu; use 'plain'"):
        model(make_batch().to(torch.device("cpu")))


def test_says_that_triton_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertie.model.kernels.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="need triton"):
        Model(CONFIG, {"masked": 0}, kernels="fused")
