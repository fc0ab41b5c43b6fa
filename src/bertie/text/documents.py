"""Documents from text in any form, streamed: cut into blocks that any process can read, then read and cleaned."""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from bertie.text.clean import clean, unwrap
from bertie.text.sources import Source, Stream, find, opened
from bertie.text.tables import json_column, parquet_texts, row_column, split_rows

BLOCK = 4 << 20  # bytes of a source that are read at a time
LONGEST_DOCUMENT = 4 << 20  # bytes of plain text; what is longer becomes several documents
LONGEST_RECORD = 64 << 20  # bytes in any other form, where a record cannot be cut
DOCUMENT_ENDS = ("blank", "file")

UP_TO_BLANK_LINE = re.compile(rb".*\n[ \t\r]*\n", re.DOTALL)  # greedy: up to the last one
BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
WORD_CHARACTER = re.compile(r"\w")
MOST_NOT_UTF8 = 0.1  # of the bytes of a file that was named; more is another encoding, and what is left no text


@dataclass(frozen=True)
class TextConfig:
    """How text is read: which column of a table holds it, and whether a blank line or the file ends a document."""

    column: str | None = None
    document: str = "blank"

    def __post_init__(self) -> None:
        if self.document not in DOCUMENT_ENDS:
            raise ValueError(f"document={self.document!r} is not known; allowed: {', '.join(DOCUMENT_ENDS)}.")


@dataclass(frozen=True)
class Block:
    """Some megabytes of whole documents, not read yet.

    form: a key of FORMS. data: bytes in that form, or texts. column: which one holds the text, by name or number.
    done: the bytes of all sources up to here, compressed ones as they are stored. is_asked_for: as of its source.
    """

    name: str
    form: str
    data: bytes | tuple[str, ...]
    column: str | int
    done: int
    is_asked_for: bool = False

    @property
    def size(self) -> int:
        """Bytes, or for texts characters."""
        return len(self.data) if isinstance(self.data, bytes) else sum(map(len, self.data))


@dataclass
class Tally:
    """What was read, and how often something was dropped or mended on the way, by what it was."""

    documents: int = 0
    characters: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    not_utf8: Counter[str] = field(default_factory=Counter)  # bytes dropped, by the source's name

    def add(self, other: "Tally") -> None:
        self.documents += other.documents
        self.characters += other.characters
        self.counts += other.counts
        self.not_utf8 += other.not_utf8


def read_documents(inputs: Sequence[str | Path], config: TextConfig) -> Iterator[str]:
    """The documents of files, folders, globs and standard input (`-`), one after the other."""
    for block in blocks(find(inputs), config):
        yield from documents(block)[0]


def blocks(sources: Sequence[Source], config: TextConfig) -> Iterator[Block]:
    """The sources cut into blocks, always at the same places, so that who reads which block does not matter."""
    done = 0
    for source in sources:
        with opened(source) as stream:
            for form, data, column in _parts(stream, source, config):
                yield Block(source.name, form, data, column, done + stream.position(), source.is_asked_for)
        done += source.size


def documents(block: Block) -> tuple[list[str], Tally]:
    """The block's documents, cleaned, those without a word left out, and the tally of that."""
    tally = Tally()
    data = block.data if isinstance(block.data, tuple) else (_decoded(block, block.data, tally),)
    kept: list[str] = []
    for text in FORMS[block.form].texts(data, block.column, tally):
        text = clean(text, tally.counts)
        if block.form != "wiki":  # its paragraphs are lines
            text = unwrap(text, tally.counts)
        parts = BLANK_LINES.split(text.strip()) if block.form == "blank" else [text.strip()]
        with_words = [part for part in parts if WORD_CHARACTER.search(part)]
        tally.counts["empty documents"] += len(parts) - len(with_words)
        kept += with_words
    tally.documents, tally.characters = len(kept), sum(map(len, kept))
    return kept, tally


Part = tuple[str, bytes | tuple[str, ...], str | int]  # form, data and column of a block


def _parts(stream: Stream, source: Source, config: TextConfig) -> Iterator[Part]:
    form = config.document if stream.form == "plain" else stream.form
    if form is None:
        return iter([("binary", (), 0)])
    if form == "parquet":
        return (("texts", texts, 0) for texts in parquet_texts(stream, source, config.column))
    pieces = _pieces(stream.file, form, source.name)
    first = next(pieces, b"")
    column: str | int = 0
    if first and form == "jsonl":
        column = json_column(first, config.column, source.name)
    if first and form in ("csv", "tsv"):
        column = row_column(first.decode("utf-8", "ignore"), config.column, source.name, form)
        first = first.partition(b"\n")[2]
    return ((form, data, column) for data in chain([first], pieces) if data)


def _pieces(file: io.BufferedReader, form: str, name: str) -> Iterator[bytes]:
    """The file cut after whole documents."""
    rest = b""
    while part := file.read(BLOCK):
        rest += part
        end = FORMS[form].last_end(rest)
        if not end and len(rest) > FORMS[form].longest:
            if form not in DOCUMENT_ENDS:
                size = f"{FORMS[form].longest >> 20} MiB"
                raise ValueError(f"{name} has a record of more than {size}, or one that never ends: split it.")
            end = _cut_anywhere(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def _decoded(block: Block, data: bytes, tally: Tally) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", errors="ignore")  # as Google's tokenizer does
    num_dropped = len(data) - len(text.encode("utf-8"))
    if block.is_asked_for and num_dropped > MOST_NOT_UTF8 * len(data):
        raise ValueError(
            f"{block.name} is not UTF-8, as {num_dropped / len(data):.0%} of its bytes cannot be: convert it, "
            "as iconv -f ENCODING -t UTF-8 does."
        )
    tally.not_utf8[block.name] += num_dropped
    return text


def _cut_anywhere(data: bytes) -> int:
    """Where to cut a document that is too long: after a blank line, else a line, else between two characters."""
    between = next((end for end in range(len(data) - 4, len(data) - 8, -1) if data[end] & 0xC0 != 0x80), len(data))
    return _last_blank_line(data) or _last_line(data) or between


def _last_blank_line(data: bytes) -> int:
    found = UP_TO_BLANK_LINE.match(data)
    return found.end() if found else 0


def _last_line(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def _last_row(data: bytes) -> int:
    """The end of the last line that is not inside quotes."""
    end = data.rfind(b"\n")
    num_quotes = data.count(b'"', 0, max(end, 0))
    while end >= 0 and num_quotes % 2:
        before = data.rfind(b"\n", 0, end)
        num_quotes -= data.count(b'"', max(before, 0), end)
        end = before
    return end + 1


def _last_wiki_document(data: bytes) -> int:
    at = data.rfind(b"</doc>")
    return at + len(b"</doc>") if at >= 0 else 0


def _as_they_are(texts: Sequence[str], column: str | int, tally: Tally) -> Iterable[str]:
    return texts


def _wiki_texts(texts: Sequence[str], column: str | int, tally: Tally) -> Iterator[str]:
    """What stands between <doc ...> and </doc>; the tags are lines of their own."""
    for part in texts[0].split("</doc>"):
        _, tag, rest = part.partition("<doc ")
        if tag:
            yield rest.partition("\n")[2]


def _json_texts(texts: Sequence[str], column: str | int, tally: Tally) -> Iterator[str]:
    for line in filter(str.strip, texts[0].split("\n")):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):  # the second for brackets in brackets, a thousand deep
            tally.counts["rows that are not JSON"] += 1
            continue
        value = row.get(column) if isinstance(row, dict) else None
        if isinstance(value, str):
            yield value.encode("utf-8", "ignore").decode("utf-8")  # half a surrogate pair can be spelled in JSON
        else:
            tally.counts["rows without text"] += 1


def _row_texts(texts: Sequence[str], column: str | int, tally: Tally, form: str) -> Iterator[str]:
    assert isinstance(column, int)
    for row in split_rows(texts[0], form):
        if len(row) > column:
            yield row[column]
        elif row:
            tally.counts["rows without text"] += 1


def _no_text(texts: Sequence[str], column: str | int, tally: Tally) -> Iterator[str]:
    tally.counts["files that are not text"] += 1
    return iter(())


@dataclass(frozen=True)
class Form:
    """Where the last whole document in some bytes ends (0: not yet), how long one may be, and the texts in a block."""

    last_end: Callable[[bytes], int]
    longest: int
    texts: Callable[[Sequence[str], str | int, Tally], Iterable[str]]


FORMS = {
    "blank": Form(_last_blank_line, LONGEST_DOCUMENT, _as_they_are),
    "file": Form(lambda data: 0, LONGEST_DOCUMENT, _as_they_are),
    "wiki": Form(_last_wiki_document, LONGEST_RECORD, _wiki_texts),
    "jsonl": Form(_last_line, LONGEST_RECORD, _json_texts),
    "csv": Form(_last_row, LONGEST_RECORD, partial(_row_texts, form="csv")),
    "tsv": Form(_last_line, LONGEST_RECORD, partial(_row_texts, form="tsv")),
    "texts": Form(len, LONGEST_RECORD, _as_they_are),
    "binary": Form(len, LONGEST_RECORD, _no_text),
}
