"""Heads refuse what they cannot be; pooling is sentence-transformers'; initial values are drawn as the facts say."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from bertie.model.config import Family, ModelConfig
from bertie.model.encoder import Batch, pack
from bertie.model.heads import HEADS, POOLINGS, Model, initialise, pool

MakeModel = Callable[[ModelConfig, dict[str, int]], Model]
ALL_HEADS = {head: 3 if head in ("class", "tag") else 0 for head in HEADS}


def test_shapes_of_all_heads_at_once(config: ModelConfig, make_model: MakeModel, batch: Batch) -> None:
    outputs = make_model(config, ALL_HEADS)(replace(batch, masked_M=torch.tensor([0, 7])))
    num_tokens, num_texts = len(batch.ids_N), len(batch.starts_S) - 1
    assert {name: tuple(output.shape) for name, output in outputs.items()} == {
        "hidden": (num_tokens, config.width),
        "pooler": (num_texts, config.width),
        "masked": (2, config.vocabulary_size),
        "pair": (num_texts, 2),
        "class": (num_texts, 3),
        "choice": (num_texts,),
        "tag": (num_tokens, 3),
        "span": (num_tokens, 2),
    }


def test_masked_words_are_scored_where_asked(config: ModelConfig, make_model: MakeModel, batch: Batch) -> None:
    model = make_model(config, {"masked": 0})
    everywhere = model(replace(batch, masked_M=torch.arange(len(batch.ids_N))))["masked"]
    some = torch.tensor([3, 3, 40])
    torch.testing.assert_close(model(replace(batch, masked_M=some))["masked"], everywhere[some])
    assert "masked" not in model(batch)


def test_replaced_words_are_those_that_differ_from_the_text(config: ModelConfig, make_model: MakeModel) -> None:
    """Only masked places are replaced, by draws that follow the seed; what fills a batch up is not asked about."""
    model = make_model(config, {"masked": 0, "replaced": 0}).eval()
    pad, mask_id = config.pad_id, 59
    text = pack([[10, 11, 12, 13, 14, 15], [20, 21, 22], [pad, pad]])
    places, unused = torch.tensor([2, 4, 7]), torch.tensor([0, 0])
    batch = replace(
        text,
        ids_N=text.ids_N.index_fill(0, places, mask_id),
        masked_M=torch.cat((places, unused)),
        labels_M=torch.cat((text.ids_N[places], unused - 100)),
    )
    outputs = []
    for _ in range(2):
        torch.manual_seed(3)
        outputs.append(model(batch))
    assert torch.equal(outputs[0]["replaced"], outputs[1]["replaced"])
    labels_N = outputs[0]["is_replaced"]
    assert labels_N[9:].isnan().all()
    assert labels_N[:9].nonzero().flatten().tolist() == places.tolist(), "this seed draws no word of the text"
    knowing = replace(batch, masked_M=places[:1], labels_M=torch.tensor([outputs[0]["masked"][0].argmax()]))
    labels = [int(model(knowing)["is_replaced"][2]) for _ in range(200)]
    assert 0 < sum(labels) < 200, "a word that is drawn and is the text's is not replaced"
    outputs[0]["replaced"][:9].sum().backward()
    assert model.heads["masked"].dense.weight.grad is None, "nothing is learned through the draw"


def test_masked_words_are_scored_by_the_word_table(config: ModelConfig, make_model: MakeModel, batch: Batch) -> None:
    """Tied: no second table, and the loss reaches the words that are not in the text."""
    model = make_model(config, {"masked": 0})
    assert sum(name.endswith("words.weight") for name, _ in model.named_parameters()) == 1
    model(replace(batch, masked_M=torch.tensor([2])))["masked"].sum().backward()
    gradient = model.encoder.embeddings.words.weight.grad
    assert gradient is not None
    assert gradient[0].abs().max() > 0, "word 0 is in no text"


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ({"mask": 0}, "head 'mask' does not exist; allowed: masked, pooler, pair, span, choice, replaced, class, tag"),
        ({"class": 0}, "head 'class' is given 0 classes; allowed: at least 1"),
        ({"span": 2}, "head 'span' is given 2 classes; allowed: 0, since its size is given"),
    ],
)
def test_refused(heads: dict[str, int], message: str, config: ModelConfig) -> None:
    with pytest.raises(ValueError, match=message):
        Model(config, heads)


def test_the_pooler_is_there_when_a_head_reads_it(small: dict[Family, ModelConfig]) -> None:
    assert [
        family
        for family in ("bert", "albert", "roberta", "modernbert", "bertie")
        if "pooler" in Model(small[family], {"class": 2}).heads
    ] == ["bert", "albert", "bertie"]
    assert "pooler" not in Model(small["bert"], {"masked": 0, "tag": 2, "span": 0}).heads


@pytest.mark.parametrize("mode", POOLINGS)
def test_pooling_is_that_of_sentence_transformers(mode: str, batch: Batch) -> None:
    lengths = batch.starts_S.diff().tolist()
    hidden = torch.randn(sum(lengths), 8, generator=torch.Generator().manual_seed(0))
    rows, mask = torch.zeros(len(lengths), max(lengths), 8), torch.zeros(len(lengths), max(lengths))
    for index, part in enumerate(hidden.split(lengths)):
        rows[index, : len(part)], mask[index, : len(part)] = part, 1
    features = {"token_embeddings": rows, "attention_mask": mask}
    expected = Pooling(8, mode)(features)["sentence_embedding"]
    torch.testing.assert_close(pool(hidden, batch.starts_S, mode), expected)


def test_pooling_modes_are_all_of_theirs() -> None:
    assert set(POOLINGS) == set(Pooling.POOLING_MODES)
    with pytest.raises(ValueError, match="pooling mode 'sum' does not exist; allowed: cls, lasttoken, max, mean"):
        pool(torch.zeros(1, 2), torch.tensor([0, 1]), "sum")


@pytest.mark.parametrize("mode", POOLINGS)
def test_pooling_of_sequences_that_are_not_used_is_finite(mode: str) -> None:
    hidden = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    pooled = pool(hidden, torch.tensor([0, 2, 5, 5, 5], dtype=torch.int32), mode)
    torch.testing.assert_close(pooled[:2], pool(hidden, torch.tensor([0, 2, 5]), mode))
    pooled[:2].sum().backward()
    assert hidden.grad is not None
    assert pooled.isfinite().all()
    assert hidden.grad.isfinite().all()


def test_initial_values(config: ModelConfig) -> None:
    config = replace(config, vocabulary_size=2000, initial_std=0.05)
    model = initialise(Model(config, ALL_HEADS), torch.Generator().manual_seed(0))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            assert 0 < parameter.abs().max() <= 0.1, name  # cut at two standard deviations
    words = model.encoder.embeddings.words.weight
    # A normal distribution cut at 2 has 0.8796 of its deviation; at 20,000 values and more 3% is far outside chance.
    assert abs(words.std() / (0.05 * 0.8796) - 1) < 0.03
    assert abs(words.mean()) < 0.002


def test_scaled_initial_values_shrink_what_returns_to_the_stream(small: dict[Family, ModelConfig]) -> None:
    model = initialise(Model(small["modernbert"], {}), torch.Generator().manual_seed(0))
    for layer in model.encoder.layers:
        for output in (layer.attention.output, layer.feed_forward.output):
            assert output.weight.abs().max() <= 2 * 0.02 / 10**0.5  # 5 layers
        assert layer.attention.qkv.weight.abs().max() > 2 * 0.02 / 10**0.5


def test_initial_values_are_the_generators_alone(config: ModelConfig) -> None:
    def draw(seed: int) -> torch.Tensor:
        model = initialise(Model(config, ALL_HEADS), torch.Generator().manual_seed(seed))
        return torch.cat([parameter.flatten() for parameter in model.parameters()])

    state = torch.random.get_rng_state()
    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    assert torch.equal(torch.random.get_rng_state(), state), "building a model draws nothing on the side"
