"""What a run says: events with their figures, on a GPU a step late; log.jsonl, one event a line; tokens per second."""

import json
import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

Event = Mapping[str, str | int | float]  # `event` says what happened; `step` after how many steps
NUM_LAPS = 20


class RunLog:
    """The log of a run folder. What was logged after the step that a run goes on from is cut off first."""

    def __init__(self, path: Path, step: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        _cut(path, step)
        self._file = path.open("a", encoding="utf-8", buffering=1)  # each line is in the file when it is written

    def write(self, event: Event) -> None:
        """Append the event; a number that is not finite is written as null, since JSON has no word for it."""
        self._file.write(json.dumps({key: _finite(value) for key, value in event.items()}) + "\n")

    def close(self) -> None:
        self._file.close()


def read_log(path: Path) -> list[dict[str, str | int | float | None]]:
    """The events of a log, without a last line that a kill cut short."""
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


class Speed:
    """Tokens per second over the last steps, beginning where the run stood at so many tokens and seconds."""

    def __init__(self, tokens: int, seconds: float) -> None:
        self._laps: deque[tuple[int, float]] = deque([(tokens, seconds)], maxlen=NUM_LAPS + 1)

    def lap(self, tokens: int, seconds: float) -> float:
        """The rate, now that the run has come to so many tokens and seconds; 0 if no second has passed."""
        self._laps.append((tokens, seconds))
        first_tokens, first_seconds = self._laps[0]
        return (tokens - first_tokens) / (seconds - first_seconds) if seconds > first_seconds else 0.0

    def restart(self, tokens: int, seconds: float) -> None:
        """Measure from here: the time since the last lap went into something else than steps."""
        self._laps.clear()
        self._laps.append((tokens, seconds))


class Reporter:
    """Reports the events, in order, of a run that has come to so many tokens. When a step has been launched on a GPU,
    its figures are still on their way: they are held until the next one is launched too, so that nobody waits for
    them. On the CPU they are there at once."""

    def __init__(
        self, report: Callable[[Event], None], seconds: Callable[[], float], max_skips: int, tokens: int
    ) -> None:
        self._report, self._seconds, self._max_skips = report, seconds, max_skips
        self._speed = Speed(tokens, seconds())
        self._held: _Held | None = None

    def hold(self, event: Event, figures: Mapping[str, Tensor]) -> None:
        """Send for the figures of the step just launched, and report the one before; this one too if they are here."""
        sent = _send(event, figures)
        self.report_held()
        self._held = sent
        if sent.arrival is None:
            self.report_held()

    def report_held(self) -> None:
        """Report the step whose figures are held; ValueError if it is the last of too many skipped ones."""
        if self._held is None:
            return
        held, self._held = self._held, None
        figures = held.read()
        num_skips = int(figures.pop("num_skips"))
        is_finite = math.isfinite(figures["loss"]) and math.isfinite(figures["gradient_norm"])
        reason = "the loss jumped" if is_finite else "the loss or its gradient was not finite"
        what: Event = {"event": "skip", "reason": reason} if num_skips else {"event": "train"}
        speed = self._speed.lap(int(held.event["tokens"]), self._seconds())
        self._report({**what, **held.event, **figures, "tokens_per_second": speed})
        if num_skips >= self._max_skips:
            raise ValueError(
                f"{num_skips} steps in a row were skipped, up to step {held.event['step']}, because {reason}: its loss "
                f"is {figures['loss']:.4g}, its gradient {figures['gradient_norm']:.4g} long. Go on from the last "
                "saved state with a lower lr or a longer warmup (--resume --allow-changes --set lr=...); if the loss "
                "is right, raise max_sigma."
            )

    def tell(self, event: Event) -> None:
        """Report something that took time between two steps, which is not counted as theirs."""
        self._report(event)
        self._speed.restart(int(event["tokens"]), self._seconds())


@dataclass(frozen=True)
class _Held:
    """An event, and the figures that will complete it."""

    event: Event
    names: Sequence[str]
    values: Tensor
    arrival: torch.cuda.Event | None

    def read(self) -> dict[str, float]:
        """The figures, once they are here."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return dict(zip(self.names, self.values.tolist(), strict=True))


def _send(event: Event, figures: Mapping[str, Tensor]) -> _Held:
    values = torch.stack(list(figures.values()))
    sent = values.to("cpu", non_blocking=values.is_cuda)
    return _Held(event, list(figures), sent, torch.cuda.current_stream().record_event() if values.is_cuda else None)


def _cut(path: Path, step: int) -> None:
    """Keep the lines up to the first that is later than the step, or that a kill left unfinished."""
    if not path.exists():
        return
    kept = 0
    with path.open("rb+") as file:
        for line in file:
            if not line.endswith(b"\n") or json.loads(line)["step"] > step:
                break
            kept += len(line)
        file.truncate(kept)
        os.fsync(file.fileno())


def _finite(value: str | int | float) -> str | int | float | None:
    return None if isinstance(value, float) and not math.isfinite(value) else value
