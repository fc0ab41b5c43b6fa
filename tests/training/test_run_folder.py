import subprocess

import pytest
import torch

from bertie.training import run_folder
from bertie.training.distributed import Ranks
from bertie.training.run_folder import CARD, LOG, begin, made_with, peak_memory, read_card, write_card

CPU = torch.device("cpu")


def test_what_failed_before_its_first_step_is_begun_anew(tmp_path):
    run = tmp_path / "run"
    with begin(run, "lr = 1\n", False, False, Ranks(CPU)):
        write_card(run, {"data": "old"})
        (run / LOG).touch()
        with (
            pytest.raises(ValueError, match="run is being trained by another process"),
            begin(run, "lr = 2\n", False, False, Ranks(CPU)),
        ):
            pass
        assert read_card(run) == {"data": "old"} and (run / "recipe.toml").read_text() == "lr = 1\n"
    with begin(run, "lr = 2\n", False, False, Ranks(CPU)):
        pass
    assert read_card(run) == {} and (run / "recipe.toml").read_text() == "lr = 2\n"


@pytest.mark.parametrize("written", [{LOG: "{}\n", CARD: "{}"}, {"recipe.toml": "lr = 1\n"}, {CARD: "{}", "mine": ""}])
def test_what_has_begun_or_is_not_ours_is_left_alone(tmp_path, written):
    for name, text in written.items():
        (tmp_path / name).write_text(text)
    with (
        pytest.raises(ValueError, match=r"exists: give --out another name"),
        begin(tmp_path, "lr = 2\n", False, False, Ranks(CPU)),
    ):
        pass
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == written


def test_memory_is_counted_in_bytes():
    assert 100e6 < peak_memory(CPU) < 1e12  # torch alone takes more than the one


def test_the_commit_is_that_of_the_clone_the_code_runs_from(tmp_path, monkeypatch):
    file = tmp_path / "src" / "bertie" / "training" / "run_folder.py"
    file.parent.mkdir(parents=True)
    monkeypatch.setattr(run_folder, "__file__", str(file))
    assert made_with(CPU)["commit"] is None and made_with(CPU)["gpu"] is False
    file.write_text("one", encoding="utf-8")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=b"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *arguments], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert made_with(CPU)["commit"] == head[:12]
    file.write_text("two", encoding="utf-8")
    assert made_with(CPU)["commit"] == f"{head[:12]}, changed"


def test_killed_before_the_recipe_was_in_its_place_it_is_begun_anew(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".recipe.toml.partial").write_text("a = ", encoding="utf-8")
    with begin(tmp_path / "run", "a = 1\n", True, False, Ranks(CPU)):
        pass
    assert (tmp_path / "run" / "recipe.toml").read_text(encoding="utf-8") == "a = 1\n"


def test_a_file_in_the_place_of_the_folder_is_left_alone(tmp_path):
    (tmp_path / "run").write_text("mine")
    for resumes in (False, True):
        with (
            pytest.raises(ValueError, match="run exists, a file: give --out another name"),
            begin(tmp_path / "run", "a = 1\n", resumes, False, Ranks(CPU)),
        ):
            pass
    assert (tmp_path / "run").read_text() == "mine"
