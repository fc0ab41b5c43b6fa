"""ModelConfig <-> Hugging Face's config.json."""

import re
from collections.abc import Mapping

from bertie.config import from_values, to_values
from bertie.model.config import Family, ModelConfig

# Our field and their key; what takes more than another name is in the functions below.
_BERT = {
    "vocabulary_size": "vocab_size",
    "num_layers": "num_hidden_layers",
    "width": "hidden_size",
    "num_heads": "num_attention_heads",
    "inner_width": "intermediate_size",
    "num_segments": "type_vocab_size",
    "pad_id": "pad_token_id",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "classifier_dropout": "classifier_dropout",
    "norm_eps": "layer_norm_eps",
    "initial_std": "initializer_range",
}
_KEYS: dict[Family, dict[str, str]] = {
    "bert": _BERT,
    "roberta": _BERT,
    "albert": _BERT | {"embedding_width": "embedding_size", "classifier_dropout": "classifier_dropout_prob"},
    "modernbert": {field: key for field, key in _BERT.items() if field != "num_segments"}
    | {
        "dropout": "mlp_dropout",
        "attention_dropout": "attention_dropout",
        "embedding_dropout": "embedding_dropout",
        "norm_eps": "norm_eps",
        "window": "local_attention",
        "classifier_pooling": "classifier_pooling",
        "attention_bias": "attention_bias",
        "feed_forward_bias": "mlp_bias",
        "norm_bias": "norm_bias",
        "head_bias": "classifier_bias",
        "decoder_bias": "decoder_bias",
    },
}
_REQUIRED = ("vocab_size", "num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
# What transformers takes for an absent key, where that is not our default.
_DEFAULTS: dict[Family, dict[str, object]] = {
    "bert": {},
    "roberta": {"pad_id": 1},
    "albert": {"embedding_width": 128, "dropout": 0.0, "attention_dropout": 0.0, "classifier_dropout": 0.1},
    "modernbert": {
        "pad_id": 50_283,
        "norm_eps": 1e-5,
        **dict.fromkeys(("dropout", "attention_dropout", "embedding_dropout", "classifier_dropout"), 0.0),
        **dict.fromkeys(("attention_bias", "feed_forward_bias", "norm_bias", "head_bias"), False),
    },
}
# What a family's shape fixes for us and config.json does not say.
_GIVEN: dict[Family, dict[str, object]] = {
    "bert": {},
    "roberta": {},
    "albert": {"shared_layers": True},
    "modernbert": {
        "num_segments": 0,
        "positions": "rotary",
        "norm": "before",
        "feed_forward": "geglu",
        "scaled_initial": True,
    },
}
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
}
# Keys that change what is computed, with the values there is code for.
_ONLY: dict[str, tuple[object, ...]] = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "is_encoder_decoder": (False,),
    "tie_encoder_decoder": (False,),
    "cross_attention_hidden_size": (None,),
    "position_embedding_type": ("absolute",),
    "pruned_heads": ({}, None),
    "num_hidden_groups": (1,),
    "inner_group_num": (1,),
    "down_scale_factor": (1,),
    "gap_size": (0,),
    "net_structure_type": (0,),
    "num_memory_blocks": (0,),
    "rope_scaling": (None,),
    "hidden_activation": ("gelu",),
    "classifier_activation": ("gelu",),
    "quantization_config": (None,),
    "auto_map": (None, {}),  # names code to be imported
}
# Keys that change nothing here: bookkeeping, labels' names (the folder reads them), how transformers runs, what it
# generates with, buffers of heads nobody has. A tied decoder is checked where the weights are.
_HARMLESS_KEYS = """
    model_type architectures transformers_version _name_or_path name_or_path dtype torch_dtype use_bfloat16 torchscript
    id2label label2id num_labels problem_type finetuning_task task_specific_params _num_labels
    tie_word_embeddings use_cache gradient_checkpointing chunk_size_feed_forward output_past output_attentions
    output_hidden_states return_dict use_return_dict tokenizer_class prefix _commit_hash _attn_implementation
    attn_implementation _attn_implementation_autoset reference_compile deterministic_flash_attn repad_logits_with_grad
    sparse_prediction sparse_pred_ignore_index initializer_cutoff_factor
    bos_token_id eos_token_id eos_token_ids sep_token_id cls_token_id mask_token_id decoder_start_token_id
    forced_bos_token_id forced_eos_token_id bad_words_ids begin_suppress_tokens suppress_tokens do_sample early_stopping
    max_length min_length num_beams num_beam_groups num_return_sequences length_penalty repetition_penalty
    diversity_penalty encoder_no_repeat_ngram_size no_repeat_ngram_size exponential_decay_length_penalty
    output_scores remove_invalid_values return_dict_in_generate temperature top_k top_p typical_p tf_legacy_loss
    directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    language name
"""
_HARMLESS = frozenset(_HARMLESS_KEYS.split())
_ROTARY_KEYS = ("layer_types", "global_attn_every_n_layers", "rope_parameters", "global_rope_theta", "local_rope_theta")
_CLASSES = {
    "masked": "MaskedLM",
    "pair": "NextSentencePrediction",
    "class": "SequenceClassification",
    "tag": "TokenClassification",
    "span": "QuestionAnswering",
    "choice": "MultipleChoice",
}
_CLASS_PREFIX: dict[Family, str] = {
    "bert": "Bert",
    "albert": "Albert",
    "roberta": "Roberta",
    "modernbert": "ModernBert",
    "bertie": "Bertie",
}


def config_from_hf(values: Mapping[str, object]) -> ModelConfig:
    """The shape that a config.json states; ValueError for a key that is unknown, or known to change the computation in
    a way there is none of here. Nothing it names is imported or run."""
    where = "config.json"
    family = _family(values)
    if family == "bertie":
        return from_values(ModelConfig, {key: value for key, value in values.items() if key not in _HARMLESS}, where)
    _check_keys(values, family)
    try:
        return _config(values, family)
    except ValueError as error:
        raise ValueError(_in_their_names(str(error), family)) from error


def _config(values: Mapping[str, object], family: Family) -> ModelConfig:
    where = "config.json"
    fields: dict[str, object] = {"family": family, **_GIVEN[family], **_DEFAULTS[family]}
    fields |= {field: values[key] for field, key in _KEYS[family].items() if values.get(key) is not None}
    if family == "bert" and "embedding_size" in values:  # a BERT of Google's code with narrower tables
        fields |= {"family": "bertie", "embedding_width": values["embedding_size"]}
    fields |= _modernbert_fields(values) if family == "modernbert" else {"feed_forward": _activation(values)}
    rows = values.get("max_position_embeddings", 8192 if family == "modernbert" else 512)
    if not isinstance(rows, int):
        raise ValueError(f"{where}: max_position_embeddings is {rows!r}; allowed: a whole number.")
    config = from_values(ModelConfig, fields | {"max_positions": rows}, where)
    # RoBERTa's table has rows that no text reaches: those up to the pad id.
    return from_values(ModelConfig, fields | {"max_positions": rows - config.position_offset}, where)


def _in_their_names(sentence: str, family: Family) -> str:
    """The sentence with the file's key in the place of our field, where it begins with that: `pad_id is 7`."""
    keys = _KEYS[family] | {"max_positions": "max_position_embeddings"}
    return re.sub(r"\b\w+(?= is\b| \d)", lambda found: keys.get(found[0], found[0]), sentence, count=1)


def config_to_hf(config: ModelConfig, heads: Mapping[str, int]) -> dict[str, object]:
    """What config.json says of a model with these heads: `model_type`, `architectures`, the shape. The labels' names
    (`id2label`, `label2id`, `problem_type`) are the folder's to add; the special tokens' ids no encoder reads."""
    model_type = "bertie" if config.has_own_layout else config.family
    values: dict[str, object] = {"model_type": model_type, "architectures": _architectures(config, heads)}
    if config.has_own_layout:
        return values | to_values(config)
    values |= {key: getattr(config, field) for field, key in _KEYS[config.family].items()}
    values["max_position_embeddings"] = config.max_positions + config.position_offset
    if config.family == "modernbert":
        return values | _modernbert_values(config)
    if config.family == "albert":
        rate = config.dropout if config.classifier_dropout is None else config.classifier_dropout
        values |= {"num_hidden_groups": 1, "inner_group_num": 1, "classifier_dropout_prob": rate}
    return values | {"hidden_act": "gelu" if config.feed_forward == "gelu" else "gelu_new"}


def _family(values: Mapping[str, object]) -> Family:
    families: tuple[Family, ...] = ("bert", "albert", "roberta", "modernbert", "bertie")
    stated = values.get("model_type")
    if stated is None:  # Google's own files, and Hugging Face's of 2019
        return "albert" if "num_hidden_groups" in values else "bert"
    for family in families:
        if stated == family:
            return family
    raise ValueError(f"config.json: model_type is {stated!r}; allowed: {', '.join(families)}.")


def _check_keys(values: Mapping[str, object], family: Family) -> None:
    missing = [key for key in _REQUIRED if values.get(key) is None]
    if missing:
        raise ValueError(f"config.json: {', '.join(missing)} missing.")
    own = {*_KEYS[family].values(), "max_position_embeddings"}
    if "model_type" not in values:
        own.add("embedding_size")
    own |= {*_ROTARY_KEYS, "layer_norm_eps", "position_embedding_type"} if family == "modernbert" else {"hidden_act"}
    for key, value in values.items():
        if key in _ONLY and value not in _ONLY[key]:
            allowed = " or ".join(map(repr, _ONLY[key]))
            raise ValueError(f"config.json: {key} is {value!r}, which there is no code for; allowed: {allowed}.")
        if key not in own and key not in _ONLY and key not in _HARMLESS:
            raise ValueError(
                f"config.json: unknown key {key!r}: it may change what the model computes. Remove it if it does not."
            )


def _activation(values: Mapping[str, object]) -> str:
    name = values.get("hidden_act", "gelu")
    if not isinstance(name, str) or name not in _ACTIVATIONS:
        raise ValueError(f"config.json: hidden_act is {name!r}; allowed: {', '.join(_ACTIVATIONS)}.")
    return _ACTIVATIONS[name]


def _layer_types(num_layers: int, every: int) -> list[str]:
    return ["sliding_attention" if index % every else "full_attention" for index in range(num_layers)]


def _modernbert_fields(values: Mapping[str, object]) -> dict[str, object]:
    """Which layers see a window, and the bases of the rotations, in the spelling of any version."""
    num_layers = values["num_hidden_layers"]
    kinds = values.get("layer_types")
    every = values.get("global_attn_every_n_layers", 3)
    if isinstance(kinds, list):
        every = kinds.index("full_attention", 1) if "full_attention" in kinds[1:] else len(kinds)
    if not isinstance(every, int) or not isinstance(num_layers, int) or every < 1:
        raise ValueError(f"config.json: global_attn_every_n_layers is {every!r}; allowed: a whole number from 1.")
    if isinstance(kinds, list) and (len(kinds) != num_layers or kinds != _layer_types(num_layers, every)):
        raise ValueError("config.json: layer_types must be full_attention at every k-th layer, from the first on.")
    bases = {"full_attention": values.get("global_rope_theta", 160_000.0)}
    bases["sliding_attention"] = values.get("local_rope_theta", 10_000.0) or bases["full_attention"]
    stated = values.get("rope_parameters")
    for kind, parameters in (stated if isinstance(stated, dict) else {}).items():
        rope = parameters if isinstance(parameters, dict) else {}
        if kind not in bases or rope != {"rope_type": "default", "rope_theta": rope.get("rope_theta")}:
            raise ValueError(
                f"config.json: rope_parameters has {kind!r}: {parameters!r}; allowed: for full_attention and "
                "sliding_attention, {'rope_type': 'default', 'rope_theta': a number}."
            )
        bases[kind] = rope["rope_theta"]
    fields = {"rotary_base": bases["full_attention"], "local_rotary_base": bases["sliding_attention"]}
    if num_layers == 1 or every == 1:
        return {"attention": "full", **fields}
    return {"attention": "local", "global_every": every, **fields}


def _modernbert_values(config: ModelConfig) -> dict[str, object]:
    rates = {"embedding_dropout": config.embedding_dropout, "classifier_dropout": config.classifier_dropout}
    return {
        **{key: config.dropout if rate is None else rate for key, rate in rates.items()},
        "layer_types": [
            "sliding_attention" if config.is_local(index) else "full_attention" for index in range(config.num_layers)
        ],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": config.rotary_base},
            "sliding_attention": {"rope_type": "default", "rope_theta": config.local_rotary_base},
        },
        "hidden_activation": "gelu",
        "classifier_activation": "gelu",
        # transformers' defaults are ModernBERT's own vocabulary, beyond the end of a smaller one.
        **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id")),
    }


def _architectures(config: ModelConfig, heads: Mapping[str, int]) -> list[str]:
    """The classes of transformers that these heads make, or would if it had them."""
    names = [_CLASSES[head] for head in heads if head in _CLASSES]
    if "pair" in heads and "masked" in heads and config.family in ("bert", "albert"):
        names = ["PreTraining", *(name for name in names if name not in (_CLASSES["masked"], _CLASSES["pair"]))]
    prefix = _CLASS_PREFIX["bertie" if config.has_own_layout else config.family]
    return [f"{prefix}For{name}" for name in names] or [f"{prefix}Model"]
