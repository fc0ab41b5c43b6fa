"""The whole suite: what is there is learned, stopped and gone on with; the paper's average; what the server takes."""

import json
import signal
import zipfile

import pytest

from bertie.cli import run
from bertie.tasks.glue import COLUMNS, Suite, average, run_glue
from bertie.training.run_folder import read_card

pytestmark = pytest.mark.usefixtures("one_thread")
QUICK = ("epochs=2", "max_length=16", "batch=8", "lr=1e-3", "device=cpu")


def table(*rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


@pytest.fixture
def suite(write, model_folder, tmp_path):
    """Five tasks in little, one of which has nothing to learn from, and the order to learn them."""
    pairs = [("the cat", "sat"), ("the dog", "sat")] * 10
    for name, labels in (
        ("MNLI", ("entailment", "neutral", "contradiction")),
        ("STS-B", ("4.800", "0.200")),
        ("WNLI", ("1", "0", "1")),
        ("QNLI", ("entailment", "not_entailment")),
    ):
        header = ("index", "sentence1", "sentence2")
        rows = [(number, *pair) for number, pair in enumerate(pairs)]
        known = [(*row, labels[row[0] % len(labels)]) for row in rows]
        labelled = table((*header, "score" if name == "STS-B" else "label"), *known)
        for part in ("train", "dev_matched", "dev_mismatched") if name == "MNLI" else ("train", "dev"):
            if (name, part) != ("QNLI", "train"):
                write(f"glue/{name}/{part}.tsv", labelled)
        for part in ("test_matched", "test_mismatched") if name == "MNLI" else ("test",):
            write(f"glue/{name}/{part}.tsv", table(header, *rows))
    write("glue/AX/AX.tsv", table(("index", "sentence1", "sentence2"), (0, "the cat", "sat")))
    write("glue/CoLA/train.tsv", table(*(("x", number % 2, "", pair[0]) for number, pair in enumerate(pairs))))

    def make(out="run", **others):
        return Suite(tmp_path / "glue", model_folder, tmp_path / out, settings=QUICK, **others)

    return make


def quiet(event, share):
    assert 0 <= share <= 1


def test_the_papers_average():
    names = [column.name for column in COLUMNS]
    base = dict(zip(names, (84.6, 83.4, 71.2, 90.5, 93.5, 52.1, 85.8, 88.9, 66.4), strict=True))
    assert average(base) == pytest.approx(79.6, abs=0.05)
    large = dict(zip(names, (86.7, 85.9, 72.1, 92.7, 94.9, 60.5, 86.5, 89.3, 70.1), strict=True))
    assert average({**large, "WNLI": 0.0}) == pytest.approx(82.1, abs=0.05)


def test_what_is_there_is_learned_and_what_is_not_is_said(suite, caplog):
    result = run_glue(suite(seeds=2), quiet)
    assert [column.name for column in result.columns] == ["MNLI-m", "MNLI-mm", "CoLA", "STS-B"]
    assert [column.score for column in result.columns] == ["accuracy", "accuracy", "matthews", "spearman"]
    # Both held-out files of MNLI hold the same rows here.
    assert result.columns[0].each == pytest.approx(result.columns[1].each)
    for number in range(2):
        scores = read_card(suite().out / "sts-b" / f"seed-{number}")["scores"]
        assert result.columns[3].each[number] == scores["spearman"]
    card = read_card(suite().out)
    assert card["average"] == pytest.approx(sum(column.mean for column in result.columns) / 4)
    assert "QNLI has no file to learn from: qnli is left out" in caplog.text
    assert set(result.missing) == {"QQP", "QNLI", "SST-2", "MRPC", "RTE", "CoLA"}
    assert "no file test.*" in result.missing["CoLA"]
    assert "MNLI-m: 20 rows, but the official file has 9,796" in caplog.text
    assert result.majority == pytest.approx(13 / 20)
    with zipfile.ZipFile(suite().out / "submission.zip") as archive:
        files = {name: archive.read(name).decode().splitlines() for name in archive.namelist()}
    assert set(files) == {"MNLI-m.tsv", "MNLI-mm.tsv", "STS-B.tsv", "AX.tsv", "WNLI.tsv"}
    assert all(lines[0] == "index\tprediction" for lines in files.values())
    assert [len(files[f"{name}.tsv"]) for name in ("MNLI-m", "AX", "WNLI")] == [21, 2, 21]
    assert files["WNLI.tsv"][1:] == [f"{number}\t1" for number in range(20)]
    assert files["AX.tsv"][1].split("\t")[1] in ("entailment", "neutral", "contradiction")
    assert all(0 <= float(line.split("\t")[1]) <= 5 for line in files["STS-B.tsv"][1:])


def test_stopped_and_gone_on_with(suite):
    plain, stopped = run_glue(suite("plain"), quiet), suite("stopped")
    steps = []

    def stop(event, share):
        steps.append(event["event"])
        if event["event"] == "train" and steps.count("train") == 7:  # the second task's second
            signal.raise_signal(signal.SIGINT)

    assert run_glue(stopped, stop).signal == signal.SIGINT
    assert not (stopped.out / "submission.zip").exists()
    result = run_glue(suite("stopped", resumes=True), quiet)
    assert result == plain
    both = [suite(name).out / "submission.zip" for name in ("plain", "stopped")]
    assert both[0].read_bytes() == both[1].read_bytes()


def test_without_mnli_there_is_no_ax(suite, tmp_path, capsys, model_folder):
    for name in ("MNLI", "STS-B"):
        (tmp_path / "glue" / name).rename(tmp_path / name)
    settings = [part for setting in QUICK for part in ("--set", setting)]
    arguments = ["glue", str(tmp_path / "glue"), "--model", str(model_folder), "--out", str(tmp_path / "run")]
    assert run([*arguments, *settings]) == 0
    said = capsys.readouterr()
    assert "AX.tsv is not among them: it needs a model for MNLI" in said.err
    assert "of 1 of the paper's 9" in said.out
    assert "majority class, not counted" in said.out
    assert run([*arguments, *settings, "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "run" / "card.json").read_text())


def test_what_is_refused(suite, tmp_path, capsys, model_folder):
    (tmp_path / "none").mkdir()
    arguments = ["--model", str(model_folder), "--out", str(tmp_path / "run")]
    assert run(["glue", str(tmp_path / "none"), *arguments]) == 2
    assert "none has no task of GLUE to learn; looked for the folders MNLI, QQP" in capsys.readouterr().err
    assert run(["glue", str(tmp_path / "nowhere"), *arguments]) == 2
    assert "nowhere is not there: give the folder that holds CoLA" in capsys.readouterr().err
    assert run(["glue", str(tmp_path / "glue"), *arguments, "--set", "lr=0"]) == 2
    assert "lr is 0" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="exists: give --out another name"):
        run_glue(suite(), quiet)
