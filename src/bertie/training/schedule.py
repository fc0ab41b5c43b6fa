"""The share of the peak learning rate at a point of the run: warm-up, then one of four ways down."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ScheduleConfig:
    """Which curve. `google` is the original's: its decay is counted from the start of the run, not from the end of
    the warm-up, so it drops a little where the two meet. `linear` is Hugging Face's, anchored where warm-up ends."""

    curve: Literal["google", "linear", "cosine", "wsd"] = "linear"
    warmup: float = 0.01  # share of the run; BERT: 10,000 of 1,000,000 steps
    decay: float = 0.2  # share of the run that `wsd` (warm-up, stable, decay) spends going down
    final: float = 0.0  # share of the peak that is left at the end

    def __post_init__(self) -> None:
        for name, share in (("warmup", self.warmup), ("decay", self.decay), ("final", self.final)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is {share}; it is a share of the whole, from 0 to 1.")
        if self.curve == "wsd" and self.warmup + self.decay > 1:
            raise ValueError(f"warmup {self.warmup} and decay {self.decay} together are more than the whole run.")


def share_at_step(config: ScheduleConfig, step: int, num_steps: int) -> float:
    """The share of the peak for a step counted from 0; the warm-up is cut to whole steps, as Google's scripts do."""
    return _share(config, step, int(config.warmup * num_steps), num_steps)


def share_at_fraction(config: ScheduleConfig, fraction: float) -> float:
    """The share of the peak when this fraction of the run is used up: of its minutes, or of its tokens."""
    return _share(config, fraction, config.warmup, 1.0)


def _share(config: ScheduleConfig, done: float, warmup: float, total: float) -> float:
    if done < warmup:
        return done / warmup
    if done >= total:
        return config.final
    return config.final + (1 - config.final) * CURVES[config.curve](done, warmup, total, config.decay * total)


def _google(done: float, warmup: float, total: float, decay: float) -> float:
    return 1 - done / total


def _linear(done: float, warmup: float, total: float, decay: float) -> float:
    return (total - done) / (total - warmup)


def _cosine(done: float, warmup: float, total: float, decay: float) -> float:
    return (1 + math.cos(math.pi * (done - warmup) / (total - warmup))) / 2


def _warmup_stable_decay(done: float, warmup: float, total: float, decay: float) -> float:
    return 1.0 if total - done >= decay else (total - done) / decay


# Each: (done, warm-up, total, decay), all in one unit, with warm-up <= done < total -> the height above `final`.
CURVES: dict[str, Callable[[float, float, float, float], float]] = {
    "google": _google,
    "linear": _linear,
    "cosine": _cosine,
    "wsd": _warmup_stable_decay,
}
