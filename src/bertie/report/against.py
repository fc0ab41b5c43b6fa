"""Numbers that a model says against those that are true."""

import itertools
import math
import statistics
from collections.abc import Iterator, Sequence

from bertie.report.amounts import count, decimal
from bertie.report.judged import Judgement
from bertie.report.page import Section, Table
from bertie.report.words import Words

MOST_POINTS = 1000  # of a long file every so many-th example is drawn
Point = tuple[float, float, str]  # what is true, what was said, of which text
NUM_GROUPS = 5  # of the table, from the lowest true numbers to the highest


def against(id_: str, judged: Sequence[Judgement], words: Words) -> Section | None:
    """A dot for each example; what is said right lies on the diagonal. None where there are no numbers."""
    points = sorted(_points(judged))
    if not points:
        return None
    drawn = points[:: -(-len(points) // MOST_POINTS)]
    distances = [abs(gold - called) for gold, called, _ in points]
    told = {"mean": decimal(statistics.mean(distances), 3), "median": decimal(statistics.median(distances), 3)}
    return Section(
        id=id_,
        heading=words("Said against true"),
        kind="against",
        data={"points": drawn},
        words={"true": words("is"), "said": words("called")},
        alternative=words("On the line both are the same. The mean distance is {mean}, the median {median}.", **told),
        table=_table(points, words),
    )


def _points(judged: Sequence[Judgement]) -> Iterator[Point]:
    for one in judged:
        try:
            gold, called = float(one.gold), float(one.called)
        except ValueError:
            continue
        if math.isfinite(gold) and math.isfinite(called):
            yield gold, called, one.text


def _table(points: Sequence[Point], words: Words) -> Table:
    """What is said, on the mean, of equal groups of examples by what is true."""
    edges = [len(points) * number // NUM_GROUPS for number in range(NUM_GROUPS + 1)]
    groups = [points[start:end] for start, end in itertools.pairwise(edges) if start < end]
    rows = [
        [
            f"{decimal(group[0][0], 2)} – {decimal(group[-1][0], 2)}",
            count(len(group)),
            decimal(statistics.mean(one[0] for one in group), 3),
            decimal(statistics.mean(one[1] for one in group), 3),
            decimal(statistics.mean(abs(one[0] - one[1]) for one in group), 3),
        ]
        for group in groups
    ]
    header = [words("is, from – to"), words("examples"), words("is, mean"), words("called, mean")]
    return Table([*header, words("mean distance")], rows)
