"""Shapes small enough to run in milliseconds and odd enough that no two sizes are equal by chance."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch

from bertie.model.config import Family, ModelConfig
from bertie.model.encoder import Batch, pack
from bertie.model.heads import Model, initialise

MakeModel = Callable[[ModelConfig, Mapping[str, int]], Model]
BASE = ModelConfig(
    vocabulary_size=60, num_layers=3, width=32, num_heads=4, inner_width=48, max_positions=40, norm_eps=1e-5
)
SMALL: dict[Family, ModelConfig] = {
    "bert": BASE,
    "albert": replace(
        BASE, family="albert", embedding_width=12, shared_layers=True, feed_forward="gelu_tanh", classifier_dropout=0.1
    ),
    "roberta": replace(BASE, family="roberta", num_segments=1, pad_id=1),
    "modernbert": replace(
        BASE,
        family="modernbert",
        num_layers=5,
        num_segments=0,
        positions="rotary",
        norm="before",
        feed_forward="geglu",
        attention="local",
        window=8,
        rotary_base=160_000.0,
        classifier_pooling="mean",
        embedding_dropout=0.1,
        scaled_initial=True,
        attention_bias=False,
        feed_forward_bias=False,
        norm_bias=False,
        head_bias=False,
    ),
    "bertie": replace(
        BASE,
        family="bertie",
        positions="sinusoidal",
        attention="causal",
        embedding_width=10,
        feed_forward="geglu",
        num_segments=3,
    ),
}


@pytest.fixture(params=SMALL)
def config(request: pytest.FixtureRequest) -> ModelConfig:
    """One shape of each family in turn."""
    return SMALL[request.param]


@pytest.fixture
def small() -> dict[Family, ModelConfig]:
    return SMALL


@pytest.fixture
def make_model() -> MakeModel:
    return lively_model


def lively_model(config: ModelConfig, heads: Mapping[str, int]) -> Model:
    """A model in which every weight matters: none at 0 or 1, hidden states about 1 in size; without dropout."""
    generator = torch.Generator().manual_seed(0)
    model = initialise(Model(config, heads), generator).eval()
    for parameter in model.parameters():
        parameter.data += torch.randn(parameter.shape, generator=generator) * 0.2
    return model


@pytest.fixture
def texts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(5, 60, (length,), generator=generator).tolist() for length in (5, 31, 1, 12)]


@pytest.fixture
def batch(texts: list[list[int]]) -> Batch:
    """The texts, their second halves in segment 1."""
    segments = [[int(index > len(text) / 2) for index in range(len(text))] for text in texts]
    return pack(texts, segments)
