"""What a run keeps of its best model's word on the held-out examples: a line each, for whoever looks at its errors."""

import json
from collections.abc import Sequence
from pathlib import Path

from bertie.sealed import write_file
from bertie.tasks.embed import cosines
from bertie.tasks.task import Example, Prediction

FILE = "held_out.jsonl"
LONGEST = 400  # characters kept of a text


def write_judgements(path: Path, predictions: Sequence[Prediction], examples: Sequence[Example]) -> None:
    """Of each example its text, what is true, what was said, and how wrong that is: 0 if right, for a class the
    probability it was given, for words the share that is wrong, for a number the distance."""
    pairs = zip(predictions, examples, strict=True)
    lines = [json.dumps(_judge(one, example), ensure_ascii=False) + "\n" for one, example in pairs]
    write_file(path, "".join(lines).encode())


def _judge(prediction: Prediction, example: Example) -> dict[str, object]:
    gold, called, error = _compare(prediction, example)
    text = " ".join(example.words) or example.text
    judged: dict[str, object] = {"text": _cut(text), "gold": _cut(gold), "called": _cut(called), "error": error}
    return judged if example.pair is None else {**judged, "pair": _cut(example.pair)}


def _compare(prediction: Prediction, example: Example) -> tuple[str, str, float]:
    if prediction.label is not None:
        gold = example.label or ""
        return gold, prediction.label, _weight(prediction, prediction.label, prediction.label == gold)
    if prediction.vectors is not None and example.label is None and example.number is None:
        return _compare_related(prediction, example)
    if prediction.number is not None:
        truth = float(example.label or 0) if example.number is None else example.number
        return f"{truth:g}", f"{prediction.number:g}", abs(truth - prediction.number)
    if prediction.right is not None and example.right is not None:
        is_right = prediction.right == example.right
        error = _weight(prediction, str(prediction.right), is_right)
        return example.endings[example.right], example.endings[prediction.right], error
    if example.words:
        tags = example.labels or ()
        wrong = sum(one != other for one, other in zip(prediction.labels, tags, strict=False))
        return " ".join(tags), " ".join(prediction.labels), wrong / max(len(tags), 1)
    if example.answers is not None:
        answers = [answer.text for answer in example.answers]
        is_right = prediction.answer in answers or (not answers and not prediction.answer)
        return " / ".join(answers), prediction.answer, 0.0 if is_right else 1.0
    labels = example.labels or ()
    return "|".join(labels), "|".join(prediction.labels), float(set(labels) != set(prediction.labels))


def _compare_related(prediction: Prediction, example: Example) -> tuple[str, str, float]:
    """Of a triplet which of its texts is nearer; of a pair how far it is from being one."""
    assert prediction.vectors is not None
    nearness, *others = cosines(prediction.vectors)
    if not others:
        return "1", f"{nearness:g}", 1 - nearness
    right, wrong = example.pair or "", example.negative or ""
    return right, right if nearness > others[0] else wrong, float(nearness <= others[0])


def _weight(prediction: Prediction, called: str, is_right: bool) -> float:
    return 0.0 if is_right else prediction.probabilities.get(called, 1.0)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
