"""Presets have the published sizes; a shape that cannot be is refused with what is allowed."""

from dataclasses import replace

import pytest
import torch
import transformers

from bertie.config import from_values, to_values
from bertie.model.config import PRESETS, Family, ModelConfig, preset
from bertie.model.heads import Model
from bertie.model.hf_config import config_to_hf

# Millions, for 2, 4, 6, 8, 10, 12 layers, encoder and pooler: the table of Google's 24 miniatures.
MINIATURES = {
    128: (4.39, 4.78, 5.18, 5.58, 5.97, 6.37),
    256: (9.59, 11.17, 12.75, 14.33, 15.91, 17.49),
    512: (22.46, 28.76, 35.07, 41.37, 47.68, 53.98),
    768: (38.60, 52.78, 66.96, 81.13, 95.31, 109.48),
}
PRE_TRAINED = {"masked": 0, "pair": 0}


def num_parameters(config: ModelConfig, heads: dict[str, int]) -> int:
    return sum(parameter.numel() for parameter in Model(config, heads).parameters())


@pytest.mark.parametrize("width", MINIATURES)
def test_the_24_miniatures(width: int) -> None:
    for num_layers, millions in zip(range(2, 13, 2), MINIATURES[width], strict=True):
        config = preset(f"bert-L{num_layers}-H{width}")
        assert config.num_heads == width // 64
        assert round(num_parameters(config, {"pooler": 0}) / 1e6, 2) == millions


def test_named_miniatures() -> None:
    shapes = {name: (PRESETS[name].num_layers, PRESETS[name].width) for name in ("tiny", "mini", "small", "medium")}
    assert shapes == {"tiny": (2, 128), "mini": (4, 256), "small": (4, 512), "medium": (8, 512)}


@pytest.mark.parametrize(
    ("name", "vocabulary_size", "encoder", "pre_trained"),
    [
        ("bert-base", 30_522, 109_482_240, 110_106_428),
        ("bert-large", 30_522, 335_141_888, 336_226_108),
        ("bert-base", 28_996, 108_310_272, None),
        ("bert-base", 21_128, 102_267_648, None),
        ("bert-base", 119_547, 177_853_440, None),
    ],
    ids=["base", "large", "base cased", "base Chinese", "base multilingual cased"],
)
def test_published_counts(name: str, vocabulary_size: int, encoder: int, pre_trained: int | None) -> None:
    config = replace(preset(name), vocabulary_size=vocabulary_size)
    assert num_parameters(config, {"pooler": 0}) == encoder
    assert pre_trained is None or num_parameters(config, PRE_TRAINED) == pre_trained


@pytest.mark.parametrize("name", [name for name, config in PRESETS.items() if config.family != "bert"])
def test_counts_of_other_families_are_those_of_transformers(name: str) -> None:
    config = preset(name)
    peer = {
        "albert": (transformers.AlbertForMaskedLM, transformers.AlbertConfig),
        "roberta": (transformers.RobertaForMaskedLM, transformers.RobertaConfig),
        "modernbert": (transformers.ModernBertForMaskedLM, transformers.ModernBertConfig),
    }
    build, describe = peer[config.family]
    with torch.device("meta"):
        theirs = build(describe(**config_to_hf(config, {"masked": 0})))
    assert num_parameters(config, {"masked": 0}) == sum(parameter.numel() for parameter in theirs.parameters())


def test_albert_base_is_the_published_size() -> None:
    assert round(num_parameters(preset("albert-base"), {"pooler": 0}) / 1e6, 1) == 11.7


def test_unknown_preset_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ValueError, match=r"unknown preset 'bert-bse'; did you mean 'bert-base'\? There are: tiny, mini"
    ):
        preset("bert-bse")


def test_settings_file_there_and_back(config: ModelConfig) -> None:
    assert from_values(ModelConfig, to_values(config), "here") == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, "width 32 does not divide into 5 heads"),
        ({"vocabulary_size": 2**31}, r"vocabulary_size is 2147483648; it must be from 1 to 2,147,483,647"),
        ({"num_layers": 0}, "num_layers is 0; it must be from 1 to 1,000"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be at least 0 and less than 1"),
        ({"norm_eps": 0.0}, "norm_eps is 0.0; it must be more than 0"),
        ({"pad_id": 60}, "pad_id is 60; it must be an entry of the 60 words"),
        ({"window": 7}, "window is 7; it must be even"),
        ({"num_segments": -1}, "num_segments is -1"),
        ({"num_segments": 10**30}, "it must be from 0 .no segment table. to 2,147,483,647"),
        ({"family": "bertie", "embedding_width": 2**31}, "embedding_width is 2147483648; it must be from 1 to"),
        ({"positions": "relative"}, "positions is 'relative'; allowed: learned, sinusoidal, rotary"),
        ({"family": "gpt"}, "family is 'gpt'; allowed: bert, albert, roberta, modernbert, bertie"),
        ({"positions": "rotary"}, "positions is 'rotary', but family 'bert' has 'learned'; family 'bertie' takes any"),
        ({"attention": "causal"}, "attention is 'causal', but family 'bert' has 'full'"),
        ({"embedding_width": 8}, "embedding_width is for the families 'albert' and 'bertie', not 'bert'"),
        ({"num_segments": 0}, "num_segments is 0, but family 'bert' has a segment table"),
        ({"family": "albert", "shared_layers": True}, "embedding_width is missing"),
        ({"family": "bertie", "embedding_width": 0}, "embedding_width is 0; it must be from 1"),
        ({"family": "bertie", "positions": "rotary", "width": 36, "num_heads": 12}, "3 is odd"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_what_cannot_be_is_refused(changes: dict[str, object], message: str, small: dict[Family, ModelConfig]) -> None:
    with pytest.raises(ValueError, match=message):
        replace(small["bert"], **changes)


def test_which_layers_see_a_window(small: dict[Family, ModelConfig]) -> None:
    assert [small["modernbert"].is_local(layer) for layer in range(5)] == [False, True, True, False, True]
    assert not any(small["bert"].is_local(layer) for layer in range(5))
