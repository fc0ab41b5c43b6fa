import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from bertie.cli import bertie, run


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; from bertie.cli import run; run(['--help']); sys.exit(bool({'torch', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fill" in done.stdout


@pytest.mark.parametrize("command", bertie.commands)
def test_every_command_explains_itself_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert f"Example: bertie {command} " in capsys.readouterr().out


@pytest.mark.parametrize("command", bertie.commands.values(), ids=bertie.commands)
def test_every_option_says_what_it_is_for(command: click.Command) -> None:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("bertie 0.")


def test_a_mistyped_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["vocb"]) == 2
    assert "'vocab'" in capsys.readouterr().err


def test_what_the_user_can_mend_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fill", str(tmp_path / "nothing"), "a [MASK]"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("bertie: ")
    assert captured.err.count("\n") == 1
    assert "nothing" in captured.err
    assert captured.out == ""


def test_traceback_shows_where(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing"):
        run(["--traceback", "fill", str(tmp_path / "nothing"), "a [MASK]"])


def test_fill_as_json(example_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(example_folder / "my-bert")
    assert run(["fill", folder, "a [MASK]", "--json", "--top", "2"]) == 0
    assert run(["fill", folder, "[MASK] or [MASK]", "--json"]) == 0
    one, two = map(json.loads, capsys.readouterr().out.splitlines())
    assert one["text"] == "a [MASK]"
    assert [sorted(prediction) for prediction in one["predictions"]] == [["score", "token"]] * 2
    assert one["predictions"][0]["score"] >= one["predictions"][1]["score"]
    assert [len(mask) for mask in two["predictions"]] == [5, 5]


def test_fill_without_a_mask_names_the_line(example_folder: Path) -> None:
    done = pipe(["fill", str(example_folder / "my-bert"), "-", "--json"], b"a [MASK]\nnone\n")
    assert done.returncode == 2
    assert b"line 2 has no [MASK]" in done.stderr
    assert done.stdout == b""


def test_embed_reads_a_text_a_line(example_folder: Path) -> None:
    done = pipe(["embed", str(example_folder / "my-bert"), "-", "--json"], "a\r\n\n漢".encode())
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["text"] for line in lines] == ["a", "", "漢"]
    assert {len(line["vector"]) for line in lines} == {32}


def test_a_line_that_is_not_utf8_is_named(example_folder: Path) -> None:
    done = pipe(["embed", str(example_folder / "my-bert"), "-"], b"a\n\xff\n")
    assert done.returncode == 2
    assert b"standard input, line 2 is not UTF-8" in done.stderr


def test_tokenize(example_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(example_folder / "my-bert")
    assert run(["tokenize", folder, "ab [MASK]"]) == 0
    assert run(["tokenize", folder, "Ö!", "--json"]) == 0
    plain, as_json = capsys.readouterr().out.splitlines()
    assert plain == "a ##b [ m ##a ##s ##k ]"
    assert json.loads(as_json)["offsets"] == [None, [0, 1], [1, 2], None]


def test_inspect(example_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(example_folder / "my-bert"), "--length", "16"]) == 0
    out = capsys.readouterr().out
    assert "heads.masked" in out
    assert "a token at 16 tokens a text" in out


def test_convert_there_and_back(example_folder: Path, tmp_path: Path) -> None:
    source = example_folder / "my-bert"
    assert run(["convert", str(source), str(tmp_path / "tf"), "--to", "tf"]) == 0
    assert run(["convert", str(tmp_path / "tf"), str(tmp_path / "hf"), "--to", "hf"]) == 0
    for name in ("model.safetensors", "vocab.txt"):
        assert (tmp_path / "hf" / name).read_bytes() == (source / name).read_bytes()
    assert run(["convert", str(source), str(tmp_path / "tf"), "--to", "tf"]) == 2  # it exists


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_from_outside(example_folder: Path, number: int, code: int) -> None:
    command = [sys.executable, "-m", "bertie", "embed", str(example_folder / "my-bert"), "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1)  # it waits for its input
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert b"Traceback" not in err


def test_a_reader_that_goes_away_is_no_error(example_folder: Path) -> None:
    command = f"yes 'a b c' | head -3000 | {sys.executable} -m bertie tokenize {example_folder / 'my-bert'} - | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "a b c\n"
    assert done.stderr == ""


def pipe(arguments: list[str], text: bytes) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-m", "bertie", *arguments], input=text, capture_output=True, check=False)
