"""The layers' outputs, token by token: bertie features."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertie import console
from bertie.commands.options import DEVICE, MODEL, THREADS, set_threads

if TYPE_CHECKING:
    from bertie.tasks.features import Combination


@click.command(short_help="What the layers make of each token, to a file.")
@click.argument("folder", metavar="MODEL", type=MODEL)
@click.argument("data", metavar="INPUT", type=Path)
@click.option("--layers", help="Counted from the last one, -1; the last four when not said.")
@click.option("--out", required=True, type=Path, help="The file to write: .jsonl as Google has it, or .npz.")
@click.option(
    "--combine",
    type=click.Choice(["none", "concat", "sum", "mean", "weighted"]),
    default="none",
    help="Make one vector a token out of the layers.",
)
@click.option(
    "--weights", help="For --combine weighted: a number for each layer, in the same order, as in 0.5,0.3,0.2."
)
@click.option(
    "--max-length", type=int, help="Tokens a text is cut to; as many as the model has positions when not said."
)
@DEVICE
@THREADS
def features(
    folder: Path,
    data: Path,
    layers: str | None,
    out: Path,
    combine: "Combination",
    weights: str | None,
    max_length: int | None,
    device: str,
    threads: int | None,
) -> None:
    """What the layers of MODEL make of each token of each line in INPUT; `A ||| B` is a pair.

    \b
    Example: bertie features my-bert lines.txt --layers -1,-2 --out features.jsonl
    """
    from bertie.carried import model_folder
    from bertie.model.device import pick_device
    from bertie.model.folder import load
    from bertie.tasks.features import Wanted, extract, last_layers, read_lines, write_features
    from bertie.text.wordpiece import Tokenizer

    set_threads(threads)
    said = None if layers is None else tuple(int(number) for number in _parts("layers", layers, int))
    shares = tuple(_parts("weights", weights or "", float))
    texts = read_lines(data)
    place = model_folder(folder)
    model = load(place).to(pick_device(device))
    wanted = Wanted(last_layers(model) if said is None else said, combine, shares, max_length)
    with console.progress("features", "texts") as report:
        write_features(out, extract(model, Tokenizer.load(place), texts, wanted, report), wanted)
    console.say(f"{out} holds the features of {len(texts):,} texts.")


def _parts(flag: str, text: str, kind: type[int] | type[float]) -> list[float]:
    """The numbers between the commas."""
    try:
        return [kind(part) for part in text.split(",") if part.strip()]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"--{flag} is {text!r}; allowed: {what} with commas between them.") from None
