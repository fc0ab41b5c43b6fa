"""What a person sees in the terminal: progress with speed and time left, tables, one sentence for an error."""

import logging
import os
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

SECONDS_BETWEEN_LINES = 10.0  # in a log file, where a bar cannot be redrawn
Report = Callable[[int, int], None]  # units done, units in all


@contextmanager
def progress(label: str, unit: str = "bytes") -> Iterator[Report]:
    """A function to call with (done, total): it keeps a bar on a terminal, or writes a line now and then to a log."""
    with _shown(label) as show:
        started = time.monotonic()
        yield lambda done, total: show(done, total, _speed(done, unit, time.monotonic() - started))


@contextmanager
def run_progress(label: str) -> Iterator[Callable[[float, str], None]]:
    """The same for a run of training: a function to call with the share that is done, and its figures."""
    with _shown(label) as show:
        yield lambda share, figures: show(share, 1.0, figures)


def say(sentence: str) -> None:
    """For the person, not for the pipe: standard output is left to results. Nothing under --quiet."""
    if not _is_quiet():
        print(sentence, file=sys.stderr, flush=True)


def error(sentence: str) -> None:
    name = "\033[31mbertie:\033[0m" if _has_colours() else "bertie:"
    print(f"{name} {sentence}", file=sys.stderr)


class Messages(logging.Handler):
    """What the library logs, on standard error as it is now: while there is a bar, that is above the bar."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The rows under their header, columns aligned: the first to the left, the others to the right."""
    widths = [max(_width(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(_padded(cell, width, is_right=column > 0) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in [header, ["-" * width for width in widths], *rows])
    ]
    return "\n".join(line.rstrip() for line in lines)


def _padded(cell: str, width: int, is_right: bool) -> str:
    spaces = " " * (width - _width(cell))
    return spaces + cell if is_right else cell + spaces


def _width(text: str) -> int:
    """The columns it takes in a terminal, where Chinese characters take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def amount(number: float, unit: str = "") -> str:
    """A number as people read it: 1,234, 12.3 M, 4.56 G."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(number) >= size:
            return f"{number / size:.3g} {prefix}{unit}"
    whole = f"{number:,.0f}" if number == int(number) or abs(number) >= 100 else f"{number:.3g}"
    return f"{whole} {unit}".rstrip()


def duration(seconds: float) -> str:
    """A time as people read it: 42 s, 12 min 05 s, 3 h 40 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


Show = Callable[[float, float, str], None]  # done, in all (0: nobody knows), what to say beside it


@contextmanager
def _shown(label: str) -> Iterator[Show]:
    if _is_quiet():
        yield lambda done, total, note: None
    elif sys.stderr.isatty():
        with _bar(label) as show:
            yield show
    else:
        yield _lines(label)


@contextmanager
def _bar(label: str) -> Iterator[Show]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[note]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None, note="")
        yield lambda done, total, note: bar.update(task, completed=done, total=total or None, note=note)


def _has_colours() -> bool:
    """Only on a terminal that knows them, and not where somebody asks for none (no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _is_quiet() -> bool:
    """--quiet is kept where the library's own messages are let through or not."""
    return not logging.getLogger("bertie").isEnabledFor(logging.INFO)


def _lines(label: str) -> Show:
    last = time.monotonic()
    first: tuple[float, float] | None = None  # done by then, and when: a run that goes on was partly done before

    def show(done: float, total: float, note: str) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = first or (done, now)
        if now - last < SECONDS_BETWEEN_LINES or done <= first[0]:
            return
        last = now
        left = (total - done) * (now - first[1]) / (done - first[0])
        parts = [f"{done / total:.0%}", note, f"{duration(left)} left"] if total else [note]
        print(f"{label}: {', '.join(parts)}", file=sys.stderr, flush=True)

    return show


def _speed(done: float, unit: str, seconds: float) -> str:
    if not seconds:
        return ""
    rate = done / seconds
    return f"{amount(rate if rate < 10 else round(rate), 'B' if unit == 'bytes' else unit + ' ')}/s".replace(" /", "/")
