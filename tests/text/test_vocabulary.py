import json
import logging
import random
import string
from collections import Counter
from pydoc_data.topics import topics

import pytest
import tokenizers
from tokenizers import models, trainers

from bertie.cli import run
from bertie.config import to_values
from bertie.sealed import unseal
from bertie.text import counting, documents
from bertie.text.documents import TextConfig
from bertie.text.figures import measure
from bertie.text.vocabulary import CARD, VocabularyConfig, choose_alphabet, learn, learn_vocabulary
from bertie.text.wordpiece import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHINESE = "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。"


def silent(done, total):
    pass


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """Python's own documentation in four files, each paragraph a document."""
    folder = tmp_path_factory.mktemp("text")
    names = sorted(topics)
    for number in range(4):
        (folder / f"{number}.txt").write_text("\n\n".join(topics[name] for name in names[number::4]), encoding="utf-8")
    return folder


def learned(text, out, size=1500, **options):
    return learn_vocabulary(VocabularyConfig(size, **options), [text], out)


@pytest.fixture(scope="module")
def folder(text, tmp_path_factory):
    """A vocabulary of 1,500 entries, and its card as it was returned."""
    out = tmp_path_factory.mktemp("learned") / "vocabulary"
    return out, learned(text, out)


def test_the_folder_opens_and_holds_what_was_asked_for(folder):
    out, card = folder
    tokenizer = Tokenizer.load(out)
    assert not tokenizer.is_cased
    assert tokenizer.size == len(set(tokenizer.vocabulary)) == card.figures.entries == 1500
    assert tokenizer.vocabulary[:5] == SPECIAL
    assert tokenizer.tokenize("The statement") == ["the", "statement"]
    ascii_alone = "".join(map(chr, range(33, 127)))
    assert "[UNK]" not in tokenizer.tokenize(" ".join(ascii_alone) + " zqxjk0z9"), "any ASCII text can be spelled"
    assert sorted(path.name for path in out.iterdir()) == [
        CARD, "tokenizer.json", "tokenizer_config.json", "vocab.txt",
    ]  # fmt: skip


def test_the_card_says_what_was_read_and_how_it_went(folder, text):
    out, card = folder
    values = unseal(out, CARD)
    assert values == json.loads(json.dumps(card.to_values()))
    assert values["config"]["size"] == 1500
    assert values["read"]["documents"] == card.tally.documents > 1000
    assert values["read"]["words"] == card.num_words > 3000
    assert values["read"]["forgotten_words"] == 0
    assert values["measured_on"] == "held-out documents"
    assert values["compared"] is None
    figures = values["figures"]
    assert 1 < figures["tokens_per_word"] < 1.4
    assert figures["unknown_rate"] < 0.001
    assert 2 < figures["characters_per_token"] < 6
    assert 0 < figures["continuation_share"] < 0.3
    assert len(values["examples"]) == 5
    assert [row[0] for row in card.rows()] == [
        "entries", "tokens per word", "unknown words", "characters per token", "continuation pieces",
        "entries never used",
    ]  # fmt: skip


def test_the_same_bytes_for_any_number_of_workers(text, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "BLOCK", 30_000)
    monkeypatch.setattr(counting, "BLOCK", 30_000)
    monkeypatch.setattr(counting, "MOST_WORDS", 2000)
    found = []
    for workers in (1, 2, 3):
        out = tmp_path / str(workers)
        card = learn_vocabulary(VocabularyConfig(1000), [text], out, workers=workers)
        assert card.num_forgotten > 0
        found.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert found[0] == found[1] == found[2]


def test_no_worse_than_merging_pairs(folder, text):
    """The same alphabet and size learned by the library's trainer, which merges pairs, on the same words."""
    _, card = folder
    counts = counting.count_sources([*documents.find([text])], TextConfig(), False, 1, silent)
    theirs = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trainer = trainers.WordPieceTrainer(vocab_size=1500, special_tokens=SPECIAL, show_progress=False)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    theirs.train_from_iterator(([word] * number for word, number in counts.words.items()), trainer)
    entries = sorted(theirs.get_vocab(), key=theirs.get_vocab().get)
    merged = measure(Tokenizer.build(entries, cased=False), counts.held_out)
    assert card.figures.tokens_per_word <= merged.tokens_per_word


def test_beside_another_vocabulary(text, folder, tmp_path):
    out, card = folder
    beside = learn_vocabulary(VocabularyConfig(600), [text], tmp_path / "new", compare=out)
    assert beside.compared == card.figures
    assert beside.figures.tokens_per_word > beside.compared.tokens_per_word
    assert [len(row) for row in beside.rows()] == [3] * 6
    assert unseal(tmp_path / "new", CARD)["compared"]["entries"] == 1500
    assert beside.examples[0].compared == card.examples[0].pieces


def test_cased_keeps_capitals_and_accents(tmp_path):
    (tmp_path / "a.txt").write_text("Élan vital and Zoo. " * 50)
    learned(tmp_path / "a.txt", tmp_path / "cased", 300, cased=True)
    tokenizer = Tokenizer.load(tmp_path / "cased")
    assert tokenizer.is_cased
    assert tokenizer.tokenize("Élan Zoo zoo")[:2] == ["Élan", "Zoo"]
    learned(tmp_path / "a.txt", tmp_path / "uncased", 300)
    assert Tokenizer.load(tmp_path / "uncased").tokenize("ÉLAN Zoo zoo") == ["elan", "zoo", "zoo"]


def test_chinese_leaves_the_rarest_characters_out(tmp_path):
    rare = "鬱龘"
    (tmp_path / "a.txt").write_text(CHINESE * 500 + rare)
    card = learned(tmp_path / "a.txt", tmp_path / "zh", 400, language="zh")
    vocabulary = Tokenizer.load(tmp_path / "zh").vocabulary
    assert set("天地玄黄，。") < set(vocabulary)
    assert not set(rare) & set(vocabulary)
    assert 0 < card.figures.unknown_rate < 0.001
    assert card.figures.tokens_per_word == 1
    learned(tmp_path / "a.txt", tmp_path / "en", 400)
    assert set(rare) < set(Tokenizer.load(tmp_path / "en").vocabulary), "a coverage of its own for each language"


def test_the_alphabet_covers_the_share_asked_for():
    words = {"a" * 9: 10, "b": 9, "é": 1}
    assert choose_alphabet(words, VocabularyConfig(300, coverage=1.0)) > {"é"}
    assert "é" not in choose_alphabet(words, VocabularyConfig(300, coverage=0.95))
    assert set(string.ascii_lowercase + string.digits + string.punctuation) <= choose_alphabet(
        {}, VocabularyConfig(300)
    )
    assert "A" in choose_alphabet({}, VocabularyConfig(300, cased=True))


def test_unused_entries_stand_where_google_has_them():
    vocabulary = learn(Counter(["word"] * 5), VocabularyConfig(400, unused=99), silent)
    assert vocabulary[:2] == ["[PAD]", "[unused0]"]
    assert [vocabulary[at] for at in (100, 101, 102, 103)] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert "word" in vocabulary


def test_the_order_of_words_does_not_matter():
    rng = random.Random(0)
    words = {"".join(rng.choices("abcd", k=rng.randint(2, 7))): rng.randint(2, 20) for _ in range(300)}
    shuffled = dict(rng.sample(sorted(words.items()), len(words)))
    config = VocabularyConfig(200)
    assert learn(words, config, silent) == learn(shuffled, config, silent)


def test_a_text_with_too_few_pieces_says_so(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("few words, few")
    with caplog.at_level(logging.WARNING):
        card = learned(tmp_path / "a.txt", tmp_path / "out", 5000)
    assert "pieces that occur twice, fewer than asked for" in caplog.text
    assert card.figures.entries < 200
    assert not card.is_held_out
    assert card.to_values()["measured_on"] == "the text itself"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"size": 5}, "size=5 leaves no room beside 5 special entries: BERT's size is 30522."),
        ({"size": 100, "unused": 99}, "size=100 leaves no room beside 104 special entries"),
        ({"size": 100, "unused": -1}, "unused=-1: give 0 or more entries."),
        ({"size": 100, "language": "fr"}, "language='fr' is not known; allowed: en, zh."),
        ({"size": 100, "coverage": 0.0}, "coverage=0.0 is no share of the characters"),
        ({"size": 100, "coverage": 1.5}, "coverage=1.5 is no share of the characters"),
    ],
)
def test_a_wrong_setting_is_refused(options, sentence):
    with pytest.raises(ValueError) as caught:
        VocabularyConfig(**options)
    assert str(caught.value).startswith(sentence)
    assert to_values(VocabularyConfig(100))["size"] == 100


def test_bytes_that_were_dropped_are_said(tmp_path, caplog):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_bytes("a café and words ".encode("latin-1") * (30 if name == "a" else 20))
    learn_vocabulary(VocabularyConfig(150), [tmp_path], tmp_path / "new")
    assert f"{tmp_path / 'a.txt'}: what is not UTF-8 was dropped, 30 bytes, and some in 1 other file;" in caplog.text


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (
            "some text",
            ["--size", "50"],
            "size=50 is too small: the 5 special entries and what spells the text's alphabet of",
        ),
        ("", ["--size", "500"], "The text has no words: give text to learn from."),
        ("... !\n\n,,,", ["--size", "500"], "The text has no words (2 empty documents): give text to learn from."),
        ("text", ["--size", "500", "--compare", "nowhere"], "nowhere does not exist: give a vocab.txt"),
        ("text", ["--size", "500", "--workers", "0"], "workers=0: give 1 or more processes."),
        ("text", ["--size", "500", "--out", "a.txt"], "a.txt exists: give --out another name, or remove it first."),
        ("text", ["--size", "500", "--out", "."], ". exists: give --out another name, or remove it first."),
        ("text", ["--size", "500", "--out", "a.txt/b"], "a.txt/b cannot be made, as"),
        ("a\0b", ["--size", "500"], "a.txt is not text, as it holds NUL bytes"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(content, arguments, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(content)
    assert run(["vocab", "a.txt", "--out", "new", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"bertie: {sentence}")
    assert (captured.err.count("\n"), captured.out) == (1, "")
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_stopped_while_it_writes_it_leaves_nothing(text, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bertie.text.vocabulary.seal", fail)
    with pytest.raises(KeyboardInterrupt):
        learned(text / "0.txt", tmp_path / "new", 500)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_may_be_filled(text, tmp_path):
    (tmp_path / "new").mkdir()
    learned(text / "0.txt", tmp_path / "new", 500)
    assert (tmp_path / "new" / CARD).exists()


def test_the_command_prints_the_card(text, folder, tmp_path, capsys):
    arguments = ["vocab", str(text / "0.txt"), "--size", "500", "--out", str(tmp_path / "new")]
    assert run([*arguments, "--compare", str(folder[0])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["on", "held-out", "documents"]
    assert lines[2].split() == ["entries", "500", "1,500"]
    assert any("##" in line for line in lines[9:]), "examples"
