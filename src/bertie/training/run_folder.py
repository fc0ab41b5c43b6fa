"""The run folder: begun once, gone on with by the same recipe alone, and a card of what the run is and came to."""

import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from bertie.sealed import lock, write_file
from bertie.training.distributed import Ranks
from bertie.version import __version__

RECIPE, CARD, LOG, STATES, MODEL = "recipe.toml", "card.json", "log.jsonl", "state", "model"


@contextmanager
def begin(folder: Path, recipe: str, resumes: bool, allows_changes: bool, ranks: Ranks) -> Iterator[None]:
    """Make the folder with its recipe; ValueError if it is there and not to be gone on with, or was begun by another
    recipe, which is said key by key. A run that failed before its first step, as for want of memory, counts as none.

    In the block no other process can begin or go on with this run: one that tries has changed nothing.
    """
    if folder.is_file():
        raise ValueError(f"{folder} exists, a file: give --out another name.")
    with _locked(folder, ranks):
        is_there = ranks.agree([_has_begun(folder)])[0] > 0  # asked of all ranks before the first one writes
        if is_there and not resumes:
            raise ValueError(f"{folder} exists: give --out another name, or go on with that run by --resume.")
        path = folder / RECIPE
        if is_there and not path.is_file():
            raise ValueError(f"{folder} is no run that could be gone on with: it has no {RECIPE}.")
        changed = differences(path.read_text(encoding="utf-8"), recipe) if is_there else []
        if changed and not allows_changes:
            raise ValueError(
                f"{folder} was begun with another recipe ({'; '.join(changed)}): repeat the command it was begun with, "
                "or say --allow-changes."
            )
        if ranks.rank == 0:
            write_file(path, recipe.encode())
            if not is_there:
                (folder / CARD).unlink(missing_ok=True)
        ranks.agree([0])  # no rank reads a card that is on its way out
        yield


@contextmanager
def _locked(folder: Path, ranks: Ranks) -> Iterator[None]:
    """The folder, made if need be, held by the first rank, whose lock goes with its process; ValueError on all ranks
    if another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        is_taken = False
        if ranks.rank == 0:
            try:
                lock(handle)
            except BlockingIOError:
                is_taken = True
        if ranks.agree([is_taken])[0]:
            raise ValueError(f"{folder} is being trained by another process: wait for it to end, or stop it.")
        yield
    finally:
        os.close(handle)


def _has_begun(folder: Path) -> bool:
    """Whether anything is there but what a run writes before its first step, or what a kill left of its writing."""
    names = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    is_only_prepared = CARD in names and names <= {RECIPE, CARD, LOG}
    return bool(names) and not (is_only_prepared and (LOG not in names or not (folder / LOG).stat().st_size))


def differences(before: str, now: str) -> list[str]:
    """What differs between two TOML files, a phrase for each key."""
    values = [dict(_named_lines(text)) for text in (before, now)]
    changed = sorted({key for side in values for key in side if values[0].get(key) != values[1].get(key)})
    return [f"{key} was {values[0].get(key, 'none')}, is {values[1].get(key, 'none')}" for key in changed]


def read_card(folder: Path, name: str = CARD) -> dict[str, object]:
    """The run's card, or a corpus's; empty where none was written yet."""
    path = folder / name
    card = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    assert isinstance(card, dict)
    return card


def write_card(folder: Path, card: Mapping[str, object]) -> None:
    write_file(folder / CARD, (json.dumps(card, indent=1, ensure_ascii=False) + "\n").encode())


def made_with(device: torch.device) -> dict[str, object]:
    """The versions, the commit and the device that a run is made with, for its card."""
    is_gpu = device.type == "cuda"
    return {
        "versions": {"bertie": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "commit": _commit(),
        "threads": torch.get_num_threads(),
        "gpu": is_gpu,
        "device": torch.cuda.get_device_name(device) if is_gpu else platform.processor() or platform.machine(),
    }


def peak_memory(device: torch.device) -> int:
    """The most bytes that this process has held so far: of the GPU it trains on, else of the machine."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    kilobyte = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss is the system's
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kilobyte


def _commit() -> str | None:
    """The commit of the clone that this code runs from, and whether it was changed since; None outside of one."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty=, changed", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # no git here
        return None
    return done.stdout.strip() or None


def _named_lines(toml: str) -> Iterator[tuple[str, str]]:
    table = ""
    for line in toml.splitlines():
        if line.startswith("["):
            table = line.strip("[]") + "."
        elif line:
            key, _, value = line.partition(" = ")
            yield table + key, value
