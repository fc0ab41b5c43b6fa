import bz2
import gzip
import io
import lzma
import os
import random
import sys
import threading

import pytest
import zstandard

from bertie.text import sources
from bertie.text.sources import HEAD, find, opened

TEXT = ("A line of text, 中文 too.\n" * 900 + "The end.\n").encode()
COMPRESS = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,  # as the command `zstd` does
}


def names(folder, *inputs):
    return [source.name.removeprefix(f"{folder}/") for source in find(inputs)]


def read(path):
    (source,) = find([path])
    with opened(source) as stream:
        return stream.file.read(), stream.form


def give_standard_input(monkeypatch, raw):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(raw)))


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "a.txt", "deep/c.txt", ".hidden.txt", ".git/config", "deep/.d/e.txt", "10.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    return tmp_path


def test_a_folder_gives_its_files_in_order_without_hidden_ones(folder):
    assert names(folder, folder) == ["10.csv", "a.txt", "b.txt", "deep/c.txt"]
    assert not any(source.is_asked_for for source in find([folder]))


def test_a_hidden_file_is_read_when_it_is_named(folder):
    assert names(folder, folder / ".hidden.txt", folder / ".git") == [".hidden.txt", ".git/config"]


def test_a_glob_gives_its_matches_in_order(folder, monkeypatch):
    assert names(folder, f"{folder}/*.txt") == ["a.txt", "b.txt"]
    assert names(folder, f"{folder}/d*") == ["deep/c.txt"]
    assert names(folder, f"{folder}/**/*.txt") == ["a.txt", "b.txt", "deep/c.txt"], "hidden folders stay unread"
    assert names(folder, f"{folder}/.git/c*") == [".git/config"]
    monkeypatch.chdir(folder / "deep")
    assert [source.name for source in find(["../[ab].txt"])] == ["../a.txt", "../b.txt"]


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    (tmp_path / "[ab].txt").write_text("text")
    assert names(tmp_path, f"{tmp_path}/[ab].txt") == ["[ab].txt"]


def test_the_order_given_is_kept_and_each_file_comes_once(folder):
    (folder / "link.txt").symlink_to(folder / "b.txt")
    found = names(folder, folder / "b.txt", folder, "-", f"{folder}/link.txt", "-")
    assert found == ["b.txt", "10.csv", "a.txt", "deep/c.txt", "standard input"]


@pytest.mark.parametrize("given", ["", "nowhere.txt", "nowhere/*.txt", "/nowhere/a?.txt"])
def test_what_does_not_exist_is_refused(given):
    with pytest.raises(ValueError, match=rf"{given.replace('*', '.').replace('?', '.')}' does not exist: name files"):
        find([given])


def test_nothing_given_or_nothing_in_it_is_refused(tmp_path):
    with pytest.raises(ValueError, match="No text was given"):
        find([])
    (tmp_path / ".hidden").write_text("text")
    with pytest.raises(ValueError, match="is a folder without files"):
        find([tmp_path])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    (tmp_path / "a.txt").touch(0)
    with pytest.raises(ValueError, match=r"a\.txt cannot be read: Permission denied"):
        read(tmp_path / "a.txt")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_refused_inside_another_too(folder):
    (folder / "deep").chmod(0)
    try:
        with pytest.raises(ValueError, match="deep cannot be read: Permission denied"):
            find([folder])
    finally:
        (folder / "deep").chmod(0o755)


def test_a_file_that_has_gone_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.touch()
    (source,) = find([path])
    path.unlink()
    with pytest.raises(ValueError, match=r"a\.txt cannot be read: No such file"), opened(source):
        pass


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_are_told_by_their_bytes(tmp_path, suffix):
    for name in (f"a.txt.{suffix}", "named-otherwise.txt"):
        (tmp_path / name).write_bytes(COMPRESS[suffix](TEXT))
        assert read(tmp_path / name) == (TEXT, "plain")
    (tmp_path / "two").write_bytes(COMPRESS[suffix](TEXT) + COMPRESS[suffix](b"More."))
    assert read(tmp_path / "two") == (TEXT + b"More.", "plain"), "one after the other in one file"
    (tmp_path / "none").write_bytes(COMPRESS[suffix](b""))
    assert read(tmp_path / "none") == (b"", "plain")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_damaged_compressed_files_are_refused_by_name(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    whole = COMPRESS[suffix](random.Random(0).randbytes(3000).hex().encode())
    flipped = bytearray(whole)
    for at in range(1500, 1520):
        flipped[at] ^= 0xFF
    for damaged in (whole[:-1500], whole[:12], bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"a\.{suffix} is damaged, for it cannot be decompressed: .*Copy it anew"):
            read(path)


def test_an_error_of_the_disk_is_not_called_damage(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(TEXT))
    (source,) = find([path])
    with pytest.raises(OSError, match="Input/output error"), opened(source):
        raise OSError(5, "Input/output error")


def test_a_missing_extra_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "a.zst").write_bytes(COMPRESS["zst"](TEXT))
    with pytest.raises(
        ValueError, match=r"a\.zst needs zstandard, which is not installed: pip install 'bertie\[data\]'"
    ):
        read(tmp_path / "a.zst")


@pytest.mark.parametrize(
    ("name", "data", "form"),
    [
        ("a.txt", b"plain text", "plain"),
        ("a", b"", "plain"),
        ("a.txt", b'\n <doc id="1" url="">\nx\n</doc>', "wiki"),
        ("wiki_00", b'<doc id="1">\nx\n</doc>', "wiki"),
        ("a.jsonl", b"[1]", "jsonl"),
        ("a.JSONL", b'{"text": 1}', "jsonl"),
        ("a.json", b'{"text": 1}', "jsonl"),
        ("unnamed", b'{"text": "x"}\n', "jsonl"),
        ("unnamed", b"{not json", "plain"),
        ("a.csv", b"text\nx", "csv"),
        ("a.tsv", b"text\nx", "tsv"),
        ("a.txt", b"PAR1...", "parquet"),
        ("a.csv", b"\xef\xbb\xbftext\nx", "csv"),
    ],
)
def test_the_form_is_told_by_the_bytes_or_else_the_name(tmp_path, name, data, form):
    (tmp_path / name).write_bytes(data)
    assert read(tmp_path / name) == (data.removeprefix(b"\xef\xbb\xbf"), form)
    compressed = tmp_path / f"{name}.gz"
    compressed.write_bytes(gzip.compress(data))
    assert read(compressed) == (data.removeprefix(b"\xef\xbb\xbf"), form)


def test_what_is_no_text_is_refused_when_asked_for_and_passed_by_in_a_folder(tmp_path):
    (tmp_path / "a.txt").write_text("text", encoding="utf-16")
    with pytest.raises(ValueError, match=r"a\.txt is not text, as it holds NUL bytes. If it is UTF-16, convert it"):
        read(tmp_path / "a.txt")
    assert read(tmp_path)[1] is None


def test_an_array_of_json_is_refused_with_the_way_out(tmp_path):
    (tmp_path / "a.json").write_text('[{"text": "x"}]')
    with pytest.raises(ValueError, match=r"a\.json is one JSON array: write one object a line instead, as jq"):
        read(tmp_path / "a.json")


def test_standard_input_is_read_to_its_end_however_it_comes(monkeypatch):
    out, into = os.pipe()

    def trickle():
        with os.fdopen(into, "wb", buffering=0) as file:
            for start in range(0, len(TEXT), 5000):
                file.write(TEXT[start : start + 5000])

    writer = threading.Thread(target=trickle)
    writer.start()
    with os.fdopen(out, "rb", buffering=0) as raw:
        give_standard_input(monkeypatch, raw)
        assert read("-") == (TEXT, "plain")
    writer.join()


def test_no_standard_input_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="Standard input is closed"):
        read("-")


@pytest.mark.parametrize("suffix", COMPRESS)
def test_standard_input_may_be_compressed(monkeypatch, suffix):
    give_standard_input(monkeypatch, io.BytesIO(COMPRESS[suffix](b'{"text": 1}\n')))
    assert read("-") == (b'{"text": 1}\n', "jsonl")


def test_the_position_says_how_far_a_file_is_read(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(random.Random(0).randbytes(20 * HEAD).replace(b"\0", b"")))
    (source,) = find([path])
    with opened(sources.Source(source.name, path, source.size, False)) as stream:
        assert 0 < stream.position() < source.size
        assert not stream.is_plain_file
        stream.file.read()
        assert stream.position() == source.size
