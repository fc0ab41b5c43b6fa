"""The suite of GLUE with one command: bertie glue."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertie import console
from bertie.commands.options import CARD_JSON, MODEL, print_card, stopped
from bertie.commands.tasks import told

if TYPE_CHECKING:
    from bertie.tasks.glue import Result


@click.command(short_help="The whole suite of GLUE, and the files its server takes.")
@click.argument("folder", metavar="GLUE_FOLDER", type=Path)
@click.option("--model", required=True, type=MODEL, help="The model to begin with, for each task: a folder or a name.")
@click.option("--out", required=True, type=Path, help="The folder to write: a run a task, submission.zip, card.json.")
@click.option("--recipe", default="stable", help="stable, or faithful: the paper's.")
@click.option("--seeds", type=click.IntRange(1), default=1, help="Runs of each task; the best one's model is asked.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe of all tasks.")
@click.option("--resume", is_flag=True, help="Go on with what is in OUT; repeat the command it was begun with.")
@click.option("--allow-changes", is_flag=True, help="With --resume: go on though the recipe is another.")
@CARD_JSON
def glue(
    folder: Path,
    model: Path,
    out: Path,
    recipe: str,
    seeds: int,
    settings: tuple[str, ...],
    resume: bool,
    allow_changes: bool,
    as_json: bool,
) -> None:
    """Fine-tune on each task of GLUE that is in GLUE_FOLDER, in folders CoLA, SST-2 ... as the benchmark hands them
    out; print the paper's table of held-out scores, and write the zip that the server takes.

    \b
    Example: bertie glue glue --model my-bert --out my-glue --seeds 5
    """
    from bertie.tasks.glue import Suite, run_glue

    with console.run_progress("glue") as show:
        result = run_glue(Suite(folder, model, out, recipe, settings, seeds, resume, allow_changes), told(show))
    if result.signal is not None:
        raise stopped(out, result.signal)
    if as_json:
        print_card(out)
    else:
        click.echo(_table(result))
    console.say(f"{out / 'submission.zip'} holds the predictions, as the server takes them.")
    for name, reason in result.missing.items():
        console.say(f"{name}.tsv is not among them: {reason}.")
    if result.missing:
        console.say("The server wants all eleven files.")


def _table(result: "Result") -> str:
    """The columns of the paper's table as rows, and their average."""
    shown = [
        [column.name, column.score, f"{column.mean:.4f}", f"{column.deviation:.4f}", f"{max(column.each):.4f}"]
        for column in result.columns
    ]
    several = 5 if len(result.columns[0].each) > 1 else 3
    count = f"of {len(shown)} of the paper's 9"
    rows = [row[:several] for row in [*shown, ["average", count, f"{result.average:.4f}", "", ""]]]
    if result.majority is not None:
        rows.append(["WNLI", "majority class, not counted", f"{result.majority:.4f}", "", ""][:several])
    return console.table(["task", "score", "held out", "deviation", "best"][:several], rows)
