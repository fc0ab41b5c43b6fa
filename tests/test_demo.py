from pathlib import Path

import pytest

from bertie.cli import run


def test_the_demo_runs_and_runs_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "demo")
    assert run(["demo", "--out", out]) == 0
    first = capsys.readouterr().out
    assert "the iterator returns the next item , or raises" in first
    vocabulary = (tmp_path / "demo" / "vocabulary" / "vocab.txt").read_text(encoding="utf-8").splitlines()
    assert len(vocabulary) == 8000
    assert {"python", "iterator", "##ing"} <= set(vocabulary)
    assert run(["demo", "--out", out]) == 0
    assert "is there from an earlier run" in capsys.readouterr().out
