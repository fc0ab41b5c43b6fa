"""What a model weighs and costs, by arithmetic alone."""

from bertie.model.config import ModelConfig
from bertie.model.heads import Model

WHOLES = ("encoder.layers", "encoder.norm")  # parts not taken apart: what a layer has is the same for all


def count_parameters(model: Model) -> dict[str, int]:
    """How many numbers each part holds: every table, the layers together, every head. A tied decoder adds none."""
    counts: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        part = next((whole for whole in WHOLES if name.startswith(whole)), None)
        if part is None:  # encoder.embeddings.words, heads.masked
            part = ".".join(name.split(".")[: 3 if name.startswith("encoder.") else 2])
        counts[part] = counts.get(part, 0) + parameter.numel()
    return counts


def weight_bytes(model: Model) -> int:
    """What the weights take in memory and, but for a few kilobytes of names, on disk."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())


def flops_per_token(config: ModelConfig, length: int) -> float:
    """Floating-point operations of the encoder for each token of a text of this length, a multiplication and an
    addition counting two, matrix products alone. Training takes three times as many."""
    width, inner = config.width, config.inner_width
    matrices = 4 * width * width + (3 if config.feed_forward == "geglu" else 2) * width * inner
    seen = sum(_seen(config, layer, length) for layer in range(config.num_layers))
    projection = (config.embedding_width or 0) * width
    return 2.0 * (config.num_layers * matrices + 2 * seen * width + projection)


def flops_per_masked_word(config: ModelConfig) -> float:
    """Floating-point operations of the masked-word head for each word it predicts."""
    return 2.0 * config.table_width * (config.width + config.vocabulary_size)


def _seen(config: ModelConfig, layer: int, length: int) -> float:
    """How many tokens of its text a token sees on average, itself included."""
    reach = min(config.window // 2 if config.is_local(layer) else length, length - 1)
    before = reach - reach * (reach + 1) / (2 * length)  # the first `reach` tokens have fewer before them
    return 1 + (before if config.attention == "causal" else 2 * before)
