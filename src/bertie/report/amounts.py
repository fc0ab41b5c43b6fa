"""How the report writes amounts: counts, shares, scores, times, sizes."""

import math

from bertie.report.words import Words

ABSENT = "–"
MANY_ARE_ALIKE = 0.98


def count(number: float | None) -> str:
    """1,234,567."""
    return ABSENT if number is None or not math.isfinite(number) else f"{number:,.0f}"


def share(number: float | None) -> str:
    return ABSENT if number is None else f"{number:.1%}"


def decimal(number: float | None, digits: int = 4) -> str:
    return ABSENT if number is None or not math.isfinite(number) else f"{number:,.{digits}f}"


def duration(seconds: float | None, words: Words) -> str:
    """42.1 s, 12 min 05 s, 3 h 40 min."""
    if seconds is None:
        return ABSENT
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return words("{seconds} s", seconds=f"{seconds:.1f}")
    if minutes < 60:
        return words("{minutes} min {seconds} s", minutes=minutes, seconds=f"{rest:02}")
    return words("{hours} h {minutes} min", hours=f"{minutes // 60:,}", minutes=f"{minutes % 60:02}")


def cosine(number: float) -> str:
    """Close to 1, where many are, with the digits that tell them apart."""
    return f"{number:.2f}" if abs(number) < MANY_ARE_ALIKE else f"{number:.4f}"


def size(num_bytes: float | None) -> str:
    """A number of bytes: 512 MiB, 1.50 GiB."""
    if num_bytes is None:
        return ABSENT
    return f"{num_bytes / 2**20:,.0f} MiB" if num_bytes < 2**30 else f"{num_bytes / 2**30:,.2f} GiB"
