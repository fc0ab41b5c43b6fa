import errno
import importlib.util
import json
import logging
import math
import os
import random
import shutil
import signal
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from bertie.cli import run as run_command
from bertie.corpus.shards import open_corpus
from bertie.model.encoder import pack
from bertie.model.folder import load
from bertie.pretraining import run
from bertie.pretraining.drawing import validation_batches
from bertie.pretraining.evaluation import evaluate_folder
from bertie.pretraining.recipe import change, model_config, read_recipe, recipe_names, with_budget
from bertie.pretraining.run import Order, choose_attention, make_model, pretrain
from bertie.text.wordpiece import Tokenizer
from bertie.training.loop import Budget
from bertie.training.runlog import read_log

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL = (
    "preset=bert-L2-H128",
    "max_length=32",
    "batch=16",
    "lr=3e-3",
    "warmup=0.1",
    "save_every=10",
    "evaluate_every=10",
    "threads=1",
)


def recipe(steps=20, *settings):
    return with_budget(change(read_recipe("tiny-cpu"), [*SMALL, *settings]), Budget(steps))


def train(corpus, out, *settings, steps=20, watch=lambda event, share: None, **named):
    return pretrain(Order(recipe(steps, *settings), corpus, out, **named), watch)


def weights(out):
    return (out / "model" / "model.safetensors").read_bytes()


def steps_of(out):
    return [
        {**event, "seconds": 0, "tokens_per_second": 0}
        for event in read_log(out / "log.jsonl")
        if event["event"] == "train"
    ]


@pytest.fixture(scope="module")
def finished(corpus_folder, tmp_path_factory):
    """A run of 20 steps."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert train(corpus_folder, out).outcome == "finished"
    return out


def test_the_run_folder_has_what_it_should(finished, corpus_folder):
    assert {path.name for path in finished.iterdir()} == {"recipe.toml", "log.jsonl", "card.json", "state", "model"}
    assert [path.name for path in sorted((finished / "state").iterdir())] == ["step-10", "step-20"]
    assert read_recipe(str(finished / "recipe.toml")) == recipe()
    events = read_log(finished / "log.jsonl")
    assert [event["event"] for event in events].count("train") == 20
    assert events[-1]["event"] == "end"
    keys = {
        "event",
        "step",
        "tokens",
        "seconds",
        "loss",
        "masked_loss",
        "masked_accuracy",
        "pair_loss",
        "pair_accuracy",
    }
    assert events[0].keys() == keys | {"lr", "gradient_norm", "tokens_per_second"}
    card = json.loads((finished / "card.json").read_text())
    assert card["steps"] == 20
    assert card["tokens"] == events[-1]["tokens"] > 0
    assert card["validation_masked_loss"] > 0
    assert card["peak_memory"] > 10_000_000
    assert card["text"]["counts"] == card["corpus"]["counts"]
    assert Tokenizer.load(finished / "model").fingerprint == Tokenizer.load(corpus_folder).fingerprint


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(finished, corpus_folder, tmp_path):
    train(corpus_folder, tmp_path / "again")
    assert weights(tmp_path / "again") == weights(finished)
    train(corpus_folder, tmp_path / "other", "seed=1")
    assert weights(tmp_path / "other") != weights(finished)


def test_transformers_opens_the_model_and_fills_masks_alike(finished):
    from transformers import AutoModelForPreTraining

    theirs = AutoModelForPreTraining.from_pretrained(finished / "model").eval()
    ours = load(finished / "model")
    from bertie.model.encoder import pack

    ids = [2, 7, 9, 4, 12, 3]
    batch = replace(pack([ids]), masked_M=torch.tensor([3]))
    with torch.inference_mode():
        expected = theirs(torch.tensor([ids]))
        outputs = ours(batch)
    assert (outputs["masked"][0] - expected.prediction_logits[0, 3]).abs().max() < 1e-4
    assert (outputs["pair"] - expected.seq_relationship_logits).abs().max() < 1e-4


@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("counts=tokens", "batch=512", "batches_per_step=2", "long_length=48"),
        ("objective=masked+replaced",),
    ],
)
def test_stopped_by_a_signal_and_gone_on_with_is_never_stopped(corpus_folder, tmp_path, settings):
    train(corpus_folder, tmp_path / "whole", *settings)

    def interrupt(event, share):
        if event["event"] == "train" and event["step"] in (6, 14):
            os.kill(os.getpid(), signal.SIGTERM)

    endings = [train(corpus_folder, tmp_path / "cut", *settings, watch=interrupt)]
    while endings[-1].outcome == "stopped":
        endings.append(train(corpus_folder, tmp_path / "cut", *settings, watch=interrupt, resumes=True))
    assert [ending.signal for ending in endings] == [signal.SIGTERM, signal.SIGTERM, None]
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")
    assert steps_of(tmp_path / "cut") == steps_of(tmp_path / "whole")


def benchmark(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_killed_at_random_moments_and_gone_on_with_is_never_killed(corpus_folder, tmp_path):
    """A handful of what benchmarks/kill_resume.py does fifty times."""
    settings = [f"--set={setting}" for setting in (*SMALL, "save_every=2")]
    bertie = [sys.executable, "-m", "bertie", "-q"]
    command = [*bertie, "pretrain", str(corpus_folder), "--steps", "24", *settings, "--out"]
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    killed, rng = [*command, str(tmp_path / "killed"), "--resume"], random.Random(3)
    for _ in range(3):
        process = subprocess.Popen(killed)
        assert benchmark("kill_resume").kill_at_work(process, tmp_path / "killed" / "log.jsonl", 4, rng)
    subprocess.run(killed, check=True)
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


def test_a_finished_run_says_so_and_stays_as_it_is(finished, corpus_folder, caplog):
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    with caplog.at_level(logging.INFO):
        assert train(corpus_folder, finished, resumes=True).outcome == "finished before"
    assert "is finished" in caplog.text
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before


class Killed(BaseException):
    """Ends a run as a kill does: nothing of ours catches it."""


@pytest.mark.parametrize("moment", ["between model and state", "save", "end"])
def test_killed_after_the_last_step_it_is_finished_when_gone_on_with(
    finished, corpus_folder, tmp_path, monkeypatch, moment
):
    def kill(event, share):
        if event["event"] == moment and event["step"] == 20:
            raise Killed

    def save_state(folder, model, state, *others):
        if state.step == 20:
            raise Killed
        save_it(folder, model, state, *others)

    if moment == "between model and state":
        save_it = run.save_state
        monkeypatch.setattr(run, "save_state", save_state)
    with pytest.raises(Killed):
        train(corpus_folder, tmp_path / "run", watch=kill)
    monkeypatch.undo()
    assert train(corpus_folder, tmp_path / "run", resumes=True).outcome == "finished"
    assert weights(tmp_path / "run") == weights(finished)
    assert read_log(tmp_path / "run" / "log.jsonl")[-1]["event"] == "end"
    cards = [json.loads((out / "card.json").read_text()) for out in (tmp_path / "run", finished)]
    assert cards[0].keys() == cards[1].keys()
    assert train(corpus_folder, tmp_path / "run", resumes=True).outcome == "finished before"


def test_who_asks_for_the_end_as_the_run_finishes_is_not_forgotten(corpus_folder, tmp_path):
    def ask(event, share):
        if event["event"] == "save":
            signal.raise_signal(signal.SIGINT)

    assert train(corpus_folder, tmp_path / "run", steps=2, watch=ask) == ("finished", signal.SIGINT)


@pytest.mark.parametrize("step", [1, 2])
def test_a_run_that_another_process_trains_is_refused_and_left_as_it_is(corpus_folder, tmp_path, step):
    """A command on the same folder, while the first process takes its first step and later: anew and with --resume."""

    def again(event, share):
        if event["event"] != "train" or event["step"] != step:
            return
        before = files(tmp_path / "run")
        for how in ({}, {"resumes": True, "allows_changes": True}):
            with pytest.raises(
                ValueError, match="run is being trained by another process: wait for it to end, or stop"
            ):
                train(corpus_folder, tmp_path / "run", steps=25, **how)
        assert files(tmp_path / "run") == before
        tried.append(step)

    tried = []
    assert train(corpus_folder, tmp_path / "run", steps=2, watch=again).outcome == "finished"
    assert tried == [step]


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("what", ["bertie.training.runlog.RunLog.write", "bertie.pretraining.run.save"])
def test_a_full_disk_is_said_with_the_state_to_go_on_from(finished, corpus_folder, tmp_path, monkeypatch, what):
    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    shutil.copytree(finished, tmp_path / "run")
    monkeypatch.setattr(what, fail)
    with pytest.raises(
        ValueError, match=r"No space left on device\. The last good state is step-20: make room, then go"
    ):
        train(corpus_folder, tmp_path / "run", steps=25, resumes=True, allows_changes=True)


def test_resume_with_nothing_saved_begins_and_says_so(corpus_folder, tmp_path, caplog):
    with caplog.at_level(logging.INFO):
        assert train(corpus_folder, tmp_path / "new", resumes=True, steps=2).outcome == "finished"
    assert "has nothing saved yet" in caplog.text


def test_a_changed_recipe_is_refused_unless_said(finished, corpus_folder, tmp_path):
    with pytest.raises(ValueError, match=r"exists: give --out another name, or go on with that run by --resume"):
        train(corpus_folder, finished)
    with pytest.raises(ValueError, match=r"another recipe \(optimizer.lr was 0.003, is 0.1\)"):
        train(corpus_folder, finished, "lr=0.1", resumes=True)
    shutil.copytree(finished, tmp_path / "longer")
    ending = train(corpus_folder, tmp_path / "longer", steps=25, resumes=True, allows_changes=True)
    assert ending.outcome == "finished"
    assert json.loads((tmp_path / "longer" / "card.json").read_text())["steps"] == 25


def test_another_corpus_is_refused(finished, tmp_path, make_corpus):
    other = make_corpus(tmp_path / "other", 30, seed=5)
    with pytest.raises(ValueError, match="begun with another corpus"):
        train(other, finished, resumes=True)


SHAPE = ("num_layers=2", "width=64", "num_heads=2", "inner_width=128")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_takes_two_steps(name, corpus_folder, tmp_path):
    found = read_recipe(name)
    small = [
        "max_length=32",
        "threads=1",
        "batches_per_step=2",
        "validation_sequences=16",
        "device=cpu",
        "compile=false",
    ]
    small += SHAPE
    small += ["batch=512"] if found.counts == "tokens" else ["batch=4"]
    small += ["long_length=48", "long_share=0.5"] if found.long_length else []
    made = with_budget(change(found, small), Budget(2))
    assert pretrain(Order(made, corpus_folder, tmp_path / "run"), lambda event, share: None)
    from transformers import AutoModelForMaskedLM

    AutoModelForMaskedLM.from_pretrained(tmp_path / "run" / "model")


def test_a_shape_of_its_own_takes_the_place_of_the_presets(corpus_folder, tmp_path):
    train(corpus_folder, tmp_path / "run", *SHAPE, "max_positions=40", steps=1)
    config = load(tmp_path / "run" / "model").config
    assert (config.num_layers, config.width, config.num_heads, config.inner_width) == (2, 64, 2, 128)
    assert config.max_positions == 40
    with pytest.raises(ValueError, match="width 64 does not divide into 3 heads"):
        train(corpus_folder, tmp_path / "no", *SHAPE, "num_heads=3", steps=1)
    assert not (tmp_path / "no").exists()


def test_layers_that_begin_at_zero_pass_on_what_comes_in(corpus_folder):
    tokenizer = Tokenizer.load(corpus_folder)
    model = make_model(
        recipe(1, "preset=modernbert-small", *SHAPE, "zero_outputs=true"), tokenizer, torch.device("cpu")
    )
    batch = pack([[2, 7, 8, 3]])
    hidden_LND = model.encoder.trace(batch).hidden_LND
    assert torch.equal(hidden_LND[0], hidden_LND[1])
    assert model.encoder.layers[1].attention.qkv.weight.any()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")  # dynamo's own
@pytest.mark.parametrize("objective", ["masked", "masked+replaced"])
def test_a_compiled_step_is_the_plain_one(corpus_folder, tmp_path, monkeypatch, objective):
    # What dynamo and autograd make of our code; C++ of it takes minutes, and is torch's part.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    settings = (f"objective={objective}", "pairs.kind=packed", "counts=tokens", "batch=256", "dropout=0.0", *SHAPE)
    losses = []
    for way in ("compile=true", "compile=false"):
        train(corpus_folder, tmp_path / way, *settings, way, steps=3)
        losses.append([event["loss"] for event in steps_of(tmp_path / way)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ((), "sdpa"),
        (("attention=auto",), "sdpa"),
        (("attention=auto", "precision=bf16"), "sdpa"),
        (("attention=auto", "precision=bf16", "dropout=0.0"), "varlen"),
    ],
)
def test_the_fast_attention_is_for_bf16_without_dropout(settings, path):
    made = recipe(1, *settings)
    assert choose_attention(made, model_config(made, 1000, 0), torch.device("cuda")) == path
    assert choose_attention(made, model_config(made, 1000, 0), torch.device("cpu")) == "sdpa"


def test_init_goes_on_from_a_model_folder(finished, corpus_folder, tmp_path, make_corpus):
    train(corpus_folder, tmp_path / "on", f"init={finished / 'model'}", steps=1)
    first = read_log(tmp_path / "on" / "log.jsonl")[0]
    assert first["loss"] < 0.9 * read_log(finished / "log.jsonl")[0]["loss"]
    other = make_corpus(tmp_path / "other", 20, with_pieces=False)
    with pytest.raises(ValueError, match="another vocabulary"):
        train(other, tmp_path / "no", f"init={finished / 'model'}")
    assert not (tmp_path / "no").exists()


def test_sequences_longer_than_the_positions_are_refused(corpus_folder, tmp_path):
    with pytest.raises(ValueError, match="sequences of 600 tokens, the model 512 positions"):
        train(corpus_folder, tmp_path / "run", "max_length=600")
    assert not (tmp_path / "run").exists()


def test_a_model_larger_than_memory_is_refused_at_once(corpus_folder, tmp_path, monkeypatch):
    monkeypatch.setattr("bertie.pretraining.run.os.sysconf", lambda name: 1 << 10)
    with pytest.raises(ValueError, match=r"preset 'bert-L2-H128' needs 0 GB for weights, gradients and the optimizer"):
        train(corpus_folder, tmp_path / "run")


def test_memory_is_for_a_ranks_part_where_weights_are_divided(monkeypatch):
    """BERT-large, 16 bytes a weight: 5.4 GB alone, 1.35 GB for each of four; a copy for each is 5.4 GB again."""
    monkeypatch.setattr(
        "bertie.pretraining.run.os.sysconf", lambda name: {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 3e9}[name]
    )
    large, cpu = change(read_recipe("faithful-large"), ["sharding=fsdp"]), torch.device("cpu")
    config = model_config(large, 30_522, 0)
    assert run.check_memory(large, config, cpu, 4) == pytest.approx(336e6, rel=0.01)
    for refused, count in ((large, 1), (change(large, ["sharding=ddp"]), 4)):
        with pytest.raises(ValueError, match=r"preset 'bert-large' needs 5 GB .* has 3 GB"):
            run.check_memory(refused, config, cpu, count)


def test_epochs_are_passes_over_the_tokens(corpus_folder, tmp_path):
    made = change(recipe(1), ["epochs=0.5", "batch=64"])
    assert pretrain(Order(made, corpus_folder, tmp_path / "run"), lambda event, share: None).outcome == "finished"
    card = json.loads((tmp_path / "run" / "card.json").read_text())
    assert 0.5 <= card["tokens"] / card["corpus"]["counts"]["train"]["tokens"] < 0.9


def test_without_a_validation_part_it_trains_and_says_so(corpus_folder, tmp_path, caplog):
    from bertie.corpus.build import CorpusConfig, build_corpus

    text = corpus_folder.parent / "text.txt"
    shutil.copytree(corpus_folder.parent / "vocabulary", tmp_path / "vocabulary")
    build_corpus(
        CorpusConfig(validation=0), [text], tmp_path / "vocabulary", tmp_path / "corpus", lambda done, total: None
    )
    assert train(tmp_path / "corpus", tmp_path / "run", steps=2).outcome == "finished"
    assert "no validation part" in caplog.text


def test_tensorboard_files_on_request(corpus_folder, tmp_path):
    pytest.importorskip("tensorboard")
    train(corpus_folder, tmp_path / "run", steps=2, has_board=True)
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))


def test_without_tensorboard_it_says_what_to_install_and_writes_nothing(corpus_folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match=r"pip install 'bertie\[tensorboard\]'"):
        train(corpus_folder, tmp_path / "run", steps=2, has_board=True)
    assert not (tmp_path / "run").exists()


def test_it_memorises_a_tiny_corpus(tmp_path, make_corpus):
    """Learning: eight documents by heart, every masked word of what was seen."""
    corpus = make_corpus(tmp_path / "eight", 8, seed=2)
    train(corpus, tmp_path / "run", "dropout=0", "dupe_factor=1", "evaluate_every=0", "save_every=0", steps=250)
    last = steps_of(tmp_path / "run")[-20:]
    assert np.mean([event["masked_accuracy"] for event in last]) > 0.97
    assert np.mean([event["pair_accuracy"] for event in last]) > 0.97


def test_it_beats_the_frequencies_of_words_on_held_back_text(corpus_folder, tmp_path):
    """Learning: on text never seen, half a nat below what knowing how frequent each word is would give."""
    train(corpus_folder, tmp_path / "run", "dropout=0", "evaluate_every=0", "objective=masked", steps=400)
    figures = json.loads((tmp_path / "run" / "card.json").read_text())
    tokens = open_corpus(corpus_folder).train[0].tokens
    shares = np.bincount(tokens) / len(tokens)
    entropy = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
    assert figures["validation_masked_loss"] < entropy - 0.5


@pytest.mark.parametrize("kind", ["next_sentence", "sentence_order"])
def test_pairs_rise_above_chance_on_held_back_text(corpus_folder, tmp_path, kind):
    """Learning: more of the pairs right than by always saying the commoner label."""
    settings = (f"pairs.kind={kind}", "dropout=0", "batch=32", "evaluate_every=0", "save_every=0")
    train(corpus_folder, tmp_path / "run", *settings, steps=500)
    held_back = open_corpus(corpus_folder).validation
    batches = validation_batches(held_back, Tokenizer.load(corpus_folder), recipe(500, *settings))
    labels = [label for drawn in batches for label in drawn.batch.pair_S.tolist()]
    commoner = max(labels.count(0), labels.count(1)) / len(labels)
    figures = json.loads((tmp_path / "run" / "card.json").read_text())
    assert figures["validation_pair_accuracy"] > commoner + 0.1


def test_replaced_words_are_found_on_held_back_text(corpus_folder, tmp_path):
    """Learning: a quarter less wrong than by calling every word the text's own, in a folder as others have it."""
    settings = ("objective=masked+replaced", "rate=0.3", "rule=muon", "dropout=0", "batch=32", "evaluate_every=0")
    train(corpus_folder, tmp_path / "run", *settings, steps=300)
    card = json.loads((tmp_path / "run" / "card.json").read_text())
    held_back = open_corpus(corpus_folder).validation
    batches = validation_batches(held_back, Tokenizer.load(corpus_folder), recipe(300, *settings))
    counts = {name: sum(drawn.num_targets[name] for drawn in batches) for name in ("masked", "replaced")}
    # A word is drawn right with a probability of at least this, on average, since the loss is its mean logarithm.
    drawn_right = math.exp(-card["validation_masked_loss"])
    most_replaced = (1 - drawn_right) * counts["masked"] / counts["replaced"]
    assert 1 - card["validation_replaced_accuracy"] < 0.75 * most_replaced
    assert set(load(tmp_path / "run" / "model").heads) == {"masked"}
    found = evaluate_folder(tmp_path / "run", corpus_folder, "cpu", "float32", lambda done, total: None)
    assert found.scores["masked_loss"] == pytest.approx(card["validation_masked_loss"], rel=1e-3)
    assert "replaced_loss" not in found.scores


def test_the_curve_is_that_of_transformers(corpus_folder, tmp_path, capsys):
    """The benchmark on a tiny model without dropout, where the two should be one."""
    curve = benchmark("faithful_curve")
    settings = ["preset=tiny", "batch=16", "lr=1e-3", "dropout=0", "max_length=32", "threads=1"]
    common = {"corpus": corpus_folder, "out": tmp_path, "steps": 30, "device": "cpu", "precision": "float32"}
    arguments = Namespace(**common, set=settings, plot=None)
    curve.train_bertie(arguments)
    curve.train_transformers(arguments)
    ours = [event["loss"] for event in read_log(tmp_path / "bertie" / "log.jsonl") if event["event"] == "train"]
    theirs = [event["loss"] for event in read_log(tmp_path / "transformers.jsonl") if event["event"] == "train"]
    assert max(abs(one / other - 1) for one, other in zip(ours, theirs, strict=True)) < 1e-4
    assert curve.compare(arguments) == 0
    assert math.isfinite(ours[-1])


def test_the_command(corpus_folder, tmp_path, capsys):
    out = str(tmp_path / "run")
    small = [part for setting in SMALL for part in ("--set", setting)]
    assert run_command(["pretrain", str(corpus_folder), "--out", out, "--steps", "3", *small]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "held-back text: loss" in said.err
    assert "holds the model" in said.err
    assert run_command(["pretrain", str(corpus_folder), "--out", out, "--steps", "3", *small]) == 2
    assert run_command(["pretrain", str(corpus_folder), "--out", out, "--steps", "3", *small, "--resume"]) == 0
    capsys.readouterr()
    assert (
        run_command(["pretrain", str(corpus_folder), "--out", out, "--steps", "3", *small, "--resume", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "run" / "card.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--recipe", "tiny-cpq"], "unknown recipe 'tiny-cpq'; did you mean 'tiny-cpu'?"),
        (["--set", "max_lenght=32"], "bertie: max_lenght=32: unknown key 'max_lenght'; did you mean 'max_length'?"),
        (
            ["--set", "learning_rate=1e-3"],
            "bertie: learning_rate=1e-3: unknown key 'learning_rate'; did you mean 'lr'?",
        ),
        (["--set", "gradient_accumulation_steps=2"], "did you mean 'batches_per_step'?"),
        (["--set", "weight_decay=-1"], "weight_decay is -1.0; it must be at least 0"),
        (["--set", "batch=many"], "batch=many is 'many'; allowed: a whole number"),
        (["--preset", "bert-bas"], "unknown preset 'bert-bas'; did you mean 'bert-base'?"),
        (["--steps", "5", "--minutes", "1"], "give one of them"),
        (["--steps", "0"], "the budget is 0 steps"),
        (["--seed", "-1"], "seed is -1"),
        (["--set", "kind=packed"], "objective 'masked+pair' needs pairs"),
        (["--init", "nowhere"], "nowhere is not there: a model is a folder"),
    ],
)
def test_bad_input_is_one_sentence(corpus_folder, tmp_path, capsys, arguments, sentence):
    assert run_command(["pretrain", str(corpus_folder), "--out", str(tmp_path / "run"), *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "run").exists()
