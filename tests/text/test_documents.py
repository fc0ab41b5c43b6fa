import bz2
import csv
import gzip
import io
import json
import lzma
import random
import sys

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from bertie.text import documents as module
from bertie.text.documents import Tally, TextConfig, blocks, documents, read_documents
from bertie.text.sources import find

TEXTS = ["One, two.", "Three\nfour, “five”.", "中文，漢字。"]
COMPRESS = {
    "": bytes,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def rows(texts, **options):
    file = io.StringIO()
    csv.writer(file, **options).writerows([["id", "text"], *enumerate(texts)])
    return file.getvalue().encode()


def table(texts):
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"id": range(len(texts)), "text": list(texts)}), file)
    return file.getvalue()


WRITE = {
    "txt": lambda texts: "\n \t\n\n".join(texts).encode(),
    "wiki": lambda texts: "".join(f'<doc id="1" url="">\n{text}\n\n</doc>\n' for text in texts).encode(),
    "jsonl": lambda texts: "".join(f"{json.dumps({'id': 1, 'text': text})}\n" for text in texts).encode(),
    "csv": rows,
    "parquet": table,
}


def read(path, column=None, document="blank"):
    return list(read_documents([path], TextConfig(column, document)))


def tally_of(path, config=None):
    whole = Tally()
    for block in blocks(find([path]), config or TextConfig()):
        whole.add(documents(block)[1])
    return whole


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("form", WRITE)
def test_each_form_in_each_compression_gives_the_documents(tmp_path, form, compression):
    path = tmp_path / f"a.{form}.{compression}".rstrip(".")
    path.write_bytes(COMPRESS[compression](WRITE[form](TEXTS)))
    assert read(path) == TEXTS
    tally = tally_of(path)
    assert (tally.documents, tally.characters) == (3, sum(map(len, TEXTS)))


@pytest.mark.parametrize("form", sorted(WRITE.keys() - {"csv"}))
def test_standard_input_gives_the_documents(monkeypatch, form):
    data = io.BytesIO(WRITE[form](TEXTS))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(data)))
    assert read("-") == TEXTS


def test_tsv_has_no_quotes(tmp_path):
    (tmp_path / "a.tsv").write_text('id\ttext\n1\t"Two" words\n2\t"open\n')
    assert read(tmp_path / "a.tsv") == ['"Two" words', '"open']


def test_a_file_may_be_one_document(tmp_path):
    (tmp_path / "a.txt").write_text("\nA.\n\nB.\n")
    assert read(tmp_path / "a.txt", document="file") == ["A.\n\nB."]
    assert read(tmp_path / "a.txt") == ["A.", "B."]
    with pytest.raises(ValueError, match="document='line' is not known; allowed: blank, file"):
        TextConfig(document="line")


def test_another_column_may_be_asked_for(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"title": "T", "text": "x"}\n')
    assert read(tmp_path / "a.jsonl", column="title") == ["T"]
    with pytest.raises(ValueError, match="has no column 'body'"):
        read(tmp_path / "a.jsonl", column="body")


@pytest.mark.parametrize("form", WRITE)
@pytest.mark.parametrize("size", [1 << 6, 1 << 9])
def test_where_blocks_end_changes_no_document(tmp_path, monkeypatch, form, size):
    rng = random.Random(size)
    texts = ["\n".join(f'Line, "{rng.random()}" 中' for _ in range(rng.randint(1, 5))) for _ in range(60)]
    path = tmp_path / f"a.{form}"
    path.write_bytes(WRITE[form](texts))
    whole = list(blocks(find([path]), TextConfig()))
    monkeypatch.setattr(module, "BLOCK", size)
    cut = list(blocks(find([path]), TextConfig()))
    assert form == "parquet" or len(cut) > 5 * len(whole)
    assert read(path) == texts
    assert cut == list(blocks(find([path]), TextConfig()))
    assert [block.done for block in cut] == sorted(block.done for block in cut)
    assert form == "parquet" or cut[-1].done == path.stat().st_size


def test_quoted_line_ends_at_the_end_of_a_block_stay_in_their_row(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 16)
    texts = ["a\nb\nc\nd\ne\nf\ng\nh\n" * 4, 'say "a\nb"', "x"]
    (tmp_path / "a.csv").write_bytes(rows(texts))
    assert read(tmp_path / "a.csv") == [text.strip() for text in texts]


@pytest.mark.parametrize("text", ["word " * 100, "line of words\n" * 40, "中" * 300, "para\n\n" * 80])
@pytest.mark.parametrize("document", ["blank", "file"])
def test_a_document_that_is_too_long_becomes_several_and_loses_nothing(tmp_path, monkeypatch, text, document):
    monkeypatch.setattr(module, "BLOCK", 50)
    monkeypatch.setitem(
        module.FORMS, document, module.Form(module.FORMS[document].last_end, 120, lambda texts, *_: texts)
    )
    (tmp_path / "a.txt").write_text(text)
    found = read(tmp_path / "a.txt", document=document)
    assert len(found) > 2
    assert "".join("".join(found).split()) == "".join(text.split())
    assert tally_of(tmp_path / "a.txt").not_utf8 == {}, "no character is cut in two"


def test_a_record_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 1 << 19)
    monkeypatch.setitem(module.FORMS, "csv", module.Form(module._last_row, 1 << 20, module.FORMS["csv"].texts))
    (tmp_path / "a.csv").write_text('id,text\n1,"' + "never ends\n" * 200_000)
    with pytest.raises(ValueError, match=r"a\.csv has a record of more than 1 MiB, or one that never ends: split it"):
        read(tmp_path / "a.csv")


def test_a_named_file_in_another_encoding_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("中文文本在这里。".encode("gb18030") * 40)
    with pytest.raises(ValueError, match=r"a\.txt is not UTF-8, as \d\d% of its bytes cannot be: convert it"):
        read(path)
    assert tally_of(tmp_path).not_utf8[str(path)] > 300, "found in a folder, it is no reason to refuse the others"
    path.write_bytes("a café here and there ".encode("latin-1") * 40)
    assert tally_of(path).not_utf8 == {str(path): 40}


def test_bytes_that_are_not_utf8_are_dropped_and_counted_by_file(tmp_path):
    (tmp_path / "a.txt").write_bytes("Caf\xe9 and 中文".encode("latin-1", "ignore") + " 中".encode()[:-1])
    (tmp_path / "b.txt").write_text("fine")
    assert read(tmp_path) == ["Caf and", "fine"]
    assert tally_of(tmp_path).not_utf8 == {str(tmp_path / "a.txt"): 3}


def test_what_is_dropped_is_counted(tmp_path):
    deep = "[" * 100_000
    (tmp_path / "a.jsonl").write_text(
        f'{{"text": "x"}}\n{deep}\n' + 'not json\n{"text": 3}\n[]\n\n{"id": 1}\n{"text": " ! "}\n'
    )
    (tmp_path / "b.txt").write_bytes(b"\0\1")
    (tmp_path / "c.csv").write_text("id,text\n1\n2,y\n\n")
    (tmp_path / "d.txt").write_text("a <b>c</b>\n\n...\n\n")
    assert read(tmp_path) == ["x", "y", "a c"]
    assert +tally_of(tmp_path).counts == {
        "rows that are not JSON": 2,
        "rows without text": 4,
        "files that are not text": 1,
        "empty documents": 2,
        "tags": 2,
    }


def test_half_a_surrogate_pair_in_json_is_dropped(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "a \\ud83d b \\ud83d\\ude00"}\n')
    assert read(tmp_path / "a.jsonl") == ["a  b 😀"]


def test_wrapped_lines_are_joined_unless_the_form_has_paragraphs_as_lines(tmp_path):
    text = "a line of words that goes on and on\n" * 20
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_bytes(WRITE["wiki"]([text]))
    wrapped, wiki = read(tmp_path)
    assert wrapped == " ".join([text.strip()] * 20).replace("\n", " ")[: len(wrapped)]
    assert "\n" not in wrapped
    assert wiki == text.strip()


def test_empty_files_give_nothing(tmp_path):
    for form in WRITE.keys() - {"parquet"}:
        (tmp_path / f"a.{form}").touch()
    assert read(tmp_path) == []
    assert tally_of(tmp_path).documents == 0


def test_several_inputs_follow_each_other(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name} text")
    found = list(read_documents([tmp_path / "b.txt", f"{tmp_path}/*.txt"], TextConfig()))
    assert found == ["b text", "a text"]
    last = list(blocks(find([tmp_path]), TextConfig()))[-1]
    assert last.done == 12
