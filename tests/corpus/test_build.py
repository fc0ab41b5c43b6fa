import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest

from bertie.cli import run
from bertie.corpus.build import VOCABULARY_CARD, CorpusConfig, build_corpus
from bertie.corpus.shards import open_corpus
from bertie.text.documents import TextConfig
from bertie.text.sentences import cut_sentences
from bertie.text.vocabulary import VocabularyConfig, learn_vocabulary

BUILD = """
import sys
from pathlib import Path
from bertie.corpus.build import CorpusConfig, build_corpus
text, vocabulary, out, workers = sys.argv[1:]
print("begun", flush=True)
report = lambda done, total: None
build_corpus(CorpusConfig(workers=int(workers)), [text], Path(vocabulary), Path(out), report)
"""


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def refused(capsys, *arguments):
    """What the command line says: one sentence, exit code 2."""
    assert run(["corpus", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("bertie: ") and captured.err.count("\n") == 1
    return captured.err


@pytest.fixture
def many_files(tmp_path, make_documents):
    """A folder whose files are a block of work each, some of them repeating others."""
    folder, rng = tmp_path / "text", np.random.default_rng(1)
    folder.mkdir()
    for at in range(24):
        documents = make_documents(rng, 12, "zh" if at % 3 else "en")
        (folder / f"{at:02}.txt").write_text("\n\n".join([*documents, "Repeated. 1", "重复。"]), encoding="utf-8")
    return folder


@pytest.mark.parametrize("config", [{}, {"language": "zh", "near_duplicates": True, "validation": 0.2}])
def test_the_bytes_are_the_same_for_any_number_of_workers(many_files, vocabulary, tmp_path, config):
    for workers in (1, 2, 3):
        out = tmp_path / str(workers)
        build_corpus(CorpusConfig(**config, workers=workers), [many_files], vocabulary, out, lambda done, total: None)
    one, two, three = (contents(tmp_path / str(workers)) for workers in (1, 2, 3))
    assert one == two == three
    assert ("train-00000.words" in one) == (config != {})
    assert json.loads(one["card.json"])["changes"]["repeated documents"] == 2 * 23


def test_the_tokens_are_those_of_one_sentence_after_the_other(build, make_documents, tokenizer, documents_of):
    """The plain way: each document cut, each sentence encoded alone."""
    documents = make_documents(np.random.default_rng(2), 80)
    folder, card = build(documents)
    corpus = open_corpus(folder, tokenizer.fingerprint)
    expected = [[tokenizer.encode(sentence).ids[1:-1] for sentence in cut_sentences(text)] for text in documents]
    train, held_back = documents_of(corpus.train), documents_of(corpus.validation)
    assert sorted([*train, *held_back]) == sorted(expected)
    assert len(held_back) == corpus.counts["validation"]["documents"] >= 1
    assert [document for document in expected if document in train] == train
    assert card.counts == corpus.counts


def test_repeated_documents_are_dropped_and_counted(build, documents_of):
    folder, card = build(["The cat sat.", "A dog ran.", "The cat sat.", "The cat sat!", "The cat sat."])
    assert card.changes["repeated documents"] == 2
    corpus = open_corpus(folder)
    assert len(documents_of([*corpus.train, *corpus.validation])) == 3


def test_near_duplicates_are_dropped_on_request(build, make_documents):
    rng = np.random.default_rng(3)
    originals = [" ".join(make_documents(rng, 40)) for _ in range(6)]
    documents = [*originals, *(f"Why not? {text}" for text in originals)]
    assert build(documents, "exact")[1].counts["train"]["documents"] == 11
    _, card = build(documents, "nearly", near_duplicates=True)
    assert card.changes["near-duplicates"] == 6
    assert sum(counts["documents"] for counts in card.counts.values()) == 6


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_block_without_a_document_does_no_harm(vocabulary, tmp_path, language):
    """What stands behind the last article of a WikiExtractor's file is a block of its own."""
    text = tmp_path / "wiki_00"
    text.write_text('<doc id="1" title="Cat">\nThe cat sat under the old house by the river.\n</doc>\n', "utf-8")
    config = CorpusConfig(language, near_duplicates=True)
    card = build_corpus(config, [text], vocabulary, tmp_path / "corpus", lambda done, total: None)
    assert card.counts["train"]["documents"] == 1


def test_what_is_left_out_and_mended_is_counted_by_its_reason(vocabulary, tmp_path, documents_of, tokenizer):
    text = tmp_path / "text.txt"
    text.write_bytes(b"The _old_ cat&#39;s <b>house</b>.\n\n...\n\nA dog\xff ran.\n\n\xcc\x81\n\n\x07 \xe2\x80\x8b")
    corpus = tmp_path / "corpus"
    card = build_corpus(
        CorpusConfig(validation=0), [text, tmp_path / "text.txt"], vocabulary, corpus, lambda done, total: None
    )
    assert card.changes == {"emphasis": 1, "entities": 1, "tags": 2, "empty documents": 3}
    assert card.not_utf8 == {str(text): 1}
    (first,), (second,) = documents_of(open_corpus(corpus).train)
    assert tokenizer.decode(first) == "the old cat ' s house ."
    assert tokenizer.decode(second) == "a dog ran ."


def test_chinese_words_are_kept_beside_the_tokens(build, tokenizer):
    rjieba = pytest.importorskip("rjieba")
    texts = ["我们在北京大学学习。今天天气很好，他是中国人。", "The cat 看了一本书 nothing", "人", "我们"]
    folder, _ = build(texts, language="zh", validation=0)
    (shard,) = open_corpus(folder).train
    begins = shard.begins_word(np.arange(len(shard.tokens)))
    starts = [*np.flatnonzero(begins).tolist(), len(begins)]
    words = [tokenizer.decode(shard.tokens[start:end]).replace(" ", "") for start, end in pairwise(starts)]
    assert words == [word for text in texts for word in rjieba.cut(text.lower()) if word.strip()]
    assert "北京大学" in words and "nothing" in words


def test_english_words_need_no_bits(build):
    folder, _ = build(["The catdog. 我们"])
    (shard,) = open_corpus(folder).train
    assert shard.begins_word(np.arange(3)) is None


def test_the_file_is_the_document_where_that_is_said(build):
    documents = ["The cat sat.", "A dog ran.", "Nothing."]
    _, card = build(documents, text=TextConfig(document="file"))
    assert card.counts["train"] == {"documents": 1, "sentences": 3, "tokens": 10}
    assert card.counts["validation"]["documents"] == 0


def test_progress_is_told_in_bytes_read(many_files, vocabulary, tmp_path):
    reports = []
    config, out = CorpusConfig(), tmp_path / "out"
    build_corpus(config, [many_files], vocabulary, out, lambda done, total: reports.append((done, total)))
    total = sum(path.stat().st_size for path in many_files.iterdir())
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)
    assert reports[-1] == (total, total)


def test_killed_at_any_moment_it_leaves_nothing_that_looks_whole(many_files, vocabulary, tmp_path):
    for path in list(many_files.iterdir()):
        path.write_text(path.read_text(encoding="utf-8") * 40, encoding="utf-8")
    undisturbed, out = tmp_path / "undisturbed", tmp_path / "killed"
    seconds = build_and_kill(many_files, vocabulary, undisturbed, 1, 1000)
    rng, num_killed = random.Random(4), 0
    for attempt in range(12):
        build_and_kill(many_files, vocabulary, out, 1 + attempt % 2, rng.uniform(0, seconds))
        if out.exists():  # it was done before it was killed
            assert contents(out) == contents(undisturbed)
            for path in out.iterdir():
                path.unlink()
            out.rmdir()
        else:
            num_killed += 1
            partial = tmp_path / ".killed.partial"
            assert not (partial / "meta.json").exists() or open_corpus(partial)
    assert num_killed >= 4
    build_and_kill(many_files, vocabulary, out, 2, 1000)
    assert contents(out) == contents(undisturbed)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "text", "undisturbed"]


def build_and_kill(text, vocabulary, out, workers, seconds):
    """Kill the process so many seconds after it began, unless it has ended; how long it was at work."""
    command = [sys.executable, "-c", BUILD, *map(str, (text, vocabulary, out, workers))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"begun\n"
        begun = time.monotonic()
        try:
            assert process.wait(seconds) == 0
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
    return time.monotonic() - begun


@pytest.mark.parametrize("most", [50, 2000])  # bytes of a file: not enough for the tokens, for the vocabulary
def test_a_full_disk_is_said_and_nothing_is_left(build, make_documents, vocabulary, tmp_path, capsys, most):
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(make_documents(np.random.default_rng(5), 20)), encoding="utf-8")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))  # no file may be longer: writing fails as on a full disk
    try:
        said = refused(capsys, text, "--vocab", vocabulary, "--out", tmp_path / "out")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert f"{tmp_path / 'out'} cannot be written: File too large. Make room" in said
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_what_cannot_be_built_is_one_sentence(vocabulary, tmp_path, capsys):
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("The cat sat.")
    (tmp_path / "empty.txt").write_text("\n\n ... \n\n")
    (tmp_path / "there").mkdir()
    (tmp_path / "vocab.txt").write_text("not\na\nvocabulary\n")
    ends = ("--vocab", vocabulary, "--out", out)
    assert "empty.txt: no document with a word in it" in refused(capsys, tmp_path / "empty.txt", *ends)
    assert "nothing' does not exist" in refused(capsys, tmp_path / "nothing", *ends)
    assert "there exists: give a new name" in refused(capsys, text, "--vocab", vocabulary, "--out", tmp_path / "there")
    assert "no-vocabulary" in refused(capsys, text, "--vocab", tmp_path / "no-vocabulary", "--out", out)
    assert "vocab.txt" in refused(capsys, text, "--vocab", tmp_path / "vocab.txt", "--out", out)
    assert "validation is 0.7; it is a share of the documents" in refused(capsys, text, *ends, "--validation", "0.7")
    assert "workers=0: give at least 1" in refused(capsys, text, *ends, "--workers", "0")
    assert not out.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "text.txt", "there", "vocab.txt"]


def test_settings_are_checked_where_they_are_made():
    with pytest.raises(ValueError, match="language='fr' is not known; allowed: en, zh"):
        CorpusConfig(language="fr")


def test_the_command_says_what_it_made_and_what_comes_next(vocabulary, tmp_path, capsys):
    (tmp_path / "text.jsonl").write_text('{"body": "The cat sat."}\n{"body": "A dog ran.", "title": "A"}\n')
    out = str(tmp_path / "out")
    arguments = [str(tmp_path / "text.jsonl"), "--vocab", str(vocabulary), "--out", out, "--column", "body"]
    assert run(["corpus", *arguments]) == 0
    captured = capsys.readouterr()
    assert f"bertie pretrain {out} --out my-run --recipe tiny-cpu\n" in captured.err
    assert "1 document, 1 sentence, 4 tokens" in captured.out
    assert open_corpus(tmp_path / "out").counts["train"]["documents"] == 1


def test_of_chinese_text_whole_words_come_next(vocabulary, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("我们。\n\n你们。\n", encoding="utf-8")
    arguments = [str(tmp_path / "text.txt"), "--vocab", str(vocabulary), "--out", str(tmp_path / "out")]
    assert run(["corpus", *arguments, "--language", "zh"]) == 0
    assert "--recipe tiny-cpu --set unit=words\n" in capsys.readouterr().err


def test_standard_input_is_read(vocabulary, tmp_path):
    command = [
        sys.executable,
        "-m",
        "bertie",
        "corpus",
        "-",
        "--vocab",
        str(vocabulary),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(command, input="我们。\n\nThe cat.", encoding="utf-8", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert open_corpus(tmp_path / "out").counts["train"]["documents"] == 1


def test_the_card_of_a_learned_vocabulary_goes_with_the_corpus(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("The cat sat on the mat.\n\n" * 20, encoding="utf-8")
    learn_vocabulary(VocabularyConfig(150), [text], tmp_path / "vocabulary")
    build_corpus(
        CorpusConfig(validation=0), [text], tmp_path / "vocabulary", tmp_path / "one", lambda done, total: None
    )
    build_corpus(CorpusConfig(validation=0), [text], tmp_path / "one", tmp_path / "two", lambda done, total: None)
    learned = (tmp_path / "vocabulary" / "card.json").read_bytes()
    assert (tmp_path / "one" / VOCABULARY_CARD).read_bytes() == learned
    assert not (tmp_path / "two" / VOCABULARY_CARD).exists()  # what stands there is a corpus's card
