"""Hugging Face's rules and other makers' pipelines, compared with transformers."""

import json
import random
import unicodedata
import warnings

import pytest
import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from bertie.text.rules import Rules
from bertie.text.wordpiece import Tokenizer

ROBERTA = {"bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
BERT = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
NORMALIZERS = {lowercase: normalizers.BertNormalizer(lowercase=lowercase) for lowercase in (True, False)}
SPLITTER = pre_tokenizers.BertPreTokenizer()
TEXTS = ["hello world", "Hello, <mask> world!</s>", " the\n\tun ", "é😀中", "the [MASK] of [SEP]", "", "a<s>b  c"]


@pytest.fixture(scope="module")
def transformers():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it says of other packages while it loads
        import transformers
    return transformers


def corpus():
    return ["hello world the un of a b c", "the hello worlds, un-hello!", "world of the wor ld"] * 20


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    """Byte-level pieces in pairs framed `<s> A </s></s> B </s>`, the mask taking the space before it."""
    pipeline = tokenizers.Tokenizer(models.BPE())
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    pipeline.train_from_iterator(corpus(), trainer)
    pipeline.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    pipeline.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    pipeline.enable_truncation(7)
    pipeline.enable_padding(length=20)
    return save(pipeline, ROBERTA, tmp_path_factory.mktemp("roberta"))


@pytest.fixture(scope="module")
def modernbert(tmp_path_factory):
    """Byte-level pieces, BERT's frame, NFC, runs of spaces as added tokens that are not special."""
    pipeline = tokenizers.Tokenizer(models.BPE())
    pipeline.normalizer = normalizers.NFC()
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True)
    pipeline.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pipeline.train_from_iterator(
        corpus(), trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    )
    pipeline.add_tokens([AddedToken("   ", normalized=True), AddedToken("|||EMAIL|||", normalized=False)])
    pipeline.add_special_tokens(["[UNK]", "[CLS]", "[SEP]", "[PAD]", AddedToken("[MASK]", lstrip=True)])
    cls, sep = pipeline.token_to_id("[CLS]"), pipeline.token_to_id("[SEP]")
    pipeline.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0",
        special_tokens=[("[CLS]", cls), ("[SEP]", sep)],
    )
    return save(pipeline, BERT, tmp_path_factory.mktemp("modernbert"))


@pytest.fixture(scope="module")
def albert(tmp_path_factory):
    """Unigram pieces of lower-cased text, spaces as Metaspace marks."""
    pipeline = tokenizers.Tokenizer(models.Unigram())
    pipeline.normalizer = normalizers.Sequence([normalizers.Replace(Regex(" {2,}"), " "), normalizers.Lowercase()])
    pipeline.pre_tokenizer = pre_tokenizers.Metaspace()
    pipeline.decoder = decoders.Metaspace()
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    pipeline.train_from_iterator(
        corpus(),
        trainers.UnigramTrainer(vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False),
    )
    pipeline.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return save(pipeline, {}, tmp_path_factory.mktemp("albert"))


def save(pipeline, roles, folder):
    pipeline.save(str(folder / "tokenizer.json"))
    if roles:
        config = {f"{role}_token": token for role, token in roles.items()}
        (folder / "tokenizer_config.json").write_text(
            json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **config})
        )
    return folder


@pytest.mark.parametrize("cased", [True, False])
def test_huggingface_rules_are_those_of_transformers(transformers, real_folder, generated, cased):
    ours = Tokenizer.load(real_folder, cased=cased, rules="huggingface")
    theirs = transformers.BertTokenizer(vocab=str(real_folder / "vocab.txt"), do_lower_case=not cased)
    texts = generated.texts(random.Random(f"huggingface {cased}"), 20_000, with_surrogates=False)
    expected = theirs(texts, return_offsets_mapping=True)
    for text, ids, spans in zip(texts, expected["input_ids"], expected["offset_mapping"], strict=True):
        encoding = ours.encode(text)
        assert encoding.ids == ids, repr(text)
        assert [span or (0, 0) for span in encoding.offsets] == spans, repr(text)


@pytest.mark.parametrize("kind", ["real_folder", "roberta", "modernbert", "albert"])
def test_pairs_are_framed_and_cut_as_by_transformers(transformers, request, kind):
    folder = request.getfixturevalue(kind)
    ours = Tokenizer.load(folder, rules="huggingface")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    theirs.backend_tokenizer.no_padding()
    for number, first in enumerate(TEXTS):
        second = TEXTS[-number]
        for max_length in (4, 5, 6, 9, 12, 100):
            settings = {"truncation": "longest_first", "max_length": max_length, "return_token_type_ids": True}
            expected = theirs([first], [second], **settings)  # a list: alone, an empty second text is no text to it
            encoding = ours.encode(first, second, max_length)
            assert ([encoding.ids], [encoding.segments]) == (expected["input_ids"], expected["token_type_ids"])
        expected = theirs(first, truncation=False, return_offsets_mapping=True)
        encoding = ours.encode(first)
        assert encoding.ids == expected["input_ids"]
        assert encoding.words == expected.word_ids()
        assert [span or (0, 0) for span in encoding.offsets] == expected["offset_mapping"]


@pytest.mark.parametrize("kind", ["roberta", "modernbert", "albert"])
def test_special_tokens_in_a_text_are_text_unless_huggingface_rules_are_asked_for(request, kind):
    folder = request.getfixturevalue(kind)
    ours, theirs = Tokenizer.load(folder), Tokenizer.load(folder, rules="huggingface")
    special = [ours.cls_id, ours.sep_id, ours.mask_id, ours.pad_id]
    names = [ours.vocabulary[token] for token in special]
    text = "the " + " un ".join(names)
    assert not set(special) & set(ours.pieces(text).ids)
    assert set(special) <= set(theirs.pieces(text).ids)
    masked = ours.encode_masked(text).ids[1:-1]
    assert [token for token in masked if token in special] == [ours.mask_id]
    assert ours.encode_masked("the un").ids == ours.encode("the un").ids == theirs.encode("the un").ids


def test_the_mask_takes_the_space_before_it_where_its_pipeline_says_so(roberta):
    ours = Tokenizer.load(roberta)
    encoding = ours.encode_masked("hello <mask> world")
    assert ours.vocabulary[encoding.ids[-2]] == "Ġworld"
    assert encoding.ids[-3] == ours.mask_id
    assert "Ġ" not in [ours.vocabulary[piece] for piece in encoding.ids]


def test_roles_lengths_and_continuations(roberta, modernbert, albert):
    tokenizer = Tokenizer.load(roberta)
    assert [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id] == [1, 3, 0, 2]
    assert tokenizer.encode("a", "b").segments == [0] * 6
    assert len(tokenizer.encode("hello world " * 50)) > 50, "truncation inside tokenizer.json is ignored"
    assert len(tokenizer.encode("a")) == 3, "and so is padding"
    goes_on = dict(zip(tokenizer.vocabulary, tokenizer.is_continuation.tolist(), strict=True))
    assert (goes_on["he"], goes_on["Ġworld"], goes_on["<mask>"]) == (True, False, False)
    assert Tokenizer.load(modernbert).mask_id == Tokenizer.load(modernbert).vocabulary.index("[MASK]")
    tokenizer = Tokenizer.load(albert)
    assert [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert not tokenizer.is_cased
    with pytest.raises(ValueError, match=r"is uncased by its tokenizer\.json, so cased=True cannot be had"):
        Tokenizer.load(albert, cased=True)


@pytest.mark.parametrize("kind", ["roberta", "modernbert", "albert"])
def test_saved_pipelines_open_in_transformers_and_here(transformers, request, tmp_path, kind):
    before = Tokenizer.load(request.getfixturevalue(kind), rules="huggingface")
    before.save(tmp_path)
    after = Tokenizer.load(tmp_path, rules="huggingface")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert after.fingerprint == before.fingerprint != Tokenizer.load(tmp_path).fingerprint
    for text in TEXTS:
        assert after.encode(text).ids == before.encode(text).ids == theirs(text)["input_ids"]
    assert theirs.mask_token_id == before.mask_id
    assert after.decode(after.encode("hello world").ids) == theirs.decode(theirs("hello world")["input_ids"])


@pytest.mark.parametrize("rules", ["google", "huggingface"])
def test_lone_surrogates_are_dropped_and_offsets_count_them(roberta, real_folder, rules):
    for folder in (roberta, real_folder):
        tokenizer = Tokenizer.load(folder, rules=rules)
        text = "\ud800the\udfff wor\ud83dld\ude00"
        encoding, plain = tokenizer.pieces(text), tokenizer.pieces("the world")
        assert encoding.ids == plain.ids
        start, end = encoding.offsets[-1]
        assert text[start:end].endswith("ld")
        assert encoding.offsets[0][0] == 1
        assert tokenizer.pieces("\ud800").ids == []


def test_what_transformers_saves_is_opened_by_google_rules_too(transformers, small_vocabulary, write, tmp_path):
    folder = tmp_path / "saved"
    transformers.BertTokenizer(vocab=str(write(small_vocabulary)), do_lower_case=False).save_pretrained(folder)
    assert not (folder / "vocab.txt").exists()
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.fingerprint == Tokenizer.build(small_vocabulary, cased=True).fingerprint


@pytest.mark.parametrize("cased", [True, False])
def test_what_we_save_is_opened_by_transformers(transformers, small_vocabulary, tmp_path, cased):
    ours = Tokenizer.build(small_vocabulary, cased)
    ours.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "Unwanted, hello 中文! É"
    assert theirs(text, "The")["input_ids"] == ours.encode(text, "The").ids
    assert theirs(text, "The")["token_type_ids"] == ours.encode(text, "The").segments
    assert (theirs.mask_token_id, theirs.pad_token_id, len(theirs)) == (ours.mask_id, ours.pad_id, ours.size)


def test_added_tokens_are_read_by_huggingface_rules_alone(transformers, small_vocabulary, write, tmp_path, caplog):
    theirs = transformers.BertTokenizer(vocab=str(write(small_vocabulary)))
    theirs.add_special_tokens({"extra_special_tokens": ["[ENT]", AddedToken("<r>", rstrip=True)]})
    theirs.add_tokens(["helloun", AddedToken("Un", normalized=False, single_word=True)])
    theirs.save_pretrained(tmp_path / "saved")
    ours = Tokenizer.load(tmp_path / "saved", rules="huggingface")
    assert ours.size == len(theirs) == len(small_vocabulary) + 4
    for text in ("the [ENT]un <r>  helloun", "HelloUn Un un Unwant xhellounx"):
        assert ours.encode(text).ids == theirs(text)["input_ids"]
    assert not caplog.records
    google = Tokenizer.load(tmp_path / "saved")
    assert "added tokens (4, such as [ENT])" in caplog.text
    assert google.tokenize("[ENT] helloun") == Tokenizer.build(small_vocabulary, cased=False).tokenize("[ENT] helloun")


def test_the_documented_differences_are_the_ones_there_are(generated):
    """docs/en/tokenizer.md lists by kind what the rules do differently; each code point that differs is of a kind."""
    for lowercase in (True, False):
        rules = Rules(lowercase)
        found = set()
        for char in generated.characters():
            if "\ud800" <= char <= "\udfff":
                continue
            if rules.words(f"ab{char}CD") != words_of_library(f"ab{char}CD", lowercase):
                found.add(kind_of_difference(char))
        assert found == {"private", "ideograph", "added or moved"}, lowercase


@pytest.mark.parametrize("cased", [True, False])
def test_the_documented_differences_explain_every_generated_one(real_folder, generated, cased):
    google, huggingface = (Tokenizer.load(real_folder, cased, rules) for rules in ("google", "huggingface"))
    rules = Rules(lowercase=not cased)
    num_explained = 0
    for text in generated.texts(random.Random(f"differences {cased}"), 10_000, with_surrogates=False):
        if google.tokenize(text) == huggingface.tokenize(text):
            continue
        num_explained += 1
        assert (
            any(special in text for special in generated.SPECIAL)
            or (not cased and "Σ" in text)
            or any(len(word) > 100 for word in rules.words(text))
            or any(rules.words(f"ab{char}CD") != words_of_library(f"ab{char}CD", not cased) for char in text)
        ), repr(text)
    assert num_explained > 500


def words_of_library(text, lowercase):
    normalized = NORMALIZERS[lowercase].normalize_str(text)
    return [word for word, _ in SPLITTER.pre_tokenize_str(normalized)]


def kind_of_difference(char):
    if unicodedata.category(char) == "Co":
        return "private"
    if "\U0002b820" <= char <= "\U0002b91f":
        return "ideograph"
    was, now = unicodedata.ucd_3_2_0.category(char), unicodedata.category(char)
    return "added or moved" if was != now else f"not documented: {char!r}"  # the library's tables are of between
