import json
import subprocess
import sys
from dataclasses import replace

import pytest

from bertie.pretraining.plan import Needs, Plan, _extrapolate, plan
from bertie.pretraining.recipe import change, read_recipe, with_budget
from bertie.training.loop import Budget

SMALL = ("preset=bert-L4-H128", "max_length=32", "batch=8", "threads=1", "validation_sequences=16")
TEN_STEPS = Budget(10)


def recipe(*settings, budget=TEN_STEPS):
    return with_budget(change(read_recipe("tiny-cpu"), [*SMALL, *settings]), budget)


def quiet(done, total):
    pass


def test_a_layer_more_needs_what_the_second_one_did():
    assert _extrapolate(Needs(10.0, 1.0), Needs(14.0, 1.5), 12) == Needs(54.0, 6.5)
    assert _extrapolate(Needs(10.0, 1.0), Needs(9.0, 0.5), 12) == Needs(10.0, 1.0)  # noise


def test_what_is_measured_is_what_is_predicted_and_what_a_run_takes(corpus_folder, tmp_path):
    """Memory and tokens; times are no test's business."""
    settings = [f"--set={setting}" for setting in (*SMALL, "batches_per_step=2")]
    bertie = [sys.executable, "-m", "bertie", "-q"]
    command = [*bertie, "plan", str(corpus_folder), *settings, "--steps", "10", "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert found["predicted"]["memory"] == pytest.approx(found["measured"]["memory"], rel=0.25)
    assert found["seconds"] == pytest.approx(10 * found["measured"]["seconds"])
    run = [*bertie, "pretrain", str(corpus_folder), *settings, "--steps", "10", "--out", str(tmp_path / "run")]
    subprocess.run(run, check=True)
    card = json.loads((tmp_path / "run" / "card.json").read_text(encoding="utf-8"))
    assert found["predicted"]["memory"] == pytest.approx(card["peak_memory"], rel=0.25)
    assert found["num_tokens"] == pytest.approx(card["tokens"] / 10, rel=0.1)
    assert found["num_parameters"] == card["parameters"]


def test_a_plan_counts_both_phases(corpus_folder):
    told = []
    short, long = (plan(recipe(f"max_length={length}"), corpus_folder, False, quiet) for length in (16, 48))
    both = plan(
        recipe("max_length=16", "long_length=48", "long_share=0.25"),
        corpus_folder,
        False,
        lambda done, total: told.append((done, total)),
    )
    assert both.num_tokens == pytest.approx(0.75 * short.num_tokens + 0.25 * long.num_tokens)
    assert short.num_tokens < both.num_tokens < long.num_tokens
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_every_budget_is_a_number_of_steps(corpus_folder):
    def steps(budget, *settings):
        found = plan(recipe(*settings, budget=budget), corpus_folder, False, quiet)
        assert found.measured is None
        return found.num_steps, found

    assert steps(Budget(7))[0] == 7
    num_steps, found = steps(Budget(50_000, "tokens"))
    assert num_steps * found.num_tokens == pytest.approx(50_000)
    num_steps, found = steps(Budget(2, "minutes"))
    assert num_steps * found.predicted.seconds == pytest.approx(120)
    assert found.seconds == pytest.approx(120)


def test_the_best_figure_known_says_how_long_it_takes():
    made = Plan(Needs(1, 2.0), None, 1, 1.0, 10)
    assert made.seconds == 20
    assert replace(made, measured=Needs(1, 3.0)).seconds == 30


def test_what_cannot_be_planned_is_refused(corpus_folder):
    with pytest.raises(ValueError, match="sequences of 600 tokens, the model 512 positions"):
        plan(recipe("max_length=600"), corpus_folder, False, quiet)
