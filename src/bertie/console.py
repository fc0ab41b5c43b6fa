"""What a person sees in the terminal: progress with speed and time left, tables, one sentence for an error."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 10.0  # in a log file, where a bar cannot be redrawn
Report = Callable[[int, int], None]  # units done, units in all


@contextmanager
def progress(label: str, unit: str = "bytes") -> Iterator[Report]:
    """A function to call with (done, total): it keeps a bar on a terminal, or writes a line now and then to a log."""
    if sys.stderr.isatty():
        with _bar(label, unit) as report:
            yield report
    else:
        yield _lines(label, unit)


def say(sentence: str) -> None:
    """For the person, not for the pipe: standard output is left to results."""
    print(sentence, file=sys.stderr)


def error(sentence: str) -> None:
    print(f"bertie: {sentence}", file=sys.stderr)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their header, columns aligned: the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in [header, ["-" * width for width in widths], *rows])
    ]
    return "\n".join(line.rstrip() for line in lines)


def amount(number: float, unit: str = "") -> str:
    """A number as people read it: 1,234, 12.3 M, 4.56 G."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(number) >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    whole = f"{number:,.0f}" if number == int(number) or abs(number) >= 100 else f"{number:.3g}"
    return f"{whole} {unit}".rstrip()


@contextmanager
def _bar(label: str, unit: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[speed]}"))
    started = time.monotonic()
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None, speed="")

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, speed=_speed(done, unit, time.monotonic() - started))

        yield report


def _lines(label: str, unit: str) -> Report:
    started = last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < SECONDS_BETWEEN_LINES or not done:
            return
        last = now
        left = (total - done) * (now - started) / done
        share = f"{done / total:.0%}" if total else amount(done, unit)
        print(f"{label}: {share}, {_speed(done, unit, now - started)}, {left:.0f} s left", file=sys.stderr, flush=True)

    return report


def _speed(done: int, unit: str, seconds: float) -> str:
    return (
        f"{amount(round(done / seconds), 'B' if unit == 'bytes' else unit + ' ')}/s".replace(" /", "/")
        if seconds
        else ""
    )
