"""What runs took: steps, tokens, time, speed, memory, and money where the price of a GPU is known."""

from collections.abc import Iterator, Sequence

import numpy as np

from bertie.report.amounts import ABSENT, count, decimal, duration, size
from bertie.report.page import Section, Table
from bertie.report.runs import Run, figure
from bertie.report.words import Words

SECONDS_AN_HOUR = 3600


def cost(runs: Sequence[Run], price: float | None, words: Words) -> Section | None:
    """A row for each run, also of those inside others; None where no run says anything of it."""
    singles = [single for run in runs for single in _singles(run)]
    rows = [_row(run, price, words) for run in singles if seconds_of(run) is not None]
    if not rows:
        return None
    header = [words("run"), words("device"), words("parameters"), words("steps"), words("tokens"), words("time")]
    header += [words("tokens a second"), words("peak memory")]
    text = [words("Tokens are real ones, padding is never counted; the peak is of the device that trained.")]
    if price is not None:
        header.append(words("cost"))
        paid = [one for one in (cost_of(run, price) for run in singles) if one is not None]
        text.append(
            words("Cost at {price} an hour of a GPU: {total} in all.", price=f"{price:g}", total=decimal(sum(paid), 2))
        )
    return Section(id="cost", heading=words("Speed, memory, time and cost"), text=text, table=Table(header, rows))


def seconds_of(run: Run) -> float | None:
    """The seconds of training, of a run that is not finished those up to its last logged step."""
    stated = figure(run.card, "seconds")
    return stated if stated is not None else _last(run, "seconds")


def cost_of(run: Run, price: float) -> float | None:
    """In the money of the price; None for a run on no GPU."""
    seconds = seconds_of(run)
    if run.card.get("gpu") is not True or seconds is None:
        return None
    return price * seconds / SECONDS_AN_HOUR * (figure(run.card, "ranks") or 1)


def _singles(run: Run) -> Iterator[Run]:
    for inner in run.each or ():
        yield from _singles(inner)
    if not run.each:
        yield run


def _row(run: Run, price: float | None, words: Words) -> list[str]:
    seconds, steps, tokens = seconds_of(run), figure(run.card, "steps"), figure(run.card, "tokens")
    tokens = _last(run, "tokens") if tokens is None else tokens
    steps = float(run.log.last_step) if steps is None else steps
    speed = tokens / seconds if tokens and seconds else None
    amounts = [
        count(figure(run.card, "parameters")),
        count(steps),
        count(tokens),
        duration(seconds, words),
        count(speed),
    ]
    row = [run.name, _device(run, words), *amounts, size(figure(run.card, "peak_memory"))]
    return row if price is None else [*row, decimal(cost_of(run, price), 2)]


def _device(run: Run, words: Words) -> str:
    name, ranks, threads = run.card.get("device"), figure(run.card, "ranks") or 1, figure(run.card, "threads")
    if not isinstance(name, str):
        return ABSENT
    if run.card.get("gpu") is True or threads is None:
        return name if ranks == 1 else f"{ranks:.0f} × {name}"
    return words("{name}, threads: {threads}", name=name, threads=count(threads * ranks))


def _last(run: Run, name: str) -> float | None:
    column = run.log.steps.get(name)
    return None if column is None or not np.isfinite(column[-1]) else float(column[-1])
