import builtins
import random

import numpy as np
import pytest
from tokenizers import Tokenizer as Pipeline
from tokenizers import decoders, models, pre_tokenizers

from bertie.text.rules import is_cjk
from bertie.text.wordpiece import Tokenizer
from bertie.text.words import encode_words, load_segmenter

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHARACTERS = list("神圣罗马帝国存在于年使用语言模型预测概率我们去和你abc019,.。，é")
VOCABULARY = [*SPECIAL, *CHARACTERS, *(f"##{one}" for one in "abc019"), "cab"]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.build(VOCABULARY, cased=False)


@pytest.fixture(scope="module")
def segment():
    return load_segmenter()


def plain_starts(text, tokenizer, segment):
    """The same from each token's offsets, one by one."""
    begins, at = set(), 0
    for word in segment(text):
        begins.add(at)
        at += len(word)
    cut = tokenizer.pieces(text)
    is_continuation = tokenizer.is_continuation
    return cut.ids, [
        start in begins if is_cjk(text[start]) else not is_continuation[id_]
        for id_, (start, _) in zip(cut.ids, cut.offsets, strict=True)
    ]


def test_words_of_several_characters_begin_once(tokenizer, segment):
    text = "使用语言模型abc预测概率"
    ids, starts, begins = encode_words([text], tokenizer, segment)
    words = []
    for piece, is_first in zip([tokenizer.vocabulary[one] for one in ids], begins, strict=True):
        if is_first:
            words.append(piece)
        else:
            words[-1] += piece
    assert words == ["使用", "语言", "模型", "a##b##c", "预测", "概率"]
    assert starts.tolist() == [0, 13]


def test_no_word_begins_in_the_middle_of_a_mixed_one(tokenizer):
    _, _, begins = encode_words(["a罗b"], tokenizer, lambda text: [text])
    assert begins.tolist() == [True, False, True]


def test_agrees_with_offsets_and_with_encode_ids(tokenizer, segment):
    rng = random.Random(3)
    alphabet = [
        *CHARACTERS,
        "𠀀",
        "﨎",
        " ",
        " ",
        "\u200b",
        "\u0301",
        "Σ",
        "Zz",
        "\x00",
        "　",
        "-",
        "€",
        "cab",
        "\t",
        "ü",
    ]
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(30))) for _ in range(2000)]
    ids, starts, begins = encode_words(texts, tokenizer, segment)
    expected_ids, expected_starts = tokenizer.encode_ids(texts)
    assert ids.tolist() == expected_ids.tolist() and starts.tolist() == expected_starts.tolist()
    for text, start, end in zip(texts, starts, starts[1:], strict=False):
        plain_ids, plain_begins = plain_starts(text, tokenizer, segment)
        assert ids[start:end].tolist() == plain_ids
        assert begins[start:end].tolist() == plain_begins, text


def test_nothing_in_nothing_out(tokenizer, segment):
    ids, starts, begins = encode_words(["", ""], tokenizer, segment)
    assert (len(ids), starts.tolist(), len(begins)) == (0, [0, 0, 0], 0)
    assert (begins.dtype, starts.dtype) == (np.bool_, np.int64)


def test_a_vocabulary_of_bytes_is_refused(segment, tmp_path):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    entries = {piece: at for at, piece in enumerate(["<unk>", *sorted(alphabet)])}
    pipeline = Pipeline(models.BPE(entries, [], unk_token="<unk>"))
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = decoders.ByteLevel()
    pipeline.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ValueError, match="each Chinese character is a token"):
        encode_words(["语言"], Tokenizer.load(tmp_path, cased=True), segment)


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **named):
        if name == "rjieba":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ValueError, match=r"pip install 'bertie\[zh\]'"):
        load_segmenter()
