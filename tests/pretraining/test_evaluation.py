"""A model and a corpus: bertie evaluate FOLDER CORPUS."""

import json
import math
import shutil
from dataclasses import replace

import pytest
import torch

from bertie.cli import run as run_command
from bertie.model.config import preset
from bertie.model.folder import build, save
from bertie.model.heads import Model
from bertie.pretraining.evaluation import evaluate_folder, google_masks
from bertie.pretraining.recipe import change, read_recipe, with_budget
from bertie.pretraining.run import Order, pretrain
from bertie.text.wordpiece import Tokenizer
from bertie.training.loop import Budget
from bertie.training.runlog import read_log


def quietly(done, total):
    pass


@pytest.fixture(scope="module")
def trained(corpus_folder, tmp_path_factory):
    """A run of two steps, with masks of its own kind."""
    out = tmp_path_factory.mktemp("evaluated") / "run"
    settings = ["preset=tiny", "batch=8", "max_length=32", "unit=words", "rate=0.3", "validation_sequences=70"]
    recipe = with_budget(change(read_recipe("tiny-cpu"), [*settings, "device=cpu"]), Budget(2))
    pretrain(Order(recipe, corpus_folder, out), lambda event, share: None)
    return out


def test_a_run_has_the_scores_of_its_log_and_they_are_printed(trained, corpus_folder, capsys):
    (logged,) = (event for event in read_log(trained / "log.jsonl") if event["event"] == "evaluate")
    arguments = ["evaluate", str(trained), str(corpus_folder), "--device", "cpu"]
    assert run_command([*arguments, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["task"] == "pretrain"
    assert said["examples"] == 70
    scores = said["scores"]
    perplexity = scores.pop("pseudo_perplexity")
    assert scores.keys() == {"loss", "masked_loss", "masked_accuracy", "pair_loss", "pair_accuracy"}
    assert {f"validation_{name}": score for name, score in scores.items()} == pytest.approx(
        {name: value for name, value in logged.items() if name.startswith("validation_")}, rel=1e-6
    )
    assert math.log(perplexity) == pytest.approx(scores["masked_loss"])
    assert run_command(arguments) == 0
    assert "pseudo_perplexity" in capsys.readouterr().out


def test_a_model_folder_is_asked_for_googles_masks(trained, corpus_folder, tmp_path):
    of_run = evaluate_folder(trained, corpus_folder, "cpu", "float32", quietly)
    of_model = evaluate_folder(trained / "model", corpus_folder, "cpu", "float32", quietly)
    assert of_model.scores != of_run.scores
    shutil.copytree(trained / "model", tmp_path / "elsewhere")
    assert evaluate_folder(tmp_path / "elsewhere", corpus_folder, "cpu", "float32", quietly) == of_model


@pytest.mark.parametrize(
    ("family", "heads", "objective", "kind"),
    [
        ("tiny", {"masked": 0, "pair": 0}, "masked+pair", "next_sentence"),
        ("tiny", {"masked": 0}, "masked", "packed"),
        ("tiny", {"pair": 0}, "pair", "next_sentence"),
        ("albert-base", {"masked": 0, "pair": 0}, "masked+pair", "sentence_order"),
    ],
)
def test_a_model_is_asked_what_it_has_heads_for(tmp_path, family, heads, objective, kind):
    recipe = google_masks(Model(preset(family), heads), tmp_path)
    assert (recipe.objective, recipe.pairs.kind, recipe.pairs.max_length) == (objective, kind, 128)
    assert (recipe.masking.unit, recipe.masking.rate, recipe.long_length) == ("tokens", 0.15, None)


def test_what_cannot_be_asked_is_refused(trained, corpus_folder, tmp_path, make_corpus, capsys):
    other = make_corpus(tmp_path / "other", 20, with_pieces=False)
    assert run_command(["evaluate", str(trained), str(other)]) == 2
    assert "another vocabulary than the model's" in capsys.readouterr().err
    tokenizer = Tokenizer.load(corpus_folder)
    config = replace(preset("tiny"), vocabulary_size=tokenizer.size)
    save(tmp_path / "headless", build(config, {"class": 2}, torch.Generator()), tokenizer.files())
    assert run_command(["evaluate", str(tmp_path / "headless"), str(corpus_folder)]) == 2
    assert "a corpus has nothing to ask it" in capsys.readouterr().err
