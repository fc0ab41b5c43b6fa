import json
from contextlib import closing
from dataclasses import replace

import pytest
import torch

from bertie.training import runlog
from bertie.training.runlog import Reporter, RunLog, Speed, read_log


def test_a_log_is_cut_back_to_the_step_that_is_gone_on_from(tmp_path):
    path = tmp_path / "run" / "log.jsonl"
    with closing(RunLog(path)) as log:
        for step in (1, 2, 3):
            log.write({"event": "train", "step": step})
        log.write({"event": "save", "step": 3})
        log.write({"event": "train", "step": 4})
    with closing(RunLog(path, step=3)) as log:
        log.write({"event": "resume", "step": 3})
    assert [(event["event"], event["step"]) for event in read_log(path)] == [
        ("train", 1),
        ("train", 2),
        ("train", 3),
        ("save", 3),
        ("resume", 3),
    ]


def test_a_line_that_a_kill_cut_short_is_gone(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "train", "step": 1}\n{"event": "train", "st')
    assert len(read_log(path)) == 1
    with closing(RunLog(path, step=5)) as log:
        log.write({"event": "train", "step": 2})
    assert [event["step"] for event in read_log(path)] == [1, 2]


def test_each_event_can_be_read_at_once_and_is_json(tmp_path):
    path = tmp_path / "log.jsonl"
    with closing(RunLog(path)) as log:
        log.write({"event": "skip", "step": 1, "loss": float("nan"), "gradient_norm": float("inf"), "lr": 0.5})

        def refuse(constant):
            raise AssertionError(f"{constant} is not JSON")

        (line,) = path.read_text().splitlines()
        event = json.loads(line, parse_constant=refuse)
    assert event == {"event": "skip", "step": 1, "loss": None, "gradient_norm": None, "lr": 0.5}


def test_speed_is_of_the_last_twenty_steps():
    speed = Speed(0, 0.0)
    assert speed.lap(0, 0.0) == 0
    assert speed.lap(100, 1.0) == 100
    for step in range(20):
        rate = speed.lap(100 + 300 * (step + 1), 1.0 + step + 1)
    assert rate == pytest.approx(300)


def test_speed_begins_where_the_run_goes_on():
    assert Speed(5000, 60.0).lap(5100, 61.0) == 100


def test_speed_leaves_out_what_is_not_a_step():
    speed = Speed(0, 0.0)
    speed.restart(0, 50.0)
    assert speed.lap(100, 51.0) == 100


def figures(loss, num_skips=0):
    return {"loss": torch.tensor(loss), "gradient_norm": torch.tensor(1.0), "num_skips": torch.tensor(num_skips)}


def test_on_the_cpu_a_step_is_reported_at_once():
    events = []
    clock = iter([20.0, 22.0])
    reporter = Reporter(events.append, lambda: next(clock), max_skips=2, tokens=1000)
    reporter.hold({"step": 11, "tokens": 1100}, figures(0.5))
    reporter.report_held()
    expected = {"event": "train", "step": 11, "tokens": 1100, "loss": 0.5, "gradient_norm": 1.0}
    assert events == [{**expected, "tokens_per_second": 50.0}]


class Arrival:
    """Stands for a GPU's event: figures on their way until they are waited for."""

    num_waited = 0

    def synchronize(self):
        self.num_waited += 1


def test_on_a_gpu_a_step_is_reported_when_the_next_is_launched(monkeypatch):
    arrival = Arrival()
    here = runlog._send
    monkeypatch.setattr(runlog, "_send", lambda *sent: replace(here(*sent), arrival=arrival))
    events = []
    clock = iter([0.0, 2.0, 3.0])
    reporter = Reporter(events.append, lambda: next(clock), max_skips=2, tokens=0)
    reporter.hold({"step": 1, "tokens": 10}, figures(0.5))
    assert (events, arrival.num_waited) == ([], 0)
    reporter.hold({"step": 2, "tokens": 20}, figures(0.25))
    assert [event["step"] for event in events] == [1]
    reporter.report_held()
    reporter.report_held()
    assert [(event["step"], event["loss"]) for event in events] == [(1, 0.5), (2, 0.25)]
    assert [event["tokens_per_second"] for event in events] == [5.0, pytest.approx(20 / 3)]
    assert arrival.num_waited == 2


@pytest.mark.parametrize(("loss", "reason"), [(float("inf"), "not finite"), (50.0, "jumped")])
def test_skips_are_named_and_too_many_stop_the_run(loss, reason):
    events = []
    reporter = Reporter(events.append, lambda: 1.0, max_skips=2, tokens=0)
    reporter.hold({"step": 1, "tokens": 10}, figures(loss, num_skips=1))
    with pytest.raises(ValueError, match=f"2 steps in a row were skipped, up to step 2, because .*{reason}"):
        reporter.hold({"step": 2, "tokens": 20}, figures(loss, num_skips=2))
    assert [event["event"] for event in events] == ["skip", "skip"]
    assert reason in events[0]["reason"]
