import json
import logging
import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertie.text.rules import Rules
from bertie.text.wordpiece import Encoding, Tokenizer

GOOGLE_TEST = ["[UNK]", "[CLS]", "[SEP]", "want", "##want", "##ed", "wa", "un", "runn", "##ing", ","]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.fixture(scope="module")
def small(small_vocabulary):
    return Tokenizer.build(small_vocabulary, cased=False)


@pytest.fixture(scope="module")
def tokenizers(small_vocabulary, real_folder):
    """By name: the three kinds of vocabulary that Google published, and whether each is lower-cased."""
    chinese = dict.fromkeys([*small_vocabulary, *map(chr, range(0x4E00, 0x9FA6))])
    return {
        "uncased": Tokenizer.load(real_folder),
        "cased": Tokenizer.build(small_vocabulary, cased=True),
        "chinese": Tokenizer.build(list(chinese), cased=False),
    }


def test_examples_of_google():
    tokenizer = Tokenizer.build(GOOGLE_TEST, cased=False)
    assert tokenizer.tokenize("UNwant\u00e9d,running") == ["un", "##want", "##ed", ",", "runn", "##ing"]
    assert tokenizer.tokenize("") == []
    assert tokenizer.tokenize("unwantedX running") == ["[UNK]", "runn", "##ing"]


@pytest.mark.parametrize("kind", ["uncased", "cased", "chinese"])
def test_equal_to_google_on_generated_texts(tokenizers, kind, reference, generated):
    tokenizer = tokenizers[kind]
    vocabulary = set(tokenizer.vocabulary)
    texts = generated.texts(random.Random(f"google {kind}"), 67_000)
    ids, starts = tokenizer.encode_ids(texts)
    found = [tokenizer.vocabulary[piece] for piece in ids]
    for text, start, end in zip(texts, starts, starts[1:], strict=False):
        assert found[start:end] == reference.tokenize(text, vocabulary, not tokenizer.is_cased), repr(text)


@pytest.mark.parametrize("lowercase", [True, False])
def test_equal_to_google_on_every_code_point(lowercase, reference, generated):
    """With an entry for every letter, so that no difference hides behind an unknown word."""
    characters = [char for char in generated.characters() if not "\ud800" <= char <= "\udfff" and not char.isspace()]
    plain = [char for char in characters if len(char.encode()) < 4 or char < "\U00020000"]
    vocabulary = dict.fromkeys([*SPECIAL, *"abcdABCD", *(f"##{char}" for char in "abcdABCD")])
    vocabulary |= dict.fromkeys([*plain, *(f"##{char}" for char in plain)])
    tokenizer = Tokenizer.build(list(vocabulary), cased=not lowercase)
    for start in range(0, len(plain), 500):
        text = " ".join([f"ab{char}cd" for char in plain[start : start + 500]])
        assert tokenizer.tokenize(text) == reference.tokenize(text, vocabulary, lowercase), repr(plain[start])


def test_all_ways_give_the_same_ids(tokenizers, generated):
    texts = generated.texts(random.Random(3), 3000)
    for tokenizer in tokenizers.values():
        ids, starts = tokenizer.encode_ids(texts)
        batch = tokenizer.encode_batch(texts)
        for text, encoding, start, end in zip(texts, batch, starts, starts[1:], strict=False):
            assert encoding.ids == [tokenizer.cls_id, *ids[start:end].tolist(), tokenizer.sep_id]
            assert tokenizer.tokenize(text) == [tokenizer.vocabulary[piece] for piece in ids[start:end]]
            assert encoding == tokenizer.encode(text)


def test_special_tokens_in_a_text_are_text(small):
    text = "[CLS] the [MASK] [SEP] [PAD][UNK]"
    assert small.tokenize("[MASK]") == ["[", "mask", "]"]
    assert not {small.cls_id, small.sep_id, small.mask_id, small.pad_id} & set(small.pieces(text).ids)
    pair = small.encode(text, text)
    assert (pair.ids.count(small.cls_id), pair.ids.count(small.sep_id), pair.ids.count(small.mask_id)) == (1, 2, 0)


def test_encode_masked_reads_the_mask_alone(small):
    text = "the [MASK][mask] [SEP]un[MASK]"
    encoding = small.encode_masked(text)
    plain = small.encode(text)
    assert [text[start:end] for start, end in encoding.offsets[1:-1] if text[start:end] == "[MASK]"] == ["[MASK]"] * 2
    assert encoding.ids.count(small.mask_id) == 2
    assert encoding.ids.count(small.sep_id) == 1
    assert len(plain) == len(encoding) + 4
    words = encoding.words[1:-1]
    assert (words, sorted(set(words))) == (sorted(words), list(range(words[-1] + 1)))
    assert small.encode_masked("the un") == small.encode("the un")


def test_a_pair(small):
    encoding = small.encode("the un", "hello")
    vocabulary = small.vocabulary
    assert [vocabulary[piece] for piece in encoding.ids] == ["[CLS]", "the", "un", "[SEP]", "hello", "[SEP]"]
    assert encoding.segments == [0, 0, 0, 0, 1, 1]
    assert encoding.offsets == [None, (0, 3), (4, 6), None, (0, 5), None]
    assert encoding.words == [None, 0, 1, None, 0, None]
    assert small.encode_batch([("the un", "hello"), "the"]) == [encoding, small.encode("the")]


@given(st.integers(0, 12), st.integers(0, 12), st.integers(3, 30))
def test_a_pair_is_cut_as_google_cuts_it(small, first, second, max_length):
    encoding = small.encode("a " * first, "b " * second, max_length=max_length)
    lengths = [first, second]
    while sum(lengths) > max_length - 3:
        lengths[0 if lengths[0] > lengths[1] else 1] -= 1
    assert encoding.ids.count(small.encode("a").ids[1]) == lengths[0]
    assert encoding.ids.count(small.encode("b").ids[1]) == lengths[1]
    assert encoding.truncated == first + second - sum(lengths)
    assert len(encoding) == sum(lengths) + 3


def test_a_text_is_cut_only_when_asked(small):
    text = "the un " * 5000
    assert (len(small.encode(text)), small.encode(text).truncated) == (10_002, 0)
    cut = small.encode(text, max_length=8)
    assert (len(cut), cut.truncated) == (8, 9994)
    assert cut.ids[:-1] == small.encode(text).ids[:7]
    assert cut.ids[-1] == small.sep_id
    assert small.encode(text, max_length=2).ids == [small.cls_id, small.sep_id]


@settings(max_examples=300)
@given(text=st.text(max_size=40), cased=st.booleans())
def test_offsets_lie_in_the_text_and_in_order(small_vocabulary, text, cased):
    check_offsets(Tokenizer.build(small_vocabulary, cased), text)


@pytest.mark.parametrize("kind", ["uncased", "cased", "chinese"])
def test_offsets_point_at_what_a_token_spells(tokenizers, kind, generated):
    for text in generated.texts(random.Random(f"offsets {kind}"), 3000):
        check_offsets(tokenizers[kind], text)


def check_offsets(tokenizer, text):
    """Tokens follow each other, and the characters of each, by the rules alone, spell it, or more where one letter is
    several (a Hangul syllable is three) and tokens share it."""
    rules = Rules(lowercase=not tokenizer.is_cased)
    encoding = tokenizer.pieces(text)
    sortable = any(char in "\u1b44\u302e\u302f\U0001d165\U0001d16d\U0001d15e\U0001d160" for char in text)
    last = (0, 0)
    for piece, span in zip(encoding.ids, encoding.offsets, strict=True):
        assert 0 <= span[0] < span[1] <= len(text)
        if sortable:
            continue
        assert last[1] <= span[0] or last[1] - span[0] == 1, "tokens share at most one character"
        last = span
        if piece != tokenizer.unk_id:
            spelled = "".join(rules.words(text[slice(*span)])).replace("ς", "σ")
            assert tokenizer.vocabulary[piece].removeprefix("##").replace("ς", "σ") in spelled
    assert encoding.words == sorted(encoding.words)


def test_offsets_through_accents_controls_and_signs(small):
    def parts(text):
        return [text[slice(*span)] for span in small.pieces(text).offsets]

    assert parts("re\u0301sume\u0301") == ["r", "e", "s", "u", "m", "e"]
    assert parts("\0wa\u200bnt\ufffd ed") == ["wa\u200bnt", "e", "d"]
    assert parts("\u0130\u0130") == ["\u0130", "\u0130"]
    assert parts("\uac00") == ["\uac00", "\uac00"]
    assert parts("\u2260") == ["\u2260"]
    assert parts("a中😀🔬b") == ["a", "中", "😀🔬b"]
    assert small.pieces("unwanted, a中").words == [0, 0, 0, 1, 2, 3]


def test_decode(small):
    assert small.decode(small.encode("Unwanted, the [MASK]!").ids) == "[CLS] unwanted , the [ mask ] ! [SEP]"
    assert small.decode([]) == ""
    assert small.decode(np.array([small.mask_id, small.unk_id])) == "[MASK] [UNK]"
    assert small.decode([small.vocabulary.index("##ing")]) == "##ing"
    with pytest.raises(ValueError, match="-1 is no id"):
        small.decode([-1])
    with pytest.raises(ValueError, match=f"{small.size} is no id"):
        small.decode([small.size])


def test_properties(small):
    assert [small.pad_id, small.unk_id, small.cls_id, small.sep_id, small.mask_id] == [0, 1, 2, 3, 4]
    assert small.size == len(small.vocabulary)
    continuation = small.is_continuation
    assert (continuation.dtype, continuation.shape) == (np.bool_, (small.size,))
    assert continuation[small.vocabulary.index("##want")]
    assert not continuation[small.vocabulary.index("want")]
    assert not continuation[:5].any()


def test_fingerprint_tells_vocabulary_case_and_rules_apart(small, small_vocabulary):
    others = [
        Tokenizer.build(small_vocabulary, cased=True),
        Tokenizer.build(small_vocabulary[:-1], cased=False),
        Tokenizer.build([*small_vocabulary[:-2], *small_vocabulary[:-3:-1]], cased=False),
        Tokenizer.build(small_vocabulary, cased=False, rules="huggingface"),
    ]
    assert len({small.fingerprint, *(other.fingerprint for other in others)}) == 5
    assert Tokenizer.build(small_vocabulary, cased=False).fingerprint == small.fingerprint
    assert len(small.fingerprint) == 64


@pytest.mark.parametrize("cased", [True, False])
@pytest.mark.parametrize("rules", ["google", "huggingface"])
def test_saved_and_opened_again(small_vocabulary, tmp_path, cased, rules):
    before = Tokenizer.build(small_vocabulary, cased, rules)
    before.save(tmp_path)
    after = Tokenizer.load(tmp_path, rules=rules)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(before.files())
    assert (after.fingerprint, after.is_cased, after.files()) == (before.fingerprint, cased, before.files())
    assert pickle.loads(pickle.dumps(after)).encode("Un 中") == before.encode("Un 中")


def test_case_is_read_beside_the_vocabulary(small_vocabulary, write, tmp_path, caplog):
    path = write(small_vocabulary)
    assert not Tokenizer.load(path).is_cased
    assert "taken as uncased" in caplog.text
    caplog.clear()
    assert Tokenizer.load(path, cased=True).is_cased
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert Tokenizer.load(path).is_cased
    assert Tokenizer.load(tmp_path).is_cased
    assert not Tokenizer.load(tmp_path, cased=False).is_cased
    assert not caplog.records


def test_case_is_read_in_tokenizer_json_too(small_vocabulary, write, tmp_path, caplog):
    files = Tokenizer.build(small_vocabulary, cased=True).files()
    write(small_vocabulary)
    (tmp_path / "tokenizer.json").write_bytes(files["tokenizer.json"])
    for path in (tmp_path, tmp_path / "vocab.txt", tmp_path / "tokenizer.json"):
        assert Tokenizer.load(path).is_cased
    assert not caplog.records


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", r"vocab\.txt is empty"),
        (b"\n\n", r"vocab\.txt is empty"),
        (b"[UNK]\nab\xff\n", r"vocab\.txt is not UTF-8: line 2 "),
        (b"[PAD]\nthe\n", r"no \[UNK\]"),
        (b"[UNK]\nthe\nun\nthe \n", r"vocab\.txt holds 'the' twice, as lines 2 and 4:"),
    ],
)
def test_a_bad_vocabulary_is_refused(tmp_path, content, sentence, caplog):
    (tmp_path / "vocab.txt").write_bytes(content)
    for path in (tmp_path, tmp_path / "vocab.txt"):
        with pytest.raises(ValueError, match=sentence) as caught:
            Tokenizer.load(path)
        assert "\n" not in str(caught.value)
    assert not caplog.records, "one sentence is enough"


def test_a_missing_vocabulary_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"nowhere/vocab\.txt does not exist: give a vocab\.txt"):
        Tokenizer.load(tmp_path / "nowhere" / "vocab.txt")
    with pytest.raises(ValueError, match=r"holds neither vocab\.txt nor tokenizer\.json"):
        Tokenizer.load(tmp_path)


def test_wrong_arguments_are_refused(small, small_vocabulary):
    with pytest.raises(ValueError, match="must be a str, not NoneType"):
        small.encode(None)
    with pytest.raises(ValueError, match="must be a str, not bytes"):
        small.tokenize(b"the")
    with pytest.raises(ValueError, match="must be a str, not int"):
        small.encode_ids(["the", 3])
    with pytest.raises(ValueError, match="must be a str, not int"):
        small.encode("the", 7)
    with pytest.raises(ValueError, match="must be a str, not list"):
        small.encode_batch([["the", "un"]])
    for pair in (("the",), ("the", "un", "the")):
        with pytest.raises(ValueError, match=f"A pair is two texts, not {len(pair)}"):
            small.encode_batch(["the", pair])
    with pytest.raises(ValueError, match="encode_ids takes a list of texts"):
        small.encode_ids("the")
    with pytest.raises(ValueError, match="encode_batch takes a list of texts"):
        small.encode_batch("the")
    with pytest.raises(ValueError, match="max_length=1 leaves no room for 2 special tokens"):
        small.encode("the", max_length=1)
    with pytest.raises(ValueError, match="rules='english' is not known: give one of google, huggingface"):
        Tokenizer.build(small_vocabulary, cased=False, rules="english")


def test_special_tokens_are_wanted_only_where_they_are_used():
    tokenizer = Tokenizer.build(["[UNK]", "the"], cased=False)
    assert tokenizer.tokenize("the un") == ["the", "[UNK]"]
    with pytest.raises(ValueError, match=r"no \[CLS\], its cls token"):
        tokenizer.encode("the")
    with pytest.raises(ValueError, match=r"no \[MASK\], its mask token"):
        tokenizer.encode_masked("the")


def test_vocabulary_lines_are_read_as_google_reads_them(tmp_path):
    """Stripped, parted by line feeds alone: Google's Chinese vocabulary has a line separator for an entry."""
    (tmp_path / "vocab.txt").write_bytes("\ufeff[UNK]\r\n the\t\r\n\u2028\r\nun".encode())
    assert Tokenizer.load(tmp_path, cased=False).vocabulary == ["[UNK]", "the", "", "un"]


def test_words_of_any_length_take_no_quadratic_time(small):
    long = "x" * 1_000_000
    assert small.pieces(long).ids == [small.unk_id]
    assert small.pieces(long).offsets == [(0, len(long))]
    assert small.tokenize("e" + "\u0301" * 200_000) == ["e"]
    assert small.tokenize("\u0301" * 200_000) == []
    assert small.tokenize("(" * 100_000) == ["("] * 100_000
    assert small.tokenize("Σ'" * 100_000 + "a") == ["σ", "'"] * 100_000 + ["a"]
    assert small.tokenize("x" * 200) == ["x"] + ["##x"] * 199
    assert small.tokenize("x" * 201) == ["[UNK]"]


def test_the_settings_of_a_folder_are_kept(small_vocabulary, write, tmp_path):
    write(small_vocabulary)
    config = {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False, "model_max_length": 77}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.tokenize("ÉÉ中") == ["é", "##é", "##中"]
    kept = json.loads(tokenizer.files()["tokenizer_config.json"])
    assert config.items() <= kept.items()


def test_an_encoding_is_a_plain_record(small):
    encoding = small.encode("the un")
    assert encoding == Encoding(encoding.ids, [0, 0, 0, 0], [None, (0, 3), (4, 6), None], [None, 0, 1, None], 0)
    assert encoding.part(1, 3) == small.pieces("the un")


def test_nothing_is_said_without_need(small_vocabulary, caplog):
    with caplog.at_level(logging.DEBUG):
        Tokenizer.build(small_vocabulary, cased=False).encode("the")
    assert not caplog.records
