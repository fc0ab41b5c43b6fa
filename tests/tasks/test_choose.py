import numpy as np
import pytest

from bertie.tasks.choose import Choose
from bertie.tasks.named import named
from bertie.tasks.task import Example, Output


def test_endings_are_read_after_their_beginning(tokenizer, spelled, caplog):
    task = Choose(max_length=7)
    gold = [
        Example(text="the cat", endings=("sat on", "playing on the mat"), right=1),
        Example(text="who", endings=("a", "b", "c"), right=None),
    ]
    rows = task.encode(gold, tokenizer)
    assert spelled(rows[0], 0) == "[CLS] the cat [SEP] sat on [SEP]"
    assert spelled(rows[0], 1) == "[CLS] the cat [SEP] play ##ing [SEP]"
    assert rows[0].segments[0].tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert rows[0].targets.tolist() == [1]
    assert (len(rows[1].ids), rows[1].targets) == (3, None)
    assert "1 of 2 examples were cut to 7 tokens" in caplog.text
    outputs = [Output(rows[1], np.array([0, 2, 1], np.float32)), Output(rows[0], np.array([0, 1], np.float32))]
    predictions = task.decode(outputs, gold, tokenizer)
    assert [one.right for one in predictions] == [1, 1]
    assert task.score(predictions[:1], gold[:1]) == {"accuracy": 1}
    described = task.describe(predictions[1], gold[1])
    assert described["ending"] == "b"
    assert sum(described["probabilities"]) == pytest.approx(1)


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"a, line 2: the right ending is number 2, but there are 2, counted from 0"):
        Choose().learn([Example(where="a, line 2", endings=("x", "y"), right=2)])
    with pytest.raises(ValueError, match="a, line 2 has no label"):
        Choose().learn([Example(where="a, line 2", endings=("x", "y"))])


def test_a_benchmark_has_so_many_endings(tokenizer):
    four = Choose(num_endings=4)
    four.encode([Example(text="a", endings=("a", "b", "c", "d"))], tokenizer)
    with pytest.raises(ValueError, match="a, line 2 has 3 endings; this task has 4: mend that row"):
        four.encode([Example(where="a, line 2", text="a", endings=("a", "b", "c"))], tokenizer)
    assert (named("swag").task().num_endings, named("choose").task().num_endings) == (4, None)
