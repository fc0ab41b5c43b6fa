"""Which column of a table holds the text, and the texts of a Parquet file."""

import csv
import io
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice

from bertie.text.sources import Source, Stream, optional

USUAL_NAMES = ("text", "content")
SAMPLE = 100  # rows of a CSV file that show which columns hold numbers
LONGEST_FIELD = 1 << 30  # characters; Python's own limit of 131,072 is less than a book
ROWS = 256  # of a Parquet file that are read at a time


def choose_column(kinds: Mapping[str, bool], wanted: str | None, name: str) -> str:
    """The wanted column, else `text` or `content`, else the only one with text; `kinds` says which have text."""
    columns = ", ".join(kinds)
    if wanted is not None:
        if wanted not in kinds:
            raise ValueError(f"{name} has no column {wanted!r}; its columns: {columns}.")
        return wanted
    for usual in USUAL_NAMES:
        if kinds.get(usual):
            return usual
    with_text = [column for column, has_text in kinds.items() if has_text]
    if len(with_text) != 1:
        number = "several columns" if with_text else "no column"
        raise ValueError(f"{name} has {number} of text: say which to read with --column; its columns: {columns}.")
    return with_text[0]


def json_column(lines: bytes, wanted: str | None, name: str) -> str:
    """The column of JSON lines, by the first line."""
    first = lines.lstrip().partition(b"\n")[0]
    try:
        row = json.loads(first)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}, line 1 is not JSON: {error}. JSON lines have one object a line.") from None
    if not isinstance(row, dict):
        raise ValueError(f"{name}, line 1 is not a JSON object, but {type(row).__name__}: write one object a line.")
    return choose_column({key: isinstance(value, str) for key, value in row.items()}, wanted, name)


def row_column(lines: str, wanted: str | None, name: str, form: str) -> int:
    """The number of the column of a CSV or TSV file, by its first line, which names them, and the rows that follow."""
    rows = list(islice(split_rows(lines, form), 1 + SAMPLE))
    columns, rows = (rows[0], rows[1:]) if rows else ([], [])
    kinds = {
        column: not rows or any(len(row) > at and _is_text(row[at]) for row in rows)
        for at, column in enumerate(columns)
    }
    return columns.index(choose_column(kinds, wanted, name))


def split_rows(lines: str, form: str) -> Iterator[list[str]]:
    """The rows' values. Quotes mean something in CSV; in TSV, as GLUE and most others write it, they do not."""
    lines = lines.replace("\r\n", "\n").replace("\r", "\n")
    if form == "tsv":
        return (line.split("\t") for line in lines.split("\n") if line)
    csv.field_size_limit(LONGEST_FIELD)
    return csv.reader(io.StringIO(lines, newline=""))


def parquet_texts(stream: Stream, source: Source, wanted: str | None) -> Iterator[tuple[str, ...]]:
    """The texts of the column, a few hundred at a time; what is null is empty."""
    parquet, arrow = optional("pyarrow.parquet", source.name), optional("pyarrow", source.name)
    try:
        with _seekable(stream) as file:
            table = parquet.ParquetFile(file)
            kinds = {
                column.name: arrow.types.is_string(column.type) or arrow.types.is_large_string(column.type)
                for column in table.schema_arrow
            }
            column = choose_column(kinds, wanted, source.name)
            if not kinds[column]:
                raise ValueError(
                    f"{source.name}: column {column!r} does not hold text; its columns: {', '.join(kinds)}."
                )
            for batch in table.iter_batches(batch_size=ROWS, columns=[column]):
                yield tuple(text or "" for text in batch.column(0).to_pylist())
    except (arrow.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the disk's complaint, not Arrow's
            raise
        said = " ".join(str(error).split())
        raise ValueError(
            f"{source.name} is damaged, for it cannot be read as Parquet: {said.rstrip('.')}. Copy it anew."
        ) from None


@contextmanager
def _seekable(stream: Stream) -> Iterator[io.BufferedIOBase]:
    """The file itself, or a temporary one when it is compressed or a pipe: Parquet is read from its end."""
    if stream.is_plain_file:
        yield stream.file
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(stream.file, copy)
        copy.seek(0)
        yield copy


def _is_text(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return bool(value.strip())
    return False
