import json
from pathlib import Path

import numpy as np

from bertie.report.runs import figure, read_log, read_object


def written(folder: Path, *lines: str) -> Path:
    (folder / "log.jsonl").write_text("".join(lines))
    return folder / "log.jsonl"


def test_a_figure_that_comes_late_or_is_none_leaves_a_gap(tmp_path: Path) -> None:
    events = [
        {"event": "train", "step": 1, "loss": 3.0},
        {"event": "evaluate", "step": 1, "validation_loss": 2.5},
        {"event": "train", "step": 2, "loss": None, "lr": 0.1, "words": "three"},
        {"event": "end", "step": 2},
    ]
    log = read_log(written(tmp_path, *(json.dumps(one) + "\n" for one in events)))
    assert log and log.is_ended and log.bad == [] and log.last_step == 2
    assert set(log.steps) == {"step", "loss", "lr"}
    np.testing.assert_array_equal(log.steps["loss"], [3.0, np.nan])
    np.testing.assert_array_equal(log.steps["lr"], [np.nan, 0.1])
    assert log.evaluations["validation_loss"].tolist() == [2.5]


def test_numbers_that_no_float_holds_are_no_numbers(tmp_path: Path) -> None:
    huge = "9" * 400
    lines = [f'{{"event": "train", "step": {step}, "loss": {huge}}}\n' for step in ("1", huge, "1e999", "true")]
    log = read_log(written(tmp_path, *lines))
    assert log and log.bad == [2, 3, 4] and "loss" not in log.steps
    assert figure({"a": {"b": int(huge)}}, "a", "b") is None


def test_a_last_line_that_is_being_written_is_not_broken(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, '{"event": "train", "step": 1, "loss": 1}\n', '{"event": "tra'))
    assert log and log.bad == [] and log.steps["step"].tolist() == [1]


def test_no_log_and_no_object_are_none(tmp_path: Path) -> None:
    assert read_log(tmp_path / "log.jsonl") is None
    (tmp_path / "card.json").write_bytes(b"\xff[" * 9)
    assert read_object(tmp_path / "card.json") is None and read_object(tmp_path / "none.json") is None
