"""Answers scored as the official scripts score them: values worked out by hand."""

import pytest

from bertie.tasks.spans import (
    Answered,
    best_threshold,
    cmrc_scores,
    cut_mixed,
    exact,
    normalize,
    overlap,
    squad_null_scores,
    squad_scores,
)


def test_what_is_compared():
    assert normalize("The  Quick, an' (a) Fox!") == "quick fox"
    assert normalize("anthem") == "anthem"
    assert normalize("the a") == normalize("...") == ""


def test_one_answer():
    assert exact("The Cat.", "cat") == 1
    assert overlap("the black cat sat", "a cat") == pytest.approx(2 * 1 / (3 + 1))
    assert overlap("cat cat dog", "cat cat cat") == pytest.approx(2 * 2 / 6)
    assert overlap("", "the") == overlap("a", "!") == 1
    assert overlap("", "cat") == overlap("cat", "") == 0


def test_the_best_of_several_answers_counts():
    questions = [Answered(["Denver Broncos", "Broncos"], "the Broncos"), Answered(["1066"], "in 1066")]
    assert squad_scores(questions) == pytest.approx({"exact": 1 / 2, "f1": (1 + 2 / 3) / 2})
    assert squad_scores([Answered([], "anything")]) == {"exact": 0, "f1": 0}  # no true answer at all: never right


NULLS = [
    Answered(["cat"], "cat", -3.0),  # right
    Answered(["big dog"], "dog", -1.0),  # half right
    Answered([], "noise", 0.5),  # rightly left unanswered at 0
    Answered([], "noise", -2.0),  # wrongly answered at 0
    Answered(["late"], "late", 1.0),  # wrongly left unanswered at 0
]


def test_version_2_by_hand():
    scores = squad_null_scores(NULLS, 0.0)
    assert scores["exact"] == pytest.approx((1 + 0 + 1 + 0 + 0) / 5)
    assert scores["f1"] == pytest.approx((1 + 2 / 3 + 1) / 5)
    assert scores["has_answer_f1"] == pytest.approx((1 + 2 / 3) / 3)
    assert scores["has_answer_exact"] == pytest.approx(1 / 3)
    assert scores["no_answer_exact"] == scores["no_answer_f1"] == pytest.approx(1 / 2)
    # From 2 right (all unanswered): -3 gives 3; -2 takes one; -1 adds 2/3 (F1) or 0; 0.5 takes one; 1 adds one.
    assert (scores["best_exact"], scores["best_exact_threshold"]) == (pytest.approx(3 / 5), -3.0)
    assert (scores["best_f1"], scores["best_f1_threshold"]) == (pytest.approx(3 / 5), -3.0)


def test_the_best_threshold_is_the_one_that_gives_its_score():
    for name in ("exact", "f1"):
        best = squad_null_scores(NULLS, 0.0)
        assert squad_null_scores(NULLS, best[f"best_{name}_threshold"])[name] == pytest.approx(best[f"best_{name}"])


def test_answers_of_equal_odds_are_said_together():
    """One wrong and one right at the same odds: no threshold parts them."""
    questions = [Answered(["cat"], "cat", -1.0), Answered([], "noise", -1.0)]
    best, threshold = best_threshold(questions, [1.0, 0.0], [True, False])
    assert best == 1 / 2
    assert squad_null_scores(questions, threshold)["exact"] == 1 / 2
    assert threshold < -1.0


def test_only_one_group_is_there():
    assert "no_answer_f1" not in squad_null_scores(NULLS[:2], 0.0)
    assert "has_answer_f1" not in squad_null_scores(NULLS[2:4], 0.0)
    # An answer that says nothing is none, and an empty prediction agrees with it.
    assert squad_null_scores([Answered(["the"], "", -1.0)], 0.0)["exact"] == 1


def test_chinese_by_hand():
    assert cut_mixed("《战国无双3》有3.5 Million人") == ["战", "国", "无", "双", "3", "有", "3.5", "million", "人"]
    (scores,) = [cmrc_scores([Answered(["光荣和ω-force"], "光荣")])]
    assert scores["f1"] == pytest.approx(2 * 2 / (2 + 4))
    assert scores["exact"] == 0
    assert scores["average"] == pytest.approx(1 / 3)
    assert cmrc_scores([Answered(["《光荣》"], "光荣")]) == {"f1": 1, "exact": 1, "average": 1}
    # The longest run counts, not all that is common.
    assert cmrc_scores([Answered(["一二三四"], "一三四二")])["f1"] == pytest.approx(2 * 2 / 8)
    assert cmrc_scores([Answered(["一"], "")]) == {"f1": 0, "exact": 0, "average": 0}


def test_nothing_to_score_is_refused():
    with pytest.raises(ValueError, match="nothing to score"):
        squad_scores([])
