"""The tasks by name: what kind each is, with which settings, and how its official files are laid out."""

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bertie.config import from_values
from bertie.tasks.answer import Answer
from bertie.tasks.choose import Choose
from bertie.tasks.classify import Classify, Regress
from bertie.tasks.embed import Embed
from bertie.tasks.files import NAMED_COLUMNS, READERS, Columns, Layout, find_file
from bertie.tasks.tag import Tag
from bertie.tasks.task import Example, Task, some_of

log = logging.getLogger(__name__)
AnyTask = Classify | Regress | Tag | Answer | Choose | Embed
KINDS: Mapping[str, type[AnyTask]] = {
    "classify": Classify,
    "regress": Regress,
    "tag": Tag,
    "answer": Answer,
    "choose": Choose,
    "embed": Embed,
}
TRAIN = ("train.*", "*train*")
DEV = ("dev.*", "dev_matched.*", "valid.*", "validation.*", "*valid*", "*dev*")
TEST = ("test.*", "test_matched.*", "*test*")


@dataclass(frozen=True)
class Named:
    """A task under a name. train, dev, test: what its files are called in a folder, the usual names first."""

    kind: str
    reader: str
    settings: Mapping[str, object] = field(default_factory=dict)
    layout: Layout = field(default_factory=Layout)
    train: Sequence[str] = TRAIN
    dev: Sequence[str] = DEV
    test: Sequence[str] = TEST

    def task(self) -> AnyTask:
        return make_task(self.kind, self.settings, "this task")

    def read(self, path: Path, columns: Columns, task: AnyTask | None = None) -> list[Example]:
        """The examples of a file, as a task with settings of its own takes them; ValueError if it has none."""
        if not path.exists():
            raise ValueError(f"{path} is not there: give a file of examples, or a folder that holds one.")
        self._check(columns)
        layout = self.layout
        if isinstance(task, Classify) and task.several:
            layout = replace(layout, separator=task.separator)
        examples = READERS[self.reader](path, columns, layout)
        if not examples:
            raise ValueError(f"{path} has no examples in it.")
        return examples

    def _check(self, columns: Columns) -> None:
        """ValueError for a column that this kind of task has no use for."""
        used = NAMED_COLUMNS[self.reader]
        for name, stated in vars(columns).items():
            if stated and name not in used:
                raise ValueError(
                    f"--{name} {stated if isinstance(stated, str) else ' '.join(stated)}: {self.kind} reads no such "
                    f"column; its columns are named with --{', --'.join(used)}."
                )


def check_texts(examples: Sequence[Example], may_be_empty: bool) -> None:
    """Say which examples have an empty text, or where they may not, ValueError."""
    empty = [one.where for one in examples if _has_empty_text(one)]
    if empty and not may_be_empty:
        raise ValueError(
            f"{len(empty)} of {len(examples)} examples have an empty text: {some_of(empty)}. Give them words, or leave "
            "them out."
        )
    if empty:
        log.warning("%d of %d examples have an empty text: %s.", len(empty), len(examples), some_of(empty))


def _has_empty_text(example: Example) -> bool:
    texts = [" ".join(example.words) or example.text, example.pair, example.negative]
    return any(text is not None and not text.strip() for text in texts)


def make_task(kind: str, settings: Mapping[str, object], where: str) -> AnyTask:
    """The task of a kind with settings as they stand in a file."""
    if kind not in KINDS:
        raise ValueError(f"{where}: kind {kind!r} does not exist; allowed: {', '.join(KINDS)}.")
    return from_values(KINDS[kind], settings, where)


def kind_of(task: Task) -> str:
    """The name of the task's kind."""
    return next(name for name, kind in KINDS.items() if isinstance(task, kind))


def named(name: str) -> Named:
    """What goes by that name; ValueError with the nearest one for a name there is none of."""
    if name not in NAMED:
        close = difflib.get_close_matches(name, NAMED, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no task {name!r}; {hint}There are: {', '.join(NAMED)}.")
    return NAMED[name]


def find_parts(data: Path, task: Named, dev: Path | None) -> tuple[Path, Path | None]:
    """The files to learn from and to be held out, in a folder or named; None where there is no second one."""
    if not data.is_dir():
        return data, dev
    train = find_file(data, task.train)
    if train is None:
        raise ValueError(f"{data} has no file to learn from; looked for {', '.join(task.train)}: name the file itself.")
    return train, dev or find_file(data, task.dev)


def find_test(data: Path, task: Named) -> Path:
    """The file to be judged by: the one named, or in a folder the one that is held out."""
    if not data.is_dir():
        return data
    found = find_file(data, task.dev) or find_file(data, task.test)
    if found is None:
        raise ValueError(f"{data} has no file to evaluate; looked for {', '.join((*task.dev, *task.test))}: name it.")
    return found


def _classes(*labels: str, metrics: Sequence[str] = ("accuracy",), **settings: object) -> dict[str, object]:
    return {"labels": labels, "metrics": tuple(metrics), **settings}


ENTAILMENT = _classes("entailment", "not_entailment")
INFERENCE = _classes("contradiction", "entailment", "neutral")
SQUAD: Mapping[str, object] = {"projection": "google"}
CHINESE_SPANS: Mapping[str, object] = {"has_nulls": False, "scorer": "cmrc", "max_length": 512}
PAIR_NAMES = ("text_a", "text_b", "label")

NAMED: Mapping[str, Named] = {
    "classify": Named("classify", "texts"),
    "regress": Named("regress", "texts"),
    "tag": Named("tag", "tags"),
    "answer": Named("answer", "answers"),
    "choose": Named("choose", "choices"),
    "embed": Named("embed", "related"),
    "cola": Named(
        "classify",
        "texts",
        _classes("0", "1", metrics=("matthews", "accuracy")),
        Layout(names=("source", "label", "mark", "sentence")),
    ),
    "sst-2": Named("classify", "texts", _classes("0", "1")),
    "mrpc": Named("classify", "texts", _classes("0", "1", metrics=("accuracy", "f1"))),
    "sts-b": Named("regress", "texts", {"standardise": False}),
    "qqp": Named("classify", "texts", _classes("0", "1", metrics=("accuracy", "f1")), Layout(is_ragged=True)),
    "mnli": Named("classify", "texts", INFERENCE),
    "qnli": Named("classify", "texts", ENTAILMENT),
    "rte": Named("classify", "texts", ENTAILMENT),
    "wnli": Named("classify", "texts", _classes("0", "1")),
    "ax": Named("classify", "texts", {**INFERENCE, "metrics": ("matthews", "accuracy")}, test=("AX.*", "ax.*")),
    "xnli": Named(
        "classify",
        "texts",
        INFERENCE,
        Layout(only=("language", "zh"), renamed=(("contradictory", "contradiction"),)),
        train=("multinli.train.zh.*", *TRAIN),
        dev=("xnli.dev.*", *DEV),
        test=("xnli.test.*", *TEST),
    ),
    "squad-v1": Named(
        "answer", "answers", {**SQUAD, "has_nulls": False}, train=("train-v1.1*", *TRAIN), dev=("dev-v1.1*", *DEV)
    ),
    "squad-v2": Named(
        "answer", "answers", {**SQUAD, "has_nulls": True}, train=("train-v2.0*", *TRAIN), dev=("dev-v2.0*", *DEV)
    ),
    "swag": Named("choose", "choices", {"num_endings": 4}, dev=("val.*", *DEV)),
    "codah": Named(
        "choose",
        "choices",
        {"num_endings": 4},
        layout=Layout(names=("category", "prompt", *(f"ending{number}" for number in range(4)), "label")),
    ),
    "conll-ner": Named(
        "tag",
        "tags",
        {"context": "document", "max_length": 512},
        train=("eng.train", *TRAIN),
        dev=("eng.testa", *DEV),
        test=("eng.testb", *TEST),
    ),
    "chnsenticorp": Named("classify", "texts", _classes("0", "1", max_length=256)),
    "afqmc": Named("classify", "texts", _classes("0", "1"), Layout(names=PAIR_NAMES)),
    "lcqmc": Named("classify", "texts", _classes("0", "1"), Layout(names=PAIR_NAMES)),
    "msra-ner": Named("tag", "tags", {"max_length": 256}),
    "cmrc2018": Named("answer", "answers", CHINESE_SPANS),
    "drcd": Named("answer", "answers", CHINESE_SPANS),
}
