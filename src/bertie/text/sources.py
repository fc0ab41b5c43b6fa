"""Where text comes from: files, folders, globs and standard input, compressed or not, and which form it has."""

import bz2
import gzip
import importlib
import io
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, NoReturn

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_INPUT = "-"
HEAD = io.DEFAULT_BUFFER_SIZE  # bytes to tell a form by: as many as a file just opened shows
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv"}
COMPRESSIONS = (".gz", ".xz", ".zst", ".bz2")
JSON_LINE = re.compile(rb'\s*\{\s*"')
ZSTANDARD_PART = 1 << 14  # bytes; decompressed all at once, so few


@dataclass(frozen=True)
class Source:
    """A file, or standard input where there is no path. is_asked_for: named itself, not found in a folder."""

    name: str
    path: Path | None
    size: int
    is_asked_for: bool


@dataclass(frozen=True)
class Stream:
    """A source opened: its bytes without compression, and its form, None where it is no text.

    is_plain_file: neither compressed nor a pipe. position: how many bytes of the source itself are read.
    """

    file: io.BufferedReader
    form: str | None
    is_plain_file: bool
    position: Callable[[], int]


def find(inputs: Sequence[str | Path]) -> list[Source]:
    """The sources in the order given, a folder's or glob's files sorted by path, each file once."""
    sources: dict[str, Source] = {}
    for given in map(str, inputs):
        for source in _sources(given):
            sources.setdefault(str(source.path.resolve()) if source.path else STANDARD_INPUT, source)
    if not sources:
        raise ValueError("No text was given: name files, folders or globs, or - for standard input.")
    return list(sources.values())


@contextmanager
def opened(source: Source) -> Iterator[Stream]:
    """The source's bytes without compression and byte order mark; ValueError when damaged or, asked for, no text."""
    with _raw(source) as raw, _decompressed(raw, source.name) as file:
        head = file.peek(HEAD)
        if head.startswith(BYTE_ORDER_MARK):
            file.read(len(BYTE_ORDER_MARK))
        form = _form(source.name, head.removeprefix(BYTE_ORDER_MARK))
        if form is None and source.is_asked_for:
            raise ValueError(
                f"{source.name} is not text, as it holds NUL bytes. If it is UTF-16, convert it: "
                "iconv -f UTF-16 -t UTF-8."
            )
        is_seekable = raw.seekable()
        yield Stream(file, form, is_seekable and file is raw, raw.tell if is_seekable else lambda: 0)


def standard_input() -> BinaryIO:
    """Its bytes; ValueError when this process was started without one."""
    if sys.stdin is None:
        raise ValueError("Standard input is closed: pipe text into it, or give something else than -.")
    return sys.stdin.buffer


def _sources(given: str) -> list[Source]:
    if given == STANDARD_INPUT:
        return [Source("standard input", None, 0, True)]
    path = Path(given)
    if given and path.is_dir():
        files = [file for file in _files(path) if file.is_file()]
        if not files:
            raise ValueError(f"{given} is a folder without files: name one that holds text.")
        return [_file(file, is_asked_for=False) for file in sorted(files)]
    if given and path.exists():
        return [_file(path, is_asked_for=True)]
    found = Path(path.anchor).glob(str(path.relative_to(path.anchor))) if path.parts else []
    matches = sorted(match for match in found if not _is_hidden(set(match.parts).difference(path.parts)))
    if not matches:
        raise ValueError(f"{given!r} does not exist: name files, folders or globs, or - for standard input.")
    return [source for match in matches for source in _sources(str(match))]


def _files(folder: Path) -> Iterator[Path]:
    """What the folder and those in it hold, without what is hidden; ValueError for one that may not be read."""
    for inner, folders, names in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not _is_hidden([name])]
        yield from (Path(inner, name) for name in names if not _is_hidden([name]))


def _refuse_folder(error: OSError) -> NoReturn:
    raise ValueError(f"{error.filename} cannot be read: {error.strerror}.") from None


def _file(path: Path, is_asked_for: bool) -> Source:
    status = path.stat()
    return Source(str(path), path, status.st_size if stat.S_ISREG(status.st_mode) else 0, is_asked_for)


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") for part in parts)


class Parts(io.RawIOBase):
    """A file whose bytes come from an iterator, part by part."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._part = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        while not self._part:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._part = memoryview(part)
        room = memoryview(buffer).cast("B")
        number = min(len(room), len(self._part))
        room[:number] = self._part[:number]
        self._part = self._part[number:]
        return number


@contextmanager
def _raw(source: Source) -> Iterator[io.BufferedReader]:
    if source.path is None:
        # A pipe hands over what was written so far; a form is told by more than that.
        given = standard_input()
        yield io.BufferedReader(Parts(iter(lambda: given.read(HEAD), b"")), HEAD)
        return
    try:
        file = source.path.open("rb")
    except OSError as error:
        raise ValueError(f"{source.name} cannot be read: {error.strerror}.") from None
    with file:
        yield file


@contextmanager
def _decompressed(raw: io.BufferedReader, name: str) -> Iterator[io.BufferedReader]:
    try:
        yield _decompressor(raw, name)
    except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's complaint, not gzip's or bz2's
            raise
        raise ValueError(f"{name} is damaged, for it cannot be decompressed: {error}. Copy it anew.") from None


def _decompressor(raw: io.BufferedReader, name: str) -> io.BufferedReader:
    """The bytes that were compressed, as their first ones say, whatever the name says."""
    magic = raw.peek(HEAD)
    if magic.startswith(b"\x1f\x8b"):
        return io.BufferedReader(gzip.GzipFile(fileobj=raw), HEAD)
    if magic.startswith(b"\xfd7zXZ\0"):
        return io.BufferedReader(lzma.LZMAFile(raw), HEAD)
    if magic.startswith(b"BZh"):
        return io.BufferedReader(bz2.BZ2File(raw), HEAD)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return io.BufferedReader(Parts(_zstandard(raw, name)), HEAD)
    return raw


def _zstandard(raw: io.BufferedReader, name: str) -> Iterator[bytes]:
    zstandard = optional("zstandard", name)
    data = raw.read(ZSTANDARD_PART)
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        while not frame.eof:
            if not data:
                raise EOFError("it ends too soon")
            try:
                yield frame.decompress(data)
            except zstandard.ZstdError as error:
                raise EOFError(str(error)) from None
            data = frame.unused_data if frame.eof else raw.read(ZSTANDARD_PART)
        data = data or raw.read(ZSTANDARD_PART)


def optional(module: str, name: str) -> ModuleType:
    """The module of the extra `data`; ValueError says what to install for reading the file of that name."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ValueError(f"{name} needs {module}, which is not installed: pip install 'bertie[data]'.") from None


def _form(name: str, head: bytes) -> str | None:
    """What the bytes look like, or else what the name says; None for what is no text."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if b"\0" in head:
        return None
    if head.lstrip().startswith(b"<doc id="):
        return "wiki"
    path = Path(name)
    suffix = Path(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix
    if suffix == ".json" and head.lstrip().startswith(b"["):
        raise ValueError(f"{name} is one JSON array: write one object a line instead, as jq -c '.[]' does.")
    return SUFFIXES.get(suffix.lower(), "jsonl" if JSON_LINE.match(head) else "plain")
