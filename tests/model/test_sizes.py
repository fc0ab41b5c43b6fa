"""Costs by arithmetic against costs counted."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from bertie.model.config import Family, ModelConfig, preset
from bertie.model.encoder import Encoder, pack
from bertie.model.heads import Model
from bertie.model.sizes import count_parameters, flops_per_masked_word, flops_per_token, weight_bytes

MakeModel = Callable[[ModelConfig, dict[str, int]], Model]


def test_parts_of_bert_base() -> None:
    model = Model(preset("bert-base"), {"masked": 0, "pair": 0})
    parts = count_parameters(model)
    assert parts == {
        "encoder.embeddings.words": 23_440_896,
        "encoder.embeddings.segments": 1_536,
        "encoder.embeddings.positions": 393_216,
        "encoder.embeddings.norm": 1_536,
        "encoder.layers": 85_054_464,
        "heads.pooler": 590_592,
        "heads.masked": 622_650,
        "heads.pair": 1_538,
    }
    assert sum(parts.values()) == 110_106_428
    assert weight_bytes(model) == 4 * 110_106_428


def test_parts_cover_every_parameter(config: ModelConfig) -> None:
    model = Model(config, {"masked": 0, "class": 2})
    assert sum(count_parameters(model).values()) == sum(parameter.numel() for parameter in model.parameters())


def test_flops_are_those_counted(config: ModelConfig, make_model: MakeModel) -> None:
    """The plain path multiplies what is masked as well, so that masks are taken out here and tested below."""
    config = replace(config, attention="full")
    model = make_model(config, {"masked": 0})
    slow = Encoder(config, attention="plain").eval()
    slow.load_state_dict(model.encoder.state_dict(), assign=True)
    model.encoder = slow
    batch = replace(pack([list(range(21))]), masked_M=torch.arange(3))
    with FlopCounterMode(display=False) as counter:
        model(batch)
    assert counter.get_total_flops() == 21 * flops_per_token(config, 21) + 3 * flops_per_masked_word(config)


@pytest.mark.parametrize("length", [1, 3, 5, 8, 40])
def test_masks_save_what_they_hide(length: int, small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    for family in ("modernbert", "bertie"):
        config = small[family]
        probabilities = make_model(config, {}).encoder.trace(pack([[7] * length])).probabilities_LSHTT
        seen = sum((each[0][0] > 0).sum().item() for each in probabilities) / length
        full = replace(config, attention="full")
        saved = flops_per_token(full, length) - flops_per_token(config, length)
        assert saved == pytest.approx(4 * config.width * (config.num_layers * length - seen))


def test_training_bert_base_is_close_to_six_flops_a_parameter() -> None:
    config = preset("bert-base")
    matrices = count_parameters(Model(config, {}))["encoder.layers"]
    assert 3 * flops_per_token(config, 128) == pytest.approx(6 * matrices, rel=0.04)
