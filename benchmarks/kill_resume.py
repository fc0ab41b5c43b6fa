"""Claim: a pre-training run killed at any moments, saving included, and gone on with ends with the undisturbed weights.

Runs `bertie pretrain` undisturbed, then again while it is killed by SIGKILL at random moments and repeated with
--resume, as often as --kills says; the bytes of both models are compared. The run saves at every step, so that many
kills hit the saving. Exit code 1 if a byte differs.

    python benchmarks/kill_resume.py CORPUS OUT --kills 50
"""

import argparse
import random
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng, num_kills, endings = random.Random(arguments.seed), 0, []
    begun = time.monotonic()
    undisturbed, killed = arguments.out / "undisturbed", arguments.out / "killed"
    subprocess.run(command(arguments.corpus, undisturbed, arguments.steps, False), check=True)
    usual = time.monotonic() - begun
    begun = time.monotonic()
    subprocess.run(command(arguments.corpus, undisturbed, arguments.steps, True), check=True)  # opens all, trains none
    start = time.monotonic() - begun
    while True:
        process = subprocess.Popen(command(arguments.corpus, killed, arguments.steps, killed.exists()))
        left = arguments.kills - num_kills
        patience = rng.uniform(0.5 * start, start + usual / arguments.kills) if left else None
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            num_kills += 1
            states = sorted(path.name for path in (killed / "state").glob("*")) if killed.exists() else []
            endings.append(any(name.startswith(".") for name in states))
            print(f"kill {num_kills} after {patience:.1f} s; saved: {', '.join(states) or 'nothing'}", flush=True)
            continue
        if code:
            print(f"the run ended with code {code}")
            return 1
        break
    names = ("model/model.safetensors", "model/config.json", "model/vocab.txt")
    differing = [name for name in names if (killed / name).read_bytes() != (undisturbed / name).read_bytes()]
    print(f"{num_kills} kills, {sum(endings)} of them while a state was being written; undisturbed: {usual:.0f} s")
    print("DIFFERENT: " + ", ".join(differing) if differing else "the same bytes")
    return int(bool(differing) or num_kills < arguments.kills)


if __name__ == "__main__":
    sys.exit(main())
