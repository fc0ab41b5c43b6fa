import json
import shutil

import numpy as np
import pytest

from bertie.corpus.shards import Documents, ShardEntry, ShardWriter, dtype_of, open_corpus, write_meta
from bertie.text.wordpiece import Tokenizer


def random_documents(rng, number, has_words, dtype=np.uint16):
    document_lengths = rng.integers(1, 5, number)
    sentence_lengths = rng.integers(1, 9, document_lengths.sum())
    num_tokens = int(sentence_lengths.sum())
    tokens = rng.integers(0, np.iinfo(dtype).max, num_tokens, dtype, endpoint=True)
    return Documents(tokens, sentence_lengths, document_lengths, rng.random(num_tokens) < 0.5 if has_words else None)


def write(folder, name, pieces, has_words, dtype="uint16"):
    writer = ShardWriter(folder, name, dtype, has_words)
    for documents in pieces:
        writer.add(documents)
    return writer.finish()


@pytest.fixture
def corpus(tmp_path, tokenizer):
    """A folder with one shard for each part, and the documents of the first."""
    rng, folder = np.random.default_rng(1), tmp_path / "corpus"
    folder.mkdir()
    train = random_documents(rng, 40, True)
    parts = {"train": train, "validation": random_documents(rng, 3, True)}
    entries = [ShardEntry(part, part, write(folder, part, [documents], True)) for part, documents in parts.items()]
    write_meta(folder, tokenizer, {part: {"documents": len(documents)} for part, documents in parts.items()}, entries)
    return folder, train


def test_what_was_written_is_read(corpus, tokenizer):
    folder, documents = corpus
    opened = open_corpus(folder, tokenizer.fingerprint)
    (shard,) = opened.train
    assert opened.vocabulary == tokenizer.fingerprint == Tokenizer.load(folder).fingerprint
    assert opened.counts == {"train": {"documents": 40}, "validation": {"documents": 3}}
    assert [one.name for one in opened.validation] == ["validation"]
    assert (shard.tokens == documents.tokens).all() and shard.tokens.dtype == np.uint16
    assert (np.diff(shard.sentences) == documents.sentence_lengths).all() and shard.sentences[0] == 0
    assert (np.diff(shard.documents) == documents.document_lengths).all() and shard.documents[0] == 0
    places = np.random.default_rng(2).permutation(len(shard.tokens))
    assert (shard.begins_word(places) == documents.begins_word[places]).all()


def test_it_does_not_matter_in_how_many_pieces_documents_come(tmp_path):
    rng = np.random.default_rng(3)
    pieces = [random_documents(rng, number, True) for number in (1, 3, 0, 7, 2)]
    whole = Documents(*(np.concatenate([getattr(piece, name) for piece in pieces]) for name in vars(pieces[0])))
    assert write(tmp_path, "one", [whole], True) == write(tmp_path, "many", pieces, True)


@pytest.mark.parametrize(("dtype", "kind"), [("uint16", np.uint16), ("uint32", np.uint32)])
def test_numbers_are_little_endian_and_as_long_as_they_must_be(tmp_path, dtype, kind):
    documents = random_documents(np.random.default_rng(4), 5, False, kind)
    write(tmp_path, "one", [documents], False, dtype)
    data = (tmp_path / "one.tokens").read_bytes()
    size = np.dtype(kind).itemsize
    read = [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]
    assert read == documents.tokens.tolist()
    assert int.from_bytes((tmp_path / "one.sentences").read_bytes()[-8:], "little") == len(read)
    assert not (tmp_path / "one.words").exists()


@pytest.mark.parametrize(("size", "dtype"), [(65_536, "uint16"), (65_537, "uint32")])
def test_the_size_of_the_vocabulary_decides_how_long_ids_are(tmp_path, size, dtype):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer.build([*specials, *(f"w{at}" for at in range(size - 5))], cased=False)
    assert dtype_of(tokenizer) == dtype
    tokens, starts = tokenizer.encode_ids([f"w{size - 6} w0"])
    lengths = np.diff(starts)
    sums = write(tmp_path, "one", [Documents(tokens, lengths, np.ones(1, np.int64))], False, dtype)
    write_meta(tmp_path, tokenizer, {}, [ShardEntry("one", "train", sums)])
    (shard,) = open_corpus(tmp_path).train
    assert shard.tokens.tolist() == [size - 1, 5]
    assert shard.tokens.dtype == np.dtype(dtype)
    assert shard.begins_word(np.arange(2)) is None


def test_select_takes_whole_documents():
    documents = Documents(
        np.arange(10, dtype=np.uint16), np.array([1, 2, 3, 4]), np.array([2, 1, 1]), np.arange(10) > 4
    )
    chosen = documents.select(np.array([True, False, True]))
    assert chosen.tokens.tolist() == [0, 1, 2, 6, 7, 8, 9]
    assert chosen.sentence_lengths.tolist() == [1, 2, 4]
    assert chosen.document_lengths.tolist() == [2, 1]
    assert chosen.begins_word.tolist() == [False] * 3 + [True] * 4
    assert len(documents.select(np.zeros(3, np.bool_))) == 0


def test_240_damages_are_refused_by_the_name_of_the_file(corpus):
    folder, _ = corpus
    rng, paths = np.random.default_rng(5), sorted(path for path in folder.iterdir())
    assert len(paths) == 2 * 4 + 4  # kinds of each shard; the vocabulary's files and the seal
    for path in paths:
        whole = path.read_bytes()
        for damage in range(20):
            damaged = bytearray(whole)
            at = int(rng.integers(len(whole)))
            if damage < 14:
                damaged[at] ^= 1 << int(rng.integers(8))
            elif damage < 18:
                del damaged[at:]
            elif damage < 19:
                damaged.insert(at, 0)
            else:
                damaged += b"\n"
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=rf"/{path.name} is damaged: "):
                open_corpus(folder)
        path.write_bytes(whole)
        open_corpus(folder)


def test_missing_files_are_refused(corpus):
    folder, _ = corpus
    for path in sorted(folder.iterdir()):
        moved = path.rename(folder.with_name("moved"))
        with pytest.raises(ValueError, match=rf"{path.name}"):
            open_corpus(folder)
        moved.rename(path)


def test_files_of_two_corpora_cannot_be_mixed(corpus, tmp_path):
    folder, _ = corpus
    shutil.copy(folder / "train.tokens", folder / "validation.tokens")
    with pytest.raises(ValueError, match=r"validation\.tokens is damaged: it has .* bytes instead of"):
        open_corpus(folder)


def test_another_vocabulary_is_refused(corpus):
    with pytest.raises(ValueError, match=r"made with another vocabulary than the model's.*--vocab"):
        open_corpus(corpus[0], "0" * 64)


def test_what_is_no_corpus_is_refused(tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(ValueError, match=r"is no corpus: it has no meta\.json\. Make one: bertie corpus"):
            open_corpus(folder)


def test_a_later_version_is_refused(corpus, monkeypatch, tokenizer):
    folder, _ = corpus
    assert json.loads((folder / "meta.json").read_text())["version"] == 1
    monkeypatch.setattr("bertie.sealed.FORMAT_VERSION", 2)
    with pytest.raises(ValueError, match="another version of bertie; this one reads version 2"):
        open_corpus(folder)
