"""Whether a model folder is whole after its writer was killed at a random moment: the claim is always, old or new."""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

from bertie.model.config import ModelConfig
from bertie.model.folder import build, load, save
from bertie.model.heads import Model

CONFIG = ModelConfig(vocabulary_size=50, num_layers=2, width=16, num_heads=2, inner_width=32, max_positions=16)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the process forks
    rng = random.Random(arguments.seed)
    model = build(CONFIG, {"masked": 0, "class": 2}, torch.Generator().manual_seed(arguments.seed))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "model"
        started = time.perf_counter()
        save_number(target, model, 0)
        seconds = time.perf_counter() - started
        outcomes = []
        for _ in range(arguments.kills):
            kill_a_writer(target, model, rng.uniform(0, 3 * seconds))
            outcomes.append(look(target))
        save_number(target, model, 0)
        litter = sorted(path.name for path in target.parent.iterdir() if path != target)
    whole = [number for number in outcomes if number is not None]
    print(f"a save takes {1000 * seconds:.1f} ms; writers killed: {len(outcomes)}; folders found whole: {len(whole)}")
    changed = sum(before != after for before, after in zip([0, *outcomes], outcomes, strict=False))
    print(f"of these as before the writer: {len(outcomes) - changed}; newer: {changed}; left after a save: {litter}")
    return 0 if len(whole) == len(outcomes) and not litter else 1


def save_number(target: Path, model: Model, number: int) -> None:
    """Save the model with all its weights equal to the number, which the vocabulary says too."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(number)
    save(target, model, {"vocab.txt": str(number).encode()})


def kill_a_writer(target: Path, model: Model, seconds: float) -> None:
    number = (look(target) or 0) + 1
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"!")
        while True:
            save_number(target, model, number)
            number += 1
    os.read(reader, 1)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reader)
    os.close(writer)


def look(target: Path) -> int | None:
    """The number the whole folder agrees on; None, with a word on it, when it does not."""
    try:
        state = load(target).state_dict()
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return None
    numbers = {float((target / "vocab.txt").read_text())} | {
        value for one in state.values() for value in one.unique().tolist()
    }
    return int(numbers.pop()) if len(numbers) == 1 else None


if __name__ == "__main__":
    sys.exit(main())
