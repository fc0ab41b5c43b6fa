"""Several runs of one order: each combination once, the best kept, collapsed ones repeated, none done twice."""

import json
import logging
import signal

import pytest

from bertie.cli import run
from bertie.tasks import sweep as sweeping
from bertie.tasks.best import Best, floor
from bertie.tasks.choose import Choose
from bertie.tasks.classify import Classify, Regress
from bertie.tasks.recipe import change, make_recipe
from bertie.tasks.run import Ending, Order, finetune
from bertie.tasks.sweep import PAPER, Sweep, name_of, settings_of, sweep
from bertie.tasks.tag import Tag
from bertie.tasks.task import Example
from bertie.training.run_folder import read_card, write_card

pytestmark = pytest.mark.usefixtures("one_thread")
SETTINGS = ("max_length=16", "epochs=2", "batch=8", "device=cpu", "dropout=0.0")
ROWS = "text,label\n" + "the cat sat,yes\nthe dog sat,no\nthe dog on mat,no\n" * 6


def quiet(event, share):
    assert 0 <= share <= 1


@pytest.fixture
def plan(model_folder, write, tmp_path):
    """Makes the plan of a sweep, runs of which take a moment."""
    data = write("a.csv", ROWS)

    def make(*grid, seeds=1, retries=0, resumes=False):
        base = change(make_recipe("stable", "classify"), "classify", SETTINGS)
        variants = {
            name_of(one): change(make_recipe("stable", "classify"), "classify", [*SETTINGS, *one])
            for one in settings_of(grid)
        }
        order = Order("classify", base[1], base[0], model_folder, data, tmp_path / "out", data, resumes=resumes)
        return Sweep(order, variants, seeds, retries)

    return make


def test_the_papers_grid():
    combinations = settings_of(["paper"])
    assert len(combinations) == 18
    assert combinations[0] == ("batch=16", "lr=5e-5", "epochs=2")
    assert settings_of([]) == [()]
    assert settings_of(PAPER) == combinations
    lists = settings_of(['lora_matrices=["query","value"],["query"]', "lora_rank=4"])
    assert lists == [('lora_matrices=["query","value"]', "lora_rank=4"), ('lora_matrices=["query"]', "lora_rank=4")]
    assert name_of(lists[0]) == "lora_matrices-queryvalue_lora_rank-4"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (["lr"], "give a key and its values"),
        (["lr="], "give a key and its values"),
        (["lr=1,1"], "each of its values once"),
        (["lr=1", "lr=2"], "each key"),
        (["seed=1,2"], "--seeds N"),
    ],
)
def test_grids_that_are_refused(grid, message):
    with pytest.raises(ValueError, match=message):
        settings_of(grid)


def test_every_combination_and_seed_runs_once(plan):
    swept = sweep(plan("lr=1e-3,3e-3", "batch=9", seeds=2), quiet)
    out = plan().order.out
    card = read_card(out)
    assert [one["folder"] for one in card["runs"]] == [
        f"lr-{lr}_batch-9/seed-{seed}" for lr in ("1e-3", "3e-3") for seed in (0, 1)
    ]
    for one in card["runs"]:
        assert read_card(out / one["folder"])["scores"] == one["scores"]
    scores = [one["scores"]["accuracy"] for one in card["runs"]]
    assert swept.best.score == max(scores) == swept.ending.scores["accuracy"]
    by_setting = {one.setting: one for one in swept.summaries}
    assert by_setting["lr-1e-3_batch-9"].each == tuple(scores[:2])
    assert by_setting["lr-1e-3_batch-9"].mean == pytest.approx(sum(scores[:2]) / 2)
    assert swept.summaries[0].mean >= swept.summaries[1].mean
    kept = (out / swept.best.folder / "model" / "model.safetensors").read_bytes()
    assert (out / "model" / "model.safetensors").read_bytes() == kept
    recipes = [(out / one["folder"] / "recipe.toml").read_text() for one in card["runs"]]
    assert "lr = 0.001" in recipes[0] and "lr = 0.003" in recipes[2] and "batch = 9" in recipes[0]


def test_a_killed_sweep_goes_on_where_it_was(plan, monkeypatch):
    begun = []

    def counting(order, watch):
        begun.append(order.out.name)

        def stop(event, share):
            if len(begun) == 2 and event["event"] == "train" and event["step"] == 2:
                signal.raise_signal(signal.SIGTERM)

        return finetune(order, stop)

    monkeypatch.setattr(sweeping, "finetune", counting)
    assert sweep(plan(seeds=3), quiet).ending.outcome == "stopped"
    assert begun == ["seed-0", "seed-1"]
    finished = sweep(plan(seeds=3, resumes=True), quiet)
    assert begun == ["seed-0", "seed-1", "seed-1", "seed-2"]
    assert len(finished.summaries[0].each) == 3
    again = sweep(plan(seeds=3, resumes=True), quiet)
    assert again.summaries == finished.summaries
    assert len(begun) == 4
    sweep(plan(seeds=4, resumes=True), quiet)
    assert begun[4:] == ["seed-3"]
    data = plan().order.data
    data.write_text(ROWS + "who,no\n")
    with pytest.raises(ValueError, match="learned from other examples"):
        sweep(plan(seeds=4, resumes=True), quiet)


def test_who_asks_for_the_end_as_a_run_finishes_ends_the_sweep(plan, monkeypatch):
    begun = []

    def asked_at_the_last_save(order, watch):
        begun.append(order.out.name)
        return finetune(order, ask)

    def ask(event, share):
        if event["event"] == "save" and share == 1:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(sweeping, "finetune", asked_at_the_last_save)
    ending = sweep(plan(seeds=3), quiet).ending
    assert (ending.outcome, ending.signal, begun) == ("stopped", signal.SIGTERM, ["seed-0"])


def test_a_finished_run_of_another_recipe_is_not_taken_for_this_one(plan):
    sweep(plan("lr=1e-3"), quiet)
    other = plan("lr=1e-3", resumes=True)
    recipe, task = other.variants["lr-1e-3"]
    other.variants["lr-1e-3"] = (change(recipe, "classify", ["clip=2.0"])[0], task)
    with pytest.raises(ValueError, match=r"run.clip was 1.0, is 2.0"):
        sweep(other, quiet)


def test_collapsed_runs_are_named_and_repeated(plan, monkeypatch, caplog):
    caplog.set_level("INFO")
    tried = []

    def pretend(order, watch):
        """The first two seeds come to nothing."""
        tried.append(order.recipe.seed)
        order.out.mkdir(parents=True)
        (order.out / "model").mkdir()
        is_collapsed = order.recipe.seed < 2
        scores = {"accuracy": 0.5 if is_collapsed else 0.8 + order.recipe.seed / 100}
        write_card(order.out, {"score": "accuracy", "scores": scores, "collapsed": is_collapsed})
        return Ending("finished", scores)

    monkeypatch.setattr(sweeping, "finetune", pretend)
    swept = sweep(plan(seeds=2, retries=2), quiet)
    assert tried == [0, 2, 1, 4]
    (summary,) = swept.summaries
    assert summary.each == pytest.approx((0.82, 0.84))
    assert summary.collapsed == 2
    assert "It is repeated as seed-2." in caplog.text
    assert "2 of 4 runs collapsed: seed-0, seed-1." in caplog.text
    runs = read_card(plan().order.out)["runs"]
    assert [one["was_repeated"] for one in runs] == [True, False, True, False]


def test_nothing_to_compare_by(plan):
    done = plan("held_out=0", seeds=2)
    order = done.order
    with pytest.raises(ValueError, match="something must be held out"):
        sweep(
            Sweep(Order(order.name, order.task, order.recipe, order.model, order.data, order.out), done.variants), quiet
        )
    assert not order.out.exists()


def test_what_one_answer_for_everything_scores():
    classes = [Example(label=label) for label in ("a", "a", "b")]
    assert floor(Classify(labels=("a", "b")), classes) == pytest.approx(2 / 3)
    assert floor(Classify(labels=("a", "b"), metrics=("matthews",)), classes) == 0
    assert floor(Classify(labels=("a", "b")), classes[:2]) is None
    several = [Example(labels=labels) for labels in (("a", "b"), ("b", "a"), ("b",), ())]
    assert floor(Classify(labels=("a", "b"), several=True), several) == pytest.approx(2 * 5 / (8 + 5))
    assert floor(Regress(), [Example(number=1.0), Example(number=2.0)]) == 0
    assert floor(Choose(), [Example(endings=("a", "b"), right=one) for one in (0, 1, 1)]) == pytest.approx(2 / 3)
    tagged = [Example(words=("a", "b"), labels=("O", "B-X")), Example(words=("a",), labels=("O",))]
    assert floor(Tag(labels=("O", "B-X")), tagged) == 0
    best = Best("accuracy", 0.5)
    best.add({"accuracy": 0.5})
    assert best.is_collapsed
    best.add({"accuracy": 0.6})
    assert not best.is_collapsed


def test_the_command_prints_a_table(write, model_folder, tmp_path, capsys):
    data = write("a.csv", ROWS)
    common = ["finetune", "classify", str(data), "--dev", str(data), "--model", str(model_folder)]
    common += [part for one in SETTINGS for part in ("--set", one)]
    assert run([*common, "--out", str(tmp_path / "run"), "--grid", "lr=1e-3,1e-9", "--seeds", "2", "--retry", "0"]) == 0
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0].split() == ["accuracy", "mean", "deviation", "best", "worst", "runs", "collapsed"]
    assert {line.split()[0] for line in lines[2:]} == {"lr-1e-3", "lr-1e-9"}
    assert "holds the best model" in said.err
    assert json.loads((tmp_path / "run" / "card.json").read_text())["kind"] == "finetune"
    assert run(["evaluate", str(tmp_path / "run"), str(data), "--device", "cpu"]) == 0
    assert run([*common, "--out", str(tmp_path / "other"), "--grid", "lr"]) == 2
    assert "give a key and its values" in capsys.readouterr().err
    assert run([*common, "--out", str(tmp_path / "other"), "--grid", "rate=1,2"]) == 2
    assert "bertie: rate=1: unknown key 'rate'" in capsys.readouterr().err


def test_what_runs_share_is_said_once(plan, caplog):
    with caplog.at_level("INFO"):
        sweep(plan("lr=1e-3,3e-3", seeds=2), quiet)
        num_runs = sum(message.startswith("Run ") for message in caplog.messages)
        assert num_runs > 1 and sum("made new, to be trained" in message for message in caplog.messages) == 1
        caplog.clear()
        logging.getLogger("bertie.tasks").info("again")
        logging.getLogger("bertie.tasks").info("again")
    assert caplog.messages == ["again", "again"]


@pytest.mark.parametrize(
    ("said", "grid"),
    [
        (["--grid", "--seeds", "2"], ("paper",)),
        (["--grid", "lr=1,2", "--grid", "batch=4"], ("lr=1,2", "batch=4")),
        (["--seeds", "2", "--grid"], ("paper",)),
        ([], ()),
    ],
)
def test_a_grid_alone_is_the_papers(said, grid):
    from bertie.commands.tasks import finetune as command

    arguments = ["rte", "data", "--model", "a", "--out", "b", *said]
    assert command.make_context("finetune", arguments).params["grid"] == grid
