"""bertie glue, from top to bottom: the suite's tasks that are there, one after the other; the paper's table; the files
that the benchmark's server takes."""

import io
import logging
import statistics
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from bertie.config import to_toml
from bertie.sealed import write_file
from bertie.tasks.files import Columns, find_file
from bertie.tasks.metrics import accuracy
from bertie.tasks.named import named
from bertie.tasks.predictions import table_text
from bertie.tasks.recipe import change, make_recipe
from bertie.tasks.run import Order, Watch
from bertie.tasks.sweep import finetune_seeds
from bertie.tasks.task import Prediction
from bertie.tasks.trained import Trained
from bertie.training.distributed import Ranks
from bertie.training.run_folder import MODEL, begin, read_card, write_card

logger = logging.getLogger(__name__)
ANY = Columns()
LEAST, MOST = 0.0, 5.0  # of STS-B's numbers: the server takes no others
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that the same predictions make the same zip


@dataclass(frozen=True)
class Column:
    """A column of the paper's table of GLUE, and a file of the submission. score: the one of several that the paper
    has; rows: of the official file without labels."""

    name: str
    task: str
    score: str
    rows: int
    folders: tuple[str, ...]
    dev: tuple[str, ...] = ("dev.*",)
    test: tuple[str, ...] = ("test.*",)


COLUMNS = (
    Column("MNLI-m", "mnli", "accuracy", 9796, ("MNLI",), ("dev_matched.*",), ("test_matched.*",)),
    Column("MNLI-mm", "mnli", "accuracy", 9847, ("MNLI",), ("dev_mismatched.*",), ("test_mismatched.*",)),
    Column("QQP", "qqp", "f1", 390_965, ("QQP",)),
    Column("QNLI", "qnli", "accuracy", 5463, ("QNLI",)),
    Column("SST-2", "sst-2", "accuracy", 1821, ("SST-2",)),
    Column("CoLA", "cola", "matthews", 1063, ("CoLA",)),
    Column("STS-B", "sts-b", "spearman", 1379, ("STS-B",)),
    Column("MRPC", "mrpc", "f1", 1725, ("MRPC",)),
    Column("RTE", "rte", "accuracy", 3000, ("RTE",)),
)
WNLI = Column("WNLI", "wnli", "accuracy", 146, ("WNLI",))
AX = Column("AX", "ax", "matthews", 1104, ("AX", "diagnostic"), (), ("AX.*", "diagnostic.*"))


@dataclass(frozen=True)
class Suite:
    """What to learn the suite from, and how."""

    folder: Path  # that holds CoLA, SST-2 ... as the benchmark hands them out
    model: Path
    out: Path
    recipe: str = "stable"
    settings: tuple[str, ...] = ()
    seeds: int = 1
    resumes: bool = False
    allows_changes: bool = False


class Scored(NamedTuple):
    """A column of the table: its score with each seed."""

    name: str
    score: str
    each: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.mean(self.each)

    @property
    def deviation(self) -> float:
        return statistics.stdev(self.each) if len(self.each) > 1 else 0.0


@dataclass(frozen=True)
class Result:
    """What became of the suite. majority: what always saying WNLI's most frequent class scores, which the paper did and
    did not count; missing: the submission's files that could not be made, each with the reason."""

    columns: tuple[Scored, ...] = ()
    majority: float | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    signal: int | None = None  # what stopped it

    @property
    def average(self) -> float:
        return average({column.name: column.mean for column in self.columns})


def average(scores: Mapping[str, float]) -> float:
    """The mean of the paper's columns: MNLI counts twice, WNLI not at all."""
    return statistics.mean(scores[column.name] for column in COLUMNS if column.name in scores)


def run_glue(suite: Suite, watch: Watch) -> Result:
    """Fine-tune on each task, judge the models on the held-out parts, write the table to OUT/card.json and the best
    models' predictions to OUT/submission and OUT/submission.zip."""
    orders = _orders(suite)
    with begin(suite.out, _toml(suite), suite.resumes, suite.allows_changes, Ranks(torch.device("cpu"))):
        return _run_all(suite, orders, watch)


def _run_all(suite: Suite, orders: Mapping[str, Order], watch: Watch) -> Result:
    for number, order in enumerate(orders.values(), 1):
        logger.info("%s, task %d of %d:", order.name, number, len(orders))
        ending = finetune_seeds(order, suite.seeds, watch)
        if ending.outcome == "stopped":
            return Result(signal=ending.signal)
    columns = tuple(_scored(orders, suite.seeds))
    majority, missing = _submit(suite, orders)
    result = Result(columns, majority, missing)
    table = {column.name: {"score": column.score, "each": list(column.each)} for column in columns}
    write_card(suite.out, {"kind": "glue", "average": result.average, "columns": table, "missing": dict(missing)})
    return result


def _orders(suite: Suite) -> dict[str, Order]:
    """What to fine-tune, in the table's order; ValueError if there is nothing, or a setting is wrong."""
    if not suite.folder.is_dir():
        raise ValueError(f"{suite.folder} is not there: give the folder that holds CoLA, SST-2 ...")
    orders: dict[str, Order] = {}
    for column in COLUMNS:
        folder = _folder(suite, column)
        if column.task in orders or folder is None:
            continue
        if find_file(folder, named(column.task).train) is None:
            logger.warning("%s has no file to learn from: %s is left out.", folder, column.task)
            continue
        recipe, kind = change(make_recipe(suite.recipe, column.task), column.task, suite.settings)
        out = suite.out / column.task
        resumes = suite.resumes and out.exists()
        order = Order(column.task, kind, recipe, suite.model, folder, out, resumes=resumes)
        orders[column.task] = Order(**{**vars(order), "allows_changes": suite.allows_changes})
    if not orders:
        names = ", ".join(dict.fromkeys(name for column in COLUMNS for name in column.folders))
        raise ValueError(f"{suite.folder} has no task of GLUE to learn; looked for the folders {names}.")
    absent = [column.name for column in COLUMNS if column.task not in orders]
    if absent:
        logger.info("Not there, so not in the average: %s.", ", ".join(absent))
    return orders


def _folder(suite: Suite, column: Column) -> Path | None:
    return next((suite.folder / name for name in column.folders if (suite.folder / name).is_dir()), None)


def _toml(suite: Suite) -> str:
    return to_toml(_Written(str(suite.folder), str(suite.model), suite.recipe, suite.settings, suite.seeds))


@dataclass(frozen=True)
class _Written:
    """What OUT/recipe.toml holds."""

    folder: str
    model: str
    recipe: str
    settings: tuple[str, ...]
    seeds: int


def _scored(orders: Mapping[str, Order], num_seeds: int) -> Iterator[Scored]:
    """Each column of a task that was learned. A task's first one is what its models were chosen by."""
    known: set[str] = set()
    for column in COLUMNS:
        if column.task not in orders:
            continue
        order = orders[column.task]
        runs = [order.out / f"seed-{seed}" for seed in range(order.recipe.seed, order.recipe.seed + num_seeds)]
        if column.task not in known:
            known.add(column.task)
            yield Scored(column.name, column.score, tuple(_score_of(run, column.score) for run in runs))
            continue
        data = find_file(order.data, column.dev)
        if data is None:
            logger.warning("%s has no %s: no score of %s.", order.data, column.dev[0], column.name)
            continue
        models = (Trained.load(run, order.recipe.device, order.recipe.precision) for run in runs)
        each = tuple(model.evaluate(data, ANY).scores[column.score] for model in models)
        yield Scored(column.name, column.score, each)


def _score_of(run: Path, name: str) -> float:
    scores = read_card(run)["scores"]
    assert isinstance(scores, dict)
    return float(scores[name])


def _submit(suite: Suite, orders: Mapping[str, Order]) -> tuple[float | None, dict[str, str]]:
    """Write what the best models say of the files without labels; gives what the majority class of WNLI scores, and
    the files that are missing, each with the reason."""
    files: dict[str, str] = {}
    missing: dict[str, str] = {}
    for column in (*COLUMNS, AX):
        task = "mnli" if column is AX else column.task
        said = _asked(suite, column, orders.get(task))
        if isinstance(said, str):
            missing[column.name] = said
        else:
            files[column.name] = _official(column, said)
    wnli, majority = _majority(suite)
    if wnli is None:
        missing[WNLI.name] = "there is no folder WNLI with files train.* and test.*"
    else:
        files[WNLI.name] = wnli
    for name, text in files.items():
        write_file(suite.out / "submission" / f"{name}.tsv", text.encode())
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.tsv", LONG_AGO), text, zipfile.ZIP_DEFLATED)
    write_file(suite.out / "submission.zip", packed.getvalue())
    return majority, missing


def _asked(suite: Suite, column: Column, order: Order | None) -> list[Prediction] | str:
    """The predictions, or why there are none."""
    folder = _folder(suite, column)
    test = None if folder is None else find_file(folder, column.test)
    if order is None:
        return "it needs a model for MNLI, which there is none of" if column is AX else "its task was not learned"
    if test is None:
        return f"there is no file {' or '.join(column.test)} in {' or '.join(column.folders)}"
    examples = named(column.task).read(test, ANY)
    trained = Trained.load(order.out / MODEL, order.recipe.device, order.recipe.precision)
    return trained.predict(examples)


def _majority(suite: Suite) -> tuple[str | None, float | None]:
    """What is most frequent in WNLI's examples said of all of its test, as the paper does: its held-out part is the
    other way round to what there is to learn from. The file's text, and what that scores on the held-out part."""
    folder, kind = _folder(suite, WNLI), named(WNLI.task)
    places = [] if folder is None else [find_file(folder, globs) for globs in (kind.train, kind.dev, WNLI.test)]
    train, dev, test = places or (None, None, None)
    if train is None or test is None:
        return None, None
    counts = Counter(example.label or "" for example in kind.read(train, ANY))
    label = max(sorted(counts), key=counts.__getitem__)
    text = _official(WNLI, [Prediction(label=label) for _ in kind.read(test, ANY)])
    gold = [] if dev is None else [example.label or "" for example in kind.read(dev, ANY)]
    return text, accuracy(gold, [label] * len(gold), ()) if gold else None


def _official(column: Column, predictions: Sequence[Prediction]) -> str:
    """The file's text; says so where the server would refuse it for its number of rows."""
    if len(predictions) != column.rows:
        logger.warning(
            "%s: %s rows, but the official file has %s: the server will refuse it.",
            *(column.name, f"{len(predictions):,}", f"{column.rows:,}"),
        )
    settled = [
        one if one.number is None else Prediction(number=min(MOST, max(LEAST, one.number))) for one in predictions
    ]
    return table_text(settled)
