"""The models that the package carries: bertie models."""

import re
from pathlib import Path

import click

from bertie import carried, console
from bertie.commands import completion
from bertie.commands.options import print_json

CARD = "card.md"
HEAD = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)  # of a card, as Hugging Face has it
NONE = (
    "The package carries no model: give one by its folder. `bertie pretrain` makes one, and `bertie convert RUN/model "
    "FOLDER --to int8` the form in which src/bertie/models would carry it."
)


@click.command(short_help="The models that the package carries, by name.")
@click.argument("name", required=False, shell_complete=completion.models)
@click.option("--json", "as_json", is_flag=True, help="One object a line: name, folder, parameters, bytes ...")
def models(name: str | None, as_json: bool) -> None:
    """The models that the package carries; with NAME, the card of that one.

    \b
    Example: bertie models bertie-small-en
    """
    if name is not None and name not in carried.names():
        raise ValueError(f"{name!r} is no model that the package carries: {carried.listed()}.")
    described = [_describe(carried.MODELS / one) for one in carried.names() if name in (None, one)]
    if not described:
        console.say(NONE)
    elif as_json:
        for one in described:
            print_json(one)
    elif name:
        click.echo(described[0]["card"])
    else:
        columns = ("name", "parameters", "bytes", "vocabulary", "language")
        rows = [[_shown(one[key]) for key in columns] for one in described]
        click.echo(console.table(["model", "parameters", "bytes on disk", "vocabulary", "language"], rows))
        for one in described:
            click.echo(f"\n{one['name']}: {one['summary']}")


def _describe(folder: Path) -> dict[str, str | int]:
    from bertie.model.folder import load
    from bertie.model.sizes import count_parameters
    from bertie.text.wordpiece import Tokenizer

    card = (folder / CARD).read_text(encoding="utf-8")
    language = re.search(r"^language: *(.+)$", card, re.MULTILINE)
    return {
        "name": folder.name,
        "folder": str(folder),
        "parameters": sum(count_parameters(load(folder)).values()),
        "bytes": sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
        "vocabulary": Tokenizer.load(folder).size,
        "language": language[1] if language else "",
        "summary": _summary(card),
        "card": card,
    }


def _summary(card: str) -> str:
    """The first paragraph of the card that is no heading, as a line."""
    paragraphs = HEAD.sub("", card).split("\n\n")
    prose = ("\n".join(line for line in one.splitlines() if not line.startswith("#")) for one in paragraphs)
    return next((" ".join(one.split()) for one in prose if one.strip()), "")


def _shown(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value
