import io
import json
import logging
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from bertie import console
from bertie.cli import bertie, run
from bertie.pretraining import run as pretraining
from bertie.pretraining.recipe import recipe_names


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; from bertie.cli import run; run(['--help']); sys.exit(bool({'torch', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "fill" in done.stdout


@pytest.mark.parametrize(
    ("said", "expected"), [({}, "2000"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None"), ({"GOMP_SPINCOUNT": "7"}, "7")]
)
def test_waiting_threads_leave_the_processor_to_others_unless_the_user_says(
    said: dict[str, str], expected: str
) -> None:
    code = """
import atexit, os, sys
from bertie.cli import main

atexit.register(lambda: print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules))
main()
"""
    own = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], env=own | said, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == f"{expected} False", "it is said before torch is loaded"


@pytest.mark.parametrize("name", bertie.commands)
def test_every_command_explains_itself_with_an_example_that_it_takes(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    example = re.search(rf"Example: bertie {name} (.*)", capsys.readouterr().out)
    assert example
    words = shlex.split(example[1])
    assert bertie.commands[name].make_context(name, words[: words.index(">>")] if ">>" in words else words)


@pytest.mark.parametrize("command", bertie.commands.values(), ids=bertie.commands)
def test_the_list_of_commands_fits_a_narrow_terminal(command: click.Command) -> None:
    assert len(command.get_short_help_str(100)) <= 66


@pytest.mark.parametrize("command", bertie.commands.values(), ids=bertie.commands)
def test_every_option_says_what_it_is_for(command: click.Command) -> None:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_help_says_what_is_taken_where_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run(["finetune", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "[default: stable]" in shown and "[default: 1; x>=1]" in shown and "[default: False]" not in shown


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("bertie 0.")


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["vocb"], "'vocab'? See: bertie --help"),
        (["convert", "a", "b"], "Choose from: hf, int8, tf. See: bertie convert --help"),
        (["vocab", "my-text", "--sizee", "3"], "'--size'? See: bertie vocab --help"),
        (["finetune", "clasify", "x.csv", "--model", "m", "--out", "r"], "'classify'"),
        (["finetune", "classify", "x.csv", "--model", "m", "--out", "r", "--set", "epchs=3"], "'epochs'"),
        (
            ["finetune", "classify", "x.csv", "--model", "m", "--out", "r", "--recipe", "stabel"],
            "allowed: stable, faithful",
        ),
        (["pretrain", "c", "--out", "r", "--recipe", "tinycpu"], "'tiny-cpu'"),
        (["pretrain", "c", "--out", "r", "--preset", "bert-bse"], "'bert-base'"),
        (["pretrain", "c", "--out", "r", "--set", "dropot=0.1"], "'dropout'"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_mistyped_name_is_answered_with_the_nearest(
    words: list[str], nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    err = capsys.readouterr().err
    assert nearest in err
    assert err.startswith("bertie: ") and err.count("\n") == 1


def test_quiet_says_only_what_goes_wrong(example_folder: Path, tmp_path: Path) -> None:
    text, folder = str(example_folder / "my-text"), str(example_folder / "my-bert")
    command = ["corpus", text, "--vocab", folder, "--out"]
    said = pipe([*command, str(tmp_path / "loud")], b"")
    quiet = [
        pipe([*command, str(tmp_path / "one"), "--quiet"], b""),
        pipe(["-q", *command, str(tmp_path / "two")], b""),
    ]
    assert b"Next:" in said.stderr
    assert [done.stderr for done in quiet] == [b"", b""]
    wrong = pipe([*command, str(tmp_path / "one"), "--quiet"], b"")
    assert wrong.returncode == 2 and b"exists" in wrong.stderr


def test_colours_only_on_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(**environment: str) -> str:
        terminal = Terminal()
        for name in ("NO_COLOR", "TERM"):
            monkeypatch.setenv(name, environment.get(name, ""))
        monkeypatch.setattr(sys, "stderr", terminal)
        console.error("no.")
        return terminal.getvalue()

    assert said() == "\033[31mbertie:\033[0m no.\n"
    assert said(NO_COLOR="1") == said(TERM="dumb") == "bertie: no.\n"


def test_what_the_library_says_goes_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich redraws its bar under what is printed to sys.stderr, and cannot know of a stream kept from before."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    record = logging.LogRecord("bertie", logging.WARNING, "", 0, "Two texts were cut.", None, None)
    with console.progress("reading") as report:
        report(1, 2)
        console.Messages().emit(record)
    lines = terminal.getvalue().replace("\r", "\n").split("\n")
    assert any(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) == "Two texts were cut." for line in lines)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"_BERTIE_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        (["voc"], ["vocab"]),
        (["finetune", "squ"], ["squad-v1", "squad-v2"]),
        (["pretrain", "c", "--recipe", ""], recipe_names()),
        (["pretrain", "c", "--preset", "bert-b"], ["bert-base"]),
        (["pretrain", "--resu"], ["--resume"]),
        (["fill", "my-"], ["my-"]),  # a file: the shell's own completion takes over
    ],
    ids=str,
)
def test_tab_completes_commands_options_and_names(words: list[str], completed: list[str]) -> None:
    *before, last = words
    found = ShellComplete(bertie, {}, "bertie", "_BERTIE_COMPLETE").get_completions(before, last)
    assert [item.value for item in found] == completed
    assert (found[0].type == "file") == (words[0] == "fill")


def test_what_the_user_can_mend_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fill", str(tmp_path / "nothing"), "a [MASK]"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("bertie: ")
    assert captured.err.count("\n") == 1
    assert "nothing" in captured.err
    assert captured.out == ""


def test_a_full_disk_is_one_sentence_that_names_what_cannot_be_written(
    example_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))  # no file may be longer: writing fails as on a full disk
    try:
        commands = [
            ["vocab", str(example_folder / "my-text"), "--size", "600", "--out", str(out)],
            ["convert", str(example_folder / "my-bert"), str(out), "--to", "hf"],
            ["convert", str(example_folder / "my-bert"), str(out), "--to", "tf"],
        ]
        for command in commands:
            assert run(command) == 2
            said = capsys.readouterr().err.splitlines()[-1]
            assert said == f"bertie: {out} cannot be written: File too large. Make room, or give another place."
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_closed_standard_input_is_one_sentence(
    example_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert run(["tokenize", str(example_folder / "my-bert"), "-"]) == 2
    assert "Standard input is closed" in capsys.readouterr().err


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


def test_inspect_as_json(example_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(example_folder / "my-bert"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"]["width"] == 32
    assert found["bytes"] == 4 * sum(found["parameters"].values())


def test_cards_as_json(example_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = str(example_folder / "my-text")
    assert run(["vocab", text, "--size", "300", "--out", str(tmp_path / "v"), "--json"]) == 0
    vocabulary = json.loads(capsys.readouterr().out)
    assert run(["corpus", text, "--vocab", str(tmp_path / "v"), "--out", str(tmp_path / "c"), "--json"]) == 0
    corpus = json.loads(capsys.readouterr().out)
    assert vocabulary.items() <= json.loads((tmp_path / "v" / "card.json").read_text()).items()
    assert corpus == json.loads((tmp_path / "c" / "card.json").read_text())


def test_a_text_longer_than_the_model_can_read_has_no_flops(
    example_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", str(example_folder / "my-bert"), "--length", "513"]) == 2
    assert "--length 513 is more than the model's 512 positions." in capsys.readouterr().err


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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_was_asked_to_stop_says_so_by_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    monkeypatch.setattr(pretraining, "pretrain", lambda order, watch: pretraining.Ending("stopped", number))
    assert run(["pretrain", "my-corpus", "--out", str(tmp_path / "run"), "--steps", "5"]) == code


def test_a_reader_that_goes_away_is_no_error(example_folder: Path) -> None:
    command = f"yes 'a b c' | head -3000 | {sys.executable} -m bertie tokenize {example_folder / 'my-bert'} - | head -1"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[2]}}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "a b c\n", "")


def pipe(arguments: list[str], text: bytes) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-m", "bertie", *arguments], input=text, capture_output=True, check=False)


def test_columns_stand_under_each_other_in_chinese_too() -> None:
    shown = console.table(["模型", "均值"], [["从头开始", "18.4%"], ["bertie", "30.0%"]]).splitlines()
    assert shown == ["模型       均值", "--------  -----", "从头开始  18.4%", "bertie    30.0%"]
