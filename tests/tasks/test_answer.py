"""Windows, n-best and final text as run_squad.py has them: against a slow reference, and by hand."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertie.tasks.answer import NEVER, Answer
from bertie.tasks.final_text import final_text
from bertie.tasks.task import Example, Output, Span

GOOGLE = Answer(has_nulls=True, projection="google", max_length=20, stride=5, max_question=4, max_answer=6, num_best=8)


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("squad_reference", Path(__file__).with_name("squad_reference.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def random_example(rng, number):
    parts = [
        "The cat",
        "Steve Smith's",
        "sat on  the mat.",
        "(playing)",
        "\t",
        "Café",
        "naïve\u202fx",
        "\u200b",
        "ﬁ",
        "2-3",
    ]
    text = " ".join(rng.choice(parts, rng.integers(1, 14)))
    start = int(rng.integers(0, len(text)))
    end = int(rng.integers(start + 1, len(text) + 1))
    stated = text[start:end] if rng.random() < 0.8 else "zebra"
    answers = () if rng.random() < 0.3 else (Span(stated, start),)
    question = " ".join(rng.choice(["who", "sat", "where", "playing"], rng.integers(1, 7)))
    return Example(where=f"question {number}", id=str(number), text=text, pair=question, answers=answers)


@pytest.mark.parametrize("has_nulls", [True, False])
def test_like_the_slow_reference(tokenizer, reference, has_nulls):
    task = replace(GOOGLE, has_nulls=has_nulls)
    rng = np.random.default_rng(0)
    examples = [random_example(rng, number) for number in range(300)]
    rows = task.encode(examples, tokenizer)
    outputs = [
        Output(row, np.round(rng.normal(size=(row.num_tokens, 2)), 1).astype(np.float32)) for row in rows
    ]  # ties
    predictions = task.decode(outputs, examples, tokenizer)
    num_windows, num_lost = 0, 0
    for number, (example, prediction) in enumerate(zip(examples, predictions, strict=True)):
        mine = [output for output in outputs if output.row.example == number]
        windows = reference.features(example, task, tokenizer)
        assert len(mine) == len(windows)
        num_windows += len(mine) > 1
        num_lost += bool(windows) and windows[0].target is None
        for (row, _), window in zip(mine, windows, strict=True):
            assert [tokenizer.vocabulary[piece] for piece in row.ids[0]] == window.tokens
            is_known = window.target is not None and (has_nulls or example.answers != ())
            targets = list(window.target) if is_known else None
            assert (None if row.targets is None else row.targets.tolist()) == targets
        logits = [[(float(a), float(b)) for a, b in output.logits] for output in mine]
        answer, odds, best = reference.predict(example, windows, logits, task, tokenizer)
        assert prediction.answer == answer
        assert [(one.text, one.start_logit, one.end_logit) for one in prediction.candidates] == best
        assert [one.probability for one in prediction.candidates] == pytest.approx(reference.shares(best))
        if odds is not None:
            assert prediction.null_odds == pytest.approx(odds)
    assert num_windows > 50 and num_lost > 20  # so that the cases are there


def test_windows_and_their_best_tokens(tokenizer, spelled):
    example = Example(text="a b c d e f g h", pair="who", answers=(Span("g", 12),))
    task = replace(GOOGLE, max_length=9, stride=2)  # five tokens of the passage in each window
    rows = task.encode([example], tokenizer)
    assert [spelled(row) for row in rows] == [
        "[CLS] who [SEP] a b c d e [SEP]",
        "[CLS] who [SEP] c d e f g [SEP]",
        "[CLS] who [SEP] e f g h [SEP]",
    ]
    assert rows[0].segments[0].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1]
    best = [
        [place for place, is_best in zip(spelled(row).split(), row.is_best, strict=True) if is_best] for row in rows
    ]
    assert best == [["a", "b", "c", "d"], ["e", "f"], ["g", "h"]]
    assert [row.targets.tolist() for row in rows] == [[0, 0], [7, 7], [5, 5]]


@pytest.mark.parametrize(
    ("spelled", "original", "expected"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("cafe", "(Café)", "Café"),
        ("dog", "The cat", "The cat"),  # not in it
        ("fi", "ﬁ x", "ﬁ x"),  # cut, it is one character still, which is spelled otherwise
        ("x y", "x\u200b y z", "x\u200b y z"),  # a character was dropped: lengths differ
        ("cat .", "the cat. ", "cat."),
    ],
)
def test_final_text(tokenizer, spelled, original, expected):
    assert final_text(spelled, original, tokenizer.words) == expected


def test_exact_characters_with_offsets(tokenizer):
    text = "《光荣和ω》的Smiths play."
    task = Answer(has_nulls=False)
    for answer in ("光荣", "Smith", "和ω", "的Smiths"):
        example = Example(text=text, pair="who", answers=(Span(answer, text.index(answer)),))
        (row,) = task.encode([example], tokenizer)
        first, last = row.targets.astype(int)
        logits = np.zeros((row.num_tokens, 2), np.float32)
        logits[first, 0] = logits[last, 1] = 5
        (prediction,) = task.decode([Output(row, logits)], [example], tokenizer)
        assert prediction.answer == answer


def test_no_answer_where_all_have_one_is_said(tokenizer, caplog):
    examples = [Example(where=f"row {number}", text="a cat", pair="who", answers=()) for number in range(2)]
    rows = Answer(has_nulls=False).encode(examples, tokenizer)
    assert [row.targets for row in rows] == [None, None]
    assert "2 of 2 questions have no answer, which this task does not know" in caplog.text
    caplog.clear()
    assert all(row.targets.tolist() == [0, 0] for row in Answer(has_nulls=True).encode(examples, tokenizer))
    assert not caplog.text


def test_where_nothing_can_be_an_answer_it_is_empty(tokenizer):
    examples = [Example(id="a", text="", pair="who", answers=()), Example(id="b", text=" \t", pair="who", answers=())]
    for has_nulls in (True, False):
        task = replace(GOOGLE, has_nulls=has_nulls)
        assert task.encode(examples, tokenizer) == []
        predictions = task.decode([], examples, tokenizer)
        assert [one.answer for one in predictions] == ["", ""]
    assert replace(GOOGLE, has_nulls=True).decode([], examples, tokenizer)[0].null_odds == NEVER
    # No end after the best start: the ends that are weighed all come before it.
    example = Example(text="a b c", pair="who")
    task = replace(GOOGLE, num_best=1)
    (row,) = task.encode([example], tokenizer)
    logits = np.zeros((row.num_tokens, 2), np.float32)
    logits[5, 0] = logits[3, 1] = 5
    (prediction,) = task.decode([Output(row, logits)], [example], tokenizer)
    assert (prediction.answer, prediction.null_odds) == ("", NEVER)
    assert [one.text for one in prediction.candidates] == [""]


def test_answers_that_are_not_there_are_named_and_not_learned_from(tokenizer, caplog):
    examples = [
        Example(where="dev.json, question a", text="the cat", pair="who", answers=(Span("dog", 4),)),
        Example(where="dev.json, question b", text="the cat", pair="who", answers=(Span("cat", 4),)),
        Example(where="dev.json, question c", text="the cat", pair="who", answers=(Span("cat", 99),)),
    ]
    for projection in ("google", "offsets"):
        task = replace(GOOGLE, projection=projection, has_nulls=False)
        assert [row.targets is None for row in task.encode(examples, tokenizer)] == [True, False, True]
        assert "2 of 3 answers are not in their passage" in caplog.text
        assert "question a, dev.json, question c." in caplog.text
        caplog.clear()
    predictions = task.decode([], examples, tokenizer)
    assert task.score(predictions, examples) == {"f1": 0, "exact": 0}  # scored they are


def test_learning_tuning_and_scores(tokenizer):
    examples = [Example(text="the cat", pair="who", answers=(Span("cat", 4),)), Example(text="a", pair="b", answers=())]
    assert Answer().learn(examples).has_nulls is True
    assert Answer().learn(examples[:1]).has_nulls is False
    assert Answer(has_nulls=True).main_score == "best_f1"
    tuned = GOOGLE.tune({"best_f1_threshold": -1.5})
    assert tuned.null_threshold == -1.5
    with pytest.raises(ValueError, match=r"b\.json, question x has no label"):
        Answer().learn([Example(where="b.json, question x", text="a", pair="b")])
    with pytest.raises(ValueError, match="max_length=3 leaves no room"):
        replace(GOOGLE, max_length=3).encode(examples, tokenizer)
    with pytest.raises(ValueError, match="stride is 0"):
        Answer(stride=0)
