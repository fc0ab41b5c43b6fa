"""ModelConfig <-> Hugging Face's config.json."""

from collections.abc import Mapping

from bertie.model.config import ModelConfig


def config_to_hf(config: ModelConfig, heads: Mapping[str, int]) -> dict[str, object]:
    """What config.json says of a model with these heads: `model_type`, `architectures`, the shape. The labels' names
    (`id2label`, `label2id`, `problem_type`) are the folder's to add."""
    raise NotImplementedError


def config_from_hf(values: Mapping[str, object]) -> ModelConfig:
    """The shape that a config.json states; ValueError for a key that is unknown, or known to change the computation in
    a way there is none of here. Nothing it names is imported or run."""
    raise NotImplementedError
