import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from bertie.text import bulk
from bertie.text.wordpiece import Tokenizer


@pytest.fixture
def tokenizer(small_vocabulary):
    return Tokenizer.build(small_vocabulary, cased=False)


def one_by_one(tokenizer, texts):
    return [tokenizer.pieces(text).ids for text in texts]


def in_bulk(tokenizer, texts):
    ids, starts = tokenizer.encode_ids(texts)
    return [ids[start:end].tolist() for start, end in pairwise(starts)]


@pytest.mark.parametrize("cased", [True, False])
def test_the_ids_are_those_of_pieces(small_vocabulary, generated, cased):
    tokenizer = Tokenizer.build(small_vocabulary, cased)
    texts = generated.texts(random.Random(5), 4000)
    texts.extend([" ".join(texts[:500]), "\n".join(texts[500:1000]), "".join(texts[1000:1500])])
    expected = one_by_one(tokenizer, texts)
    assert in_bulk(tokenizer, texts) == expected, "with empty tables"
    assert in_bulk(tokenizer, texts) == expected, "with full tables"


def test_texts_may_be_empty_or_none_at_all(tokenizer):
    ids, starts = tokenizer.encode_ids([])
    assert (ids.tolist(), starts.tolist()) == ([], [0])
    assert in_bulk(tokenizer, ["", "", "un", " ", "\0", "\0\0 un", ""]) == [[], [], [5], [], [], [5], []]
    assert in_bulk(tokenizer, iter(["un", "un"])) == [[5], [5]]


def test_the_arrays(tokenizer):
    ids, starts = tokenizer.encode_ids(["un the"])
    assert (ids.dtype, starts.dtype) == (np.uint16, np.int64)
    assert ids.flags.writeable
    large = Tokenizer.build(["[UNK]", *(str(number) for number in range(65_600))], cased=False)
    ids, _ = large.encode_ids(["65599 0"])
    assert (ids.dtype, ids.tolist()) == (np.uint32, [65_600, 1])
    ids, _ = large.encode_ids([])
    assert ids.dtype == np.uint32


def test_parts_that_differ_late_or_in_length_are_told_apart(tokenizer):
    words = [word for size in range(1, 40) for word in ("a" * size, "a" * (size - 1) + "b", "b" + "a" * (size - 1))]
    assert in_bulk(tokenizer, words * 2) == one_by_one(tokenizer, words * 2)
    assert in_bulk(tokenizer, [" ".join(words)]) == one_by_one(tokenizer, [" ".join(words)])


def test_a_sigma_sees_past_punctuation(tokenizer):
    texts = ["ΑΣ'Α", "ΑΣ'", "ΑΣ.Α ΑΣ. Α", "ΑΣ中Α"]
    assert in_bulk(tokenizer, texts) == one_by_one(tokenizer, texts)
    assert tokenizer.tokenize("ΑΣ'Α") != tokenizer.tokenize("ΑΣ 'Α")


def test_chinese_characters_stay_in_words_where_the_folder_wants_it(small_vocabulary, write, tmp_path):
    write(small_vocabulary)
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true, "tokenize_chinese_chars": false}')
    tokenizer = Tokenizer.load(tmp_path)
    texts = ["un中", "中un the中中"]
    assert in_bulk(tokenizer, texts) == one_by_one(tokenizer, texts)
    assert tokenizer.tokenize("un中") == ["un", "##中"]


def test_memory_is_bounded_and_forgetting_changes_nothing(tokenizer, generated, monkeypatch):
    texts = generated.texts(random.Random(6), 3000)
    expected = one_by_one(tokenizer, texts)
    monkeypatch.setattr(bulk, "SLAB", 100)
    monkeypatch.setattr(bulk, "MOST_PARTS", 50)
    cut = []
    packer = bulk.Packer(lambda part: cut.append(part) or tokenizer.pieces(part).ids, True, "H")
    ids, starts = packer.encode(texts)
    assert [ids[start:end].tolist() for start, end in pairwise(starts)] == expected
    parts = packer._parts
    assert len(parts) <= len(parts.firsts) < 50 + 200 + len(max(texts, key=len))
    assert len(cut) > len(set(cut)), "some were cut again after they were forgotten"


def test_a_part_is_cut_once_however_often_it_stands(monkeypatch):
    cut = []
    packer = bulk.Packer(lambda part: cut.append(part) or [len(part)], True, "H")
    ids, _ = packer.encode(["the cat, the cat and the astonishingly-long-word"] * 50)
    assert sorted(cut) == sorted(["the", "cat", ",", "and", "astonishingly", "-", "long", "word"])
    assert ids[:5].tolist() == [3, 3, 1, 3, 3]
    assert len(ids) == 50 * 12


def test_parts_that_share_a_place_are_told_apart(monkeypatch):
    monkeypatch.setattr(bulk, "PLACE_BITS", 1)
    words = [f"w{number}" for number in range(300)]
    packer = bulk.Packer(lambda part: [int(part[1:])], True, "H")
    for _ in range(2):
        ids, _ = packer.encode([" ".join(words), " ".join(reversed(words))])
        assert ids.tolist() == [*range(300), *reversed(range(300))]


@pytest.mark.parametrize("text", ["un the " * 500, "un\nthe中" * 500, "x" * 3000, "中" * 3000])
def test_a_long_text_is_cut_in_blocks_between_words(tokenizer, monkeypatch, text):
    monkeypatch.setattr(bulk, "SLAB", 64)
    assert in_bulk(tokenizer, [text, "un", text]) == one_by_one(tokenizer, [text, "un", text])


def test_threads_may_share_a_tokenizer(tokenizer, generated):
    texts = generated.texts(random.Random(8), 2000)
    expected = one_by_one(tokenizer, texts)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: in_bulk(tokenizer, texts), range(8)):
            assert result == expected


@pytest.mark.parametrize("rules", ["google", "huggingface"])
def test_both_rules_have_the_bulk_way(small_vocabulary, rules):
    tokenizer = Tokenizer.build(small_vocabulary, cased=False, rules=rules)
    texts = ["un the [MASK]", "", "中文"]
    assert in_bulk(tokenizer, texts) == one_by_one(tokenizer, texts)
