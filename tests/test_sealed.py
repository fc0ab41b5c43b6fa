import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bertie.sealed import replacing_file, replacing_folder, seal, unseal, write_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    (folder / "one.txt").write_text("one")
    (folder / "inner" / "two.bin").write_bytes(bytes(range(256)))
    seal(folder, "seal.json", {"made": "by a test"})
    return folder


def test_unseal_gives_the_contents(folder: Path) -> None:
    assert unseal(folder, "seal.json") == {"made": "by a test"}


@pytest.mark.parametrize("file", ["one.txt", "inner/two.bin", "seal.json"])
def test_every_flipped_bit_is_refused_by_name(folder: Path, file: str) -> None:
    path = folder / file
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=Path(file).name):
            unseal(folder, "seal.json")


@pytest.mark.parametrize("file", ["one.txt", "inner/two.bin", "seal.json"])
def test_every_truncation_is_refused_by_name(folder: Path, file: str) -> None:
    path = folder / file
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match=Path(file).name):
            unseal(folder, "seal.json")


@pytest.mark.parametrize(
    "contents", ["", "{", "[]", "7", "[" * 100_000], ids=["nothing", "cut", "list", "number", "deep"]
)
def test_a_seal_that_is_none_is_refused_by_name(folder: Path, contents: str) -> None:
    (folder / "seal.json").write_text(contents)
    with pytest.raises(ValueError, match=r"seal\.json is damaged"):
        unseal(folder, "seal.json")


def test_a_missing_file_is_refused_by_name(folder: Path) -> None:
    (folder / "one.txt").unlink()
    with pytest.raises(ValueError, match=r"one\.txt is missing"):
        unseal(folder, "seal.json")


def test_a_folder_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for text in ("old", "new"):
        with replacing_folder(target) as new:
            (new / text).write_text(text)
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_folder_stays_when_the_new_one_fails(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with replacing_folder(target) as new:
        (new / "old").write_text("old")
    with pytest.raises(RuntimeError), replacing_folder(target) as new:
        (new / "new").write_text("new")
        raise RuntimeError("disk full")
    assert [path.name for path in target.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    with replacing_folder(target) as new:
        (new / "first").write_text("first")
        with pytest.raises(ValueError, match="folder is being written by another process"), replacing_folder(target):
            pass
    assert [path.name for path in target.iterdir()] == ["first"]
    with replacing_folder(target) as new:
        (new / "second").write_text("second")
    assert [path.name for path in target.iterdir()] == ["second"]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / ".folder.partial"
    (left / "inner").mkdir(parents=True)
    (left / "file").write_text("half")
    with replacing_folder(tmp_path / "folder") as new:
        (new / "whole").write_text("whole")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["whole"]


def test_the_folder_behind_a_link_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "folder", tmp_path / "link"
    for text in ("old", "new"):
        with replacing_folder(target if text == "old" else link) as new:
            (new / text).write_text(text)
        link.unlink(missing_ok=True)
        link.symlink_to(target)
    assert [path.name for path in target.iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link"]


def test_a_file_stays_when_the_new_one_fails(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_file(target, b"old")
    with pytest.raises(RuntimeError), replacing_file(target) as new:
        new.write_bytes(b"half")
        raise RuntimeError("disk full")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("replacing", [replacing_file, replacing_folder])
def test_a_full_disk_is_said_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replacing: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r"space left on device: 'target'$"), replacing(Path("target")):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match=r"denied: 'target'$"), replacing(Path("target")) as new:
        raise PermissionError(errno.EACCES, "Permission denied", str(new))
    with pytest.raises(OSError, match=r"denied: 'input'$"), replacing(Path("target")):
        raise PermissionError(errno.EACCES, "Permission denied", "input")
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys
from pathlib import Path
from bertie.sealed import replacing_folder, seal
target = Path(sys.argv[1])
for count in range(10**6):
    with replacing_folder(target) as new:
        for name in "abc":
            (new / name).write_text(str(count))
        seal(new, "seal.json", {"count": count})
    print(count, flush=True)
"""


def test_a_killed_writer_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for delay in (0.0, 0.003, 0.007, 0.011, 0.02):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(target)], stdout=subprocess.PIPE)
        assert writer.stdout
        writer.stdout.readline()
        time.sleep(delay)
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        count = unseal(target, "seal.json")["count"]
        assert {(target / name).read_text() for name in "abc"} == {str(count)}
