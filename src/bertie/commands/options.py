"""What several commands share: options, a text or a text a line, JSON lines, threads."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from bertie import console
from bertie.commands import completion

# What a shell takes for a program that this signal ended.
EXIT_OF_SIGNAL: dict[int | None, int] = {signal.SIGINT: 130, signal.SIGTERM: 143}


class ModelPath(click.Path):
    """A model: a folder, a run, or the name of one that the package carries, which the shell completes too."""

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, beginning: str
    ) -> "list[CompletionItem[str]]":
        carried = completion.models(context, parameter, beginning)
        if not carried:
            return super().shell_complete(context, parameter, beginning)
        # Where a shell is given names, it does not look for folders itself.
        folders = [f"{path}/" for path in sorted(Path().glob(f"{beginning}*")) if path.is_dir()]
        return [CompletionItem(one) for one in [*carried, *folders]]


DEVICE = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    help="Where to run.",
)
THREADS = click.option("--threads", type=click.IntRange(1), help="Processor threads; all cores when not said.")
PICKLE = click.option(
    "--allow-pickle", is_flag=True, help="Read weights from a .bin too, without running what is in it."
)
COLUMN = click.option("--column", help="Where the text is in tables and JSON lines; guessed when not said.")
DOCUMENT = click.option(
    "--document",
    type=click.Choice(["blank", "file"]),
    default="blank",
    help="What ends a document of plain text.",
)
TEXTS = click.argument("texts", nargs=-1, required=True, metavar="TEXT...", type=click.Path())
MODEL = ModelPath(path_type=Path)
CARD_JSON = click.option("--json", "as_json", is_flag=True, help="One object: the card.")


def read_texts(text: str) -> Iterator[str]:
    """The text itself, or for `-` a text from each line of standard input."""
    if text != "-":
        yield text
        return
    from bertie.text.sources import standard_input

    for number, line in enumerate(standard_input(), 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"standard input, line {number} is not UTF-8: {error.reason} at byte {error.start}."
            ) from error


def stopped(out: Path, signal_number: int | None) -> click.exceptions.Exit:
    """The exit of a run that a signal ended, once it is said how to go on."""
    console.say(f"Stopped and saved. To go on, repeat the command with --resume; {out} has all that it needs.")
    return click.exceptions.Exit(EXIT_OF_SIGNAL[signal_number])


def print_card(out: Path) -> None:
    """The card of a run on standard output, as one object."""
    from bertie.training.run_folder import read_card

    print_json(read_card(out))


def print_json(values: object) -> None:
    click.echo(json.dumps(values, ensure_ascii=False))


def set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
