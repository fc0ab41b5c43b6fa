"""One table of weight names, read both ways: ours <-> Hugging Face's, ours <-> Google's TF names."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from bertie.model.config import Family, ModelConfig
from bertie.model.heads import HEADS, NUM_OUTPUTS, Model

# A module of ours and theirs; "{}" is the number of the layer. Where theirs are several, ours is their rows in order.
BERT: dict[str, str | tuple[str, ...]] = {
    "encoder.embeddings.words": "embeddings.word_embeddings",
    "encoder.embeddings.positions": "embeddings.position_embeddings",
    "encoder.embeddings.segments": "embeddings.token_type_embeddings",
    "encoder.embeddings.norm": "embeddings.LayerNorm",
    "encoder.layers.{}.attention.qkv": (
        "encoder.layer.{}.attention.self.query",
        "encoder.layer.{}.attention.self.key",
        "encoder.layer.{}.attention.self.value",
    ),
    "encoder.layers.{}.attention.output": "encoder.layer.{}.attention.output.dense",
    "encoder.layers.{}.attention_norm": "encoder.layer.{}.attention.output.LayerNorm",
    "encoder.layers.{}.feed_forward.inner": "encoder.layer.{}.intermediate.dense",
    "encoder.layers.{}.feed_forward.output": "encoder.layer.{}.output.dense",
    "encoder.layers.{}.feed_forward_norm": "encoder.layer.{}.output.LayerNorm",
    "heads.pooler.dense": "pooler.dense",
    "heads.masked.dense": "cls.predictions.transform.dense",
    "heads.masked.norm": "cls.predictions.transform.LayerNorm",
    "heads.masked": "cls.predictions",
    "heads.pair.scores": "cls.seq_relationship",
    "heads.class.scores": "classifier",
    "heads.tag.scores": "classifier",
    "heads.choice.scores": "classifier",
    "heads.span.scores": "qa_outputs",
}
ROBERTA = BERT | {
    "heads.masked.dense": "lm_head.dense",
    "heads.masked.norm": "lm_head.layer_norm",
    "heads.masked": "lm_head",
    "heads.class.dense": "classifier.dense",
    "heads.class.scores": "classifier.out_proj",
}
_ALBERT_LAYER = "encoder.albert_layer_groups.{}.albert_layers.0"
ALBERT = BERT | {
    "encoder.embeddings.projection": "encoder.embedding_hidden_mapping_in",
    "encoder.layers.{}.attention.qkv": (
        f"{_ALBERT_LAYER}.attention.query",
        f"{_ALBERT_LAYER}.attention.key",
        f"{_ALBERT_LAYER}.attention.value",
    ),
    "encoder.layers.{}.attention.output": f"{_ALBERT_LAYER}.attention.dense",
    "encoder.layers.{}.attention_norm": f"{_ALBERT_LAYER}.attention.LayerNorm",
    "encoder.layers.{}.feed_forward.inner": f"{_ALBERT_LAYER}.ffn",
    "encoder.layers.{}.feed_forward.output": f"{_ALBERT_LAYER}.ffn_output",
    "encoder.layers.{}.feed_forward_norm": f"{_ALBERT_LAYER}.full_layer_layer_norm",
    "heads.pooler.dense": "pooler",
    "heads.masked.dense": "predictions.dense",
    "heads.masked.norm": "predictions.LayerNorm",
    "heads.masked": "predictions",
    "heads.pair.scores": "sop_classifier.classifier",
}
MODERNBERT = BERT | {
    "encoder.embeddings.words": "embeddings.tok_embeddings",
    "encoder.embeddings.norm": "embeddings.norm",
    "encoder.layers.{}.attention_norm": "layers.{}.attn_norm",
    "encoder.layers.{}.attention.qkv": "layers.{}.attn.Wqkv",
    "encoder.layers.{}.attention.output": "layers.{}.attn.Wo",
    "encoder.layers.{}.feed_forward_norm": "layers.{}.mlp_norm",
    "encoder.layers.{}.feed_forward.inner": "layers.{}.mlp.Wi",
    "encoder.layers.{}.feed_forward.output": "layers.{}.mlp.Wo",
    "encoder.norm": "final_norm",
    **{f"heads.{head}.dense": "head.dense" for head in ("masked", "class", "tag", "span", "choice")},
    **{f"heads.{head}.norm": "head.norm" for head in ("masked", "class", "tag", "span", "choice")},
    "heads.masked": "decoder",
    "heads.span.scores": "classifier",
}
# Google's names. A kernel is (in, out), the other way round than ours; what ends in "output_" has weights as ours.
TF_BERT: dict[str, str | tuple[str, ...]] = {
    "encoder.embeddings.words": "bert/embeddings/word_embeddings",
    "encoder.embeddings.positions": "bert/embeddings/position_embeddings",
    "encoder.embeddings.segments": "bert/embeddings/token_type_embeddings",
    "encoder.embeddings.norm": "bert/embeddings/LayerNorm",
    "encoder.embeddings.projection": "bert/encoder/embedding_hidden_mapping_in",
    "encoder.layers.{}.attention.qkv": (
        "bert/encoder/layer_{}/attention/self/query",
        "bert/encoder/layer_{}/attention/self/key",
        "bert/encoder/layer_{}/attention/self/value",
    ),
    "encoder.layers.{}.attention.output": "bert/encoder/layer_{}/attention/output/dense",
    "encoder.layers.{}.attention_norm": "bert/encoder/layer_{}/attention/output/LayerNorm",
    "encoder.layers.{}.feed_forward.inner": "bert/encoder/layer_{}/intermediate/dense",
    "encoder.layers.{}.feed_forward.output": "bert/encoder/layer_{}/output/dense",
    "encoder.layers.{}.feed_forward_norm": "bert/encoder/layer_{}/output/LayerNorm",
    "heads.pooler.dense": "bert/pooler/dense",
    "heads.masked.dense": "cls/predictions/transform/dense",
    "heads.masked.norm": "cls/predictions/transform/LayerNorm",
    "heads.masked": "cls/predictions/output_",
    "heads.pair.scores": "cls/seq_relationship/output_",
    "heads.class.scores": "output_",
    "heads.span.scores": "cls/squad/output_",
}
_TF_GROUP = "bert/encoder/transformer/group_{}/inner_group_0"
TF_ALBERT = TF_BERT | {
    "encoder.layers.{}.attention.qkv": (
        f"{_TF_GROUP}/attention_1/self/query",
        f"{_TF_GROUP}/attention_1/self/key",
        f"{_TF_GROUP}/attention_1/self/value",
    ),
    "encoder.layers.{}.attention.output": f"{_TF_GROUP}/attention_1/output/dense",
    "encoder.layers.{}.attention_norm": f"{_TF_GROUP}/LayerNorm",
    "encoder.layers.{}.feed_forward.inner": f"{_TF_GROUP}/ffn_1/intermediate/dense",
    "encoder.layers.{}.feed_forward.output": f"{_TF_GROUP}/ffn_1/intermediate/output/dense",
    "encoder.layers.{}.feed_forward_norm": f"{_TF_GROUP}/LayerNorm_1",
}


@dataclass(frozen=True)
class Layout:
    """How one maker names a family's weights."""

    modules: Mapping[str, str | tuple[str, ...]]
    prefix: str = ""  # of the encoder and the pooler, where a head stands beside them
    tied: tuple[tuple[str, str], ...] = ()  # (a name that may be there as well, the name it must be equal to)
    is_tf: bool = False


_BERT_TIED = (
    ("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
    ("cls.predictions.decoder.bias", "cls.predictions.bias"),
)
_LAYOUTS: dict[Family, Layout] = {
    "bert": Layout(BERT, "bert.", _BERT_TIED),
    "albert": Layout(
        ALBERT,
        "albert.",
        (
            ("predictions.decoder.weight", "embeddings.word_embeddings.weight"),
            ("predictions.decoder.bias", "predictions.bias"),
        ),
    ),
    "roberta": Layout(
        ROBERTA,
        "roberta.",
        (("lm_head.decoder.weight", "embeddings.word_embeddings.weight"), ("lm_head.decoder.bias", "lm_head.bias")),
    ),
    "modernbert": Layout(MODERNBERT, "model.", (("decoder.weight", "embeddings.tok_embeddings.weight"),)),
}
# Buffers and the optimizer's memory: not weights, left aside.
_HF_NOT_WEIGHTS = re.compile(r"(^|\.)embeddings\.(position_ids|token_type_ids)$")
_TF_NOT_WEIGHTS = re.compile(r"(^|/)(global_step|adam_m|adam_v|lamb_m|lamb_v)$")


def to_hf(config: ModelConfig, heads: Mapping[str, int], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Model(config, heads)` under the names that transformers saves; ValueError where two heads of this
    family would share a name. A layout of our own keeps our names."""
    if config.has_own_layout:
        return dict(state)
    return _to_theirs(hf_names(config, heads), state)


def hf_names(config: ModelConfig, heads: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """What transformers calls each weight of `Model(config, heads)`: one name, or several for rows one after the other;
    our own where it has no layout for the model."""
    if config.has_own_layout:
        return {name: (name,) for name in _shapes(config, heads)}
    layout = _LAYOUTS[config.family]
    prefix = "" if all(head == "pooler" for head in heads) else layout.prefix
    return {
        ours: tuple(prefix + name if _is_inner(ours) else name for name in theirs)
        for ours, theirs in _names(config, heads, layout).items()
    }


def from_hf(config: ModelConfig, heads: Mapping[str, int], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Model(config, heads)` from tensors under Hugging Face's names, the base model's prefix there or
    not, old names included; ValueError names what is missing, unknown, misshaped, or tied and yet different."""
    if config.has_own_layout:
        shapes = _shapes(config, heads)
        return _from_theirs({name: (name,) for name in shapes}, state, shapes)
    layout = _LAYOUTS[config.family]
    plain = {_plain_name(name, layout): tensor for name, tensor in state.items() if not _HF_NOT_WEIGHTS.search(name)}
    if len(plain) < sum(not _HF_NOT_WEIGHTS.search(name) for name in state):
        raise ValueError(f"the checkpoint has tensors both with and without the prefix {layout.prefix!r}.")
    _untie(plain, layout)
    return _from_theirs(_names(config, heads, layout), plain, _shapes(config, heads))


def to_tf(config: ModelConfig, heads: Mapping[str, int], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state under Google's names (BERT's, ALBERT's), kernels as (in, out); ValueError for a shape without any."""
    return _to_theirs(_names(config, heads, _tf_layout(config)), state)


def from_tf(config: ModelConfig, heads: Mapping[str, int], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of `Model(config, heads)` from tensors under Google's names; refuses as `from_hf` does."""
    weights = {name: tensor for name, tensor in state.items() if not _TF_NOT_WEIGHTS.search(name)}
    return _from_theirs(_names(config, heads, _tf_layout(config)), weights, _shapes(config, heads))


def heads_from_hf(
    config: ModelConfig, architectures: Sequence[str], shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Which heads a checkpoint's tensors are, told by their names and, where a name has several uses ("classifier"),
    by the architectures its config.json states. `shapes`: the shape of each tensor by its name."""
    if config.has_own_layout:
        return _without_implied_pooler(config, _own_heads(shapes))
    layout = _LAYOUTS[config.family]
    plain = {_plain_name(name, layout): shape for name, shape in shapes.items()}
    heads = _found_heads(layout, plain, ("masked", "pair", "pooler"))
    scores = [
        name for name in ("classifier.weight", "classifier.out_proj.weight", "qa_outputs.weight") if name in plain
    ]
    if config.family == "modernbert" and scores:  # there "head.dense" stands before every head's scores
        heads.pop("masked", None)
    for name in scores:
        head = {"classifier.out_proj.weight": "class", "qa_outputs.weight": "span"}.get(name)
        head = head or _use_of_classifier(architectures)
        heads[head] = 0 if head in NUM_OUTPUTS else plain[name][0]
    return _without_implied_pooler(config, heads)


def heads_from_tf(config: ModelConfig, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Which heads a TF checkpoint's tensors are."""
    layout = _tf_layout(config)
    heads = _found_heads(layout, shapes, ("masked", "pair", "pooler", "span"))
    if "output_weights" in shapes:
        heads["class"] = shapes["output_weights"][0]
    return _without_implied_pooler(config, heads)


def _shapes(config: ModelConfig, heads: Mapping[str, int]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in Model(config, heads).state_dict().items()}


def _is_inner(ours: str) -> bool:
    """Does the weight belong to what transformers calls the base model?"""
    return ours.startswith(("encoder.", "heads.pooler."))


def _names(config: ModelConfig, heads: Mapping[str, int], layout: Layout) -> dict[str, tuple[str, ...]]:
    """Their name or names of each of our weights; ValueError for one they have no name for, or one name for two."""
    names = {ours: _their_names(ours, layout) for ours in _shapes(config, heads)}
    owners: dict[str, str] = {}
    for ours, theirs in names.items():
        for name in theirs:
            if name in owners:
                raise ValueError(
                    f"{owners[name]} and {ours} are both named {name!r} in this layout: save one head only."
                )
            owners[name] = ours
    return names


def _their_names(ours: str, layout: Layout) -> tuple[str, ...]:
    module, _, parameter = ours.rpartition(".")
    layer = re.search(r"\.layers\.(\d+)\.", module)
    pattern = module if layer is None else module.replace(layer[0], ".layers.{}.")
    if pattern not in layout.modules:
        raise ValueError(
            f"{ours} has no name in {'Google' if layout.is_tf else 'Hugging Face'}'s layout of this family."
        )
    theirs = layout.modules[pattern]
    modules = (theirs,) if isinstance(theirs, str) else theirs
    suffix = _tf_suffix(module, modules[0], parameter) if layout.is_tf else f".{parameter}"
    return tuple(name.replace("{}", layer[1] if layer else "") + suffix for name in modules)


def _tf_suffix(ours: str, theirs: str, parameter: str) -> str:
    if theirs.endswith("output_"):
        return "weights" if parameter == "weight" else "bias"
    if theirs.endswith("_embeddings"):
        return ""
    words = {"weight": "/gamma", "bias": "/beta"} if ours.endswith("norm") else {"weight": "/kernel", "bias": "/bias"}
    return words[parameter]


def _tf_layout(config: ModelConfig) -> Layout:
    if config.features is not None:
        raise ValueError("Google's code has no head that reads features: there is no TF layout for it.")
    if config.family == "albert":
        return Layout(TF_ALBERT, is_tf=True)
    try:
        replace(config, family="bert", embedding_width=None)  # Google's BERT, or one with narrower tables
    except ValueError as error:
        raise ValueError(f"Google's code cannot run this shape: {error}") from error
    if config.family == "roberta":
        raise ValueError(
            "Google's code counts positions from 0, RoBERTa from its pad id: there is no TF layout for it."
        )
    return Layout(TF_BERT, is_tf=True)


def _to_theirs(names: Mapping[str, tuple[str, ...]], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    assert set(names) == set(state), "the state is of another model"
    renamed = {}
    for ours, theirs in names.items():
        for name, part in zip(theirs, state[ours].chunk(len(theirs)), strict=True):
            renamed[name] = (part.T if name.endswith("/kernel") else part).clone(memory_format=torch.contiguous_format)
    return renamed


def _from_theirs(
    names: Mapping[str, tuple[str, ...]], state: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]
) -> dict[str, Tensor]:
    _check_names([name for theirs in names.values() for name in theirs], state)
    ours_state = {}
    for ours, theirs in names.items():
        expected = torch.Size((shapes[ours][0] // len(theirs), *shapes[ours][1:]))
        parts = [state[name].T if name.endswith("/kernel") else state[name] for name in theirs]
        for name, part in zip(theirs, parts, strict=True):
            if part.shape != expected:
                raise ValueError(f"tensor {name!r} is {_times(part.shape)}; the config makes it {_times(expected)}.")
        ours_state[ours] = torch.cat(parts) if len(parts) > 1 else parts[0].contiguous()
    return ours_state


def _times(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _check_names(expected: Iterable[str], found: Iterable[str]) -> None:
    expected, found = set(expected), set(found)
    for names, words in ((expected - found, "lacks"), (found - expected, "has, unknown to this family and its heads,")):
        if names:
            shown = ", ".join(sorted(names)[:3])
            rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise ValueError(f"the checkpoint {words} {shown}{rest}.")


def _plain_name(name: str, layout: Layout) -> str:
    """The name without the base model's prefix, in today's spelling."""
    name = name.removeprefix(layout.prefix)
    return re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))


def _untie(state: dict[str, Tensor], layout: Layout) -> None:
    """Take out the second copies of tied weights; ValueError where they differ from the first."""
    for copy, original in layout.tied:
        if copy not in state:
            continue
        tensor = state.pop(copy)
        if not torch.equal(state.setdefault(original, tensor), tensor):
            raise ValueError(f"tensors {copy!r} and {original!r} differ: a decoder of its own is not supported.")


def _found_heads(layout: Layout, names: Iterable[str], candidates: Sequence[str]) -> dict[str, int]:
    """Those of the candidate heads (whose size is given) that the names speak of."""
    present = set(names)
    probes = {
        head: f"heads.{head}.{'dense' if head in ('masked', 'pooler') else 'scores'}.weight" for head in candidates
    }
    return {head: 0 for head, probe in probes.items() if _their_names(probe, layout)[0] in present}


def _use_of_classifier(architectures: Sequence[str]) -> str:
    uses = {
        "ForSequenceClassification": "class",
        "ForTokenClassification": "tag",
        "ForMultipleChoice": "choice",
        "ForQuestionAnswering": "span",
    }
    found = [head for ending, head in uses.items() if any(name.endswith(ending) for name in architectures)]
    if len(found) != 1:
        raise ValueError(
            f"the checkpoint has a 'classifier', but its architectures {list(architectures)} do not say of which use; "
            f"allowed: one that ends in {', '.join(uses)}."
        )
    return found[0]


def _without_implied_pooler(config: ModelConfig, heads: Mapping[str, int]) -> dict[str, int]:
    """The heads, the pooler only where no other one brings it."""
    others = {head: size for head, size in heads.items() if head != "pooler"}
    return others if "pooler" in Model(config, others).heads else dict(heads)


def _own_heads(shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    heads = {}
    for head in HEADS:
        if any(name.startswith(f"heads.{head}.") for name in shapes):
            heads[head] = 0 if head in NUM_OUTPUTS else shapes.get(f"heads.{head}.scores.weight", (0,))[0]
    return heads
