"""Scores on held-out examples: a dot for each seed, their mean and spread, runs beside each other."""

from collections.abc import Sequence

from bertie.report.amounts import count, decimal
from bertie.report.page import Section, Table
from bertie.report.results import Result, results_of, spread
from bertie.report.runs import Run
from bertie.report.words import Words

WORDS = {
    "mean": "mean",
    "deviation": "standard deviation",
    "floor": "one answer for everything",
    "seeds": "runs",
}


def scores(runs: Sequence[Run], words: Words) -> Section | None:
    """A chart for each score that models were chosen by, and a table of all scores; None where there are none."""
    found = [result for run in runs if run.kind != "pretrain" for result in results_of(run)]
    if not found:
        return None
    mains = dict.fromkeys(result.main for result in found)
    parts = [
        _chart(number, main, [one for one in found if one.main == main], words) for number, main in enumerate(mains)
    ]
    text = [
        words(
            "Scores of the best model of each run on held-out examples. A dot is a run with a seed of its own; the bar "
            "is one standard deviation to either side of their mean. A dashed mark shows what the same answer for all "
            "examples would score: a model that is no better has learned nothing."
        )
    ]
    parts.append(Section(id="all-scores", heading=words("All scores"), table=_table(found, words)))
    return Section(id="scores", heading=words("Fine-tuning scores"), text=text, parts=parts)


def _chart(number: int, main: str, found: Sequence[Result], words: Words) -> Section:
    rows = []
    said = []
    for one in found:
        mean, deviation = spread(one.each)
        rows.append({"name": one.name, "each": one.each, "mean": mean, "deviation": deviation, "floor": one.floor})
        told = words("{name}: {mean}", name=one.name, mean=decimal(mean))
        if deviation is not None:
            told += words(" ± {deviation} over {count} runs", deviation=decimal(deviation), count=len(one.each))
        if one.num_collapsed:
            told += words(", {count} collapsed", count=one.num_collapsed)
        said.append(told)
    return Section(
        id=f"scores-{number}",
        heading=words.of_score(main),
        kind="spread",
        data={"rows": rows},
        words={key: words(text) for key, text in WORDS.items()},
        alternative=words("; ").join(said) + words("."),
    )


def _table(found: Sequence[Result], words: Words) -> Table:
    rows = []
    for one in found:
        for name, values in one.scores.items():
            mean, deviation = spread(values)
            figures = (mean, deviation, max(values), min(values))
            rows.append(
                [one.name, words.of_score(name), *map(decimal, figures), count(len(values)), count(one.num_collapsed)]
            )
    header = [words("run"), words("score"), words("mean"), words("standard deviation"), words("best"), words("worst")]
    return Table([*header, words("runs"), words("collapsed")], rows)
