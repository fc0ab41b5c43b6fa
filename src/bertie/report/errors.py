"""What a model got wrong on held-out examples: what it takes for what, and the examples it is most wrong about."""

from collections.abc import Iterator, Sequence

from bertie.report.against import against
from bertie.report.amounts import count, decimal
from bertie.report.confusion import Case, confusion
from bertie.report.judged import Judgement, read_judgements
from bertie.report.page import Section, Table
from bertie.report.results import results_of
from bertie.report.runs import Run
from bertie.report.words import Words

NUM_WORST = 12  # shown at once


def errors(runs: Sequence[Run], words: Words) -> Section | None:
    """For the best run of each setting and task what is in its file of held-out examples; None where there is none."""
    best = [one for run in runs if run.kind != "pretrain" for one in _best(run)]
    parts = [part for number, run in enumerate(best) if (part := _of_run(f"errors-{number}", run, words))]
    text = words(
        "What the best run of each task says of held-out examples. How wrong it is: for a class the probability that "
        "the wrong answer was given, for words the share that is wrong, for a number the distance."
    )
    return Section(id="errors", heading=words("What goes wrong"), text=[text], parts=parts) if parts else None


def _best(run: Run) -> list[Run]:
    """The best run inside, of a suite that of each task."""
    if run.kind == "glue":
        return [one for task in run.each for one in _best(task)]
    found = [result for result in results_of(run) if result.best is not None]
    best = max(found, key=lambda result: max(result.each), default=None)
    return [best.best] if best is not None and best.best is not None else []


def _of_run(id_: str, run: Run, words: Words) -> Section | None:
    judged = read_judgements(run)
    if not judged:
        return None
    wrong = sorted((one for one in judged if one.error > 0), key=lambda one: -one.error)
    told = words("{wrong} of {all} held-out examples are wrong.", wrong=count(len(wrong)), all=count(len(judged)))
    if run.card.get("problem_type") == "regression":
        told = words("The distances from what is true, of {all} held-out examples.", all=count(len(judged)))
    parts: list[Section | None] = []
    cases = _cases(run, wrong_first=[*wrong, *(one for one in judged if one.error == 0)])
    if cases:
        parts.append(confusion(f"{id_}-matrix", _labels(run), cases, words))
    if run.card.get("problem_type") == "regression":
        parts.append(against(f"{id_}-against", judged, words))
    if wrong:
        parts.append(_worst(f"{id_}-worst", wrong, words))
    return Section(id=id_, heading=run.name, text=[told], parts=[part for part in parts if part is not None])


def _labels(run: Run) -> list[str]:
    labels = run.card.get("labels")
    return [str(label) for label in labels] if isinstance(labels, list) else []


def _cases(run: Run, wrong_first: Sequence[Judgement]) -> list[Case]:
    """What can be counted as one label taken for another: texts with one label each, or words with one each."""
    if len(_labels(run)) < 2:
        return []
    if run.card.get("problem_type") == "single_label_classification":
        return [Case(one.text, one.gold, one.called) for one in wrong_first]
    return [case for one in wrong_first for case in _words_of(one)] if run.card.get("head") == "tag" else []


def _words_of(sentence: Judgement) -> Iterator[Case]:
    """Each word of a sentence with its tags; none of one that was kept in part only."""
    parts = [text.split(" ") for text in (sentence.text, sentence.gold, sentence.called)]
    if len({len(part) for part in parts}) == 1 and not sentence.text.endswith("…"):
        for word, gold, called in zip(*parts, strict=True):
            yield Case(f"{word} – {sentence.text}", gold, called)


def _worst(id_: str, wrong: Sequence[Judgement], words: Words) -> Section:
    shown = wrong[:NUM_WORST]
    rows = [[one.text, one.gold, one.called, decimal(one.error, 3)] for one in shown]
    header = [words("text"), words("is"), words("called"), words("how wrong")]
    return Section(id=id_, heading=words("Worst errors"), table=Table(header, rows))
