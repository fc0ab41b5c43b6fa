"""Claim: a pre-training run killed at any moments, saving included, and gone on with ends with the undisturbed weights.

Runs `bertie pretrain` undisturbed, then again while it is killed by SIGKILL at random moments of its work and repeated
with --resume, as often as --kills says; the bytes of both models are compared. The run saves at every step, so that
many kills hit the saving. Exit code 1 if a byte differs.

    python benchmarks/kill_resume.py CORPUS OUT --kills 50
"""

import argparse
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

SETTINGS = ("max_length=64", "batch=16", "save_every=1", "evaluate_every=20", "validation_sequences=64")


def command(corpus: Path, out: Path, steps: int, resumes: bool) -> list[str]:
    settings = [f"--set={setting}" for setting in SETTINGS]
    options = ["--recipe", "tiny-cpu", "--steps", str(steps), "--threads", "1", *settings]
    return [sys.executable, "-m", "bertie", "-q", "pretrain", str(corpus), "--out", str(out), *options] + (
        ["--resume"] if resumes else []
    )


def kill_at_work(process: subprocess.Popen[bytes], log: Path, most: int, rng: random.Random) -> bool:
    """Kill the process when its log has grown by up to so many lines, wherever it is by then; whether it was killed."""
    wanted = num_lines(log) + rng.randint(1, most)
    while num_lines(log) < wanted and process.poll() is None:
        time.sleep(0.002)
    time.sleep(rng.uniform(0.0, 0.1))
    process.kill()
    return process.wait() == -signal.SIGKILL


def num_lines(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def half_written(out: Path) -> set[str]:
    """What a kill in the middle of saving leaves, until the next save."""
    return {path.name for path in out.rglob(".*")} if out.exists() else set()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, num_kills, num_saving = random.Random(arguments.seed), 0, 0
    undisturbed, killed = arguments.out / "undisturbed", arguments.out / "killed"
    subprocess.run(command(arguments.corpus, undisturbed, arguments.steps, False), check=True)
    most = max(1, 5 * arguments.steps // (2 * arguments.kills))  # lines; a step is two, its own and the saving's
    while num_kills < arguments.kills:
        before = half_written(killed)
        process = subprocess.Popen(command(arguments.corpus, killed, arguments.steps, killed.exists()))
        if not kill_at_work(process, killed / "log.jsonl", most, rng):
            break
        num_kills += 1
        left = half_written(killed) - before
        num_saving += bool(left)
        print(f"kill {num_kills} after {num_lines(killed / 'log.jsonl')} lines {' '.join(sorted(left))}", flush=True)
    subprocess.run(command(arguments.corpus, killed, arguments.steps, True), check=True)
    names = ("model/model.safetensors", "model/config.json", "model/vocab.txt")
    differing = [name for name in names if (killed / name).read_bytes() != (undisturbed / name).read_bytes()]
    print(f"{num_kills} kills, {num_saving} of them in the middle of saving")
    print("DIFFERENT: " + ", ".join(differing) if differing else "the same bytes")
    return int(bool(differing) or num_kills < arguments.kills)


if __name__ == "__main__":
    sys.exit(main())
