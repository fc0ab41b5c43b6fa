"""The shape of a model: ModelConfig, what it allows, and the presets."""

import difflib
from dataclasses import dataclass, replace
from typing import Literal, get_args

Family = Literal["bert", "albert", "roberta", "modernbert", "bertie"]
Positions = Literal["learned", "sinusoidal", "rotary"]
Norm = Literal["after", "before"]
FeedForward = Literal["gelu", "gelu_tanh", "geglu"]
Attention = Literal["full", "causal", "local"]
ClassifierPooling = Literal["cls", "mean"]
FeatureLayers = Literal[
    "embeddings",
    "second_to_last",
    "last",
    "sum_last_four",
    "sum_all",
    "concat_last_four",
    "mix_last_four",
    "mix_all",
]
MOST, MOST_LAYERS = 2**31 - 1, 1000  # of any size in a config: more is a damaged file, and would fill the memory


@dataclass(frozen=True)
class Features:
    """What heads read in place of the last layer: the chosen layers, summed, side by side or mixed by weights that are
    learned (as ELMo's), and then, where it has a width, what two layers of BiLSTM make of them."""

    layers: FeatureLayers = "last"
    lstm_width: int = 0  # of each direction; 0: no LSTM

    def __post_init__(self) -> None:
        if self.layers not in get_args(FeatureLayers):
            raise ValueError(f"layers is {self.layers!r}; allowed: {', '.join(get_args(FeatureLayers))}.")
        if not 0 <= self.lstm_width <= MOST:
            raise ValueError(f"lstm_width is {self.lstm_width}; it must be from 0 (no LSTM) to {MOST:,}.")

    def numbers(self, num_layers: int) -> range:
        """Which layers those are, 0 being the embeddings; ValueError if the model has not so many."""
        if self.layers.endswith("last_four") and num_layers < 4:
            raise ValueError(f"features {self.layers!r} need 4 layers; the model has {num_layers}.")
        first = {"embeddings": 0, "second_to_last": num_layers - 1, "last": num_layers}.get(self.layers)
        if first is not None:
            return range(first, first + 1)
        return range(num_layers - 3 if self.layers.endswith("last_four") else 1, num_layers + 1)


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What an encoder is made of. `family` says whose heads and whose folder layout; "bertie" allows every mixture."""

    family: Family = "bert"
    vocabulary_size: int
    num_layers: int
    width: int
    num_heads: int
    inner_width: int  # of the feed-forward part; geglu has two of them side by side
    embedding_width: int | None = None  # None: as wide as the model; else a projection follows the tables (ALBERT)
    max_positions: int = 512  # the longest text, in tokens
    num_segments: int = 2  # 0: no segment table
    pad_id: int = 0  # nothing is padded inside; Hugging Face's layout states it and RoBERTa counts positions from it
    positions: Positions = "learned"
    norm: Norm = "after"
    feed_forward: FeedForward = "gelu"  # gelu: by erf, as in the first release of BERT; gelu_tanh: Google's since 2019
    attention: Attention = "full"
    window: int = 128  # of local attention: half of it to each side
    global_every: int = 3  # of local attention: layers 0, k, 2k ... see everything
    rotary_base: float = 10_000.0
    local_rotary_base: float = 10_000.0  # in the layers with a window
    shared_layers: bool = False
    dropout: float = 0.1
    attention_dropout: float = 0.1  # on the probabilities
    embedding_dropout: float | None = None  # None: as dropout
    classifier_dropout: float | None = None  # None: as dropout
    classifier_pooling: ClassifierPooling = "cls"  # ModernBERT's heads pool themselves
    norm_eps: float = 1e-12
    initial_std: float = 0.02
    scaled_initial: bool = False  # projections back into the stream start smaller by sqrt(2 layers)
    attention_bias: bool = True
    feed_forward_bias: bool = True
    norm_bias: bool = True
    head_bias: bool = True  # of the dense layer inside heads
    decoder_bias: bool = True  # of the masked-word head, one for each vocabulary entry
    features: Features | None = None  # None: heads read the last layer, as the family's do

    def __post_init__(self) -> None:
        _check_choices(self)
        _check_numbers(self)
        _check_family(self)
        if self.features is not None:
            self.features.numbers(self.num_layers)

    @property
    def table_width(self) -> int:
        """Width of the word, position and segment tables."""
        return self.embedding_width or self.width

    @property
    def head_width(self) -> int:
        return self.width // self.num_heads

    @property
    def features_width(self) -> int:
        """Width of what the heads read."""
        if self.features is None:
            return self.width
        if self.features.lstm_width:
            return 2 * self.features.lstm_width
        return self.mixed_width

    @property
    def mixed_width(self) -> int:
        """Width of the features before an LSTM."""
        side_by_side = self.features is not None and self.features.layers == "concat_last_four"
        return 4 * self.width if side_by_side else self.width

    @property
    def has_own_layout(self) -> bool:
        """Whether no layout of Hugging Face's can say what the model is."""
        return self.family == "bertie" or self.features is not None

    @property
    def position_offset(self) -> int:
        """The row of the position table that the first token uses: fairseq keeps the rows up to the pad id unused."""
        return self.pad_id + 1 if self.family == "roberta" else 0

    @property
    def head_activation(self) -> Literal["gelu", "gelu_tanh"]:
        """Inside the masked-word head: RoBERTa's and ModernBERT's is the erf form whatever the layers use."""
        return "gelu_tanh" if self.feed_forward == "gelu_tanh" and self.family != "roberta" else "gelu"

    @property
    def output_dropout(self) -> float:
        """Dropout after the attention's output projection; ModernBERT ties it to that on the probabilities."""
        return self.attention_dropout if self.family == "modernbert" else self.dropout

    def is_local(self, layer: int) -> bool:
        """Does this layer see a window only?"""
        return self.attention == "local" and layer % self.global_every > 0


def _check_choices(config: ModelConfig) -> None:
    choices = {
        "family": Family,
        "positions": Positions,
        "norm": Norm,
        "feed_forward": FeedForward,
        "attention": Attention,
        "classifier_pooling": ClassifierPooling,
    }
    for field, allowed in choices.items():
        value = getattr(config, field)
        if value not in get_args(allowed):
            raise ValueError(f"{field} is {value!r}; allowed: {', '.join(get_args(allowed))}.")


def _check_numbers(config: ModelConfig) -> None:
    counts = ("vocabulary_size", "num_layers", "width", "num_heads", "inner_width", "max_positions", "global_every")
    for field in counts:
        most = MOST_LAYERS if field == "num_layers" else MOST
        if not 1 <= getattr(config, field) <= most:
            raise ValueError(f"{field} is {getattr(config, field)}; it must be from 1 to {most:,}.")
    for field in ("dropout", "attention_dropout", "embedding_dropout", "classifier_dropout"):
        rate = getattr(config, field)
        if rate is not None and not 0 <= rate < 1:
            raise ValueError(f"{field} is {rate}; it must be at least 0 and less than 1.")
    for field in ("norm_eps", "initial_std", "rotary_base", "local_rotary_base"):
        if not getattr(config, field) > 0:
            raise ValueError(f"{field} is {getattr(config, field)}; it must be more than 0.")
    if config.embedding_width is not None and not 1 <= config.embedding_width <= MOST:
        raise ValueError(f"embedding_width is {config.embedding_width}; it must be from 1 to {MOST:,}, or left out.")
    if not 0 <= config.num_segments <= MOST:
        raise ValueError(f"num_segments is {config.num_segments}; it must be from 0 (no segment table) to {MOST:,}.")
    if not 0 <= config.pad_id < config.vocabulary_size:
        raise ValueError(f"pad_id is {config.pad_id}; it must be an entry of the {config.vocabulary_size:,} words.")
    if config.width % config.num_heads:
        raise ValueError(f"width {config.width} does not divide into {config.num_heads} heads of equal width.")
    if config.positions == "rotary" and config.head_width % 2:
        raise ValueError(f"rotary positions need an even width of each head; {config.head_width} is odd.")
    if config.window < 2 or config.window % 2:
        raise ValueError(f"window is {config.window}; it must be even and at least 2, half to each side.")


_BERT_SHAPE: dict[str, tuple[object, ...]] = {
    "positions": ("learned",),
    "norm": ("after",),
    "feed_forward": ("gelu", "gelu_tanh"),
    "attention": ("full",),
    "shared_layers": (False,),
    "classifier_pooling": ("cls",),
    "embedding_dropout": (None,),
    **dict.fromkeys(("attention_bias", "feed_forward_bias", "norm_bias", "head_bias", "decoder_bias"), (True,)),
}
# What a family leaves open; a shape outside is family "bertie".
_FAMILY_SHAPES: dict[Family, dict[str, tuple[object, ...]]] = {
    "bert": _BERT_SHAPE,
    "albert": {**_BERT_SHAPE, "shared_layers": (True,)},
    "roberta": _BERT_SHAPE,
    "modernbert": {
        "positions": ("rotary",),
        "norm": ("before",),
        "feed_forward": ("geglu",),
        "attention": ("full", "local"),
        "shared_layers": (False,),
        "num_segments": (0,),
    },
    "bertie": {"classifier_pooling": ("cls",)},
}


def _check_family(config: ModelConfig) -> None:
    for field, allowed in _FAMILY_SHAPES[config.family].items():
        value = getattr(config, field)
        if value not in allowed:
            stated = " or ".join(map(repr, allowed))
            raise ValueError(
                f"{field} is {value!r}, but family {config.family!r} has {stated}; family 'bertie' takes any mixture."
            )
    if config.family == "albert" and config.embedding_width is None:
        raise ValueError("embedding_width is missing: family 'albert' projects its tables to the model's width.")
    if config.family not in ("albert", "bertie") and config.embedding_width is not None:
        raise ValueError(f"embedding_width is for the families 'albert' and 'bertie', not {config.family!r}.")
    if config.family not in ("modernbert", "bertie") and config.num_segments == 0:
        raise ValueError(f"num_segments is 0, but family {config.family!r} has a segment table; 'bertie' need not.")


def preset(name: str) -> ModelConfig:
    """The named shape; `dataclasses.replace` gives it another vocabulary size or whatever else differs."""
    if name not in PRESETS:
        close = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown preset {name!r}; {hint}There are: {', '.join(PRESETS)}.")
    return PRESETS[name]


def _bert(num_layers: int, width: int, num_heads: int) -> ModelConfig:
    return ModelConfig(
        vocabulary_size=30_522,
        num_layers=num_layers,
        width=width,
        num_heads=num_heads,
        inner_width=4 * width,
        feed_forward="gelu_tanh",
    )


def _albert(num_layers: int, width: int, num_heads: int) -> ModelConfig:
    # Version 2: no dropout inside. Heads as in the released models: xlarge has 16, not the paper's width/64.
    return replace(
        _bert(num_layers, width, num_heads),
        family="albert",
        vocabulary_size=30_000,
        embedding_width=128,
        shared_layers=True,
        dropout=0.0,
        attention_dropout=0.0,
        classifier_dropout=0.1,
    )


def _roberta(num_layers: int, width: int) -> ModelConfig:
    return replace(
        _bert(num_layers, width, width // 64),
        family="roberta",
        vocabulary_size=50_265,
        num_segments=1,
        pad_id=1,
        feed_forward="gelu",
        norm_eps=1e-5,
    )


def _modernbert(num_layers: int, width: int, inner_width: int) -> ModelConfig:
    return ModelConfig(
        family="modernbert",
        vocabulary_size=50_368,
        num_layers=num_layers,
        width=width,
        num_heads=width // 64,
        inner_width=inner_width,
        max_positions=8192,
        num_segments=0,
        pad_id=50_283,
        positions="rotary",
        norm="before",
        feed_forward="geglu",
        attention="local",
        rotary_base=160_000.0,
        dropout=0.0,
        attention_dropout=0.0,
        classifier_pooling="mean",
        norm_eps=1e-5,
        scaled_initial=True,
        attention_bias=False,
        feed_forward_bias=False,
        norm_bias=False,
        head_bias=False,
    )


_MINIATURES = {
    f"bert-L{num_layers}-H{width}": _bert(num_layers, width, width // 64)
    for num_layers in (2, 4, 6, 8, 10, 12)
    for width in (128, 256, 512, 768)
}
PRESETS: dict[str, ModelConfig] = {
    "tiny": _MINIATURES["bert-L2-H128"],
    "mini": _MINIATURES["bert-L4-H256"],
    "small": _MINIATURES["bert-L4-H512"],
    "medium": _MINIATURES["bert-L8-H512"],
    **_MINIATURES,
    "bert-base": _bert(12, 768, 12),
    "bert-large": _bert(24, 1024, 16),
    "albert-base": _albert(12, 768, 12),
    "albert-large": _albert(24, 1024, 16),
    "albert-xlarge": _albert(24, 2048, 16),
    "albert-xxlarge": _albert(12, 4096, 64),
    "roberta-base": _roberta(12, 768),
    "roberta-large": _roberta(24, 1024),
    "modernbert-base": _modernbert(22, 768, 1152),
    "modernbert-large": _modernbert(28, 1024, 2624),
    "modernbert-small": replace(
        _modernbert(10, 384, 1024), max_positions=512, pad_id=0, attention="full", rotary_base=10_000.0
    ),
}
