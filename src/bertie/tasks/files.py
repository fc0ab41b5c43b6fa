"""Files -> Examples: tables of texts, words with tags, questions with passages, beginnings with endings."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertie.tasks.rows import Table, Values, read_table, read_text, suffix_of
from bertie.tasks.squad_file import read_squad
from bertie.tasks.task import Example, Span, some_of

log = logging.getLogger(__name__)

# Names that say which columns are texts, in the order they are looked for, and which one is the label.
TEXTS: tuple[tuple[str, str | None], ...] = (
    ("sentence1", "sentence2"),
    ("text_a", "text_b"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("premise", "hypo"),
    ("text1", "text2"),
    ("question", "sentence"),
    ("#1 String", "#2 String"),
    ("text", "pair"),
    ("anchor", "positive"),
    ("query", "positive"),
    ("query", "passage"),
    ("question", "answer"),
    *((name, None) for name in ("text", "sentence", "text_a", "content", "review", "comment", "question")),
)
LABELS = ("label", "labels", "gold_label", "Quality", "is_duplicate", "class", "category", "target", "score", "stars")
IDS = ("id", "index", "qid")
NEGATIVES = ("negative", "neg", "hard_negative")
WORDS, TAGS = ("words", "tokens"), ("tags", "ner_tags", "labels")
STEMS = ("sent1", "context", "question", "prompt", "text", "ctx")
ENDING_LISTS = ("endings", "choices", "options")
ENDING_NAMES = ("ending", "choice", "option")  # with a number: ending0, choice_1 ...
QUESTIONS, PASSAGES = ("question",), ("context", "passage", "paragraph")
NEW_DOCUMENT = "-DOCSTART-"


@dataclass(frozen=True)
class Columns:
    """Which columns hold what, as a person named them; None: as the names of the columns suggest."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    negative: str | None = None
    endings: tuple[str, ...] = ()  # one column of lists, or each ending's own


@dataclass(frozen=True)
class Layout:
    """How an official table is written. names: those of its columns where its first line holds none of them; where
    there is a column `only[0]`, only rows that hold `only[1]` in it are read; is_ragged: broken rows are left out;
    renamed: labels that files of one set spell in two ways; separator: what stands between the labels of a cell, where
    it may hold any number of them."""

    names: tuple[str, ...] = ()
    only: tuple[str, str] | None = None
    is_ragged: bool = False
    renamed: tuple[tuple[str, str], ...] = ()
    separator: str | None = None


def read_texts(path: Path, columns: Columns, layout: Layout) -> list[Example]:
    """Texts or pairs with a label each; a plain file without tabs is a text a line."""
    return _read_texts(path, columns, layout, ())


def read_related(path: Path, columns: Columns, layout: Layout) -> list[Example]:
    """Texts, pairs with a score or without, or pairs and a third text that does not belong to the first."""
    return _read_texts(path, columns, layout, NEGATIVES)


def _read_texts(path: Path, columns: Columns, layout: Layout, negatives: Sequence[str]) -> list[Example]:
    if suffix_of(path) == ".txt" and "\t" not in (lines := read_text(path)).partition("\n")[0]:
        _check_nameless(path, columns)
        return [
            Example(where=f"{path}, line {number}", id=str(number), text=line)
            for number, line in enumerate(lines.splitlines(), 1)
        ]
    table = read_table(path, layout.names, layout.is_ragged)
    text, pair = _text_columns(table, columns)
    label = _column(table, columns.label, LABELS)
    negative = _column(table, columns.negative, negatives)
    _tell(table, {"text": text, "pair": pair, "negative": negative, "label": label}, columns)
    number = _column(table, None, IDS)
    renamed = dict(layout.renamed)
    examples: list[Example] = []
    empty: list[str] = []
    for count, (where, values) in enumerate(table.rows):
        if layout.only and values.get(*layout.only) != layout.only[1]:
            continue
        example = Example(
            where=where,
            id=str(values.get(number, count)) if number else str(count),
            text=_text(values, text, where),
            pair=_text(values, pair, where) if pair else None,
            negative=_text(values, negative, where) if negative else None,
        )
        stated = values.get(label) if label else None
        if isinstance(stated, list):
            example = replace(example, labels=tuple(_label(one) for one in stated))
        elif stated is not None and layout.separator is not None:
            cut = [one.strip() for one in _label(stated).split(layout.separator)]
            example = replace(example, labels=tuple(one for one in cut if one))
            empty += [] if any(cut) else [where]
        elif stated is not None and stated != "":
            example = replace(example, label=renamed.get(_label(stated), _label(stated)))
        examples.append(example)
    if empty:
        log.warning(
            "%d of %d texts have an empty cell of labels, and so count as having none of them (%s): leave out those "
            "that nobody has labelled.",
            *(len(empty), len(examples), some_of(empty)),
        )
    return examples


def read_tags(path: Path, columns: Columns, layout: Layout) -> list[Example]:
    """Sentences of words with a tag each: CoNLL's columns (the word first, the tag last, blank lines between
    sentences), one character and its tag a line, or a table with a list of words and one of tags in each row."""
    if suffix_of(path) in (".jsonl", ".parquet"):
        return _tag_table(read_table(path), columns)
    if suffix_of(path) == ".csv":
        raise ValueError(f"{path}: tags are read from lines of a word and its tag (.txt, .tsv), JSON lines or parquet.")
    _check_nameless(path, columns)
    examples: list[Example] = []
    cells: list[list[str]] = []
    document, begun, width = 0, 1, 0
    for number, line in enumerate([*read_text(path).split("\n"), ""], 1):
        if line.strip():
            begun = begun if cells else number
            cells.append(_cells(line.rstrip("\r")))
            width = width or len(cells[-1])
            if (len(cells[-1]) == 1) != (width == 1):
                raise ValueError(f"{path}, line {number} has {len(cells[-1])} columns, the first line {width}.")
        elif cells:
            if cells[0][0] == NEW_DOCUMENT:
                document += 1
            else:
                where = f"{path}, line {begun}"
                labels = None if width == 1 else tuple(row[-1] for row in cells)
                words = tuple(row[0] for row in cells)
                name = str(len(examples))
                examples.append(Example(where=where, id=name, words=words, labels=labels, document=document))
            cells = []
    return examples


def read_answers(path: Path, columns: Columns, layout: Layout) -> list[Example]:
    """Questions, passages and answers, in SQuAD's JSON form or as rows with a question, a context and answers."""
    if suffix_of(path) in (".jsonl", ".parquet", ".csv", ".tsv"):
        return _answer_table(read_table(path), columns)
    _check_nameless(path, columns)
    return read_squad(path)


def read_choices(path: Path, columns: Columns, layout: Layout) -> list[Example]:
    """Beginnings with several endings each, of which one is right: SWAG's and CODAH's tables, ARC's JSON lines."""
    table = read_table(path, layout.names)
    stem = _needed(table, columns.text, STEMS, "--text")
    label = _column(table, columns.label, ("label", "answerKey", "answer"))
    second = "sent2" if "sent2" in table.columns else None
    ending_columns = _ending_columns(table, columns)
    _tell(table, {"text": stem, "start of each ending": second, "endings": ending_columns, "label": label}, columns)
    examples = []
    for count, (where, values) in enumerate(table.rows):
        endings, names = _endings(values, ending_columns, where)
        while endings and not endings[-1].strip():
            endings = endings[:-1]  # a row with fewer of them leaves the last columns empty
        if not all(ending.strip() for ending in endings):
            raise ValueError(f"{where} has an ending that is empty before one that is not: mend that row.")
        if len(endings) < 2:
            raise ValueError(f"{where} has {len(endings)} endings; there must be at least 2 to choose from.")
        begun = f"{_text(values, second, where)} " if second else ""
        stated = values.get(label) if label else None
        examples.append(
            Example(
                where=where,
                id=str(values.get("id", count)),
                text=_text(values, stem, where),
                endings=tuple(begun + ending for ending in endings),
                right=None if stated in (None, "") else _number_of_ending(stated, names[: len(endings)], where),
            )
        )
    return examples


Reader = Callable[[Path, Columns, Layout], list[Example]]
READERS: Mapping[str, Reader] = {
    "texts": read_texts,
    "related": read_related,
    "tags": read_tags,
    "answers": read_answers,
    "choices": read_choices,
}
NAMED_COLUMNS: Mapping[str, Sequence[str]] = {  # of those that a person can name, what each reader takes
    "texts": ("text", "pair", "label"),
    "related": ("text", "pair", "negative", "label"),
    "tags": ("text", "label"),
    "answers": ("text", "pair", "label"),
    "choices": ("text", "endings", "label"),
}


def find_file(folder: Path, globs: Sequence[str]) -> Path | None:
    """The file in the folder whose name fits the first of the globs that any fits; ValueError if several do."""
    for glob in globs:
        found = sorted(path for path in folder.glob(glob) if path.is_file() and not path.name.startswith("."))
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise ValueError(f"{folder} has several files that may be meant ({names}): name the file itself.")
        if found:
            return found[0]
    return None


def _text_columns(table: Table, columns: Columns) -> tuple[str, str | None]:
    named_pair = _column(table, columns.pair, ())
    if columns.text:
        return _needed(table, columns.text, (), "--text"), named_pair
    taken = (columns.pair, columns.label, columns.negative)
    for text, pair in TEXTS:
        if text in table.columns and text not in taken and (pair is None or pair in table.columns):
            return text, named_pair or pair
    others = [name for name in table.columns if name not in (*LABELS, *IDS, *taken)]
    if len(others) != 1:
        raise ValueError(
            f"{table.name}: it is not plain which column holds the text: name it with --text (a second one with "
            f"--pair, labels with --label); its columns: {', '.join(table.columns)}."
        )
    return others[0], named_pair


def _column(table: Table, wanted: str | None, usual: Sequence[str]) -> str | None:
    """The wanted column, or the first usual one that the table has."""
    if wanted is not None and wanted not in table.columns:
        raise ValueError(f"{table.name} has no column {wanted!r}; its columns: {', '.join(table.columns)}.")
    return wanted or next((name for name in usual if name in table.columns), None)


def _needed(table: Table, wanted: str | None, usual: Sequence[str], flag: str) -> str:
    found = _column(table, wanted, usual)
    if found is None:
        raise ValueError(
            f"{table.name} has none of the columns {', '.join(usual)}: name one with {flag}; "
            f"its columns: {', '.join(table.columns)}."
        )
    return found


def _tell(table: Table, found: Mapping[str, str | Sequence[str] | None], columns: Columns) -> None:
    """Say which columns were guessed."""
    guessed = []
    for what, names in found.items():
        if names and not vars(columns).get(what):
            all_of = [names] if isinstance(names, str) else names
            guessed.append(f"{what} from column{'s' * (len(all_of) > 1)} {', '.join(map(repr, all_of))}")
    if guessed:
        log.info("%s: %s.", table.name, ", ".join(guessed))


def _check_nameless(path: Path, columns: Columns) -> None:
    """ValueError for columns that were named in a file whose columns have no names."""
    named = [f"--{what} {name}" for what, name in vars(columns).items() if name]
    if named:
        raise ValueError(f"{path} has no columns with names: leave {' and '.join(named)} out.")


def _text(values: Values, column: str, where: str) -> str:
    value = values.get(column)
    if not isinstance(value, str):
        raise ValueError(f"{where}: column {column!r} holds {'nothing' if value is None else repr(value)}, not a text.")
    return value


def _label(value: object) -> str:
    """A label as a text: a file's 1, 1.0 of a table that once had gaps, and "1" are the same."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _cells(line: str) -> list[str]:
    """The columns of a line, by tabs, or else by spaces; a word may be a space itself."""
    if "\t" in line:
        return line.split("\t")
    word, *others = line.strip().split()
    return [word, *others] if others or not line[0].isspace() else ["", word]


def _tag_table(table: Table, columns: Columns) -> list[Example]:
    words = _needed(table, columns.text, WORDS, "--text")
    tags = _column(table, columns.label, TAGS)
    _tell(table, {"text": words, "label": tags}, columns)
    examples = []
    for count, (where, values) in enumerate(table.rows):
        given, labels = values.get(words), values.get(tags) if tags else None
        if not isinstance(given, list) or not (labels is None or isinstance(labels, list)):
            raise ValueError(f"{where}: {words!r} and its tags must be lists, one tag a word.")
        if labels is not None and len(given) != len(labels):
            raise ValueError(f"{where} has {len(given)} words and {len(labels)} tags: give each word one.")
        tagged = None if labels is None else tuple(map(_label, labels))
        examples.append(
            Example(where=where, id=str(values.get("id", count)), words=tuple(map(str, given)), labels=tagged)
        )
    # Rows of a table are not said to follow each other.
    return [replace(example, document=number) for number, example in enumerate(examples)]


def _answer_table(table: Table, columns: Columns) -> list[Example]:
    passage = _needed(table, columns.text, PASSAGES, "--text")
    question = _needed(table, columns.pair, QUESTIONS, "--pair")
    answers = _column(table, columns.label, ("answers", "answer"))
    _tell(table, {"text": passage, "pair": question, "label": answers}, columns)
    examples = []
    for count, (where, values) in enumerate(table.rows):
        text = _text(values, passage, where)
        examples.append(
            Example(
                where=where,
                id=str(values.get("id", count)),
                text=text,
                pair=_text(values, question, where),
                answers=tuple(_spans(values.get(answers), text, where)) if answers else None,
            )
        )
    return examples


def _spans(value: object, passage: str, where: str) -> Iterator[Span]:
    """Answers as a text, a list of texts, or lists of texts and of places under one roof."""
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise ValueError(f"{where}: answers must be lists 'text' and 'answer_start' of one length.")
        yield from (Span(str(text), int(start)) for text, start in zip(texts, starts, strict=True))
        return
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    yield from (Span(str(text), passage.find(str(text))) for text in texts if text)


def _ending_columns(table: Table, columns: Columns) -> Sequence[str]:
    """The one column of lists of endings, or those of an ending each."""
    if columns.endings:
        return [name for name in columns.endings if _column(table, name, ())]
    lists = _column(table, None, ENDING_LISTS)
    singles = [name for name in table.columns if name.rstrip("0123456789_") in ENDING_NAMES and name[-1].isdigit()]
    if lists is None and len(singles) < 2:
        raise ValueError(
            f"{table.name} has no endings: name a column of lists, or each ending's own, with --endings; its columns: "
            f"{', '.join(table.columns)}."
        )
    return [lists] if lists else singles


def _endings(values: Values, columns: Sequence[str], where: str) -> tuple[list[str], list[str]]:
    """The endings, and what each is called where the right one is named: by its number from 0, or, in lists of texts
    and of their letters under one roof, by its letter."""
    value: object = values.get(columns[0]) if len(columns) == 1 else [_text(values, name, where) for name in columns]
    texts, letters = (value.get("text"), value.get("label")) if isinstance(value, dict) else (value, None)
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(
            f"{where}: column {columns[0]!r} holds {value!r}, not a list of endings; where each ending has a column of "
            "its own, name each with --endings."
        )
    return texts, [str(one) for one in (letters if isinstance(letters, list) else range(len(texts)))]


def _number_of_ending(stated: object, names: Sequence[str], where: str) -> int:
    if _label(stated) not in names:
        raise ValueError(f"{where}: the right ending is {stated!r}; allowed: {', '.join(names)}.")
    return names.index(_label(stated))
