"""One table of weight names, read both ways: ours <-> Hugging Face's, ours <-> Google's TF names."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from bertie.model.config import ModelConfig


def to_hf(config: ModelConfig, heads: Mapping[str, int], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Model(config, heads)` under the names that transformers saves; ValueError where two heads of this
    family would share a name. Family "bertie" keeps our names."""
    raise NotImplementedError


def from_hf(config: ModelConfig, heads: Mapping[str, int], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Model(config, heads)` from tensors under Hugging Face's names, the base model's prefix there or
    not, old names included; ValueError names what is missing, unknown, of another shape, or tied weights that differ."""
    raise NotImplementedError


def heads_from_hf(
    config: ModelConfig, architectures: Sequence[str], shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Which heads a checkpoint's tensors are, told by their names and, where a name has several uses ("classifier"),
    by the architectures its config.json states. `shapes`: the shape of each tensor by its name."""
    raise NotImplementedError


def to_tf(config: ModelConfig, heads: Mapping[str, int], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state under Google's names (BERT's, ALBERT's), kernels as (in, out); ValueError for a family without any."""
    raise NotImplementedError


def from_tf(config: ModelConfig, heads: Mapping[str, int], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Model(config, heads)` from tensors under Google's names; refuses as `from_hf` does."""
    raise NotImplementedError


def heads_from_tf(config: ModelConfig, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Which heads a TF checkpoint's tensors are."""
    raise NotImplementedError
