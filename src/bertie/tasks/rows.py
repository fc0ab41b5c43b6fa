"""Tables from files: CSV, TSV, JSON lines and parquet, compressed or not, each row with its place in the file."""

import csv
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertie.text.sources import COMPRESSIONS, find, opened, optional
from bertie.text.tables import LONGEST_FIELD

Values = Mapping[str, object]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Table:
    """The columns' names, and the rows: where each stands, and its values by name."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, Values], ...]


def suffix_of(path: Path) -> str:
    """How the file's name ends, without the ending that says how it is compressed."""
    return Path(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix


def read_text(path: Path) -> str:
    """The file's text; ValueError if it is not UTF-8."""
    with opened(find([path])[0]) as stream:
        data = stream.file.read()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}, line {line} is not UTF-8: convert it, as `iconv -t UTF-8` does.") from None


def read_table(path: Path, names: Sequence[str] = (), is_ragged: bool = False) -> Table:
    """The table in a file. names: those of its columns if its first line holds none of them. is_ragged: rows that have
    not as many columns as there are names are left out, and counted, and not refused."""
    source = find([path])[0]
    with opened(source) as stream:
        form = stream.form
    if form == "parquet":
        return _parquet(path)
    text = read_text(path)
    if form == "jsonl" or suffix_of(path) == ".jsonl":
        return _json_lines(path, text)
    rows = _tabbed(text) if form == "tsv" or (form == "plain" and "\t" in text.partition("\n")[0]) else _csv(path, text)
    if form == "plain" and "\t" not in text.partition("\n")[0]:
        raise ValueError(f"{path} is not a table: give a .csv, .tsv, .jsonl or .parquet file.")
    return _with_names(str(path), rows, names, is_ragged)


def _with_names(name: str, rows: Iterator[tuple[int, list[str]]], names: Sequence[str], is_ragged: bool) -> Table:
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{name} is empty: a table has a line of names and a line for each example.")
    has_header = not names or bool(set(names) & set(first[1]))
    columns = first[1] if has_header else list(names)
    repeated = {column for column in columns if columns.count(column) > 1 and column}
    if repeated:
        raise ValueError(f"{name} has several columns {min(repeated)!r}: give each a name of its own.")
    found, num_others = [], 0
    for line, values in rows if has_header else _again(first, rows):
        where = f"{name}, line {line}"
        is_short_of_last = not has_header and len(values) == len(columns) - 1  # a test file has no column of labels
        if len(values) != len(columns) and not is_short_of_last:
            if not is_ragged:
                raise ValueError(f"{where} has {len(values)} columns instead of {len(columns)}: mend that line.")
            num_others += 1
            continue
        found.append((where, dict(zip(columns, values, strict=False))))
    if num_others:
        log.warning("%s: %d rows left out, which have not %d columns.", name, num_others, len(columns))
    return Table(name, tuple(columns), tuple(found))


def _again(first: tuple[int, list[str]], rows: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rows


def _tabbed(text: str) -> Iterator[tuple[int, list[str]]]:
    """Quotes mean nothing here, as in GLUE's files."""
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if line.strip():
            yield number, line.split("\t")


def _csv(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LONGEST_FIELD)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begun = 1
    try:
        for values in reader:
            if values:
                yield begun, values
            begun = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}, line {begun} is not CSV: {error}.") from None


def _json_lines(path: Path, text: str) -> Table:
    rows: list[tuple[str, Values]] = []
    columns: dict[str, None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            values = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{where} is not JSON: {error}. JSON lines have one object a line.") from None
        if not isinstance(values, dict):
            raise ValueError(f"{where} is not a JSON object: write one object a line.")
        columns |= dict.fromkeys(values)
        rows.append((where, values))
    return Table(str(path), tuple(columns), tuple(rows))


def _parquet(path: Path) -> Table:
    parquet, arrow = optional("pyarrow.parquet", str(path)), optional("pyarrow", str(path))
    try:
        with opened(find([path])[0]) as stream:
            table = parquet.read_table(io.BytesIO(stream.file.read()))
    except arrow.ArrowException as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}. Copy it anew.") from None
    rows = tuple((f"{path}, row {number}", values) for number, values in enumerate(table.to_pylist(), 1))
    return Table(str(path), tuple(table.column_names), rows)
