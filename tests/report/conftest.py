"""Run folders as training leaves them, written by hand: small, and with whatever is to be wrong about them."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

MakeRun = Callable[..., Path]

PRETRAINED = {
    "kind": "pretrain",
    "corpus": {"sha256": "0" * 64, "counts": {"train": {"documents": 90, "sentences": 400, "tokens": 9000}}},
    "parameters": 4_400_000,
    "versions": {"bertie": "0.1", "torch": "2.11", "python": "3.11"},
    "commit": "0123456789ab",
    "threads": 1,
    "device": "x86_64",
}


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """A function that writes a pre-training run of so many steps and gives its folder."""

    def make(name: str = "my-run", steps: int = 60, lr: float = 1e-3, is_finished: bool = True) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "recipe.toml").write_text('preset = "tiny"\nbatch = 32\n\n[optimizer]\nlr = 0.001\n')
        events = [event(step, steps, lr) for step in range(1, steps + 1)]
        events += [
            {"event": "evaluate", **place(steps), "validation_masked_loss": 6.5, "validation_masked_accuracy": 0.1}
        ]
        events += [{"event": "end", **place(steps)}] if is_finished else []
        (folder / "log.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
        ending = {"steps": steps, "tokens": 100 * steps, "seconds": 0.5 * steps, "tokens_per_second": 200.0}
        (folder / "card.json").write_text(json.dumps(PRETRAINED | (ending if is_finished else {})))
        return folder

    return make


def place(step: int) -> dict[str, float]:
    return {"step": step, "tokens": 100 * step, "seconds": 0.5 * step}


def event(step: int, steps: int, lr: float) -> dict[str, object]:
    """A step whose loss falls from 9 towards 6 with some noise that is the same each time."""
    noise = math.sin(37 * step) / 5
    return {
        "event": "train",
        **place(step),
        "loss": 6.7 + 3 * math.exp(-5 * step / steps) + noise,
        "masked_loss": 6 + 3 * math.exp(-5 * step / steps) + noise,
        "masked_accuracy": 0.12 * step / steps,
        "pair_loss": 0.7,
        "pair_accuracy": 0.5,
        "lr": lr * (1 - step / steps),
        "gradient_norm": 1.0,
        "tokens_per_second": 0.0 if step == 1 else 200.0,
    }
