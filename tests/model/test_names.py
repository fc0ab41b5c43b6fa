"""Weight names: there and back bit for bit, whichever spelling they come in; what does not fit is named."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bertie.model.config import Family, ModelConfig
from bertie.model.heads import Model
from bertie.model.names import from_hf, from_tf, heads_from_hf, heads_from_tf, to_hf, to_tf

MakeModel = Callable[[ModelConfig, dict[str, int]], Model]
State = dict[str, Tensor]
EACH: tuple[dict[str, int], ...] = (
    {},
    {"pooler": 0},
    {"masked": 0},
    {"masked": 0, "pair": 0},
    {"class": 3},
    {"tag": 4},
    {"span": 0},
    {"choice": 0},
)
ENDINGS = {"class": "SequenceClassification", "tag": "TokenClassification", "choice": "MultipleChoice"}
ENDINGS["span"] = "QuestionAnswering"


def shapes(state: State) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in state.items()}


def assert_same(found: State, expected: State) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("heads", EACH, ids=str)
def test_hugging_face_there_and_back(heads: dict[str, int], config: ModelConfig, make_model: MakeModel) -> None:
    state = make_model(config, heads).state_dict()
    theirs = to_hf(config, heads, state)
    assert_same(from_hf(config, heads, theirs), state)
    architectures = [f"TheirFor{ENDINGS[head]}" for head in heads if head in ENDINGS]
    found = heads_from_hf(config, architectures, shapes(theirs))
    assert found == heads


@pytest.mark.parametrize("heads", [*EACH[:5], {"span": 0}, {"masked": 0, "class": 2}], ids=str)
@pytest.mark.parametrize("family", ["bert", "albert", "narrow"])
def test_tensorflow_there_and_back(
    heads: dict[str, int], family: str, small: dict[Family, ModelConfig], make_model: MakeModel
) -> None:
    narrow = replace(small["bert"], family="bertie", embedding_width=12)
    config = {"bert": small["bert"], "albert": small["albert"], "narrow": narrow}[family]
    state = make_model(config, heads).state_dict()
    theirs = to_tf(config, heads, state)
    assert_same(from_tf(config, heads, theirs), state)
    assert heads_from_tf(config, shapes(theirs)) == heads


def test_names_are_google_s(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    heads = {"masked": 0, "pair": 0, "class": 2}
    state = make_model(small["bert"], heads).state_dict()
    theirs = to_tf(small["bert"], heads, state)
    inner = state["encoder.layers.1.feed_forward.inner.weight"]
    assert torch.equal(theirs["bert/encoder/layer_1/intermediate/dense/kernel"], inner.T)
    assert theirs["bert/encoder/layer_1/intermediate/dense/kernel"].is_contiguous()
    keys = state["encoder.layers.2.attention.qkv.weight"][32:64]
    assert torch.equal(theirs["bert/encoder/layer_2/attention/self/key/kernel"], keys.T)
    assert torch.equal(theirs["cls/seq_relationship/output_weights"], state["heads.pair.scores.weight"])
    assert torch.equal(theirs["bert/embeddings/LayerNorm/gamma"], state["encoder.embeddings.norm.weight"])
    assert {"cls/predictions/output_bias", "output_weights", "output_bias", "bert/pooler/dense/bias"} <= theirs.keys()
    albert = to_tf(small["albert"], {}, make_model(small["albert"], {}).state_dict())
    assert "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/output/dense/kernel" in albert


@pytest.fixture
def pre_trained(small: dict[Family, ModelConfig], make_model: MakeModel) -> tuple[ModelConfig, State, State]:
    """A BERT with both heads: its shape, our state, theirs."""
    config, heads = small["bert"], {"masked": 0, "pair": 0}
    state = make_model(config, heads).state_dict()
    return config, state, to_hf(config, heads, state)


def test_any_spelling_is_read(pre_trained: tuple[ModelConfig, State, State]) -> None:
    """Without the prefix, with the names of 2018, with tied weights written out, with buffers."""
    config, state, theirs = pre_trained
    old = {name.removeprefix("bert."): tensor for name, tensor in theirs.items()}
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in old.items()
    }
    old["cls.predictions.decoder.weight"] = old["embeddings.word_embeddings.weight"].clone()
    old["cls.predictions.decoder.bias"] = old.pop("cls.predictions.bias")
    old["embeddings.position_ids"] = torch.arange(40)[None]
    assert_same(from_hf(config, {"masked": 0, "pair": 0}, old), state)
    assert heads_from_hf(config, [], shapes(old)) == {"masked": 0, "pair": 0}


def test_what_a_checkpoint_has_beside_its_heads_is_found(pre_trained: tuple[ModelConfig, State, State]) -> None:
    config, _, theirs = pre_trained
    no_pair = {name: tensor for name, tensor in theirs.items() if "seq_relationship" not in name}
    assert heads_from_hf(config, ["BertForMaskedLM"], shapes(no_pair)) == {"masked": 0, "pooler": 0}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.pop("bert.pooler.dense.bias"), r"lacks pooler\.dense\.bias\."),
        (lambda state: state.update(extra=torch.zeros(1)), r"unknown to this family and its heads, extra\."),
        (
            lambda state: state.update({"cls.predictions.bias": torch.zeros(61)}),
            r"'cls\.predictions\.bias' is 61; the config makes it 60",
        ),
        (
            lambda state: state.update(
                {"bert.encoder.layer.0.attention.self.key.weight": torch.zeros(32, 31)},
            ),
            r"self\.key\.weight' is 32 x 31; the config makes it 32 x 32",
        ),
        (
            lambda state: state.update({"cls.predictions.decoder.weight": torch.zeros(60, 32)}),
            "'cls.predictions.decoder.weight' and 'embeddings.word_embeddings.weight' differ",
        ),
        (
            lambda state: state.update({"pooler.dense.bias": torch.zeros(32)}),
            "tensors both with and without the prefix 'bert.'",
        ),
        (
            lambda state: [state.pop(name) for name in list(state) if "layer.2." in name],
            r"lacks encoder\.layer\.2\.attention\.output\.LayerNorm\.bias, .* and 13 more\.",
        ),
    ],
    ids=["missing", "unknown", "misshaped", "misshaped part", "not tied", "twice", "a layer missing"],
)
def test_what_does_not_fit_is_named(
    spoil: Callable[[State], object], message: str, pre_trained: tuple[ModelConfig, State, State]
) -> None:
    config, _, theirs = pre_trained
    spoil(theirs)
    with pytest.raises(ValueError, match=message):
        from_hf(config, {"masked": 0, "pair": 0}, theirs)


def test_tensorflow_leaves_the_optimizer_aside_and_names_the_rest(
    small: dict[Family, ModelConfig], make_model: MakeModel
) -> None:
    config = small["bert"]
    state = make_model(config, {}).state_dict()
    theirs = to_tf(config, {}, state)
    theirs |= {"global_step": torch.tensor(7), "bert/embeddings/LayerNorm/beta/adam_m": torch.zeros(32)}
    assert_same(from_tf(config, {}, theirs), state)
    with pytest.raises(ValueError, match=r"has, unknown to this family and its heads, cls/what"):
        from_tf(config, {}, theirs | {"cls/what": torch.zeros(1)})


def test_shapes_that_google_s_code_cannot_run(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    for family, message in (
        ("modernbert", "Google's code cannot run this shape: positions is 'rotary'"),
        ("bertie", "Google's code cannot run this shape: positions is 'sinusoidal'"),
        ("roberta", "RoBERTa from its pad id"),
    ):
        with pytest.raises(ValueError, match=message):
            to_tf(small[family], {}, make_model(small[family], {}).state_dict())
    with pytest.raises(ValueError, match=r"heads\.tag\.scores\.weight has no name in Google's layout"):
        to_tf(small["bert"], {"tag": 2}, make_model(small["bert"], {"tag": 2}).state_dict())


def test_two_heads_of_one_name_are_refused(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    heads = {"class": 2, "tag": 3}
    with pytest.raises(ValueError, match=r"heads\.class.* and heads\.tag.* are both named 'classifier"):
        to_hf(small["bert"], heads, make_model(small["bert"], heads).state_dict())


def test_a_classifier_of_unsaid_use_is_refused(small: dict[Family, ModelConfig], make_model: MakeModel) -> None:
    theirs = to_hf(small["bert"], {"tag": 3}, make_model(small["bert"], {"tag": 3}).state_dict())
    with pytest.raises(ValueError, match=r"has a 'classifier', but its architectures \['BertModel'\] do not say"):
        heads_from_hf(small["bert"], ["BertModel"], shapes(theirs))
