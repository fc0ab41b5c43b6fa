import json
from pathlib import Path

import pytest

from bertie.cli import run
from bertie.report.runs import read_runs
from bertie.report.words import Words
from tests.report.conftest import MakeRun

LIMIT = 5_000_000  # bytes of a report


def page_of(tmp_path: Path, *words: str) -> str:
    out = tmp_path / "out" / "report.html"
    assert run(["report", *words, "--out", str(out)]) == 0
    return out.read_text(encoding="utf-8")


def test_one_file_shows_the_runs_beside_each_other(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, str(make_run("one")), str(make_run("two", steps=100_000)))
    assert page.startswith("<!doctype html>") and len(page.encode()) < LIMIT
    assert "Report on one, two" in page and "Masked-word accuracy" in page


def test_many_runs_stay_within_the_limit(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, *(str(make_run(f"run-{number}", steps=500)) for number in range(60)))
    assert len(page.encode()) < LIMIT and "run-59" in page


def test_it_speaks_chinese(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, str(make_run()), "--language", "zh")
    assert 'lang="zh-Hans"' in page and "遮盖词损失" in page and "Masked-word" not in page


def test_what_is_broken_or_missing_is_said_on_the_page(make_run: MakeRun, tmp_path: Path) -> None:
    broken = make_run("broken", is_finished=False)
    lines = (broken / "log.jsonl").read_text().splitlines(keepends=True)
    nested = "[" * 100_000
    (broken / "log.jsonl").write_text(
        "".join([lines[0], "no JSON\n", nested + "\n", "[]\n", *lines[1:], '{"event": "tr'])
    )
    (broken / "card.json").write_text("{")
    (broken / "recipe.toml").unlink()
    page = page_of(tmp_path, str(broken))
    assert "3 lines of log.jsonl cannot be read and are left out, first line 2." in page
    assert "card.json is missing or broken" in page and "recipe.toml is missing or empty" in page
    assert "The run is not finished; its log comes to step 60." in page


def test_an_empty_log_makes_a_page_too(make_run: MakeRun, tmp_path: Path) -> None:
    begun = make_run("begun", is_finished=False)
    (begun / "log.jsonl").unlink()
    assert "log.jsonl is missing: there are no curves." in page_of(tmp_path, str(begun))


@pytest.fixture(scope="session")
def made_folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a vocabulary and a corpus, as their commands make them."""
    root = tmp_path_factory.mktemp("made")
    (root / "text.txt").write_text("\n\n".join(f"The {number}th cat sat on a mat." for number in range(30)))
    text, vocabulary = str(root / "text.txt"), str(root / "words")
    assert run(["vocab", text, "--size", "120", "--out", vocabulary]) == 0
    assert run(["corpus", text, "--vocab", vocabulary, "--out", str(root / "corpus"), "--validation", "0.2"]) == 0
    return root


def test_a_corpus_and_a_vocabulary_have_their_card(made_folders: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, str(made_folders / "corpus"))
    counts = json.loads((made_folders / "corpus" / "meta.json").read_text())["counts"]
    assert "Corpus of corpus" in page and f"{counts['train']['tokens']} tokens" in page
    assert "Vocabulary of corpus" in page
    assert not any(said in page for said in ("At a glance", "is missing", "not finished", 'id="recipes"'))
    page = page_of(tmp_path, str(made_folders / "words"), "--language", "zh")
    assert "words 的词表" in page and "words 的语料" not in page and "概览" not in page


def test_a_corpus_stands_beside_the_run_that_learned_from_it(
    made_folders: Path, make_run: MakeRun, tmp_path: Path
) -> None:
    learned = make_run("learned")
    card = json.loads((learned / "card.json").read_text())
    corpus = read_runs([made_folders / "corpus"], Words("en"))[0].card["corpus"]
    (learned / "card.json").write_text(json.dumps(card | {"corpus": corpus}))
    page = page_of(tmp_path, str(learned), str(made_folders / "corpus"))
    assert "Corpus of corpus, learned" in page and "At a glance" in page


@pytest.mark.parametrize(
    ("name", "said"),
    [("nowhere", "is not there: give the folder of a run"), ("file", "is a file"), ("empty", "is no run")],
)
def test_what_is_no_run_is_refused(name: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text(json.dumps({}))
    (tmp_path / "empty").mkdir()
    assert run(["report", str(tmp_path / name), "--out", str(tmp_path / "r.html")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_runs_called_the_same_are_told_apart_by_their_folders(make_run: MakeRun, tmp_path: Path) -> None:
    page = page_of(tmp_path, *(str(make_run(name)) for name in ("a/run", "b/run", "c/other")))
    assert "<title>Report on a/run, b/run, other</title>" in page


def test_a_run_named_twice_is_refused(make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(make_run())
    assert run(["report", folder, folder, "--out", str(tmp_path / "r.html")]) == 2
    assert "named twice" in capsys.readouterr().err
