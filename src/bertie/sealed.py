"""Files and folders that are whole or not there: written beside their place, flushed, swapped in, sealed by SHA-256."""

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

FORMAT_VERSION = 1
LINUX_HERE, LINUX_EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of renameat2(2)
MAC_SWAP = 2  # RENAME_SWAP of renamex_np(2)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # what the system says where there is no room to write


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A new folder to fill: it takes the target's place when the block ends well and is removed when it does not.

    ValueError if another process is filling it.
    """
    given, target = target, target.resolve()  # where the target is a link, the folder that it leads to is replaced
    with _naming(given, _partial(target)), _alone(target) as partial:
        try:
            yield partial
            for path in [*partial.rglob("*"), partial]:
                _flush(path)
            if target.is_dir():
                _exchange(partial, target)
            else:
                partial.rename(target)
            _flush(target.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # after an exchange: the old one


@contextmanager
def replacing_file(target: Path) -> Iterator[Path]:
    """A path to write: the file takes the target's place when the block ends well and is removed when it does not."""
    partial = _partial(target)
    with _naming(target, partial):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield partial
            _flush(partial)
            partial.replace(target)
            _flush(target.parent)
        finally:
            partial.unlink(missing_ok=True)


def write_file(target: Path, data: bytes) -> None:
    """The file holds these bytes, or, whenever it is stopped, what it held before."""
    with replacing_file(target) as partial:
        partial.write_bytes(data)


def lock(handle: int) -> None:
    """Have an open file or folder to this process alone until it is closed; BlockingIOError if another one has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks: there is no telling
        pass


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def seal(folder: Path, name: str, contents: Mapping[str, object]) -> None:
    """Write `name` into the folder: the contents, the SHA-256 of every other file, and its own."""
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    files.pop(name, None)
    sums = {file: {"bytes": path.stat().st_size, "sha256": sha256(path)} for file, path in files.items()}
    write_file(folder / name, _render({"version": FORMAT_VERSION, **contents, "files": sums}))


def unseal(folder: Path, name: str) -> dict[str, object]:
    """The contents of the seal, once every file is found to be what it says; ValueError names one that is not."""
    path = folder / name
    seal = _read_seal(path)
    if seal.pop("version") != FORMAT_VERSION:
        raise ValueError(f"{path} was written by another version of bertie; this one reads version {FORMAT_VERSION}.")
    files = seal.pop("files")
    assert isinstance(files, dict)
    for file, expected in files.items():
        _check(folder / file, expected)
    return seal


def _read_seal(path: Path) -> dict[str, object]:
    data = path.read_bytes()
    try:
        seal = json.loads(data)
        # The bytes must be exactly what we would write: no flipped bit may hide in spelling, spacing or case.
        stated = {key: value for key, value in seal.items() if key != "sha256"}
        is_whole = _render(stated) == data
    except (ValueError, AttributeError, TypeError, RecursionError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"{path} is damaged: its contents do not match its own SHA-256. Copy the folder anew.")
    return dict(stated)


def _check(path: Path, expected: Mapping[str, object]) -> None:
    if not path.is_file():
        raise ValueError(f"{path} is missing, though the folder's seal lists it. Copy the folder anew.")
    size = path.stat().st_size
    if size != expected["bytes"]:
        raise ValueError(
            f"{path} is damaged: it has {size:,} bytes instead of {expected['bytes']:,}. Copy the folder anew."
        )
    if sha256(path) != expected["sha256"]:
        raise ValueError(f"{path} is damaged: its contents do not match the SHA-256 in the seal. Copy the folder anew.")


def _render(contents: Mapping[str, object]) -> bytes:
    body = json.dumps(contents, indent=1, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(body.encode()).hexdigest()
    return (json.dumps({**contents, "sha256": digest}, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _partial(target: Path) -> Path:
    return target.with_name(f".{target.name}.partial")


@contextmanager
def _naming(target: Path, partial: Path) -> Iterator[None]:
    """Have the system's complaint name the target, not the partial one; of a full disk it names nothing at all."""
    try:
        yield
    except OSError as error:
        is_nameless = error.filename is None and error.errno in FULL
        if is_nameless or str(error.filename).startswith(str(partial)):
            error.filename = str(target)
        raise


@contextmanager
def _alone(target: Path) -> Iterator[Path]:
    """The target's partial folder, empty; ValueError if another process is filling it."""
    partial = _partial(target)
    partial.mkdir(parents=True, exist_ok=True)
    handle = os.open(partial, os.O_RDONLY)
    try:
        try:
            lock(handle)
        except BlockingIOError:
            raise ValueError(f"{target} is being written by another process: wait for it to end, or stop it.") from None
        _empty(partial)  # of what a killed writer left
        yield partial
    finally:
        os.close(handle)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _flush(path: Path) -> None:
    """Have the system put the file or the folder's list of names on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders in one step of the file system, since a rename cannot replace a folder that has files."""
    library = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(new), os.fsencode(old)
    if sys.platform == "darwin":
        failed = library.renamex_np(*names, MAC_SWAP)
    else:
        failed = library.renameat2(LINUX_HERE, names[0], LINUX_HERE, names[1], LINUX_EXCHANGE)
    if failed:
        code = ctypes.get_errno()
        if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise ValueError(f"{old} exists and its file system cannot replace a folder in one step: give a new name.")
        raise OSError(code, os.strerror(code), str(old))
