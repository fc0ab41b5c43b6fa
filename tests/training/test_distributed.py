import subprocess
import sys

import pytest
import torch

from bertie.training.distributed import Ranks, bare, joined, spread
from bertie.training.runlog import read_log

NUM_STEPS = 12
TOLERANCE = 1e-5  # in weights of about 1 after 12 steps: sums in another order, and Muon's root of them


def difference(found, expected):
    """The largest, of all tensors of two saved states."""
    assert found.keys() == expected.keys()
    return max(difference_of(name, found, expected) for name in found)


def difference_of(name, found, expected):
    """Where one is not a number, the other must not be either."""
    assert torch.equal(found[name].isnan(), expected[name].isnan())
    return (found[name] - expected[name]).nan_to_num().abs().max().item()


def test_ranks_together_are_one_process(tmp_path, tiny, run_tiny):
    """The same run by one process, by several, and by ever fewer: weights, moments, the losses of all steps, dropout
    included. A batch that one rank alone draws is poisoned. One test, since the time goes into starting processes."""
    lines = [
        *(f"{tmp_path}/alone-{rule} 1 ddp {rule} {NUM_STEPS} 16" for rule in ("adamw", "lamb", "muon")),
        f"{tmp_path}/ddp-adamw 2 ddp adamw {NUM_STEPS} 16",
        *(f"{tmp_path}/fsdp-{rule} 2 fsdp {rule} {NUM_STEPS} 16" for rule in ("lamb", "muon")),
        f"{tmp_path}/fewer-adamw 4 fsdp adamw 5 16",
        f"{tmp_path}/fewer-adamw 2 ddp adamw 3 16",
        f"{tmp_path}/fewer-adamw 1 ddp adamw {NUM_STEPS} 16",
    ]
    run_tiny("ranks", *lines)
    for name in ("ddp-adamw", "fsdp-lamb", "fsdp-muon", "fewer-adamw"):
        expected = tiny.tensors(tmp_path / f"alone-{name.partition('-')[2]}", NUM_STEPS)
        assert difference(tiny.tensors(tmp_path / name, NUM_STEPS), expected) < TOLERANCE, name
    adamw, muon = (tiny.tensors(tmp_path / f"alone-{rule}", NUM_STEPS) for rule in ("adamw", "muon"))
    assert difference_of("weights/layers.0.0.weight", adamw, muon) > 100 * TOLERANCE

    # Batch 16 is the second of step 6: rank 1 drew it, and both skipped.
    logs = [read_log(tmp_path / "ddp-adamw" / f"log-{rank}.jsonl") for rank in (0, 1)]
    assert [event["event"] for event in logs[0]] == ["train"] * 5 + ["skip"] + ["train"] * 6 + ["evaluate", "save"]
    for one, other in zip(*logs, strict=True):
        assert {**one, "tokens_per_second": 0} == {**other, "tokens_per_second": 0}


# Each process leaves the group while one of its threads may still want Python's lock, which is not given up in between.
LEAVE = """
import sys, torch
from bertie.training.distributed import joined, spread

def train():
    with joined("cpu") as ranks:
        model = spread(torch.nn.Linear(4, 4), "ddp", ranks)
        model(torch.ones(2, 4)).sum().backward()
        for _ in range(200):
            ranks.agree([1.0])

sys.setswitchinterval(60)
train()
"""


def test_leaving_the_group_waits_for_nobody(tmp_path):
    (tmp_path / "leave.py").write_text(LEAVE)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*launcher, tmp_path / "leave.py"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_alone_nothing_is_sent(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined("cpu") as ranks:
        assert ranks == Ranks(torch.device("cpu"), 0, 1)
        assert ranks.agree([1.5, 2]) == [1.5, 2]
        values = torch.tensor([3.0])
        assert ranks.sum(values) is values
    model = torch.nn.Linear(2, 2)
    assert spread(model, "fsdp", ranks) is model
    assert bare(model) is model


def test_several_processes_on_mps_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="device mps cannot serve"), joined("mps"):
        pass
