"""config.json: what transformers writes is read, what we write it reads, and nothing is passed over in silence."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

from bertie.model.config import PRESETS, Family, ModelConfig, preset
from bertie.model.hf_config import config_from_hf, config_to_hf

CONFIGS: dict[Family, type[transformers.PreTrainedConfig]] = {
    "bert": transformers.BertConfig,
    "albert": transformers.AlbertConfig,
    "roberta": transformers.RobertaConfig,
    "modernbert": transformers.ModernBertConfig,
}


def saved(theirs: transformers.PreTrainedConfig, folder: Path) -> dict[str, object]:
    """What transformers itself writes into config.json."""
    theirs.save_pretrained(folder)
    values: dict[str, object] = json.loads((folder / "config.json").read_text())
    return values


@pytest.mark.parametrize("name", PRESETS)
def test_presets_there_and_back(name: str) -> None:
    config = preset(name)
    again = config_from_hf(config_to_hf(config, {"masked": 0}))
    # transformers' files of ALBERT and ModernBERT state every rate, ours may leave one to follow another.
    assert replace(again, embedding_dropout=None, classifier_dropout=config.classifier_dropout) == config


def test_small_shapes_there_and_back(config: ModelConfig) -> None:
    again = config_from_hf(json.loads(json.dumps(config_to_hf(config, {}))))
    assert replace(again, classifier_dropout=config.classifier_dropout) == config


@pytest.mark.parametrize("family", CONFIGS)
def test_what_transformers_writes_is_read_and_written_the_same(family: Family, tmp_path: Path) -> None:
    theirs = CONFIGS[family](num_hidden_layers=4, num_labels=5)
    values = saved(theirs, tmp_path)
    config = config_from_hf(values)
    assert (config.family, config.num_layers) == (family, 4)
    written = config_to_hf(config, {})
    different = {key: (value, values[key]) for key, value in written.items() if key in values and value != values[key]}
    tokens = {"bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"}  # the tokenizer's to say
    assert different.keys() <= tokens, different
    assert written.keys() - values.keys() <= {"architectures"}


@pytest.mark.parametrize("family", CONFIGS)
def test_transformers_reads_what_we_write(family: Family, small: dict[Family, ModelConfig], tmp_path: Path) -> None:
    config = small[family]
    theirs = CONFIGS[family](**config_to_hf(config, {"masked": 0}))
    assert replace(config_from_hf(saved(theirs, tmp_path)), classifier_dropout=config.classifier_dropout) == config
    assert theirs.architectures == [type(theirs).__name__.replace("Config", "ForMaskedLM")]


@pytest.mark.parametrize(
    ("family", "heads", "architectures"),
    [
        ("bert", {}, ["BertModel"]),
        ("bert", {"pooler": 0}, ["BertModel"]),
        ("bert", {"masked": 0, "pair": 0}, ["BertForPreTraining"]),
        ("bert", {"pair": 0}, ["BertForNextSentencePrediction"]),
        ("albert", {"pair": 0, "masked": 0}, ["AlbertForPreTraining"]),
        ("roberta", {"class": 3}, ["RobertaForSequenceClassification"]),
        ("modernbert", {"span": 0}, ["ModernBertForQuestionAnswering"]),
        ("bert", {"masked": 0, "choice": 0}, ["BertForMaskedLM", "BertForMultipleChoice"]),
    ],
)
def test_architectures(
    family: Family, heads: Mapping[str, int], architectures: list[str], small: dict[Family, ModelConfig]
) -> None:
    assert config_to_hf(small[family], heads)["architectures"] == architectures


@pytest.mark.parametrize(
    ("act", "form"),
    [("gelu", "gelu"), ("gelu_python", "gelu"), ("gelu_new", "gelu_tanh"), ("gelu_pytorch_tanh", "gelu_tanh")],
)
def test_forms_of_gelu(act: str, form: str, small: dict[Family, ModelConfig]) -> None:
    assert config_from_hf(config_to_hf(small["bert"], {}) | {"hidden_act": act}).feed_forward == form


def test_roberta_s_table_is_longer_than_its_longest_text(small: dict[Family, ModelConfig]) -> None:
    values = config_to_hf(replace(small["roberta"], max_positions=512), {})
    assert values["max_position_embeddings"] == 514
    assert config_from_hf(values).max_positions == 512


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("bert", {"hidden_act": []}, r"hidden_act is \[\]; allowed: gelu"),
        (
            "modernbert",
            {"num_hidden_layers": 10**12, "layer_types": None},
            "num_hidden_layers is 1000000000000; it must be from",
        ),
        ("bert", {"hidden_act": "silu"}, "hidden_act is 'silu'; allowed: gelu, gelu_python"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key', which there"),
        ("bert", {"is_decoder": True}, "is_decoder is True, which there is no code for; allowed: False"),
        ("bert", {"auto_map": {"AutoModel": "x.Y"}}, "auto_map is .* which there is no code for"),
        ("bert", {"pruned_heads": {"1": [2]}}, "pruned_heads"),
        ("bert", {"rotary": True}, "unknown key 'rotary': it may change what the model computes"),
        ("bert", {"embedding_size": 12}, "unknown key 'embedding_size'"),
        ("bert", {"hidden_size": None}, "hidden_size missing"),
        ("bert", {"hidden_size": "32"}, "hidden_size is '32'; allowed: a whole number"),
        ("bert", {"num_attention_heads": 5}, "hidden_size 32 does not divide into 5 heads"),
        ("bert", {"max_position_embeddings": "40"}, "max_position_embeddings is '40'; allowed: a whole number"),
        ("bert", {"model_type": "gpt2"}, "model_type is 'gpt2'; allowed: bert, albert, roberta, modernbert, bertie"),
        ("albert", {"num_hidden_groups": 2}, "num_hidden_groups is 2"),
        ("modernbert", {"layer_types": ["sliding_attention"] * 5}, "layer_types must be full_attention at every k-th"),
        ("modernbert", {"hidden_activation": "gelu_new"}, "hidden_activation is 'gelu_new'"),
        (
            "modernbert",
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}},
            "rope_parameters has 'full_attention'",
        ),
        ("modernbert", {"rope_parameters": {"full_attention": 5}}, "rope_parameters has 'full_attention': 5"),
        ("modernbert", {"rope_parameters": {"rope_theta": 5.0}}, "rope_parameters has 'rope_theta'"),
        ("bertie", {"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_refused(family: Family, changes: dict[str, object], message: str, small: dict[Family, ModelConfig]) -> None:
    with pytest.raises(ValueError, match=message):
        config_from_hf(config_to_hf(small[family], {}) | changes)


def test_modernbert_of_any_version(small: dict[Family, ModelConfig]) -> None:
    values = config_to_hf(small["modernbert"], {})
    old = {key: value for key, value in values.items() if key not in ("layer_types", "rope_parameters")}
    old |= {"global_attn_every_n_layers": 3, "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0}
    old |= {"layer_norm_eps": 1e-5, "reference_compile": None, "repad_logits_with_grad": False}
    assert config_from_hf(old) == config_from_hf(values)
    assert config_from_hf(old | {"local_rope_theta": None}).local_rotary_base == 160_000.0
    everywhere = config_from_hf(values | {"layer_types": ["full_attention"] * 5})
    assert everywhere.attention == "full"


def test_files_without_a_model_type() -> None:
    """Google's own, and Hugging Face's of 2019."""
    google = {
        "attention_probs_dropout_prob": 0.1,
        "directionality": "bidi",
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "hidden_size": 312,
        "initializer_range": 0.02,
        "intermediate_size": 1248,
        "max_position_embeddings": 512,
        "num_attention_heads": 12,
        "num_hidden_layers": 4,
        "pooler_fc_size": 768,
        "pooler_type": "first_token_transform",
        "type_vocab_size": 2,
        "vocab_size": 13685,
    }
    assert config_from_hf(google).family == "bert"
    narrow = config_from_hf(google | {"embedding_size": 128})
    assert (narrow.family, narrow.embedding_width, narrow.shared_layers) == ("bertie", 128, False)
    albert = google | {"embedding_size": 128, "num_hidden_groups": 1, "inner_group_num": 1, "net_structure_type": 0}
    assert config_from_hf(albert).family == "albert"
