"""What runs with labels came to: each score of each seed, by setting and task."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bertie.report.runs import Run, figure


@dataclass(frozen=True)
class Result:
    """One row of a comparison. scores: by name, one for each seed; floor: what the same answer for everything scores;
    num_collapsed: of all its runs; num_repeated: those of them in whose place another one counts; best: the run of the
    best seed, where its folder is there."""

    name: str
    main: str
    scores: Mapping[str, tuple[float, ...]]
    floor: float | None = None
    num_collapsed: int = 0
    num_repeated: int = 0
    best: Run | None = None

    @property
    def each(self) -> tuple[float, ...]:
        return self.scores[self.main]


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation, None of a single value."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None


def results_of(run: Run) -> Iterator[Result]:
    """Of a run, a run of several seeds, each setting of a grid, or each task of a suite."""
    if run.kind == "glue":
        yield from _columns(run) or [result for task in run.each for result in results_of(task)]
        return
    repeated = {str(one.get("folder")) for one in _objects(run.card, "runs") if one.get("was_repeated") is True}
    leaves = [one for one in run.each if one.folder.relative_to(run.folder).as_posix() not in repeated] or [run]
    settings = {leaf.folder.parent: None for leaf in leaves}
    for folder in settings:
        same = [leaf for leaf in leaves if leaf.folder.parent == folder]
        name = run.name if len(settings) == 1 else f"{run.name}/{folder.relative_to(run.folder).as_posix()}"
        found = _together(name, same, sum((run.folder / one).parent == folder for one in repeated))
        if found is not None:
            yield found


def _together(name: str, runs: Sequence[Run], num_repeated: int) -> Result | None:
    """The scores of several seeds; None where no run has come to any."""
    scored = [run for run in runs if isinstance(run.card.get("score"), str) and _scores(run)]
    if not scored:
        return None
    main = str(scored[0].card["score"])
    scored = [run for run in scored if main in _scores(run)]
    if not scored:
        return None
    names = [main, *(name for name in _scores(scored[0]) if name != main)]
    scores = {name: tuple(_scores(run)[name] for run in scored if name in _scores(run)) for name in names}
    num_collapsed = num_repeated + sum(run.card.get("collapsed") is True for run in runs)
    best = max(scored, key=lambda run: _scores(run)[main])
    return Result(name, main, scores, figure(scored[0].card, "floor"), num_collapsed, num_repeated, best)


def _columns(suite: Run) -> list[Result]:
    """The columns of the suite's table, where it was finished."""
    columns = suite.card.get("columns")
    found = []
    for name, column in columns.items() if isinstance(columns, Mapping) else ():
        each = tuple(float(one) for one in column.get("each", ())) if isinstance(column, Mapping) else ()
        if each:
            found.append(Result(f"{suite.name}/{name}", str(column["score"]), {str(column["score"]): each}))
    return found


def _scores(run: Run) -> dict[str, float]:
    scores = run.card.get("scores")
    names = scores if isinstance(scores, Mapping) else {}
    return {name: value for name in names if (value := figure(run.card, "scores", name)) is not None}


def _objects(card: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    value = card.get(key)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
