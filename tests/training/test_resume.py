import errno
import json
import logging
import resource
from dataclasses import replace

import pytest
import torch

from bertie.training.loop import Budget, State
from bertie.training.optimizers import OptimizerConfig, make_optimizers
from bertie.training.resume import load_state, save_state, saved_states
from bertie.training.runlog import read_log

RULES = ["adam_weight_decay", "adamw", "lamb", "muon"]


def data(folder, step):
    return (folder / "state" / f"step-{step}" / "state.safetensors").read_bytes()


def logged(folder):
    """What is in the log and does not depend on the clock."""
    events = read_log(folder / "log-0.jsonl")
    return [{**event, "seconds": 0, "tokens_per_second": 0} for event in events]


@pytest.mark.parametrize("rule", RULES)
def test_stopped_and_gone_on_is_never_stopped(tiny, tmp_path, rule):
    tiny.train(tmp_path / "undisturbed", rule=rule)
    outcomes = [tiny.train(tmp_path / "stopped", rule=rule, stop=tiny.stop_after(steps))[0] for steps in (3, 4, 100)]
    assert outcomes == ["stopped", "stopped", "finished"]
    assert data(tmp_path / "stopped", 12) == data(tmp_path / "undisturbed", 12)
    train_events = [event for event in logged(tmp_path / "stopped") if event["event"] == "train"]
    assert train_events == [event for event in logged(tmp_path / "undisturbed") if event["event"] == "train"]


def test_tokens_as_budget_resume_too(tiny, tmp_path):
    config = replace(tiny.CONFIG, budget=Budget(200, "tokens"))
    _, _, state = tiny.train(tmp_path / "undisturbed", config)
    tiny.train(tmp_path / "stopped", config, stop=tiny.stop_after(3))
    tiny.train(tmp_path / "stopped", config)
    assert data(tmp_path / "stopped", state.step) == data(tmp_path / "undisturbed", state.step)


def test_killed_and_gone_on_is_never_killed(tiny, tmp_path, run_tiny):
    """SIGKILL at random moments of a run that saves at every step: while it saves, more often than not."""
    endings = run_tiny("kill", tmp_path / "undisturbed", tmp_path / "killed", 5, 12).split()
    assert endings.count("killed") >= 5  # all twelve, unless the machine was busy while the other run was timed
    assert set(endings) == {"killed", "ended"}
    assert data(tmp_path / "killed", 40) == data(tmp_path / "undisturbed", 40)
    steps = [event["step"] for event in logged(tmp_path / "killed") if event["event"] == "train"]
    assert steps == list(range(1, 41))


def test_a_finished_run_is_left_as_it_is(tiny, tmp_path):
    tiny.train(tmp_path)
    before = logged(tmp_path)
    assert tiny.train(tmp_path)[0] == "finished"
    assert logged(tmp_path) == before


def test_the_last_ones_are_kept(tiny, tmp_path):
    tiny.train(tmp_path)
    assert [path.name for path in saved_states(tmp_path / "state")] == ["step-12", "step-8"]
    assert len(list((tmp_path / "state").iterdir())) == 2  # nothing hidden is left over


def test_what_a_kill_left_is_removed_by_the_next_save(tiny, tmp_path):
    """Half a state of a step that is never saved again, and states that were on their way out."""
    for name in (".step-5.partial", ".step-4.old", ".step-1.old"):
        (tmp_path / "state" / name).mkdir(parents=True)
        (tmp_path / "state" / name / "state.safetensors").write_bytes(b"half")
    tiny.train(tmp_path)  # saves step 4, which is on its way out again after step 12
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["step-12", "step-8"]


def flip(path, position):
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", ["flip", "cut", "seal", "missing", "unsealed"])
def test_a_damaged_state_is_passed_over(tiny, tmp_path, caplog, damage):
    tiny.train(tmp_path)
    newest = tmp_path / "state" / "step-12"
    weights = newest / "state.safetensors"
    match damage:
        case "flip":
            flip(weights, weights.stat().st_size // 2)
        case "cut":
            weights.write_bytes(weights.read_bytes()[:-1])
        case "seal":
            flip(newest / "state.json", 40)
        case "missing":
            weights.unlink()
        case "unsealed":
            (newest / "state.json").unlink()
    state = State([])
    model = tiny.Tiny()
    state.optimizers = make_optimizers(model, OptimizerConfig(lr=0.01))
    with caplog.at_level(logging.WARNING):
        assert load_state(tmp_path / "state", model, state, tiny.CPU)
    assert state.step == 8
    assert torch.equal(model.words.weight, tiny.tensors(tmp_path, 8)["weights/words.weight"])
    assert "The state saved before it is taken instead" in caplog.text
    assert "step-12" in caplog.text

    flip(tmp_path / "state" / "step-8" / "state.safetensors", 200)
    with pytest.raises(ValueError, match=r"None of the states saved in .* is whole"):
        load_state(tmp_path / "state", model, state, tiny.CPU)


def test_nothing_saved_is_said(tiny, tmp_path):
    assert load_state(tmp_path / "state", tiny.Tiny(), State([]), tiny.CPU) is False


def test_the_state_of_another_model_is_refused(tiny, tmp_path):
    tiny.train(tmp_path)
    other = torch.nn.Linear(3, 3)
    with pytest.raises(ValueError, match="is of another model"):
        load_state(tmp_path / "state", other, State(make_optimizers(other, OptimizerConfig(lr=0.1))), tiny.CPU)


def test_the_state_of_another_optimizer_is_refused(tiny, tmp_path):
    tiny.train(tmp_path, rule="muon")
    with pytest.raises(ValueError, match=r"is of another optimizer: it remembers Muon/layers"):
        tiny.train(tmp_path, rule="adamw")


def test_a_full_disk_leaves_the_last_good_state(tiny, tmp_path):
    _, model, state = tiny.train(tmp_path)
    before = data(tmp_path, 12)
    state.step = 13
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # no file may be longer: writing fails as on a full disk
    try:
        with pytest.raises(ValueError, match=r"step-13 cannot be written: .*The last good state is step-12: make room"):
            save_state(tmp_path / "state", model, state, tiny.CPU, keep=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert [path.name for path in (tmp_path / "state").iterdir() if path.name != "step-8"] == ["step-12"]
    assert data(tmp_path, 12) == before


def test_no_room_for_the_seal_either(tiny, tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bertie.training.resume.seal", fail)
    with pytest.raises(ValueError, match=r"No space left on device. No state was saved before"):
        tiny.train(tmp_path)
    assert list((tmp_path / "state").iterdir()) == []


def test_ranks_that_see_different_states_are_refused(tiny, tmp_path, monkeypatch):
    tiny.train(tmp_path)
    monkeypatch.setattr("bertie.training.distributed.Ranks.agree", lambda self, numbers: [numbers[0] - 4])
    with pytest.raises(ValueError, match="on a disk that they all share"):
        tiny.train(tmp_path)


def test_the_seal_is_readable_json(tiny, tmp_path):
    _, _, state = tiny.train(tmp_path)
    seal = json.loads((tmp_path / "state" / "step-12" / "state.json").read_text())
    assert (seal["step"], seal["batches"], seal["tokens"]) == (12, 24, state.tokens)
