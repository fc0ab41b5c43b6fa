import json

import pytest

from bertie.text.folder import distinct, read_object, read_source, read_vocabulary
from bertie.text.wordpiece import Tokenizer

ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##want", "the"]


@pytest.fixture
def folder(tmp_path):
    Tokenizer.build(ENTRIES, cased=True).save(tmp_path)
    return tmp_path


def test_a_saved_folder_says_it_all(folder):
    source = read_source(folder)
    assert (source.entries, source.is_bert, source.lowercase, source.strip_accents) == (ENTRIES, True, False, False)
    assert source.split_cjk
    assert source.roles == {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    assert [token.content for token in source.added] == ENTRIES[:5]


def test_the_config_is_believed_before_tokenizer_json(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.update(do_lower_case=True, strip_accents=None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert read_source(folder).lowercase is True
    (folder / "tokenizer_config.json").unlink()
    assert read_source(folder).lowercase is False


def test_special_tokens_by_other_names(write, tmp_path):
    write(["<pad>", "<unk>", "<s>", "</s>", "<mask>", "un"])
    assert read_source(tmp_path).roles == {
        "pad": "<pad>",
        "unk": "<unk>",
        "cls": "<s>",
        "sep": "</s>",
        "mask": "<mask>",
    }
    (tmp_path / "special_tokens_map.json").write_text('{"mask_token": {"content": "un"}, "pad_token": "!"}')
    assert read_source(tmp_path).roles["mask"] == "un"
    assert read_source(tmp_path).roles["pad"] == "!"
    (tmp_path / "tokenizer_config.json").write_text('{"pad_token": "?"}')
    assert read_source(tmp_path).roles["pad"] == "?"
    tokenizer = Tokenizer.load(tmp_path, cased=False)
    assert tokenizer.encode("un x").ids == [2, 5, 1, 3]
    with pytest.raises(ValueError, match=r"has no \?, its pad token"):
        assert tokenizer.pad_id


def test_files_that_contradict_each_other_are_refused(folder):
    (folder / "vocab.txt").write_text("\n".join([*ENTRIES[:6], "other", "the"]))
    with pytest.raises(ValueError, match="contradict each other: line 7 is 'other', but the same id is '##want'"):
        read_source(folder)
    (folder / "vocab.txt").write_text("\n".join([*ENTRIES, "more"]))
    with pytest.raises(ValueError, match="line 9 is 'more', but the same id is None"):
        read_source(folder)
    assert read_source(folder / "vocab.txt").entries == [*ENTRIES, "more"], "the file alone may be asked for"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", r"tokenizer\.json is not JSON"),
        ("[1]", r"tokenizer\.json holds no JSON object, but list"),
        ("[" * 100_000, r"tokenizer\.json is not JSON: maximum recursion depth"),
        ("{}", r"is no tokenizer\.json that the tokenizers library can open: Model missing"),
        ('{"model": {"type": "Magic"}}', r"is no tokenizer\.json that the tokenizers library can open"),
    ],
)
def test_a_bad_tokenizer_json_is_refused(tmp_path, content, sentence):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(ValueError, match=sentence) as caught:
        read_source(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_template_that_lacks_a_token_is_refused(folder, is_nested):
    path = folder / "tokenizer.json"
    settings = json.loads(path.read_text())
    settings["post_processor"]["special_tokens"].pop("[SEP]")
    if is_nested:
        settings["post_processor"] = {"type": "Sequence", "processors": [settings["post_processor"]]}
    path.write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"tokenizer\.json: its template has '\[SEP\]', which its special_tokens lack"):
        read_source(folder)


def test_a_bad_config_is_refused(folder):
    (folder / "tokenizer_config.json").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"tokenizer_config\.json is not JSON"):
        read_source(folder)
    assert read_object(folder / "nowhere.json") == {}
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        read_object(folder)


def test_a_case_that_is_neither_true_nor_false_is_refused(folder):
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": "yes"}')
    with pytest.raises(
        ValueError, match=r"tokenizer_config\.json: do_lower_case is 'yes'; allowed: true, false or null"
    ):
        read_source(folder)


def test_a_folder_with_sentencepiece_alone_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "spiece.model").write_bytes(b"\n\x0e")
    with pytest.raises(ValueError, match=r"neither vocab\.txt nor tokenizer\.json: have transformers save"):
        read_source(tmp_path)


def test_a_folder_in_place_of_a_vocabulary_is_refused(tmp_path):
    (tmp_path / "vocab.txt").mkdir()
    with pytest.raises(ValueError, match=r"vocab\.txt cannot be read: Is a directory"):
        read_vocabulary(tmp_path / "vocab.txt")


def test_distinct():
    assert distinct(iter("abc"), "It", "letters") == ["a", "b", "c"]
    with pytest.raises(ValueError, match="It holds 'b' twice, as letters 2 and 4: an entry's place is its id"):
        distinct("abcb", "It", "letters")
    with pytest.raises(ValueError, match="The vocabulary holds 'the' twice, as entries 8 and 9"):
        Tokenizer.build([*ENTRIES, "the"], cased=True)
