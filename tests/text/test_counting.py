import random
from collections import Counter

import pytest

from bertie.text import counting, documents
from bertie.text.clean import clean
from bertie.text.counting import MOST_WORDS, BlockCounter, BlockCounts, WordCounts, count_sources, count_words
from bertie.text.documents import Block, Tally, TextConfig
from bertie.text.rules import Rules
from bertie.text.sources import find


def block_of(words, done=0):
    return BlockCounts(Counter(words), [], [], Tally(), done)


def counted(folder, workers=1, cased=False, report=lambda done, total: None):
    return count_sources(find([folder]), TextConfig(), cased, workers, report)


@pytest.fixture
def folder(tmp_path):
    """300 documents of invented words in three files; the frequent ones come in each."""
    rng = random.Random(0)
    texts = [f"Common word {''.join(rng.choices('ABCDé中', k=6))} w{rng.randrange(500)}, end." for _ in range(300)]
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("\n\n".join(texts[number::3]))
    return tmp_path


@pytest.mark.parametrize("lowercase", [True, False])
def test_words_are_counted_as_the_rules_cut_them(generated, lowercase):
    rules = Rules(lowercase)
    texts = [clean(text, Counter()) for text in generated.texts(random.Random(9), 3000)]
    expected = Counter(word for text in texts for word in rules.words(text))
    assert count_words(texts, rules) == Counter({word: n for word, n in expected.items() if len(word) <= 200})


def test_about_one_document_in_a_hundred_is_held_out_by_what_it_says():
    texts = tuple(f"Document {number}." for number in range(2000))
    counter = BlockCounter(cased=False)
    one = counter([Block("a", "texts", texts, 0, 1)])
    assert 5 < len(one.held_out) < 50
    assert set(one.held_out).isdisjoint(one.learned)
    assert one.words["document"] == 2000 - len(one.held_out)
    parts = [counter([Block("a", "texts", texts[:100], 0, 1), Block("b", "texts", texts[100:], 0, 2)])]
    assert parts[0].held_out == one.held_out, "wherever it stands"
    assert (parts[0].words, parts[0].done) == (one.words, 2)


def test_the_counts_of_blocks_add_up():
    counts = WordCounts(MOST_WORDS)
    for block in (block_of("aab"), block_of("bc")):
        counts.add(block)
    assert counts.words == {"a": 2, "b": 2, "c": 1}
    assert counts.num_forgotten == 0


def test_rare_words_are_forgotten_so_that_the_table_has_a_bound():
    rng = random.Random(1)
    counts, true, most = WordCounts(most_words=1000), Counter(), 0
    for _ in range(60):
        words = [f"often{number}" for number in range(50)] * 3 + [f"rare{rng.randrange(10**6)}" for _ in range(300)]
        true.update(words)
        counts.add(block_of(words))
        most = max(most, len(counts.words))
        assert len(counts.words) <= 1000
    assert most > 900
    assert counts.num_forgotten > 10_000
    assert {word: counts.words[word] for word in true if true[word] > 100} == dict.fromkeys(
        [f"often{number}" for number in range(50)], 180
    )


def test_forgetting_keeps_at_most_half_whatever_the_ties():
    counts = WordCounts(most_words=100)
    counts.add(block_of([f"w{number}" for number in range(101)]))
    assert (counts.words, counts.num_forgotten) == ({}, 101), "all are equally rare"
    counts.add(block_of([f"w{number}" for number in range(101) for _ in range(1 + number)]))
    assert sorted(counts.words.values()) == list(range(53, 102))


def test_held_out_text_and_samples_are_bounded(monkeypatch):
    monkeypatch.setattr(counting, "MOST_HELD_OUT", 10)
    counts = WordCounts(MOST_WORDS)
    for _ in range(5):
        counts.add(BlockCounts(Counter(), ["held 中"] * 2, ["learned"], Tally(), 0))
    assert counts.held_out == ["held 中", "held"]
    assert counts.learned == ["learned", "lea"]
    assert counts.sample == (counts.held_out, True)


@pytest.mark.parametrize("size", [200, 1 << 20])
def test_any_number_of_workers_counts_the_same(folder, monkeypatch, size):
    monkeypatch.setattr(documents, "BLOCK", size)
    monkeypatch.setattr(counting, "BLOCK", size)
    monkeypatch.setattr(counting, "MOST_WORDS", 150)
    one, two = counted(folder), counted(folder, workers=2)
    assert list(one.words.items()) == list(two.words.items())
    assert one == two
    assert one.num_forgotten > 0
    assert one.tally.documents == 300


def test_few_documents_are_all_learned_from(tmp_path):
    for number in range(90):
        (tmp_path / f"{number:02}.txt").write_text(f"Document number{number}.")
    counts = counted(tmp_path)
    assert counts.words["document"] == 90
    assert counts.tally.documents == 90
    assert counts.sample == (counts.learned, False)
    assert set(counts.learned) == {f"Document number{number}." for number in range(90)}


def test_progress_reaches_the_end(folder):
    calls = []
    counted(folder, report=lambda done, total: calls.append((done, total)))
    size = sum(path.stat().st_size for path in folder.iterdir())
    assert calls[-1] == (size, size)


def test_small_blocks_travel_together_and_large_ones_alone(monkeypatch):
    monkeypatch.setattr(counting, "BLOCK", 10)
    some = [Block("a", "blank", b"12345", 0, 1)] * 4 + [Block("b", "texts", ("123456", "78901"), 0, 2)] * 2
    assert [len(group) for group in counting._some_at_a_time(some)] == [2, 2, 1, 1]
