import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from safetensors import safe_open

import bertie
from bertie import carried
from bertie.cli import bertie as commands
from bertie.cli import run
from bertie.tasks.trained import Trained

NAME = carried.DEFAULT
MOST_BYTES, MOST_PARAMETERS = 32_000_000, 30_000_000
HEADINGS = re.compile(r"^## .*$", re.MULTILINE)


@pytest.mark.parametrize("name", carried.names())
def test_what_the_package_carries_is_whole(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = carried.model_folder(name)
    assert {"bertie.json", "model.int8.safetensors", "vocab.txt"} <= {path.name for path in folder.iterdir()}
    assert bertie.load(name, "cpu").fill(["The capital of France is [MASK]."])  # what the seal says is so
    assert run(["models", name, "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one["bytes"] <= MOST_BYTES and one["parameters"] <= MOST_PARAMETERS
    assert one["language"] and one["summary"]
    template = (carried.MODELS / "README.md").read_text(encoding="utf-8").partition("# NAME\n")[2]
    assert len(HEADINGS.findall(template)) > 5
    assert set(HEADINGS.findall(template)) <= set(HEADINGS.findall(one["card"]))
    assert [line for line in template.splitlines() if line[:1].isalpha() and line in one["card"]] == []


def test_a_path_comes_first_then_the_model_in_a_run_then_a_name(
    carries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert carried.model_folder(NAME) == carries
    (tmp_path / "run" / "model").mkdir(parents=True)
    assert carried.model_folder("run") == Path("run/model")
    (tmp_path / NAME).mkdir()
    assert carried.model_folder(NAME) == Path(NAME)
    (tmp_path / "run" / "config.json").touch()  # it is a model itself, whatever else is in its folder
    assert carried.model_folder("run") == Path("run")


def test_what_is_not_there_is_answered_with_what_is(
    carries: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said = "^bertie-smal is not there: a model is a folder, or the name of one that the package carries: "
    with pytest.raises(ValueError, match=f"{said}{NAME}\\.$"):
        bertie.load("bertie-smal")
    with pytest.raises(ValueError, match=f"bertie-smal does not exist: .* the package carries: {NAME}\\.$"):
        bertie.Tokenizer.load("bertie-smal")
    monkeypatch.setattr(carried, "MODELS", tmp_path / "none")
    with pytest.raises(ValueError, match=f"{said}none\\.$"):
        bertie.load("bertie-smal")


def test_the_default_is_the_carried_one_and_its_numbers_are_those_of_its_folder(carries: Path) -> None:
    vectors = [model.encode(["a cat"]) for model in (bertie.load(), bertie.load(NAME), bertie.load(carries))]
    assert np.array_equal(vectors[0], vectors[1]) and np.array_equal(vectors[0], vectors[2])
    assert bertie.Tokenizer.load(NAME).size == bertie.Tokenizer.load(carries).size


def test_commands_take_the_name(
    carries: Path, example_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("a cat\n")
    for command in (
        ["fill", NAME, "a [MASK]"],
        ["embed", NAME, "a cat"],
        ["inspect", NAME],
        ["tokenize", NAME, "a cat"],
        ["features", NAME, "lines.txt", "--layers", "-1", "--out", "features.jsonl"],
        ["convert", NAME, "whole", "--to", "hf"],
        ["corpus", str(example_folder / "my-text"), "--vocab", NAME, "--out", "corpus"],
        ["evaluate", NAME, "corpus"],
        ["pretrain", "corpus", "--init", NAME, "--steps", "1", "--set", "batch=256", "--out", "run"],
        ["fill", "run", "a [MASK]"],
        ["report", NAME, "--text", "a cat", "--out", "report.html"],
    ):
        assert run(command) == 0, command
    assert Path("whole/model.safetensors").is_file()


def test_what_learns_from_it_learns_in_full_precision(carries: Path, tmp_path: Path) -> None:
    """The rows of 8 bits are expanded when they are read; what is saved is a model like any other."""
    data, out = tmp_path / "data.csv", tmp_path / "run"
    data.write_text("text,label\n" + "cat,yes\ndog,no\n" * 8)
    learn = ["finetune", "classify", str(data), "--model", NAME, "--out", str(out), "--set", "epochs=1"]
    assert run([*learn, "--set", "device=cpu"]) == 0
    with safe_open(out / "model" / "model.safetensors", "numpy") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F32"}  # noqa: SIM118
    before, after = bertie.load(NAME).model, Trained.load(out, "cpu").model
    assert not after.encoder.layers[0].attention.output.weight.equal(before.encoder.layers[0].attention.output.weight)
    assert f'model = "{NAME}"' in (out / "recipe.toml").read_text()  # not a path of this machine


def test_models_are_listed(carries: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models"]) == 0
    table, _, summary = capsys.readouterr().out.partition("\n\n")
    assert table.splitlines()[2].split()[0] == NAME
    assert summary == f"{NAME}: It knows nothing, but is there.\n"
    assert run(["models", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert run(["inspect", NAME, "--json"]) == 0
    assert one["parameters"] == sum(json.loads(capsys.readouterr().out)["parameters"].values())
    assert one["bytes"] == sum(path.stat().st_size for path in carries.iterdir())
    assert (one["name"], one["language"]) == (NAME, "en")
    assert run(["models", NAME]) == 0
    assert capsys.readouterr().out.rstrip() == (carries / "card.md").read_text().rstrip()


def test_a_package_without_models_says_so_and_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(carried, "MODELS", tmp_path)
    assert run(["models", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "" and "The package carries no model" in captured.err and "bertie convert" in captured.err
    assert run(["models", NAME]) == 2
    assert f"'{NAME}' is no model that the package carries: none." in capsys.readouterr().err


def test_estimators_begin_with_it(carries: Path) -> None:
    classifier = bertie.TextClassifier(epochs=1, max_length=16, device="cpu").fit(["cat", "dog"] * 4, ["y", "n"] * 4)
    assert set(classifier.predict(["cat", "dog"])) <= {"y", "n"}


def test_tab_completes_names_and_folders(carries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert").mkdir()

    def completed(*words: str) -> list[tuple[str, str]]:
        found = ShellComplete(commands, {}, "bertie", "_BERTIE_COMPLETE").get_completions(list(words[:-1]), words[-1])
        return [(item.value, item.type) for item in found]

    assert completed("fill", "be") == [(NAME, "plain"), ("bert/", "plain")]
    assert completed("finetune", "cola", "x.tsv", "--model", "bertie-") == [(NAME, "plain")]
    assert completed("fill", "bert/") == [("bert/", "file")]  # the shell looks for files itself
