"""The curves of runs: what the log says of each step, thinned so that no peak is lost, and of held-out text."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertie.report.page import Section, Table
from bertie.report.runs import Columns, Run
from bertie.report.words import Words

Floats = NDArray[np.float64]
MOST_POINTS, LEAST_POINTS = 40_000, 20  # of all lines on a page together; of one line, however many there are
FEWEST_SMOOTHED = 40  # values; of fewer no smooth line is drawn
SMOOTHED_SHARE = 1 / 40  # of a run, is what a point of the smooth line is the mean of
NUM_SMOOTHED = 400  # points of the smooth line
MOST_IN_WORDS, MOST_IN_FULL = 8, 4  # runs that are put in words below the figure; of as many only the score
NUM_PLACES = 400  # points that say how many tokens and seconds a step is
SEED = re.compile(r"/seed-\d+$")
VALIDATION, SPEED = "validation_", "tokens_per_second"
HOW = ("lr", SPEED, "gradient_norm")  # not what a run comes to


@dataclass(frozen=True)
class Figure:
    """What is drawn in a panel: the log's name for it, what people call it (of a score its own name), and its unit."""

    name: str
    title: str = ""
    unit: str = ""  # "percent": it is a share


FIGURES = (
    Figure("masked_loss", "Masked-word loss"),
    Figure("masked_accuracy", "Masked-word accuracy", "percent"),
    Figure("pair_loss", "Pair loss"),
    Figure("pair_accuracy", "Pair accuracy", "percent"),
    Figure("loss", "Loss"),
    Figure("lr", "Learning rate"),
    Figure(SPEED, "Tokens per second"),
    Figure("gradient_norm", "Gradient norm"),
)


def curves(id_: str, heading: str, runs: Sequence[Run], words: Words) -> Section | None:
    """A panel for each figure that some run has logged, with a line for each run; None where nothing was logged."""
    runs = [run for run in runs if len(run.log.steps.get("step", ())) or len(run.log.evaluations.get("step", ()))]
    figures = list(_figures(runs))
    if not figures:
        return None
    limit = max(LEAST_POINTS, MOST_POINTS // (len(figures) * len(runs)))
    panels = [_panel(one, runs, limit, words) for one in figures]
    longest = max(len(run.log.steps.get("step", ())) for run in runs)
    thinned = words(
        " Of each {count} steps or so the lowest and the highest value are drawn.", count=2 * longest // limit
    )
    said = " ".join(_in_words(one, run, words) for run in runs[:MOST_IN_WORDS] for one in _telling(figures, len(runs)))
    return Section(
        id=id_,
        heading=heading,
        text=list(_skips(runs, words)),
        kind="curves",
        data={"runs": _named(runs), "places": [_places(run, limit) for run in runs], "panels": panels},
        words={key: words(text) for key, text in WORDS.items()},
        alternative=said + (thinned if longest > limit else ""),
        table=_table(figures, runs, words),
    )


WORDS = {
    "axis": "Along the bottom",
    "step": "steps",
    "tokens": "tokens",
    "time": "time",
    "seconds": "{seconds} s",
    "minutes": "{minutes} min {seconds} s",
    "hours": "{hours} h {minutes} min",
    "reset": "Whole run",
    "logarithmic": "Logarithmic",
    "held": "held out",
    "mean": "mean",
    "each": "each step",
    "help": (
        "Drag the bar below a chart, or press + and - on it, to zoom; the arrow keys move along the line, 0 shows the "
        "whole run. All charts move together."
    ),
}


def _skips(runs: Sequence[Run], words: Words) -> Iterator[str]:
    for run in runs:
        if run.log.skips:
            step, reason = run.log.skips[0]
            told = {"name": run.name, "count": str(len(run.log.skips)), "reason": words.of_card(reason)}
            yield words("{name}: {count} steps were skipped, the first is step {step}: {reason}.", **told, step=step)


def _named(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Each run with what it shares a colour with: seeds of the same setting, if there are several settings."""
    groups = [SEED.sub("", run.name) for run in runs]
    if len(set(groups)) == 1:
        groups = [run.name for run in runs]
    return [{"name": run.name, "group": group} for run, group in zip(runs, groups, strict=True)]


def _telling(figures: Sequence[Figure], num_runs: int) -> Sequence[Figure]:
    """What is put in words below the figure: the loss and what is scored, of many runs only the latter."""
    found = [one for one in figures if one.name not in HOW][:2]
    return found if num_runs < MOST_IN_FULL else found[-1:]


def _figures(runs: Sequence[Run]) -> Iterator[Figure]:
    """Those logged, then the scores on held-out examples, whose names are the task's."""
    logged = {name for run in runs for name in run.log.steps} | {
        name.removeprefix(VALIDATION) for run in runs for name in run.log.evaluations if name.startswith(VALIDATION)
    }
    known = {one.name for one in FIGURES}
    chosen_by = {run.card.get("score") for run in runs}
    others = logged - known - {"event", "step", "tokens", "seconds", "batches", "reason"}
    scores = sorted(others, key=lambda name: (name not in chosen_by, name))
    has_parts = "masked_loss" in logged and "pair_loss" in logged
    for one in FIGURES:
        if one.name in logged and not (one.name == "loss" and "masked_loss" in logged and not has_parts):
            yield one
    for name in scores:
        if any(VALIDATION + name in run.log.evaluations for run in runs):
            yield Figure(name)


def _panel(one: Figure, runs: Sequence[Run], limit: int, words: Words) -> dict[str, object]:
    lines = [line for number, run in enumerate(runs) for line in _lines(one, number, run, limit)]
    said = " ".join(_in_words(one, run, words) for run in runs[:MOST_IN_WORDS])
    return {"title": _title(one, words), "unit": one.unit, "alternative": said, "lines": lines}


def _title(one: Figure, words: Words) -> str:
    title = words(one.title) if one in FIGURES else words.of_score(one.name)
    return title[:1].upper() + title[1:]


def _lines(one: Figure, number: int, run: Run, limit: int) -> Iterator[dict[str, object]]:
    x, y = _known(run.log.steps, one.name)
    if len(x):
        kept = thin(y, limit)
        is_long = len(x) >= FEWEST_SMOOTHED and one.name != "lr"
        yield {"run": number, "role": "each" if is_long else "mean", **_xy(x[kept], y[kept])}
        if is_long:
            kept = np.linspace(0, len(x) - 1, min(NUM_SMOOTHED, limit, len(x)), dtype=np.int64)
            yield {"run": number, "role": "mean", **_xy(x[kept], smooth(y, round(len(y) * SMOOTHED_SHARE))[kept])}
    x, y = _known(run.log.evaluations, VALIDATION + one.name)
    if len(x):
        kept = thin(y, limit)
        yield {"run": number, "role": "held", **_xy(x[kept], y[kept])}


def _known(columns: Columns, name: str) -> tuple[Floats, Floats]:
    """Steps and values, where the value is a number."""
    if name not in columns:
        return np.zeros(0), np.zeros(0)
    is_known = np.isfinite(columns[name]) & np.isfinite(columns["step"])
    if name == SPEED:
        is_known &= columns[name] > 0  # as older logs have it for a first step
    return columns["step"][is_known], columns[name][is_known]


def thin(y: Floats, limit: int) -> NDArray[np.int64]:
    """The places of at most so many values: of equal parts the lowest and the highest, and both ends of the whole."""
    if len(y) <= limit:
        return np.arange(len(y))
    edges = np.linspace(0, len(y), limit // 2, dtype=np.int64)
    parts = [(start, y[start:end]) for start, end in itertools.pairwise(edges)]
    found = [start + place for start, part in parts for place in (int(part.argmin()), int(part.argmax()))]
    return np.unique([0, *found, len(y) - 1])


def smooth(y: Floats, width: int) -> Floats:
    """For each value the mean of so many around it; of fewer at the ends."""
    sums = np.concatenate([[0.0], np.cumsum(y)])
    places = np.arange(len(y))
    first, last = np.maximum(places - width // 2, 0), np.minimum(places + (width + 1) // 2, len(y))
    found: Floats = (sums[last] - sums[first]) / (last - first)
    return found


def _xy(x: Floats, y: Floats) -> dict[str, list[float]]:
    return {"x": [float(f"{one:.7g}") for one in x], "y": [float(f"{one:.5g}") for one in y]}


def _places(run: Run, limit: int) -> dict[str, list[float]]:
    """How many tokens were read and seconds gone by at some steps, to draw a line over those instead."""
    columns = run.log.steps or run.log.evaluations
    kept = np.linspace(0, len(columns["step"]) - 1, min(NUM_PLACES, limit, len(columns["step"])), dtype=np.int64)
    names = [name for name in ("step", "tokens", "seconds") if np.isfinite(columns.get(name, np.array([np.nan]))).all()]
    return {name: [float(f"{one:.9g}") for one in columns[name][kept]] for name in names}


def _in_words(one: Figure, run: Run, words: Words) -> str:
    """Where a curve comes from and gets to."""
    (x, y), (held_x, held_y) = _known(run.log.steps, one.name), _known(run.log.evaluations, VALIDATION + one.name)
    title, parts = _title(one, words), []
    if len(x):
        told = {"name": run.name, "title": title, "first": _shown(one, y[0]), "last": _shown(one, y[-1])}
        parts.append(
            words("{name}: {title} goes from {first} to {last} in {steps} steps.", **told, steps=f"{x[-1]:,.0f}")
        )
    if len(held_x):
        told = {"name": run.name, "title": title, "last": _shown(one, held_y[-1])}
        parts.append(words("{name}: {title} on held-out text comes to {last}.", **told))
    return " ".join(parts)


def _shown(one: Figure, value: float) -> str:
    return f"{value:.1%}" if one.unit == "percent" else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _table(figures: Sequence[Figure], runs: Sequence[Run], words: Words) -> Table:
    """For each run and figure the smooth line at its beginning, three times in between and at its end."""
    places = ("0 %", "25 %", "50 %", "75 %", "100 %")
    rows = []
    for run in runs:
        for one in figures:
            _, y = _known(run.log.steps, one.name)
            _, held = _known(run.log.evaluations, VALIDATION + one.name)
            cells = ["–"] * len(places)
            if len(y):
                line = smooth(y, max(1, round(len(y) * SMOOTHED_SHARE)))
                cells = [_shown(one, line[round(share * (len(line) - 1))]) for share in (0, 0.25, 0.5, 0.75, 1)]
            if len(y) or len(held):
                rows.append([run.name, _title(one, words), *cells, _shown(one, held[-1]) if len(held) else "–"])
    return Table([words("run"), words("figure"), *places, words("held out, last")], rows)
