import json
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bertie.report.curves import curves, smooth, thin
from bertie.report.page import Section
from bertie.report.runs import read_runs
from bertie.report.words import Words
from tests.report.conftest import MakeRun


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=500), st.integers(10, 50))
def test_thinning_keeps_the_ends_and_every_extreme(values: list[float], limit: int) -> None:
    y = np.array(values)
    kept = thin(y, limit)
    assert len(kept) <= limit + 2 and (np.diff(kept) > 0).all()
    assert {0, len(y) - 1} <= set(kept.tolist())
    assert y[kept].max() == y.max() and y[kept].min() == y.min()


def test_smoothing_is_the_mean_of_what_lies_around() -> None:
    assert smooth(np.array([0.0, 3.0, 6.0, 3.0]), 3).tolist() == [1.5, 3.0, 4.0, 4.5]
    assert smooth(np.array([1.0, 2.0]), 1).tolist() == [1.0, 2.0]


def test_a_hundred_thousand_steps_stay_small_and_keep_their_jump(make_run: MakeRun) -> None:
    folder = make_run(steps=100_000)
    lines = (folder / "log.jsonl").read_text().splitlines(keepends=True)
    lines[54_320] = lines[54_320].replace('"masked_loss": ', '"masked_loss": 9')
    (folder / "log.jsonl").write_text("".join(lines))
    section = curves("pre", "Pre-training", read_runs([folder], Words("en")), Words("en"))
    assert section and isinstance(section.data, dict)
    loss = section.data["panels"][0]
    (each,) = (line for line in loss["lines"] if line["role"] == "each")
    assert len(each["x"]) < 10_000 and 54_321 in each["x"] and max(each["y"]) > 90
    assert "goes from 8.871 to 6.214" in section.alternative and "100,000 steps" in section.alternative


def test_skipped_steps_are_told(make_run: MakeRun) -> None:
    folder = make_run()
    with (folder / "log.jsonl").open("a") as file:
        for step in (1200, 1300):
            file.write(json.dumps({"event": "skip", "step": step, "reason": "the loss jumped"}) + "\n")
    section = curves("pre", "Pre-training", read_runs([folder], Words("en")), Words("en"))
    assert section and section.text == ["my-run: 2 steps were skipped, the first is step 1200: the loss jumped."]


def test_nothing_logged_gives_no_section(make_run: MakeRun) -> None:
    folder = make_run()
    (folder / "log.jsonl").write_text("")
    assert curves("pre", "Pre-training", read_runs([folder], Words("en")), Words("en")) is None


def test_panels_hold_each_run_s_lines(make_run: MakeRun, tmp_path: Path) -> None:
    runs = read_runs([make_run("one"), make_run("two", steps=30)], Words("en"))
    section = curves("pre", "Pre-training", runs, Words("en"))
    assert section and isinstance(section.data, dict) and section.table
    titles = [panel["title"] for panel in section.data["panels"]]
    assert titles[:2] == ["Masked-word loss", "Masked-word accuracy"] and "Learning rate" in titles
    roles = [(line["run"], line["role"]) for line in section.data["panels"][0]["lines"]]
    assert roles == [(0, "each"), (0, "mean"), (0, "held"), (1, "mean"), (1, "held")]
    assert section.table.rows[0][-1] == "6.5"


def finetuning(words: Words, *folders: Path) -> Section:
    runs = [one for run in read_runs(folders, words) for one in (run.each or [run])]
    section = curves("fine", "Fine-tuning", runs, words)
    assert section and isinstance(section.data, dict)
    return section


def test_seeds_have_a_colour_each_unless_settings_are_compared(make_finetuned: MakeRun) -> None:
    one, other = make_finetuned("one", (0.7, 0.8)), make_finetuned("other", (0.6, 0.9))
    alone, beside = finetuning(Words("en"), one), finetuning(Words("en"), one, other)
    assert [run["group"] for run in alone.data["runs"]] == ["one/seed-0", "one/seed-1"]
    assert [run["group"] for run in beside.data["runs"]] == ["one", "one", "other", "other"]


def test_the_words_below_say_the_score_and_not_the_learning_rate(make_finetuned: MakeRun) -> None:
    folders = [make_finetuned(f"run-{number}", (score,)) for number, score in enumerate((0.5, 0.6, 0.7, 0.8))]
    few, many = finetuning(Words("en"), folders[0]), finetuning(Words("zh"), *folders)
    assert "run-0: Accuracy on held-out text comes to 0.5." in few.alternative and "Loss" in few.alternative
    assert "rate" not in few.alternative
    assert "run-3：留出文本上的准确率达到 0.8。" in many.alternative and "损失" not in many.alternative
    assert [panel["title"] for panel in few.data["panels"]][-1] == "Accuracy"
