"""What is taken for what: how often each label is said where each is true, with the examples behind the numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bertie.report.amounts import count, share
from bertie.report.page import Section, Table
from bertie.report.words import Words

MOST_LABELS = 40  # of a matrix that can be read
MOST_ERRORS = 200  # kept in the page for whoever asks a cell of the matrix
Pairs = Counter[tuple[str, str]]  # how often, by what is true and what was said


@dataclass(frozen=True)
class Case:
    """A text or a word, the label that is true and the one that was said."""

    text: str
    gold: str
    called: str


def confusion(id_: str, all_labels: Sequence[str], cases: Sequence[Case], words: Words) -> Section:
    """The matrix; of the cases that are wrong the first ones can be read behind it."""
    pairs = Counter((one.gold, one.called) for one in cases)
    labels = _shown(all_labels, pairs)
    numbers = {label: number for number, label in enumerate(labels)}
    wrong = [one for one in cases if one.gold != one.called and one.gold in numbers and one.called in numbers]
    examples = [[numbers[one.gold], numbers[one.called], one.text] for one in wrong[:MOST_ERRORS]]
    return Section(
        id=id_,
        heading=words("What is taken for what"),
        kind="matrix",
        data={
            "labels": labels,
            "counts": [[pairs[gold, called] for called in labels] for gold in labels],
            "examples": examples,
        },
        words={key: words(text) for key, text in WORDS.items()},
        alternative=" ".join(_in_words(labels, len(labels) < len(all_labels), pairs, words)),
        table=_by_label(labels, pairs, words),
    )


WORDS = {
    "truth": "is ↓, called →",
    "choose": "Choose a number beside the diagonal to read the examples behind it.",
    "cell": "{count} examples of {gold}, called {called}",
    "none": "None of these is among the errors that the page keeps.",
    "more": "{shown} of {count} are kept here.",
}


def _shown(labels: Sequence[str], pairs: Pairs) -> list[str]:
    """The labels in their order; of many those that are most often part of an error."""
    if len(labels) <= MOST_LABELS:
        return list(labels)
    mistaken: Counter[str] = Counter()
    for (gold, called), number in pairs.items():
        if gold != called:
            mistaken[gold] += number
            mistaken[called] += number
    kept = {label for label, _ in mistaken.most_common(MOST_LABELS)}
    return [label for label in labels if label in kept]


def _in_words(labels: Sequence[str], is_part: bool, pairs: Pairs, words: Words) -> list[str]:
    said = [words("Rows are what is true, columns what the model said; a number counts examples.")]
    if is_part:
        said.append(words("Only the {count} labels that are most often mistaken are shown.", count=len(labels)))
    common = [(number, gold, called) for (gold, called), number in pairs.most_common() if gold != called][:3]
    told = [words("{count} × {gold} called {called}", count=one[0], gold=one[1], called=one[2]) for one in common]
    return [*said, words("Most frequent: {said}.", said=words("; ").join(told))] if told else said


def _by_label(labels: Sequence[str], pairs: Pairs, words: Words) -> Table:
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
