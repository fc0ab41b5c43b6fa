import gzip
import json
import logging

import pytest

from bertie.tasks.classify import Classify
from bertie.tasks.files import Columns, Layout, find_file, read_answers, read_choices, read_tags, read_texts
from bertie.tasks.named import find_parts, find_test, named
from bertie.tasks.rows import read_table
from bertie.tasks.task import Span

ANY = Columns()
PLAIN = Layout()


def texts(path, columns=ANY, layout=PLAIN):
    return [(one.text, one.pair, one.label) for one in read_texts(path, columns, layout)]


def test_csv_with_quotes_and_lines_in_them(write, caplog):
    path = write("a.csv", 'review,stars\n"Good, ""very"" good.\nBuy it.",5\nBad.,1\n')
    with caplog.at_level(logging.INFO):
        assert texts(path) == [('Good, "very" good.\nBuy it.', None, "5"), ("Bad.", None, "1")]
    assert "text from column 'review', label from column 'stars'" in caplog.text
    assert [one.where for one in read_texts(path, ANY, PLAIN)] == [f"{path}, line 2", f"{path}, line 4"]


def test_quotes_mean_nothing_in_tsv(write):
    path = write("a.tsv", 'index\tsentence1\tsentence2\tlabel\n0\t"He said\tno"\tentailment\n')
    assert texts(path) == [('"He said', 'no"', "entailment")]


def test_json_lines_and_parquet_and_compressed(write, tmp_path):
    rows = [{"text_a": "one", "text_b": "two", "label": 1}, {"text_a": "three", "text_b": "four", "label": None}]
    expected = [("one", "two", "1"), ("three", "four", None)]
    path = write("a.jsonl", rows)
    assert texts(path) == expected
    packed = tmp_path / "b.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert texts(packed) == expected
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "c.parquet")
    assert texts(tmp_path / "c.parquet") == expected


def test_columns_by_flags(write):
    path = write("a.csv", "note,headline,body,kind\nx,up,down,a\n")
    assert texts(path, Columns("body", "headline", "kind")) == [("down", "up", "a")]
    with pytest.raises(ValueError, match=r"a\.csv: it is not plain which column .* note, headline, body, kind"):
        texts(path)
    with pytest.raises(ValueError, match="has no column 'text'; its columns: note, headline"):
        texts(path, Columns("text"))
    with pytest.raises(ValueError, match="has no column 'lable'"):
        texts(path, Columns("body", None, "lable"))


def test_a_text_a_line(write):
    path = write("a.txt", "one\ntwo, three\n")
    assert texts(path) == [("one", None, None), ("two, three", None, None)]


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("a.csv", "", r"a\.csv is empty"),
        ("a.csv", "text,label\na,b,c\n", r"line 2 has 3 columns instead of 2"),
        ("a.csv", 'text,label\n"a,b\n', r"line 2 is not CSV"),
        ("a.csv", "text,text\na,b\n", r"several columns 'text'"),
        ("a.tsv", "text\tlabel\nonly\n", r"line 2 has 1 columns instead of 2"),
        ("a.jsonl", '{"text": "a"}\n{"text"\n', r"line 2 is not JSON"),
        ("a.jsonl", '{"text": "a"}\n[1]\n', r"line 2 is not a JSON object"),
        ("a.jsonl", '{"text": 3}\n', r"line 1: column 'text' holds 3, not a text"),
        ("a.jsonl", '{"text": "a"}\n{"label": "b"}\n', r"line 2: column 'text' holds nothing"),
    ],
)
def test_what_is_said_of_broken_tables(write, name, contents, message):
    with pytest.raises(ValueError, match=message):
        texts(write(name, contents))


def test_what_is_not_utf8(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,label\ngut,1\nschön,1\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a\.csv, line 3 is not UTF-8"):
        texts(path)


def test_official_layouts(write, caplog):
    cola = named("cola")
    path = write("train.tsv", "gj04\t1\t\tThe ship sank.\ngj04\t0\t*\tShip the sank.\n")
    assert [(one.text, one.label) for one in cola.read(path, ANY)] == [("The ship sank.", "1"), ("Ship the sank.", "0")]
    path = write("test.tsv", "index\tsentence\n7\tBill whistled.\n")
    assert [(one.text, one.label, one.id) for one in cola.read(path, ANY)] == [("Bill whistled.", None, "7")]
    lines = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\ta\tb\t0\n4\t5\n6\t7\t8\tc\td\t1\n"
    path = write("qqp.tsv", lines)
    assert [(one.text, one.pair, one.label) for one in named("qqp").read(path, ANY)] == [
        ("a", "b", "0"),
        ("c", "d", "1"),
    ]
    assert "1 rows left out" in caplog.text
    path = write("mnli.tsv", "index\tlabel1\tsentence1\tsentence2\tgold_label\n0\tneutral\ta\tb\tentailment\n")
    assert named("mnli").read(path, ANY)[0].label == "entailment"
    path = write("xnli.tsv", "language\tgold_label\tsentence1\tsentence2\nen\tneutral\ta\tb\nzh\tneutral\t光\t荣\n")
    assert [one.text for one in named("xnli").read(path, ANY)] == ["光"]
    path = write("multinli.train.zh.tsv", "premise\thypo\tlabel\n光\t荣\tcontradictory\n")
    assert [(one.pair, one.label) for one in named("xnli").read(path, ANY)] == [("荣", "contradiction")]
    path = write("xnli.dev.tsv", "language\tgold_label\tsentence1\tsentence2\nen\tneutral\ta\tb\n")
    with pytest.raises(ValueError, match="no examples"):
        named("xnli").read(path, ANY)
    path = write("afqmc.txt", "光\t荣\t1\n战\t国\t0\n")
    assert [(one.text, one.pair, one.label) for one in named("afqmc").read(path, ANY)][1] == ("战", "国", "0")
    path = write("unlabelled.txt", "光\t荣\n")
    assert named("afqmc").read(path, ANY)[0].label is None


def test_words_and_tags(write):
    lines = (
        "-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\n\nPeter NNP B-PER\n\n-DOCSTART- -X- O\n\nParis NNP B-LOC\n"
    )
    found = read_tags(write("eng.train", lines), ANY, PLAIN)
    assert [(one.words, one.labels, one.document) for one in found] == [
        (("EU", "rejects"), ("B-ORG", "O"), 1),
        (("Peter",), ("B-PER",), 1),
        (("Paris",), ("B-LOC",), 2),
    ]
    assert found[1].where.endswith("line 7")
    (found,) = read_tags(write("zh.txt", "光 B-ORG\n荣\tI-ORG\n  O\n"), ANY, PLAIN)
    assert (found.words, found.labels) == (("光", "荣", ""), ("B-ORG", "I-ORG", "O"))
    assert read_tags(write("plain.txt", "EU\nrejects\n"), ANY, PLAIN)[0].labels is None
    with pytest.raises(ValueError, match=r"line 2 has 1 columns, the first line 2"):
        read_tags(write("broken.txt", "EU B-ORG\nrejects\n"), ANY, PLAIN)
    rows = [{"tokens": ["EU", "rejects"], "ner_tags": ["B-ORG", "O"]}]
    assert read_tags(write("a.jsonl", rows), ANY, PLAIN)[0].labels == ("B-ORG", "O")
    with pytest.raises(ValueError, match=r"line 1 has 2 words and 1 tags"):
        read_tags(write("b.jsonl", [{"tokens": ["a", "b"], "tags": ["O"]}]), ANY, PLAIN)


def squad(*questions, passage="The cat sat on the mat. The cat sat."):
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": passage, "qas": list(questions)}]}]}


def test_squad_and_where_its_answers_are(write, caplog):
    questions = (
        {"id": "a", "question": "Who sat?", "answers": [{"text": "cat", "answer_start": 4}], "is_impossible": False},
        {"id": "b", "question": "Who?", "answers": [{"text": "cat", "answer_start": 30}]},  # said to be a bit off
        {"id": "c", "question": "Who ran?", "answers": [], "is_impossible": True},
        {"id": "d", "question": "Who?", "answers": [{"text": "dog", "answer_start": 4}]},
        {"id": "e", "question": "Who?"},
    )
    found = read_answers(write("dev.json", json.dumps(squad(*questions))), ANY, PLAIN)
    spans = {one.id: one.answers for one in found}
    assert spans["a"] == (Span("cat", 4),)
    assert spans["b"] == (Span("cat", 28),)
    assert spans["c"] == ()
    assert spans["d"] == (Span("dog", 4),)
    assert spans["e"] is None
    assert "2 of 3 answers do not stand where the file says: 1 stand elsewhere, 1 nowhere" in caplog.text
    assert "question b is the first" in caplog.text


@pytest.mark.parametrize(
    ("contents", "message"),
    [("{", "is not JSON"), ('{"version": 1}', "no list 'data'"), ('{"data": [{"paragraphs": [{}]}]}', "no text 'con")],
)
def test_what_is_said_of_broken_squad(write, contents, message):
    with pytest.raises(ValueError, match=message):
        read_answers(write("dev.json", contents), ANY, PLAIN)


def test_questions_in_rows(write):
    rows = [
        {"id": 1, "question": "Who?", "context": "The cat.", "answers": {"text": ["cat"], "answer_start": [4]}},
        {"id": 2, "question": "Who?", "context": "The cat.", "answers": {"text": [], "answer_start": []}},
    ]
    assert [one.answers for one in read_answers(write("a.jsonl", rows), ANY, PLAIN)] == [(Span("cat", 4),), ()]
    path = write("a.csv", "question,context,answer\nWho?,The cat.,cat\nWho?,The cat.,\n")
    assert [one.answers for one in read_answers(path, ANY, PLAIN)] == [(Span("cat", 4),), ()]


def test_cells_of_several_labels(write, caplog):
    several = Classify(several=True, separator=";")
    path = write("a.csv", "text,labels\nthe cat,red; big\nthe dog,\na mat, \n")
    assert [one.labels for one in named("classify").read(path, ANY, several)] == [("red", "big"), (), ()]
    assert "2 of 3 texts have an empty cell of labels, and so count as having none of them" in caplog.text
    assert f"({path}, line 3, {path}, line 4): leave out those that nobody has labelled." in caplog.text
    assert [one.label for one in named("classify").read(path, ANY, Classify())] == ["red; big", None, ""]
    caplog.clear()
    rows = [{"text": "a", "label": ["red", 1.0]}, {"text": "b", "label": []}, {"text": "c", "label": None}]
    rows += [{"text": "d"}, {"text": "e", "label": 2}]
    found = named("classify").read(write("a.jsonl", rows), ANY, several)
    assert [one.labels for one in found] == [("red", "1"), (), None, None, ("2",)]
    assert "empty" not in caplog.text


def test_endings(write):
    swag = "sent1,sent2,ending0,ending1,ending2,label\nShe sits.,She,eats.,runs.,sleeps.,2\n"
    (one,) = read_choices(write("train.csv", swag), ANY, PLAIN)
    assert (one.text, one.endings, one.right) == ("She sits.", ("She eats.", "She runs.", "She sleeps."), 2)
    path = write("codah.tsv", "o\tI am\ta.\tb.\tc.\td.\t3\n")
    (one,) = named("codah").read(path, ANY)
    assert (one.text, one.endings, one.right) == ("I am", ("a.", "b.", "c.", "d."), 3)
    rows = [
        {"id": 5, "question": "What?", "choices": ["x", "y", "z"], "label": 0},
        {"question": "What?", "choices": ["x", "y"]},
    ]
    assert [one.right for one in read_choices(write("arc.jsonl", rows), ANY, PLAIN)] == [0, None]
    rows = [{"question": "What?", "choices": {"text": ["x", "y"], "label": ["A", "B"]}, "answerKey": "B"}]
    assert [one.right for one in read_choices(write("arc.jsonl", rows), ANY, PLAIN)] == [1]
    for row, message in (
        ({"question": "What?", "choices": ["x"]}, "line 1 has 1 endings; there must be at least 2"),
        ({"question": "What?", "choices": "x"}, "'choices' holds 'x', not a list of endings; .* name each with --end"),
        ({"question": "What?", "choices": ["x", "y"], "label": 2}, "right ending is 2; allowed: 0, 1"),
        ({"question": "What?"}, "has no endings"),
        ({"stem": "What?", "choices": ["x", "y"]}, "has none of the columns sent1, .* --text"),
    ):
        with pytest.raises(ValueError, match=message):
            read_choices(write("bad.jsonl", [row]), ANY, PLAIN)


def test_files_of_a_folder(write, tmp_path):
    for name in ("glue/train.tsv", "glue/dev_matched.tsv", "glue/dev_mismatched.tsv", "glue/test_matched.tsv"):
        write(name, "")
    folder = tmp_path / "glue"
    assert find_parts(folder, named("mnli"), None) == (folder / "train.tsv", folder / "dev_matched.tsv")
    assert find_test(folder, named("mnli")) == folder / "dev_matched.tsv"
    assert find_test(folder / "test_matched.tsv", named("mnli")) == folder / "test_matched.tsv"
    write("squad/train-v1.1.json", "")
    write("squad/train-v2.0.json", "")
    folder = tmp_path / "squad"
    assert find_parts(folder, named("squad-v2"), None) == (folder / "train-v2.0.json", None)
    with pytest.raises(ValueError, match=r"several files .*train-v1\.1\.json, train-v2\.0\.json"):
        find_parts(folder, named("answer"), None)
    with pytest.raises(ValueError, match="no file to evaluate"):
        find_test(folder, named("squad-v2"))
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="no file to learn from"):
        find_parts(tmp_path / "none", named("rte"), None)
    assert find_file(folder, ("x.*",)) is None


def test_a_wrong_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="no task 'sst2'; did you mean 'sst-2'"):
        named("sst2")


def test_plain_text_is_no_table(write):
    with pytest.raises(ValueError, match="is not a table"):
        read_table(write("a.text", "just words\n"))


def test_compressed_files_of_every_kind(write, tmp_path):
    def packed(name, contents):
        path = tmp_path / f"{name}.gz"
        path.write_bytes(gzip.compress(write(name, contents).read_bytes()))
        return path

    (tagged,) = read_tags(packed("a.jsonl", [{"words": ["a", "b"], "tags": ["O", "B-X"]}]), ANY, PLAIN)
    assert (tagged.words, tagged.labels) == (("a", "b"), ("O", "B-X"))
    (tagged,) = read_tags(packed("b.txt", "a O\nb B-X\n"), ANY, PLAIN)
    assert (tagged.words, tagged.labels) == (("a", "b"), ("O", "B-X"))
    (asked,) = read_answers(packed("c.jsonl", [{"question": "q", "context": "abc", "answers": ["b"]}]), ANY, PLAIN)
    assert asked.answers == (Span("b", 1),)
    assert [one.text for one in read_texts(packed("d.txt", "one\ntwo\n"), ANY, PLAIN)] == ["one", "two"]


def test_rows_with_fewer_endings(write):
    path = write("a.csv", "sent1,ending0,ending1,ending2,label\nx,a,b,,1\nx,a,b,c,2\n")
    assert [one.endings for one in read_choices(path, ANY, PLAIN)] == [("a", "b"), ("a", "b", "c")]
    for row, message in (
        ("x,a,,c,0", "line 2 has an ending that is empty before one"),
        ("x,a,,,0", "line 2 has 1 endings"),
        ("x,a,b,,2", "line 2: the right ending is '2'; allowed: 0, 1"),
    ):
        with pytest.raises(ValueError, match=message):
            read_choices(write("b.csv", f"sent1,ending0,ending1,ending2,label\n{row}\n"), ANY, PLAIN)


def test_what_is_no_file_of_tags_or_answers(write):
    with pytest.raises(ValueError, match=r"a\.csv: tags are read from lines of a word and its tag"):
        read_tags(write("a.csv", "words,tags\na,O\n"), ANY, PLAIN)
    with pytest.raises(ValueError, match=r"^[^:]*b\.json is one JSON array: .* does\.$"):
        read_answers(write("b.json", "[1, 2]"), ANY, PLAIN)


def test_what_was_guessed_is_said_of_every_kind(write, caplog):
    caplog.set_level(logging.INFO)
    read_tags(write("a.jsonl", [{"words": ["a"], "tags": ["O"]}]), ANY, PLAIN)
    assert "text from column 'words', label from column 'tags'." in caplog.text
    read_answers(write("b.jsonl", [{"question": "q", "context": "abc", "answers": ["b"]}]), ANY, PLAIN)
    assert "text from column 'context', pair from column 'question', label from column 'answers'." in caplog.text
    read_choices(
        write("c.jsonl", [{"question": "q", "choices": ["a", "b"], "right": 0}]), Columns(label="right"), PLAIN
    )
    assert "c.jsonl: text from column 'question', endings from column 'choices'." in caplog.text
    read_choices(write("d.csv", "sent1,sent2,ending0,ending1\na,b,c,d\n"), ANY, PLAIN)
    assert "start of each ending from column 'sent2', endings from columns 'ending0', 'ending1'." in caplog.text


def test_third_texts_and_endings_by_flags(write, caplog):
    caplog.set_level(logging.INFO)
    path = write("a.csv", "anchor,positive,other\na,b,c\n")
    (one,) = named("embed").read(path, Columns(negative="other"))
    assert (one.text, one.pair, one.negative) == ("a", "b", "c")
    assert "a.csv: text from column 'anchor', pair from column 'positive'." in caplog.text
    rows = "start,first,second,right,one\nx,a,b,1,z\n"
    columns = Columns("start", None, "right", endings=("second", "first"))
    (one,) = named("choose").read(write("b.csv", rows), columns)
    assert (one.text, one.endings, one.right) == ("x", ("b", "a"), 1)
    rows = [{"stem": "x", "ways": {"text": ["a", "b"], "label": ["A", "B"]}, "right": "B"}]
    (one,) = named("choose").read(write("c.jsonl", rows), Columns("stem", None, "right", endings=("ways",)))
    assert (one.endings, one.right) == (("a", "b"), 1)


def test_a_column_that_is_named_is_not_guessed_as_another(write):
    path = write("a.csv", "sentence1,sentence2,other,label\na,b,c,d\n")
    assert texts(path, Columns(pair="other")) == [("a", "c", "d")]
    assert texts(path, Columns(pair="sentence1", text="sentence2")) == [("b", "a", "d")]
    path = write("b.csv", "question,given\na,b\n")
    assert texts(path, Columns(pair="question")) == [("b", "a", None)]


@pytest.mark.parametrize(
    ("task", "name", "contents", "columns", "message"),
    [
        ("classify", "a.csv", "text,label\na,b\n", Columns(negative="text"), "--negative text: classify reads no such"),
        ("tag", "a.jsonl", '{"words": ["a"]}\n', Columns(pair="x"), "tag reads no .* named with --text, --label"),
        ("embed", "a.csv", "anchor,positive\na,b\n", Columns(negative="c"), "has no column 'c'"),
        ("choose", "a.csv", "text,a,b\nx,y,z\n", Columns(endings=("a", "c")), "has no column 'c'"),
        ("choose", "a.csv", "text,a,b\nx,y,z\n", Columns(endings=("a",)), "'a' holds 'y', not a list of endings"),
        ("classify", "a.csv", "text,label\na,b\n", Columns(pair="c"), "has no column 'c'"),
        ("tag", "a.txt", "a O\n", Columns(label="ner"), r"a\.txt has no columns with names: leave --label ner out"),
        ("classify", "a.txt", "a\n", Columns(text="b"), "no columns with names: leave --text b out"),
        ("answer", "a.json", "{}", Columns("a", "b"), "leave --text a and --pair b out"),
    ],
)
def test_columns_that_cannot_be_had(write, task, name, contents, columns, message):
    with pytest.raises(ValueError, match=message):
        named(task).read(write(name, contents), columns)
