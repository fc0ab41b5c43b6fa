from collections import Counter

import pytest

from bertie.tasks.held_out import hold_out
from bertie.tasks.task import Example


def test_of_each_class_alike_and_the_same_each_time():
    examples = [Example(id=str(number), label="a" if number % 4 else "b") for number in range(80)]
    kept, held = hold_out(examples, 0.1, seed=0)
    assert Counter(one.label for one in held) == {"a": 6, "b": 2}
    assert sorted(int(one.id) for one in [*kept, *held]) == list(range(80))
    assert [one.id for one in held] == sorted((one.id for one in held), key=int)
    assert hold_out(examples, 0.1, seed=0) == (kept, held)
    assert hold_out(examples, 0.1, seed=1) != (kept, held)


def test_of_each_set_of_labels_alike():
    examples = [Example(labels=(("a", "b"), ("b", "a"), ("b",), ())[number % 4]) for number in range(80)]
    _, held = hold_out(examples, 0.1, seed=0)
    assert Counter(frozenset(one.labels) for one in held) == {frozenset("ab"): 4, frozenset("b"): 2, frozenset(): 2}


def test_a_class_of_one_is_learned_from():
    examples = [Example(label="a"), *[Example(label="b")] * 9]
    kept, held = hold_out(examples, 0.5, seed=0)
    assert "a" in [one.label for one in kept]
    assert len(held) == 4


def test_what_belongs_together_stays_so():
    questions = [Example(text=f"passage {number // 5}", pair=str(number), answers=()) for number in range(50)]
    kept, held = hold_out(questions, 0.2, seed=0)
    assert len(held) == 10
    assert not {one.text for one in kept} & {one.text for one in held}
    sentences = [Example(words=("a",), document=number // 5) for number in range(50)]
    kept, held = hold_out(sentences, 0.2, seed=0, keeps_documents=True)
    assert not {one.document for one in kept} & {one.document for one in held}


def test_numbers_are_not_classes():
    examples = [Example(label=str(number / 7)) for number in range(50)]
    assert len(hold_out(examples, 0.1, seed=0)[1]) == 5


def test_too_little():
    with pytest.raises(ValueError, match=r"a\.csv, line 2: there is too little"):
        hold_out([Example(where="a.csv, line 2", label="a")], 0.5, seed=0)
