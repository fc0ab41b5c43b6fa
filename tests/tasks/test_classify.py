import math

import numpy as np
import pytest

from bertie.tasks.classify import Classify, Regress
from bertie.tasks.task import Example, Output, Prediction


def examples(*rows):
    return [
        Example(where=f"a.csv, line {number}", text=text, label=label) for number, (text, label) in enumerate(rows, 2)
    ]


SOME = examples(("the cat", "b"), ("the dog", "a"), ("sat", "10"), ("on", "2"))


def test_labels_are_found_numbers_first_and_in_their_order():
    task = Classify().learn(SOME)
    assert task.labels == ("2", "10", "a", "b")
    assert task.num_classes == 4
    assert Classify(labels=("a", "b")).learn(SOME).labels == ("a", "b")
    with pytest.raises(ValueError, match="all 2 examples have the label 'x'"):
        Classify().learn(examples(("a", "x"), ("b", "x")))
    with pytest.raises(ValueError, match=r"a\.csv, line 2 has no label: .* --label"):
        Classify().learn(examples(("a", None)))
    with pytest.raises(ValueError, match="metric 'bleu' does not exist; allowed: accuracy"):
        Classify(metrics=("bleu",))


def test_a_column_that_is_no_label_shows():
    rows = [("good" if number % 2 else "bad", f"a review, {number}") for number in range(24)]
    with pytest.raises(ValueError, match=r"24 examples have 24 different labels, such as 'a review, 0': .*--label"):
        Classify().learn(examples(*rows))
    assert Classify().learn(examples(*rows[:10])).num_classes == 10, "of a few it cannot be told"
    assert Classify().learn(examples(*rows[:12], *rows[:12])).num_classes == 12


def test_rows_of_texts_and_pairs(tokenizer, spelled):
    task = Classify(labels=("a", "b"), max_length=8)
    pair = Example(text="the cat sat", pair="the dog sat on the mat", label="b")
    single = Example(text="", label=None)
    rows = task.encode([pair, single], tokenizer)
    assert spelled(rows[0]) == "[CLS] the cat sat [SEP] the dog [SEP]"  # google cuts the second of two equal ones
    assert rows[0].segments[0].tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert rows[0].targets.tolist() == [1]
    assert spelled(rows[1]) == "[CLS] [SEP]"
    assert rows[1].targets is None
    with pytest.raises(ValueError, match=r"b\.csv, line 9: label 'c' is not one of this task's: a, b"):
        task.encode([Example(where="b.csv, line 9", text="x", label="c")], tokenizer)


def test_long_texts_are_counted_or_shown_whole(tokenizer, spelled, caplog):
    long = Example(text="a b c d e f g", label="a")
    short = Example(text="the cat", label="b")
    rows = Classify(labels=("a", "b"), max_length=6).encode([long, short], tokenizer)
    assert [spelled(row) for row in rows] == ["[CLS] a b c d [SEP]", "[CLS] the cat [SEP]"]
    assert "1 of 2 texts are longer than 6 tokens: cut" in caplog.text
    task = Classify(labels=("a", "b"), max_length=6, long="windows")
    rows = task.encode([long, short], tokenizer)
    assert [spelled(row) for row in rows] == [
        "[CLS] a b c d [SEP]",
        "[CLS] c d e f [SEP]",
        "[CLS] e f g [SEP]",
        "[CLS] the cat [SEP]",
    ]
    logits = [[3, 0], [0, 1], [0, 1], [0, 1]]
    outputs = [Output(row, np.array(one, np.float32)) for row, one in zip(rows, logits, strict=True)]
    predictions = task.decode(outputs, [long, short], tokenizer)
    assert [one.label for one in predictions] == ["a", "b"]  # 3 > 2, averaged over the windows
    assert predictions[0].probabilities["a"] == pytest.approx(1 / (1 + math.exp(-1 / 3)))


def test_predictions_and_scores(tokenizer):
    task = Classify(labels=("0", "1"), metrics=("accuracy", "f1", "matthews"))
    gold = examples(("the", "1"), ("cat", "0"), ("sat", "1"))
    rows = task.encode(gold, tokenizer)
    outputs = [Output(row, np.array(one, np.float32)) for row, one in zip(rows, [[0, 1], [0, 1], [0, 2]], strict=True)]
    predictions = task.decode(outputs, gold, tokenizer)
    assert task.score(predictions, gold) == pytest.approx({"accuracy": 2 / 3, "f1": 0.8, "matthews": 0})
    assert task.describe(predictions[0], gold[0])["label"] == "1"
    assert sum(predictions[0].probabilities.values()) == pytest.approx(1)
    with pytest.raises(ValueError, match="line 2 has no label"):
        task.score(predictions[:1], examples(("the", None)))


def test_several_labels(tokenizer):
    gold = [Example(text="a", labels=("red", "big")), Example(text="b", labels=("red",)), Example(text="c", labels=())]
    task = Classify(several=True).learn(gold)
    assert task.labels == ("big", "red")
    rows = task.encode(gold, tokenizer)
    assert [row.targets.tolist() for row in rows] == [[1, 1], [0, 1], [0, 0]]
    outputs = [
        Output(row, np.array(one, np.float32)) for row, one in zip(rows, [[1, 1], [-1, 2], [3, -1]], strict=True)
    ]
    predictions = task.decode(outputs, gold, tokenizer)
    assert [one.labels for one in predictions] == [("big", "red"), ("red",), ("big",)]
    assert task.score(predictions, gold)["micro_f1"] == pytest.approx(2 * 3 / 7)
    assert task.problem_type == "multi_label_classification"
    with pytest.raises(ValueError, match=r"metrics are for one label a text"):
        Classify(several=True, metrics=("f1",))
    with pytest.raises(ValueError, match=r"none of the 2 examples has a label"):
        Classify(several=True).learn([Example(text="a", labels=())] * 2)
    with pytest.raises(ValueError, match=r"list of labels: say --set several=true"):
        Classify().learn(gold)


def test_numbers(tokenizer):
    gold = [Example(where="a.csv, line 2", text="a", label="1.5"), Example(text="b", number=4.5)]
    task = Regress().learn(gold)
    assert (task.mean, task.deviation) == (3.0, 1.5)
    rows = task.encode(gold, tokenizer)
    assert [row.targets.tolist() for row in rows] == [[-1], [1]]
    outputs = [Output(row, np.array([one], np.float32)) for row, one in zip(rows, [-2, 1], strict=True)]
    predictions = task.decode(outputs, gold, tokenizer)
    assert [one.number for one in predictions] == pytest.approx([0, 4.5])
    assert task.score(predictions, gold) == pytest.approx({"pearson": 1, "spearman": 1})
    assert Regress(standardise=False).learn(gold).mean == 0
    with pytest.raises(ValueError, match=r"a\.csv, line 2: 'good' is not a number: .* classify"):
        task.learn([Example(where="a.csv, line 2", text="a", label="good")])
    with pytest.raises(ValueError, match="same number"):
        task.learn([gold[1], gold[1]])
    with pytest.raises(ValueError, match="more of it must be better"):
        Regress(metrics=("mean_squared_error",))
    assert task.describe(Prediction(number=2.0), gold[0])["number"] == 2.0
