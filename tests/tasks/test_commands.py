"""bertie finetune, evaluate and predict as a person runs them."""

import json

import pytest

from bertie.cli import run

ROWS = "text,label\n" + "the cat sat,yes\nthe dog sat,no\n" * 10
QUICK = ["--set", "epochs=1", "--set", "max_length=16", "--set", "device=cpu"]


@pytest.fixture
def tuned(write, model_folder, tmp_path):
    """A run folder, and the arguments that made it."""
    data = write("a.csv", ROWS)
    arguments = [
        "finetune",
        "classify",
        str(data),
        "--model",
        str(model_folder),
        "--out",
        str(tmp_path / "run"),
        *QUICK,
    ]
    assert run(arguments) == 0
    return tmp_path / "run", arguments


def test_finetune_then_evaluate_then_predict(tuned, write, tmp_path, capsys):
    folder, arguments = tuned
    assert (folder / "model" / "task.json").exists()
    capsys.readouterr()
    data = write("b.csv", ROWS)
    assert run(["evaluate", str(folder), str(data), "--json", "--device", "cpu"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["task"] == "classify"
    assert said["examples"] == 20
    assert set(said["scores"]) == {"accuracy", "macro_f1"}
    assert run(["evaluate", str(folder / "model"), str(data), "--intervals", "20", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "95 %" in shown
    assert "is, called" in shown
    out = tmp_path / "predictions.jsonl"
    unlabelled = write("c.txt", "the cat\nthe dog\n")
    assert run(["predict", str(folder), str(unlabelled), "--out", str(out), "--device", "cpu"]) == 0
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 2
    assert rows[0]["label"] in ("yes", "no")
    assert run(["predict", str(folder), str(data), "--out", str(tmp_path / "p.tsv"), "--device", "cpu"]) == 0
    assert (tmp_path / "p.tsv").read_text().splitlines()[0] == "index\tprediction"
    capsys.readouterr()
    assert run([*arguments, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "card.json").read_text())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--task", "sing"], "there is no task 'sing'"),
        (["--data", "nowhere.csv"], "nowhere.csv is not there: give a file of examples"),
        (["--out", "run"], "--resume"),
        (["--more", "--label", "stars"], "has no column 'stars'"),
        (["--more", "--set", "epoch=3"], "unknown key 'epoch'"),
        (["--more", "--model", "nowhere"], "nowhere is not there: a model is a folder"),
        (["--more", "--recipe", "best"], "recipe 'best' does not exist"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2(tuned, tmp_path, capsys, change, message):
    folder, arguments = tuned
    what, *values = change
    arguments = [*arguments]
    places = {"--task": 1, "--data": 2, "--out": 6}
    if what == "--more":
        arguments += values
        arguments[6] = str(tmp_path / "other")
    else:
        arguments[places[what]] = str(folder) if what == "--out" else values[0]
    capsys.readouterr()
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_bad_input_for_a_tuned_model(tuned, write, tmp_path, capsys, model_folder):
    folder, _ = tuned
    capsys.readouterr()
    cases = [
        (["evaluate", str(folder), str(write("d.csv", "text,label\nthe cat,maybe\n"))], "line 2: label 'maybe' is not"),
        (["evaluate", str(folder), str(write("e.csv", "text\nthe cat\n"))], "line 2 has no label"),
        (["evaluate", str(model_folder), str(write("f.csv", ROWS))], "it is not a model that `bertie finetune` made"),
        (["predict", str(folder), str(write("g.csv", ROWS)), "--out", "x.xml"], "allowed: .jsonl, .tsv, .json"),
        (["predict", str(folder), str(write("h.csv", ROWS)), "--out", "x.json"], "only answers are written as .json"),
        (["predict", str(folder), str(write("i.csv", "")), "--out", "x.tsv"], "is empty"),
        (
            ["evaluate", str(folder), str(write("j.csv", "text,label\nthe cat,yes\n ,no\n"))],
            "j.csv, line 3. Give them words, or leave them out.",
        ),
    ]
    for arguments, message in cases:
        assert run([*arguments, "--device", "cpu"]) == 2, arguments
        assert message in capsys.readouterr().err


def test_squads_official_files(tokenizer, tmp_path):
    import numpy as np

    from bertie.tasks.answer import Answer
    from bertie.tasks.predictions import write_predictions
    from bertie.tasks.task import Example, Output

    task = Answer(has_nulls=True, max_length=16)
    examples = [Example(id="a", text="the cat sat", pair="who", answers=None)]
    (row,) = task.encode(examples, tokenizer)
    logits = np.zeros((row.num_tokens, 2), np.float32)
    logits[4] = 3.0
    predictions = task.decode([Output(row, logits)], examples, tokenizer)
    write_predictions(tmp_path / "predictions.json", task, predictions, examples)
    read = {path.name: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}
    assert read["predictions.json"] == {"a": "cat"}
    assert read["null_odds.json"] == {"a": -6.0}
    assert read["nbest_predictions.json"]["a"][0].keys() == {"text", "probability", "start_logit", "end_logit"}


def test_of_several_labels_each_is_shown(write, model_folder, tmp_path, capsys, caplog):
    data = write("a.csv", "text,labels\n" + "the cat,pet|small\nthe dog,pet\nthe mat,\n" * 5)
    finetune = ["finetune", "classify", str(data), "--dev", str(data), "--model", str(model_folder)]
    learning = [f"--set={one}" for one in ("several=true", "epochs=60", "batch=5", "lr=3e-3", "dropout=0.0")]
    assert run([*finetune, "--out", str(tmp_path / "run"), *QUICK, *learning]) == 0
    assert "5 of 15 texts have an empty cell of labels" in caplog.text
    capsys.readouterr()
    assert run(["evaluate", str(tmp_path / "run"), str(data), "--device", "cpu"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["label", "precision", "recall", "f1", "examples"] in rows
    assert ["pet", "1.0000", "1.0000", "1.0000", "10"] in rows
    assert ["small", "1.0000", "1.0000", "1.0000", "5"] in rows
    out = tmp_path / "predictions.jsonl"
    assert run(["predict", str(tmp_path / "run"), str(data), "--out", str(out), "--device", "cpu"]) == 0
    said = [json.loads(line)["labels"] for line in out.read_text().splitlines()[:3]]
    assert said == [["pet", "small"], ["pet"], []]


def test_of_tags_each_type_of_entity_is_shown(write, model_folder, tmp_path, capsys):
    data = write("a.txt", "The O\ncat B-CAT\n\ndog B-DOG\nsat O\n")
    finetune = ["finetune", "tag", str(data), "--dev", str(data), "--model", str(model_folder)]
    assert run([*finetune, "--out", str(tmp_path / "run"), *QUICK, "--set", "epochs=60", "--set", "lr=1e-3"]) == 0
    capsys.readouterr()
    assert run(["evaluate", str(tmp_path / "run"), str(data), "--device", "cpu"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["CAT", "1.0000", "1.0000", "1.0000"] in rows
    assert ["all", "1.0000", "1.0000", "1.0000"] in rows
