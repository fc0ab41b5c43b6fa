"""What a model got wrong on held-out examples: what it takes for what, and the examples it is most wrong about."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertie.report.amounts import count, decimal, share
from bertie.report.page import Section, Table
from bertie.report.results import results_of
from bertie.report.runs import HELD_OUT, Run, read_lines
from bertie.report.words import Words

MOST_LABELS = 40  # of a matrix that can be read
MOST_ERRORS = 200  # kept in the page for whoever asks a cell of the matrix
NUM_WORST = 12  # shown at once


@dataclass(frozen=True)
class Judgement:
    """One held-out example: its text, what is true, what was said, and how wrong that is; 0 if right."""

    text: str
    gold: str
    called: str
    error: float


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
    parts = [_matrix(f"{id_}-matrix", run, judged, wrong, words)] if _is_classes(run) else []
    if wrong:
        parts.append(_worst(f"{id_}-worst", wrong, words))
    return Section(id=id_, heading=run.name, text=[told], parts=parts)


def read_judgements(run: Run) -> list[Judgement]:
    return [
        Judgement(_with_pair(line), str(line.get("gold", "")), str(line.get("called", "")), error)
        for line in read_lines(run.folder / HELD_OUT)
        if isinstance(error := line.get("error"), int | float) and "text" in line
    ]


def _with_pair(line: Mapping[str, object]) -> str:
    return f"{line['text']} ‖ {line['pair']}" if line.get("pair") else str(line["text"])


def _is_classes(run: Run) -> bool:
    labels = run.card.get("labels")
    return (
        run.card.get("problem_type") == "single_label_classification" and isinstance(labels, list) and len(labels) > 1
    )


def _matrix(id_: str, run: Run, judged: Sequence[Judgement], wrong: Sequence[Judgement], words: Words) -> Section:
    pairs = Counter((one.gold, one.called) for one in judged)
    labels, is_whole = _labels(run, pairs)
    counts = [[pairs[gold, called] for called in labels] for gold in labels]
    kept = [one for one in wrong if one.gold in labels and one.called in labels][:MOST_ERRORS]
    numbers = {label: number for number, label in enumerate(labels)}
    examples = [[numbers[one.gold], numbers[one.called], one.text] for one in kept]
    common = [(number, gold, called) for (gold, called), number in pairs.most_common() if gold != called][:3]
    said = "; ".join(
        words("{count} × {gold} called {called}", count=number, gold=gold, called=called)
        for number, gold, called in common
    )
    alternative = words("Rows are what is true, columns what the model said; a number counts examples.")
    if not is_whole:
        alternative += " " + words("Only the {count} labels that are most often mistaken are shown.", count=len(labels))
    return Section(
        id=id_,
        heading=words("What is taken for what"),
        kind="matrix",
        data={"labels": labels, "counts": counts, "examples": examples},
        words={key: words(text) for key, text in WORDS.items()},
        alternative=alternative + (" " + words("Most frequent: {said}.", said=said) if said else ""),
        table=_by_label(labels, pairs, words),
    )


WORDS = {
    "truth": "is ↓, called →",
    "choose": "Choose a number beside the diagonal to read the examples behind it.",
    "cell": "{count} examples of {gold}, called {called}",
    "none": "None of these is among the errors that the page keeps.",
    "more": "{shown} of {count} are kept here.",
}


def _labels(run: Run, pairs: Counter[tuple[str, str]]) -> tuple[list[str], bool]:
    """The labels in their order; of many those that are most often part of an error."""
    stated = run.card["labels"]
    assert isinstance(stated, list)
    labels = [str(label) for label in stated]
    if len(labels) <= MOST_LABELS:
        return labels, True
    mistaken: Counter[str] = Counter()
    for (gold, called), number in pairs.items():
        if gold != called:
            mistaken[gold] += number
            mistaken[called] += number
    kept = {label for label, _ in mistaken.most_common(MOST_LABELS)}
    return [label for label in labels if label in kept], False


def _by_label(labels: Sequence[str], pairs: Counter[tuple[str, str]], words: Words) -> Table:
    gold_totals: Counter[str] = Counter()
    called_totals: Counter[str] = Counter()
    for (gold, called), number in pairs.items():
        gold_totals[gold] += number
        called_totals[called] += number
    rows = []
    for label in labels:
        right, truths, calls = pairs[label, label], gold_totals[label], called_totals[label]
        mistaken = Counter({called: number for (gold, called), number in pairs.items() if gold == label != called})
        other = ", ".join(f"{called} ({number})" for called, number in mistaken.most_common(2))
        precision, recall = right / calls if calls else None, right / truths if truths else None
        rows.append([label, count(truths), share(recall), share(precision), other])
    header = [words("label"), words("examples"), words("found (recall)"), words("right when said (precision)")]
    return Table([*header, words("most often taken for")], rows)


def _worst(id_: str, wrong: Sequence[Judgement], words: Words) -> Section:
    shown = wrong[:NUM_WORST]
    rows = [[one.text, one.gold, one.called, decimal(one.error, 3)] for one in shown]
    header = [words("text"), words("is"), words("called"), words("how wrong")]
    return Section(id=id_, heading=words("Worst errors"), table=Table(header, rows))
