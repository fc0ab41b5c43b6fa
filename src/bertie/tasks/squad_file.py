"""SQuAD's JSON form -> Examples; answers that do not stand where the file says are looked for, and counted."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

from bertie.tasks.rows import read_text
from bertie.tasks.task import Example, Span

log = logging.getLogger(__name__)


def read_squad(path: Path) -> list[Example]:
    """The questions of a file in SQuAD's form, CMRC's and DRCD's included."""
    text = read_text(path)
    try:
        contents = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{path} is not JSON in SQuAD's form: {error}.") from None
    found = [example for article in _list(contents, "data", path) for example in _article(article, path)]
    wrong = [example for example in found for span in example.answers or () if not _stands(example.text, span)]
    moved = [_moved(example) for example in found]
    if wrong:
        lost = sum(not _stands(example.text, span) for example in moved for span in example.answers or ())
        log.warning(
            "%s: %d of %d answers do not stand where the file says: %d stand elsewhere, %d nowhere, character for "
            "character, in the passage (%s is the first).",
            *(path, len(wrong), sum(len(example.answers or ()) for example in found), len(wrong) - lost, lost),
            wrong[0].where,
        )
    return moved


def _article(article: object, path: Path) -> Iterator[Example]:
    for paragraph in _list(article, "paragraphs", path):
        passage = _text(paragraph, "context", path)
        for question in _list(paragraph, "qas", path):
            name = _text(question, "id", path)
            where = f"{path}, question {name}"
            yield Example(
                where=where, id=name, text=passage, pair=_text(question, "question", path), answers=_answers(question)
            )


def _answers(question: object) -> tuple[Span, ...] | None:
    assert isinstance(question, dict)
    if "answers" not in question and "is_impossible" not in question:
        return None
    stated = [] if question.get("is_impossible") is True else question.get("answers", [])
    if not isinstance(stated, list) or not all(isinstance(one, dict) and "text" in one for one in stated):
        raise ValueError(f"question {question['id']}: its answers are not a list of objects with a text each.")
    starts = [one.get("answer_start") for one in stated]
    return tuple(
        Span(str(one["text"]), start if isinstance(start, int) else -1)
        for one, start in zip(stated, starts, strict=True)
    )


def _moved(example: Example) -> Example:
    """The example with each answer where it stands, nearest to where it was said to be."""
    if all(_stands(example.text, span) for span in example.answers or ()):
        return example
    spans = tuple(Span(span.text, _nearest(example.text, span)) for span in example.answers or ())
    return Example(where=example.where, id=example.id, text=example.text, pair=example.pair, answers=spans)


def _stands(passage: str, span: Span) -> bool:
    return span.start >= 0 and passage.startswith(span.text, span.start)


def _nearest(passage: str, span: Span) -> int:
    before = passage.rfind(span.text, 0, max(span.start, 0) + len(span.text))
    after = passage.find(span.text, max(span.start, 0))
    found = [place for place in (before, after) if place >= 0]
    return min(found, key=lambda place: abs(place - span.start)) if found else span.start


def _list(value: object, key: str, path: Path) -> list[object]:
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, list):
        raise ValueError(f"{path} is not in SQuAD's form: no list {key!r} where one belongs.")
    return inner


def _text(value: object, key: str, path: Path) -> str:
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, str | int):
        raise ValueError(f"{path} is not in SQuAD's form: no text {key!r} where one belongs.")
    return str(inner)
