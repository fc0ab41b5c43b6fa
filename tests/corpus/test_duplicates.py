import builtins
import tracemalloc

import numpy as np
import pytest

from bertie.corpus.duplicates import Seen, SeenNearly, band_numbers, digest
from bertie.corpus.shards import Documents


def documents_of(token_lists):
    """A sentence each."""
    lengths = np.array([len(tokens) for tokens in token_lists])
    return Documents(np.concatenate(token_lists).astype(np.uint16), lengths, np.ones(len(lengths), np.int64))


def test_seen_agrees_with_a_set():
    rng, seen, known = np.random.default_rng(1), Seen(), set()
    for _ in range(200):
        numbers = rng.integers(0, 3000, rng.integers(0, 40)).astype(np.uint64)
        expected = []
        for number in numbers.tolist():
            expected.append(number not in known)
            known.add(number)
        assert seen.add(numbers).tolist() == expected
    assert len(known) > 1000


def test_seen_takes_no_more_than_16_bytes_a_number():
    rng, seen, num_numbers = np.random.default_rng(1), Seen(), 1 << 20
    tracemalloc.start()
    for _ in range(num_numbers >> 13):
        seen.add(rng.integers(0, 1 << 63, 1 << 13).astype(np.uint64))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 17 * num_numbers


def test_digests_are_of_the_text_alone():
    assert digest("text") == digest("te" + "xt") != digest("text ")
    assert 0 <= digest("\ud800") < 1 << 64


def test_documents_alike_are_found_and_others_are_not():
    rng = np.random.default_rng(2)
    originals = [rng.integers(0, 5000, 400) for _ in range(100)]
    copies = [tokens.copy() for tokens in originals]
    for tokens in copies:
        tokens[:6] = rng.integers(0, 5000, 6)
    others = [rng.integers(0, 5000, 400) for _ in range(100)]
    halves = [np.concatenate([tokens[:200], rng.integers(0, 5000, 200)]) for tokens in others]
    documents = documents_of([*originals, *copies, *others, *halves])
    bands = band_numbers(documents, np.arange(400, dtype=np.uint64))
    is_new = SeenNearly().add(bands).reshape(4, 100).sum(axis=1)
    assert is_new[0] == is_new[2] == 100
    assert is_new[1] <= 2
    assert is_new[3] >= 80  # a third of all shingles in common


def test_documents_do_not_share_shingles_with_their_neighbours():
    words = np.arange(100, 130)
    alone = band_numbers(documents_of([words]), np.array([7], np.uint64))
    among = band_numbers(documents_of([[1, 2], words, [3]]), np.array([5, 7, 9], np.uint64))
    assert (among[1] == alone[0]).all()
    assert (among[0] == 5).all() and (among[2] == 9).all()


def test_short_documents_alone():
    assert band_numbers(documents_of([[1, 2], [3]]), np.array([5, 7], np.uint64))[:, 0].tolist() == [5, 7]


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def refuse(name, *arguments, **named):
        if name == "rensa":
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ValueError, match=r"pip install 'bertie\[duplicates\]'"):
        band_numbers(documents_of([[1, 2]]), np.array([5], np.uint64))
