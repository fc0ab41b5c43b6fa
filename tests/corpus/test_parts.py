import numpy as np
import pytest

from bertie.corpus.duplicates import digest
from bertie.corpus.parts import Parts
from bertie.corpus.shards import Documents, ShardEntry, open_corpus, write_meta


def numbered(numbers):
    """A document for each number: one sentence, two tokens that spell it."""
    numbers = np.asarray(numbers)
    tokens = np.stack([numbers // 1000, numbers % 1000], axis=1).ravel().astype(np.uint16)
    return Documents(tokens, np.full(len(numbers), 2), np.ones(len(numbers), np.int64))


def digests_of(numbers):
    return np.array([digest(str(number)) for number in numbers], np.uint64)


def deal(folder, tokenizer, pieces, validation=0.005, num_bytes=0, digests=digests_of):
    """The numbers of the documents by shard, and by part."""
    folder.mkdir()
    parts = Parts(folder, "uint16", False, validation, num_bytes)
    for numbers in pieces:
        parts.add(numbered(numbers), digests(numbers))
    entries = parts.finish()
    write_meta(folder, tokenizer, parts.counts, entries)
    corpus = open_corpus(folder)
    shards = {shard.name: read(shard) for shard in (*corpus.train, *corpus.validation)}
    for part, of_part in (("train", corpus.train), ("validation", corpus.validation)):
        numbers = [number for shard in of_part for number in shards[shard.name]]
        assert parts.counts[part] == {
            "documents": len(numbers),
            "sentences": len(numbers),
            "tokens": 2 * len(numbers),
        }
    return shards


def read(shard):
    first, second = shard.tokens.reshape(-1, 2).T.astype(np.int64)
    return (first * 1000 + second).tolist()


def test_the_text_of_a_document_decides_where_it_goes(tmp_path, tokenizer):
    rng, size = np.random.default_rng(1), 5 << 28
    numbers = np.arange(3000)
    shuffled = rng.permutation(numbers)
    one = deal(tmp_path / "one", tokenizer, [numbers], 0.05, size)
    other = deal(tmp_path / "other", tokenizer, np.array_split(shuffled, 7), 0.05, size)
    assert len(one) == len(other) == 6 + 1  # a shard for each 256 MiB, and the validation part
    # A shard's name is given when its first document comes.
    assert sorted(map(sorted, one.values())) == sorted(map(sorted, other.values()))
    assert sorted(number for shard in one.values() for number in shard) == numbers.tolist()
    assert sorted(one["validation-00000"]) == sorted(other["validation-00000"])


def test_in_a_shard_documents_stand_in_their_order(tmp_path, tokenizer):
    for numbers in deal(tmp_path / "one", tokenizer, [range(500)], 0.1, 3 << 28).values():
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("validation", [0.005, 0.2])
def test_the_share_held_back_is_the_share_asked_for(tmp_path, tokenizer, validation):
    held_back = deal(tmp_path / "one", tokenizer, [range(40_000)], validation)["validation-00000"]
    expected, deviation = 40_000 * validation, (40_000 * validation * (1 - validation)) ** 0.5
    assert abs(len(held_back) - expected) < 4 * deviation


def test_no_share_no_validation(tmp_path, tokenizer):
    assert list(deal(tmp_path / "one", tokenizer, [range(400)], 0)) == ["train-00000"]


@pytest.mark.parametrize("pieces", [[range(9)], [[at] for at in range(9)], [range(4), range(4, 9)]])
def test_of_few_documents_one_is_held_back(tmp_path, tokenizer, pieces):
    shards = deal(tmp_path / "one", tokenizer, pieces)
    assert shards["validation-00000"] == [int(np.argmin(digests_of(range(9))))]
    assert sorted(shards["train-00000"]) == [at for at in range(9) if [at] != shards["validation-00000"]]


def test_two_documents_are_one_for_each_part_and_one_is_for_training(tmp_path, tokenizer):
    assert {name: len(numbers) for name, numbers in deal(tmp_path / "two", tokenizer, [[7], [8]]).items()} == {
        "train-00000": 1,
        "validation-00000": 1,
    }
    assert deal(tmp_path / "one", tokenizer, [[7]]) == {"train-00000": [7]}
    assert deal(tmp_path / "none", tokenizer, []) == {}


def test_one_that_waits_goes_to_training_when_others_are_held_back(tmp_path, tokenizer):
    def digests(numbers):
        return np.array([0 if number == 5 else (number + 2) << 60 for number in numbers], np.uint64)

    shards = deal(tmp_path / "one", tokenizer, [[at] for at in range(8)], 0.05, digests=digests)
    assert shards["validation-00000"] == [5]
    assert sorted(shards["train-00000"]) == [0, 1, 2, 3, 4, 6, 7]


def test_a_shard_that_is_long_enough_makes_way_for_the_next(tmp_path, tokenizer, monkeypatch):
    monkeypatch.setattr("bertie.corpus.parts.LARGEST_SHARD", 100)
    shards = deal(tmp_path / "one", tokenizer, [range(at, at + 10) for at in range(0, 300, 10)], 0)
    assert list(shards) == [f"train-{at:05}" for at in range(6)]
    assert {len(numbers) for numbers in shards.values()} == {50}


def test_the_entries_say_what_is_where(tmp_path):
    parts = Parts(tmp_path, "uint16", False, 0.5, 0)
    parts.add(numbered([1, 2]), np.array([0, 2**64 - 1], np.uint64))
    entries = parts.finish()
    assert [(entry.name, entry.part) for entry in entries] == [
        ("train-00000", "train"),
        ("validation-00000", "validation"),
    ]
    assert all(isinstance(entry, ShardEntry) and len(entry.sha256) == 3 for entry in entries)
