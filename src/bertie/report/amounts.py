"""How the report writes amounts: counts, shares, scores, times, sizes."""

import math

ABSENT = "–"


def count(number: float | None) -> str:
    """1,234,567."""
    return ABSENT if number is None or not math.isfinite(number) else f"{number:,.0f}"


def share(number: float | None) -> str:
    return ABSENT if number is None else f"{number:.1%}"


def decimal(number: float | None, digits: int = 4) -> str:
    return ABSENT if number is None or not math.isfinite(number) else f"{number:,.{digits}f}"


def duration(seconds: float | None) -> str:
    """42.1 s, 12 min 05 s, 3 h 40 min."""
    if seconds is None:
        return ABSENT
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s" if minutes else f"{seconds:.1f} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def size(num_bytes: float | None) -> str:
    """A number of bytes: 512 MiB, 1.50 GiB."""
    if num_bytes is None:
        return ABSENT
    return f"{num_bytes / 2**20:,.0f} MiB" if num_bytes < 2**30 else f"{num_bytes / 2**30:,.2f} GiB"
