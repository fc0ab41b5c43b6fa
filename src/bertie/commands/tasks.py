"""Learning from labels: bertie finetune, evaluate, predict."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from bertie import console
from bertie.commands import completion
from bertie.commands.options import CARD_JSON, DEVICE, MODEL, THREADS, print_card, print_json, set_threads, stopped
from bertie.commands.pretraining import show_corpus_scores

if TYPE_CHECKING:
    from bertie.tasks.sweep import Swept
    from bertie.tasks.trained import Evaluation
    from bertie.training.runlog import Event

TEXT = click.option("--text", help="The column of the text (passage, words, beginning); guessed where it is plain.")
PAIR = click.option("--pair", help="The column of the second text, or of the question.")
NEGATIVE = click.option("--negative", help="The column of a third text, which does not belong to the first.")
ENDINGS = click.option(
    "--endings", multiple=True, help="The column of lists of endings; or, given once for each, an ending's own."
)
LABEL = click.option("--label", help="The column of the label.")
PRECISION = click.option(
    "--precision", type=click.Choice(["float32", "bf16"]), default="float32", help="bf16: products in bfloat16."
)


@click.command(short_help="Have a model learn from labelled examples.")
@click.argument("task", shell_complete=completion.task_names)
@click.argument("data", type=Path)
@click.option("--model", required=True, type=MODEL, help="The model to begin with: a folder or a name.")
@click.option("--out", required=True, type=Path, help="The run folder to write; the best model will be in OUT/model.")
@click.option("--dev", type=Path, help="A file of held-out examples; else DATA's own, or a tenth of its examples.")
@TEXT
@PAIR
@NEGATIVE
@ENDINGS
@LABEL
@click.option("--recipe", default="stable", help="stable, or faithful: the paper's.")
@click.option("--seeds", type=click.IntRange(1), default=1, help="Runs with a seed each; the best one's model is kept.")
@click.option(
    *("--grid", "grid"),
    multiple=True,
    is_flag=False,
    flag_value="paper",
    metavar="KEY=VALUE,VALUE",
    help="Runs with each value, of several keys with each combination; alone: the paper's batch, lr and epochs.",
)
@click.option("--retry", type=click.IntRange(0), default=0, help="Repeat a run that collapses up to so often.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe or the task.")
@click.option("--resume", is_flag=True, help="Go on with the run in OUT; repeat the command it was begun with.")
@click.option("--allow-changes", is_flag=True, help="With --resume: go on though the recipe is another.")
@CARD_JSON
def finetune(
    task: str,
    data: Path,
    model: Path,
    out: Path,
    dev: Path | None,
    text: str | None,
    pair: str | None,
    negative: str | None,
    endings: tuple[str, ...],
    label: str | None,
    recipe: str,
    seeds: int,
    grid: tuple[str, ...],
    retry: int,
    settings: tuple[str, ...],
    resume: bool,
    allow_changes: bool,
    as_json: bool,
) -> None:
    """Have a model learn TASK from the labelled examples in DATA, a file or a folder.

    TASK is classify, regress, tag, answer, choose or embed, or the name of a benchmark: cola, squad-v1, conll-ner ...

    \b
    Example: bertie finetune classify reviews.csv --model my-bert --out my-run
    """
    from bertie.tasks.files import Columns
    from bertie.tasks.recipe import change, make_recipe
    from bertie.tasks.run import Order, finetune
    from bertie.tasks.sweep import Sweep, Swept, name_of, settings_of, sweep

    combinations = settings_of(grid)
    variants = {name_of(one): change(make_recipe(recipe, task), task, [*settings, *one]) for one in combinations}
    changed, kind = change(make_recipe(recipe, task), task, settings)
    columns = Columns(text, pair, label, negative, endings)
    order = Order(task, kind, changed, model, data, out, dev, columns, resume, allow_changes)
    with console.run_progress("fine-tuning") as show:
        if seeds == 1 and not grid and not retry:
            done = Swept(finetune(order, told(show)))
        else:
            done = sweep(Sweep(order, variants, seeds, retry), told(show))
    if done.ending.outcome == "stopped":
        raise stopped(out, done.ending.signal)
    if as_json:
        print_card(out)
    elif done.summaries:
        click.echo(_summary_table(done))
    console.say(f"{out / 'model'} holds the best model: {_listed(done.ending.scores)}")


def _summary_table(done: "Swept") -> str:
    """A row for each setting, the best mean first."""
    rows = [
        [
            one.setting or "all seeds",
            *(f"{number:.4f}" for number in (one.mean, one.deviation, one.best, one.worst)),
            str(len(one.each)),
            str(one.collapsed),
        ]
        for one in done.summaries
    ]
    return console.table([done.main, "mean", "deviation", "best", "worst", "runs", "collapsed"], rows)


def told(show: Callable[[float, str], None]) -> Callable[["Event", float], None]:
    """What is to be told each event of a run: it keeps the progress up and says what is worth a line."""

    def watch(event: "Event", share: float) -> None:
        if event["event"] == "train":
            show(share, f"loss {event['loss']:.3f}, {event['tokens_per_second']:,.0f} tokens/s")
        elif event["event"] == "evaluate":
            console.say(f"step {event['step']:,}, held out: {_listed(_validation(event))}")
        elif event["event"] == "skip":
            console.say(f"step {event['step']:,} was skipped: {event['reason']}")

    return watch


@click.command(short_help="The scores of a model on labelled examples.")
@click.argument("run", type=MODEL)
@click.argument("data", type=Path)
@click.option("--json", "as_object", is_flag=True, help="One object: task, examples, scores.")
@click.option("--intervals", type=click.IntRange(0), default=0, metavar="ROUNDS", help="95 % interval by bootstrap.")
@TEXT
@PAIR
@NEGATIVE
@ENDINGS
@LABEL
@PRECISION
@DEVICE
@THREADS
def evaluate(
    run: Path,
    data: Path,
    as_object: bool,
    intervals: int,
    text: str | None,
    pair: str | None,
    negative: str | None,
    endings: tuple[str, ...],
    label: str | None,
    precision: Literal["float32", "bf16"],
    device: str,
    threads: int | None,
) -> None:
    """The scores of the model in RUN, a run or model folder, on the labelled examples in DATA.

    Where DATA is a corpus: how well the model guesses masked words and pairs of text that was held back.

    \b
    Example: bertie evaluate my-run reviews.csv
    """
    from bertie.corpus.shards import META
    from bertie.tasks.files import Columns
    from bertie.tasks.trained import Trained, as_json

    set_threads(threads)
    if (data / META).is_file():
        show_corpus_scores(run, data, as_object, device, precision)
        return
    found = Trained.load(run, device, precision).evaluate(
        data, Columns(text, pair, label, negative, endings), intervals
    )
    if as_object:
        print_json(as_json(found))
        return
    click.echo(_tables(found))


@click.command(short_help="What a model says of each example of a file.")
@click.argument("run", type=MODEL)
@click.argument("data", metavar="INPUT", type=Path)
@click.option("--out", required=True, type=Path, help="The file to write: .jsonl, .tsv as GLUE, .json as SQuAD.")
@TEXT
@PAIR
@NEGATIVE
@ENDINGS
@PRECISION
@DEVICE
@THREADS
def predict(
    run: Path,
    data: Path,
    out: Path,
    text: str | None,
    pair: str | None,
    negative: str | None,
    endings: tuple[str, ...],
    precision: str,
    device: str,
    threads: int | None,
) -> None:
    """What the model in RUN says of each example in INPUT, whether it is labelled or not.

    \b
    Example: bertie predict my-run reviews.csv --out predictions.jsonl
    """
    from bertie.tasks.files import Columns
    from bertie.tasks.named import check_texts, named
    from bertie.tasks.predictions import check_form, write_predictions
    from bertie.tasks.trained import Trained

    set_threads(threads)
    trained = Trained.load(run, device, precision)
    check_form(out, trained.task)
    examples = named(trained.name).read(data, Columns(text, pair, negative=negative, endings=endings))
    check_texts(examples, may_be_empty=True)
    write_predictions(out, trained.task, trained.predict(examples), examples)
    console.say(f"{out} holds {len(examples):,} predictions.")


def _validation(event: "Event") -> dict[str, float]:
    """The figures of held-out examples, by their short names."""
    prefix = "validation_"
    return {name.removeprefix(prefix): float(value) for name, value in event.items() if name.startswith(prefix)}


def _listed(scores: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {score:.4f}" for name, score in scores.items())


def _tables(found: "Evaluation") -> str:
    """The scores; for classes each label's; for entities each type's."""
    from bertie.tasks.entities import entity_table, has_entities

    rows = [[name, f"{score:.4f}", _interval(found, name)] for name, score in found.scores.items()]
    header = ["score", f"{len(found.examples):,} examples", *(["95 %"] if found.intervals else [])]
    parts = [console.table(header, [row[: len(header)] for row in rows])]
    parts += _class_tables(found)
    tags = [example.labels for example in found.examples if example.words and example.labels is not None]
    if tags and has_entities([tag for sentence in tags for tag in sentence]):
        types = entity_table(tags, [prediction.labels for prediction in found.predictions])
        rows = [[one, *(f"{number:.4f}" for number in numbers)] for one, *numbers in types]
        parts.append(console.table(["type", "precision", "recall", "f1"], rows))
    return "\n\n".join(parts)


def _class_tables(found: "Evaluation") -> list[str]:
    """Each label's scores, and where a text has one label what is taken for what."""
    from bertie.tasks.metrics import confusion, per_class, per_label

    gold = [example.label for example in found.examples if example.label is not None]
    called = [prediction.label for prediction in found.predictions if prediction.label is not None]
    table = confusion(gold, called) if len(gold) == len(called) == len(found.examples) else None
    sets = [frozenset(one.labels) for one in found.examples if one.labels is not None and not one.words]
    if table is None and len(sets) < len(found.examples):
        return []
    scores = per_class(table) if table else per_label(sets, [frozenset(one.labels) for one in found.predictions])
    each = [
        [one.label, *(f"{number:.4f}" for number in (one.precision, one.recall, one.f1)), str(one.support)]
        for one in scores
    ]
    parts = [console.table(["label", "precision", "recall", "f1", "examples"], each)]
    if table is None:
        return parts
    counts = [[label, *map(str, row)] for label, row in zip(table.labels, table.counts.tolist(), strict=True)]
    return [*parts, console.table(["is, called", *table.labels], counts)]


def _interval(found: "Evaluation", name: str) -> str:
    low, high = found.intervals.get(name, (0.0, 0.0))
    return f"{low:.4f} to {high:.4f}" if name in found.intervals else ""
