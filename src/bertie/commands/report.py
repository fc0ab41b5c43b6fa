"""A page about runs: bertie report."""

from pathlib import Path

import click

from bertie import console


@click.command(short_help="A page about runs: curves, scores, errors, cost.")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=Path, help="The page to write: one .html file that needs nothing else.")
@click.option("--language", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Of the page.")
def report(runs: tuple[Path, ...], out: Path, language: str) -> None:
    """Write a page about the run folders RUN...: one file, to be opened from disk or sent to somebody.

    RUN: what --out named for bertie pretrain, finetune or glue. Several are shown side by side.

    \b
    Example: bertie report my-run --out report.html
    """
    from bertie.report.report import make_report

    make_report(runs, out, language)
    console.say(f"{out} is the report: open it in a browser.")
