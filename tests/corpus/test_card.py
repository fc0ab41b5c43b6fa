import json

import pytest

from bertie.corpus.card import CorpusCard


def test_the_card_as_a_person_reads_it():
    counts = {
        "train": {"documents": 1200, "sentences": 5000, "tokens": 99_000},
        "validation": {"documents": 1, "sentences": 2, "tokens": 3},
    }
    card = CorpusCard("en", counts, {"tags": 1234, "empty documents": 5}, {"a.txt": 7, "b.txt": 1}, 4.4321, 0.00125)
    assert card.rows() == [
        ("language", "en"),
        ("train", "1,200 documents, 5,000 sentences, 99,000 tokens"),
        ("validation", "1 document, 2 sentences, 3 tokens"),
        ("characters a token", "4.43"),
        ("unknown words", "0.125% of the tokens"),
        ("empty documents", "5"),
        ("tags", "1,234"),
        ("not UTF-8 in a.txt", "7 bytes dropped"),
        ("not UTF-8 in b.txt", "1 byte dropped"),
    ]


def test_its_figures_are_those_of_the_text(build):
    folder, card = build(["The cat.", "The cat.", "Why ☃ not?"], validation=0.5)
    assert card.characters_per_token == pytest.approx((8 + 8 + 10) / (3 + 3 + 4))
    assert card.unknown_share == pytest.approx(1 / 10)
    saved = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert saved["counts"] == card.counts
    assert saved["changes"] == {"repeated documents": 1}
    assert sum(counts["tokens"] for counts in card.counts.values()) == 7
