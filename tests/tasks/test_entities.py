"""Entities as conlleval.pl counts them, its two tables of borders written out beside ours."""

import itertools

import pytest

from bertie.tasks.entities import Entity, entity_scores, entity_table, find_entities, has_entities

ENDS = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}
STARTS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}


def by_conlleval(tags):
    """Walks from tag to tag and asks at each whether a chunk ends before it, and whether one starts at it."""
    found, start = [], None
    before, kind_before = "O", ""
    for place, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        other_kind = kind != kind_before
        if (before, prefix) in ENDS or (before != "O" and other_kind):
            found.append(Entity(start, place, kind_before))
        if (before, prefix) in STARTS or (prefix != "O" and other_kind):
            start = place
        before, kind_before = prefix, kind
    return found


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_every_row_of_tags_as_conlleval_reads_it(length):
    for tags in itertools.product(["O", "B-X", "I-X", "E-X", "B-Y", "I-Y"], repeat=length):
        assert find_entities(tags) == by_conlleval(tags), tags


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-PER I-PER O B-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
        ("I-PER I-PER B-PER", [(0, 2, "PER"), (2, 3, "PER")]),  # IOB1
        ("O I-LOC I-PER", [(1, 2, "LOC"), (2, 3, "PER")]),  # broken: I without B, and another type
        ("B-PER I-LOC", [(0, 1, "PER"), (1, 2, "LOC")]),
        ("S-PER S-PER B-LOC E-LOC", [(0, 1, "PER"), (1, 2, "PER"), (2, 4, "LOC")]),
        ("O O", []),
        ("", []),
        ("B-A-B I-A-B", [(0, 2, "A-B")]),
        ("X B-PER", [(1, 2, "PER")]),
    ],
)
def test_by_hand(tags, expected):
    assert find_entities(tags.split()) == expected


def test_scores_by_hand():
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["O", "B-ORG"]]
    called = [["B-PER", "I-PER", "O", "B-PER"], ["O", "O"]]
    scores = entity_scores(gold, called)
    assert scores == pytest.approx({"precision": 1 / 2, "recall": 1 / 3, "f1": 2 / 5, "accuracy": 4 / 6})
    assert entity_table(gold, called) == [
        ("LOC", 0.0, 0.0, 0.0),
        ("ORG", 0.0, 0.0, 0.0),
        ("PER", 0.5, 1.0, pytest.approx(2 / 3)),
        ("all", 0.5, pytest.approx(1 / 3), 0.4),
    ]


def test_no_entity_anywhere():
    assert entity_scores([["O", "O"]], [["O", "O"]]) == {"f1": 0, "precision": 0, "recall": 0, "accuracy": 1}
    assert has_entities(["O", "B-PER"])
    assert not has_entities(["NOUN", "O"])


def test_sentences_of_other_lengths_are_refused():
    with pytest.raises(ValueError, match="as many words"):
        entity_scores([["O", "O"]], [["O"]])
