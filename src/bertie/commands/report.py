"""A page about runs: bertie report."""

from pathlib import Path

import click

from bertie import console
from bertie.commands.options import MODEL


@click.command(short_help="A page about runs: curves, scores, errors, cost.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=MODEL)
@click.option("--out", required=True, type=Path, help="The page to write: one .html file that needs nothing else.")
@click.option("--language", type=click.Choice(["en", "zh"]), default="en", help="Of the page.")
@click.option("--text", "texts", multiple=True, help="Show the models at work on it; `A ||| B` is a pair. Repeatable.")
@click.option("--word", "looked_at", multiple=True, help="A word of the texts to show in context. Repeatable.")
@click.option("--price", type=float, help="Of an hour of a GPU, in any currency: the page says what the runs cost.")
def report(
    runs: tuple[Path, ...],
    out: Path,
    language: str,
    texts: tuple[str, ...],
    looked_at: tuple[str, ...],
    price: float | None,
) -> None:
    """Write a page about the run folders RUN...: one file, to be opened from disk or sent to somebody.

    RUN: what --out named for bertie pretrain, finetune or glue, or for corpus or vocab. Several are shown side by side.
    With --text, attention, masked words, words in context and the word table of their models are shown too, and RUN can
    be a model folder.

    \b
    Example: bertie report my-run --out report.html
    """
    from bertie.report.report import make_report

    if looked_at and not texts:
        raise ValueError("--word names a word of the texts: give --text too.")
    make_report(runs, out, language, texts, looked_at, price)
    console.say(f"{out} is the report: open it in a browser.")
