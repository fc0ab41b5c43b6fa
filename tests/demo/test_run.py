import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bertie.cli import run
from bertie.demo.look import MASKED, QUERIES
from bertie.demo.run import Demo, DemoConfig
from bertie.training.run_folder import read_card
from bertie.training.runlog import read_log

BEGIN = """
import sys
from pathlib import Path
from bertie.demo.gather import GatherConfig
from bertie.demo.run import Demo, DemoConfig
config = {config}
stopped = Demo(config, Path({out}), "en").run()
sys.exit(0 if stopped is None else 128 + stopped)
"""


def begun(config: DemoConfig, out: Path) -> subprocess.Popen[str]:
    """The demo in a process of its own."""
    code = BEGIN.format(config=repr(config).replace("PosixPath", "Path"), out=repr(str(out)))
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    while not any(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def bytes_of(folder: Path) -> dict[Path, tuple[int, bytes]]:
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("language", "learned", "finished"),
    [("en", "Masks filled", "there is nothing to do"), ("zh", "填被遮的词", "没有要做的事")],
)
def test_a_demo_from_text_to_a_look_and_then_it_rests(
    language: str, learned: str, finished: str, config: DemoConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    assert Demo(config, out, language).run() is None
    told = capsys.readouterr().out
    assert learned in told and "bertie pretrain my-corpus" in told and f"bertie fill {out}/pretrained/model" in told
    card = read_card(out / "pretrained")
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f'lang="{language}' in page and (out / "report.html").as_uri() in told
    assert f"{card['validation_masked_accuracy']:.1%}" in told
    for name in ("pretrained", "scratch"):
        scores = read_card(out / "finetuned" / name)
        assert len(scores["each"]) == 2 and f"{scores['mean']:.1%}" in told
    before = bytes_of(out)
    assert Demo(config, out, language).run() is None
    told = capsys.readouterr().out
    assert finished in told and "bertie pretrain my-corpus" in told and learned not in told
    assert bytes_of(out) == before
    for name in ("pretrained/model", "scratch", "finetuned/pretrained/model", "finetuned/scratch/model"):
        assert (out / name / "bertie.json").is_file()


def test_the_model_that_the_package_carries_stands_beside(
    carries: Path, config: DemoConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    assert Demo(replace(config, beside=carries.name), out, "en").run() is None
    told = capsys.readouterr().out
    for name in ("frozen", carries.name):
        scores = read_card(out / "finetuned" / name)
        assert len(scores["each"]) == 2 and f"{scores['mean']:.1%}" in told
        assert read_card(out / "finetuned" / name / "seed-0")["learning"] < 1000  # the head alone
    assert f'model = "{carries.name}"' in (out / "finetuned" / carries.name / "recipe.toml").read_text()
    assert len(re.findall(rf"^      {carries.name}: ", told, re.MULTILINE)) == len(MASKED) + len(QUERIES)
    page = (out / "report.html").read_text(encoding="utf-8")
    named = (f"finetuned/{carries.name}", f"{carries.parent.name}/{carries.name} at work")
    assert all(name in page for name in named)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_stopped_in_pretraining_it_goes_on(
    number: int, code: int, config: DemoConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demo"
    config = replace(config, minutes=0.1)
    process = begun(config, out)
    wait_for(out / "pretrained" / "state", "step-*", process)
    process.send_signal(number)
    told, _ = process.communicate()
    assert process.returncode == code, told
    assert number == signal.SIGKILL or "The same command goes on." in told
    corpus = bytes_of(out / "corpus")
    assert Demo(config, out, "en").run() is None
    assert bytes_of(out / "corpus") == corpus
    events = [event["event"] for event in read_log(out / "pretrained" / "log.jsonl")]
    assert "resume" in events and events[-1] == "end"
    assert json.loads((out / "demo.json").read_text())["finished"] == "en"
    assert "is there from before" in capsys.readouterr().out


def test_killed_in_finetuning_it_goes_on(config: DemoConfig, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    process = begun(config, out)
    wait_for(out / "finetuned" / "pretrained", "seed-1", process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    pretrained = bytes_of(out / "pretrained")
    assert Demo(config, out, "en").run() is None
    assert bytes_of(out / "pretrained" / "model").items() <= pretrained.items()
    assert read_card(out / "finetuned" / "scratch")["seeds"] == 2


def test_a_folder_of_something_else_is_refused(
    config: DemoConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "thesis.txt").write_text("Years of work.")
    assert run(["demo", "--out", str(out)]) == 2
    assert "of no demo" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]


def test_other_minutes_than_it_was_begun_with_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    (out / "demo.json").write_text('{"minutes": 2.0, "finished": null}')
    assert run(["demo", "--out", str(out), "--minutes", "3"]) == 2
    assert "was begun with --minutes 2" in capsys.readouterr().err
    assert run(["demo", "--out", str(out), "--minutes", "0"]) == 2


def test_the_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--help"]) == 0
    told = capsys.readouterr().out
    assert "bertie demo --out demo" in told and "goes on" in told
    for step in ("text", "vocabulary", "corpus", "pre-training", "fine-tuning", "a look"):
        assert step in told
