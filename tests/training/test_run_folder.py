import subprocess

import torch

from bertie.training import run_folder
from bertie.training.distributed import Ranks
from bertie.training.run_folder import begin, made_with, peak_memory

CPU = torch.device("cpu")


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
    begin(tmp_path / "run", "a = 1\n", True, False, Ranks(CPU))
    assert (tmp_path / "run" / "recipe.toml").read_text(encoding="utf-8") == "a = 1\n"
