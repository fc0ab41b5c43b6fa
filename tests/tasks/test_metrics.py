"""Scores against values worked out by hand, and against scikit-learn and scipy, which other tests bring along."""

import math
import warnings

import numpy as np
import pytest

from bertie.tasks.metrics import (
    METRICS,
    ClassScore,
    bootstrap,
    confusion,
    label_set_scores,
    mean_squared_error,
    pearson,
    per_class,
    per_label,
    ranks,
    spearman,
)

GOLD = ["1", "1", "1", "0", "0", "1"]
CALLED = ["1", "0", "1", "0", "1", "1"]  # 3 true positives, 1 true negative, 1 false of each kind


def score(name, gold=GOLD, called=CALLED, labels=("0", "1")):
    return METRICS[name](gold, called, labels)


def test_two_classes_by_hand():
    assert score("accuracy") == pytest.approx(4 / 6)
    assert score("f1") == pytest.approx(2 * 3 / (2 * 3 + 1 + 1))
    assert score("macro_f1") == pytest.approx((0.75 + 0.5) / 2)
    # (3 * 1 - 1 * 1) / sqrt(4 * 4 * 2 * 2)
    assert score("matthews") == pytest.approx(2 / 8)


def test_one_class_only():
    assert score("matthews", ["1", "1"], ["1", "0"]) == 0
    assert score("matthews", ["0", "1"], ["1", "1"]) == 0
    assert score("f1", ["0", "0"], ["0", "0"]) == 0
    assert score("accuracy", ["0", "0"], ["0", "0"]) == 1
    assert score("macro_f1", ["0", "0"], ["0", "0"]) == 1


def test_labels_that_were_not_known():
    table = confusion(["a", "c"], ["b", "a"], ["a", "b"])
    assert table.labels == ("a", "b", "c")
    assert table.counts.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
    assert [(one.label, one.support) for one in per_class(table)] == [("a", 1), ("b", 0), ("c", 1)]
    assert all(one.f1 == 0 for one in per_class(table))


@pytest.mark.parametrize("seed", range(5))
def test_classes_as_scikit_learn_has_them(seed):
    peer = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    labels = ["a", "b", "c", "d"][: 2 + seed % 3]
    gold, called = (rng.choice(labels, 50).tolist() for _ in range(2))
    assert score("matthews", gold, called, labels) == pytest.approx(peer.matthews_corrcoef(gold, called))
    assert score("accuracy", gold, called, labels) == pytest.approx(peer.accuracy_score(gold, called))
    assert score("macro_f1", gold, called, labels) == pytest.approx(peer.f1_score(gold, called, average="macro"))
    assert confusion(gold, called, labels).counts.tolist() == peer.confusion_matrix(gold, called).tolist()
    rows = peer.classification_report(gold, called, output_dict=True, zero_division=0)
    for one in per_class(confusion(gold, called, labels)):
        theirs = rows[one.label]
        assert (one.precision, one.recall, one.f1, one.support) == pytest.approx(
            (theirs["precision"], theirs["recall"], theirs["f1-score"], theirs["support"])
        )


def test_several_labels_by_hand():
    gold = [frozenset("ab"), frozenset(), frozenset("c")]
    called = [frozenset("a"), frozenset(), frozenset("cb")]
    scores = label_set_scores(gold, called)
    # a: right once of one and one; b: given once wrongly, missed once; c: right.
    assert scores == pytest.approx({"micro_f1": 2 * 2 / 6, "macro_f1": (1 + 0 + 1) / 3, "accuracy": 1 / 3})
    assert label_set_scores([frozenset()], [frozenset()])["micro_f1"] == 0
    assert per_label(gold, called) == [
        ClassScore("a", 1.0, 1.0, 1.0, 1),
        ClassScore("b", 0.0, 0.0, 0.0, 1),
        ClassScore("c", 1.0, 1.0, 1.0, 1),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_several_labels_as_scikit_learn_has_them(seed):
    peer = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    gold, called = rng.random((2, 40, 5)) < [0.1, 0.3, 0.5, 0.9, 1.0]
    sets = [[frozenset(np.array(list("abcde"))[row].tolist()) for row in side] for side in (gold, called)]
    theirs = np.transpose(peer.precision_recall_fscore_support(gold, called, zero_division=0))
    ours = [(one.precision, one.recall, one.f1, one.support) for one in per_label(*sets)]
    assert np.array(ours) == pytest.approx(theirs)
    scores = label_set_scores(*sets)
    for average in ("micro", "macro"):
        assert scores[f"{average}_f1"] == pytest.approx(peer.f1_score(gold, called, average=average))
    assert scores["accuracy"] == pytest.approx(peer.accuracy_score(gold, called))


def test_correlations_by_hand():
    # Means 2 and 3; sums of products: 1 of x, 2 of y.
    assert pearson([1, 2, 3], [1, 3, 5]) == pytest.approx(1)
    assert pearson([1, 2, 3], [2, 1, 2]) == pytest.approx(0)
    assert pearson([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.8)
    assert spearman([1, 2, 3, 4], [1, 30, 20, 400]) == pytest.approx(0.8)
    assert ranks([3.0, 1.0, 3.0, 2.0]) == [3.5, 1, 3.5, 2]
    assert mean_squared_error([1, 2], [2, 4]) == pytest.approx(2.5)


@pytest.mark.parametrize("constant", [0.1, 1e12])
def test_a_constant_explains_nothing(constant):
    numbers = [constant] * 7
    assert pearson(list(range(7)), numbers) == spearman(list(range(7)), numbers) == pearson(numbers, numbers) == 0


@pytest.mark.parametrize("seed", range(3))
def test_correlations_as_scipy_has_them(seed):
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(seed)
    x, y = (np.round(rng.normal(size=60) * 2).tolist() for _ in range(2))  # many ties
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y).statistic)
        assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)
        assert ranks(x) == pytest.approx(stats.rankdata(x).tolist())


def test_the_interval_of_a_share_is_near_the_normal_one():
    right = np.arange(400) < 300

    def share(chosen):
        return float(right[list(chosen)].mean())

    low, high = bootstrap(share, 400, np.random.default_rng(0))
    spread = 1.96 * math.sqrt(0.75 * 0.25 / 400)
    assert low == pytest.approx(0.75 - spread, abs=0.01)
    assert high == pytest.approx(0.75 + spread, abs=0.01)
    assert (low, high) == bootstrap(share, 400, np.random.default_rng(0))


def test_wrong_numbers_of_predictions_are_refused():
    with pytest.raises(ValueError, match="1 predictions for 2 examples"):
        score("accuracy", ["0", "1"], ["0"])
    with pytest.raises(ValueError, match="nothing to score"):
        score("macro_f1", [], [])
