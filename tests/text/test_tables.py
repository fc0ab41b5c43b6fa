import io
import re

import pyarrow
import pytest
from pyarrow import parquet

from bertie.text.sources import Source, Stream
from bertie.text.tables import choose_column, json_column, parquet_texts, row_column, split_rows


def stored(columns, **options):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, **options)
    return file.getvalue()


def texts_of(data, wanted=None, is_plain_file=True):
    stream = Stream(io.BufferedReader(io.BytesIO(data)), "parquet", is_plain_file, lambda: 0)
    return list(parquet_texts(stream, Source("a.parquet", None, 0, True), wanted))


@pytest.mark.parametrize(
    ("kinds", "wanted", "chosen"),
    [
        ({"id": False, "text": True, "title": True}, None, "text"),
        ({"content": True, "title": True}, None, "content"),
        ({"content": True, "text": True}, None, "text"),
        ({"text": False, "body": True}, None, "body"),
        ({"id": False, "body": True}, None, "body"),
        ({"text": True, "title": True}, "title", "title"),
        ({"id": False}, "id", "id"),
    ],
)
def test_the_column_is_the_wanted_one_or_the_only_one_that_can_be_meant(kinds, wanted, chosen):
    assert choose_column(kinds, wanted, "a.csv") == chosen


@pytest.mark.parametrize(
    ("kinds", "wanted", "sentence"),
    [
        (
            {"a": True, "b": True},
            None,
            "a.csv has several columns of text: say which to read with --column; its columns: a, b.",
        ),
        ({"id": False}, None, "a.csv has no column of text: say which to read with --column; its columns: id."),
        ({"text": True, "b": True}, "c", "a.csv has no column 'c'; its columns: text, b."),
    ],
)
def test_no_column_is_guessed(kinds, wanted, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        choose_column(kinds, wanted, "a.csv")


def test_json_lines_have_their_columns_in_the_first_line():
    assert json_column(b'\n{"id": "7", "text": "x"}\n{"other": 1}', None, "a.jsonl") == "text"
    assert json_column('{"标题": "x", "n": 3}'.encode(), None, "a.jsonl") == "标题"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"{'text': 1}", "a.jsonl, line 1 is not JSON: Expecting property name"),
        (b'{"text": "\xff"}', "a.jsonl, line 1 is not JSON: 'utf-8' codec can't decode"),
        (b"[" * 100_000, "a.jsonl, line 1 is not JSON: maximum recursion depth"),
        (b'"text"', "a.jsonl, line 1 is not a JSON object, but str: write one object a line."),
        (b"{}", "a.jsonl has no column of text"),
    ],
)
def test_a_first_line_that_is_no_object_is_refused(line, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        json_column(line, None, "a.jsonl")


def test_a_column_of_numbers_holds_no_text():
    assert row_column("score,body\n1.5,x\n2e3,y\n", None, "a.csv", "csv") == 1
    assert row_column("score\tbody\n\tx\n3\t4\n", None, "a.tsv", "tsv") == 1
    assert row_column("score,body\n1,x\n", "score", "a.csv", "csv") == 0
    assert row_column("id,text\n", None, "a.csv", "csv") == 1, "without a row, the name says it"
    for rows in ("a,b\nx,y\n", "a,b\n"):
        with pytest.raises(ValueError, match="several columns of text"):
            row_column(rows, None, "a.csv", "csv")
    with pytest.raises(ValueError, match="no column of text"):
        row_column("", None, "a.csv", "csv")


def test_quotes_mean_something_in_csv_alone():
    assert list(split_rows('a,"b\r\nc, ""d"""\r\ne,f', "csv")) == [["a", 'b\nc, "d"'], ["e", "f"]]
    assert list(split_rows('a\t"b\r\n"c"\td\r\n\r\n', "tsv")) == [["a", '"b'], ['"c"', "d"]]


def test_a_field_may_be_as_long_as_a_book():
    assert [len(row[0]) for row in split_rows("x" * 200_000, "csv")] == [200_000]


@pytest.mark.parametrize("is_plain_file", [True, False])
def test_parquet_gives_some_hundred_texts_at_a_time(is_plain_file):
    numbers = range(600)
    data = stored({"id": numbers, "text": [f"text {number}" for number in numbers]})
    batches = texts_of(data, None, is_plain_file)
    assert [text for batch in batches for text in batch] == [f"text {number}" for number in numbers]
    assert max(map(len, batches)) <= 256


def test_a_null_in_parquet_is_empty():
    assert texts_of(stored({"body": ["a", None, "b"]})) == [("a", "", "b")]
    assert texts_of(stored({"body": pyarrow.array(["a"], pyarrow.large_string())})) == [("a",)]


def test_a_column_of_parquet_that_holds_no_text_is_refused():
    data = stored({"id": [1, 2], "text": ["a", "b"]})
    with pytest.raises(
        ValueError, match=re.escape("a.parquet: column 'id' does not hold text; its columns: id, text.")
    ):
        texts_of(data, "id")
    with pytest.raises(ValueError, match="has no column 'c'"):
        texts_of(data, "c")


def test_a_damaged_parquet_file_is_refused_by_name():
    data = stored({"text": ["some text"] * 1000}, compression="NONE", use_dictionary=False, data_page_version="1.0")
    damaged = data[:20] + b"\xff" * 400 + data[420:]
    not_utf8 = data.replace(b"some text", b"some te\xff\xff")
    for wrong in (data[:-10], data[:50], damaged, not_utf8):
        with pytest.raises(
            ValueError, match=r"a\.parquet is damaged, for it cannot be read as Parquet: .*Copy it anew"
        ):
            texts_of(wrong)


def test_an_error_of_the_disk_is_not_called_damage():
    class Failing(io.BytesIO):
        def read(self, *_):
            raise OSError(5, "Input/output error")

    stream = Stream(Failing(stored({"text": ["a"]})), "parquet", True, lambda: 0)
    with pytest.raises(OSError, match="Input/output error"):
        list(parquet_texts(stream, Source("a.parquet", None, 0, True), None))
