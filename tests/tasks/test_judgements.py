import json

import pytest

from bertie.tasks.judgements import LONGEST, write_judgements
from bertie.tasks.task import Example, Prediction, Span

CASES = {
    "class": (
        Example(text="a", pair="b", label="no"),
        Prediction(label="yes", probabilities={"yes": 0.75, "no": 0.25}),
        {"text": "a", "pair": "b", "gold": "no", "called": "yes", "error": 0.75},
    ),
    "a class that is right": (
        Example(text="a", label="no"),
        Prediction(label="no", probabilities={"yes": 0.25, "no": 0.75}),
        {"text": "a", "gold": "no", "called": "no", "error": 0.0},
    ),
    "several": (
        Example(text="a", labels=("red", "big")),
        Prediction(labels=("big",), probabilities={"red": 0.25, "big": 0.75}),
        {"text": "a", "gold": "red|big", "called": "big", "error": 1.0},
    ),
    "number": (
        Example(text="a", label="2.5"),
        Prediction(number=4.0),
        {"text": "a", "gold": "2.5", "called": "4", "error": 1.5},
    ),
    "words": (
        Example(words=("the", "cat"), labels=("O", "B-CAT")),
        Prediction(labels=("O", "O")),
        {"text": "the cat", "gold": "O B-CAT", "called": "O O", "error": 0.5},
    ),
    "answer": (
        Example(text="Anna sings", pair="Who?", answers=(Span("Anna", 0),)),
        Prediction(answer="sings"),
        {"text": "Anna sings", "pair": "Who?", "gold": "Anna", "called": "sings", "error": 1.0},
    ),
    "no answer": (
        Example(text="Anna sings", pair="Where?", answers=()),
        Prediction(answer=""),
        {"text": "Anna sings", "pair": "Where?", "gold": "", "called": "", "error": 0.0},
    ),
    "ending": (
        Example(text="She", endings=("sings", "is blue"), right=0),
        Prediction(right=1, probabilities={"0": 0.4, "1": 0.6}),
        {"text": "She", "gold": "sings", "called": "is blue", "error": 0.6},
    ),
}


@pytest.mark.parametrize(("example", "prediction", "expected"), CASES.values(), ids=CASES)
def test_a_line_says_what_is_true_what_was_said_and_how_wrong_it_is(tmp_path, example, prediction, expected):
    write_judgements(tmp_path / "held_out.jsonl", [prediction], [example])
    assert json.loads((tmp_path / "held_out.jsonl").read_text()) == expected


def test_a_long_text_is_cut(tmp_path):
    write_judgements(tmp_path / "one", [Prediction(label="a")], [Example(text="é" * 9000, label="a")])
    assert len(json.loads((tmp_path / "one").read_text())["text"]) == LONGEST
