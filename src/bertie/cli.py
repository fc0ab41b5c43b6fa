"""The commands. Each imports its stage when it is called, so that `bertie --help` answers at once."""

import json
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import click

from bertie import __version__, console

USER_ERROR, INTERRUPTED, TERMINATED = 2, 130, 143


class Commands(click.Group):
    """A group that lists its commands in the order of the river, as they stand below, not by the alphabet."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="bertie %(version)s")
@click.option("--quiet", "-q", is_flag=True, help="Say only what goes wrong.")
@click.option("--traceback", is_flag=True, help="On an error show where in the code it came from.", expose_value=False)
def bertie(quiet: bool) -> None:
    """A complete BERT: raw text in, a served model out.

    Each command explains itself with an example: bertie COMMAND --help
    """
    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("bertie").setLevel(logging.WARNING if quiet else logging.INFO)


@bertie.command()
@click.argument("texts", nargs=-1, required=True, metavar="TEXT...")
@click.option("--size", required=True, type=int, help="Entries of the vocabulary; BERT has 30,522.")
@click.option("--out", required=True, type=Path, help="The folder to write.")
@click.option("--cased", is_flag=True, help="Keep upper case and accents apart.")
@click.option("--language", type=click.Choice(["en", "zh"]), default="en", show_default=True, help="Of the text.")
@click.option("--workers", type=int, default=1, show_default=True, help="Processes; the result is the same for any.")
@click.option("--compare", type=Path, help="A second vocabulary to put beside the new one.")
@click.option("--column", help="Where the text is in tables and JSON lines; guessed when not said.")
@click.option(
    "--document", type=click.Choice(["blank", "file"]), default="blank", help="What ends a document of plain text."
)
def vocab(
    texts: tuple[str, ...],
    size: int,
    out: Path,
    cased: bool,
    language: str,
    workers: int,
    compare: Path | None,
    column: str | None,
    document: str,
) -> None:
    """Learn a WordPiece vocabulary from TEXT: files, folders, globs, or - for standard input.

    \b
    Example: bertie vocab my-text --size 8000 --out my-vocabulary
    """
    from bertie.text.documents import TextConfig
    from bertie.text.vocabulary import VocabularyConfig, learn_vocabulary

    config = VocabularyConfig(size, cased=cased, language=language, text=TextConfig(column, document))
    card = learn_vocabulary(config, texts, out, console.progress, workers, compare)
    measured_on = "held-out documents" if card.is_held_out else "the text itself"
    columns = [str(out)] if compare is None else [str(out), str(compare)]
    click.echo(console.table([f"on {measured_on}", *columns], card.rows()))
    for example in card.examples:
        click.echo("\n" + "\n  ".join(filter(None, [example.text, example.pieces, example.compared])))


@bertie.command()
@click.argument("folder", type=Path)
@click.argument("text")
@click.option("--cased/--uncased", default=None, help="What the vocabulary is; by default as its folder says.")
@click.option(
    "--rules",
    type=click.Choice(["google", "huggingface"]),
    default="google",
    show_default=True,
    help="Whose to the letter.",
)
@click.option("--json", "as_json", is_flag=True, help="One object a line, with ids and offsets.")
def tokenize(folder: Path, text: str, cased: bool | None, rules: str, as_json: bool) -> None:
    """Cut TEXT, or each line of standard input for -, into the pieces of the vocabulary in FOLDER.

    \b
    Example: bertie tokenize my-bert 'Any sentence.'
    """
    from bertie.text.wordpiece import Tokenizer

    tokenizer = Tokenizer.load(folder, cased=cased, rules=rules)
    for line in _texts(text):
        if as_json:
            encoding = tokenizer.encode(line)
            pieces = [tokenizer.vocabulary[id_] for id_ in encoding.ids]
            _print_json({"text": line, "tokens": pieces, "ids": encoding.ids, "offsets": encoding.offsets})
        else:
            click.echo(" ".join(tokenizer.tokenize(line)))


DEVICE = click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda", "mps"]),
    default="auto",
    show_default=True,
    help="Where to run.",
)
THREADS = click.option("--threads", type=click.IntRange(1), help="Processor threads; all cores when not said.")
PICKLE = click.option(
    "--allow-pickle", is_flag=True, help="Read weights from a .bin too, without running what is in it."
)


@bertie.command()
@click.argument("folder", type=Path)
@click.argument("text")
@click.option("--json", "as_json", is_flag=True, help="One object a line: text and vector.")
@DEVICE
@THREADS
@PICKLE
def embed(folder: Path, text: str, as_json: bool, device: str, threads: int | None, allow_pickle: bool) -> None:
    """The sentence vector of TEXT, or of each line of standard input for -, by the model in FOLDER.

    \b
    Example: bertie embed my-bert 'Any sentence.'
    """
    from bertie.serving.predict import load

    _set_threads(threads)
    texts = list(_texts(text))
    model = load(folder, device, allow_pickle)
    with console.progress("embedding", "texts") as report:
        vectors = model.encode(texts, report)
    for line, vector in zip(texts, vectors, strict=True):
        if as_json:
            _print_json({"text": line, "vector": vector.tolist()})
        else:
            click.echo(" ".join(f"{number:.6g}" for number in vector))


@bertie.command()
@click.argument("folder", type=Path)
@click.argument("text")
@click.option("--top", type=click.IntRange(1), default=5, show_default=True, help="How many pieces for each mask.")
@click.option("--json", "as_json", is_flag=True, help="One object a line: text and predictions, best first.")
@DEVICE
@THREADS
@PICKLE
def fill(
    folder: Path, text: str, top: int, as_json: bool, device: str, threads: int | None, allow_pickle: bool
) -> None:
    """What stands where TEXT, or each line of standard input for -, has [MASK], by the model in FOLDER.

    \b
    Example: bertie fill my-bert 'The capital of France is [MASK].'
    """
    from bertie.serving.predict import load

    _set_threads(threads)
    texts = list(_texts(text))
    filled = load(folder, device, allow_pickle).fill(texts, top)
    for line, masks in zip(texts, filled, strict=True):
        found = [[{"token": one.token, "score": one.score} for one in mask] for mask in masks]
        if as_json:
            _print_json({"text": line, "predictions": found[0] if len(found) == 1 else found})
            continue
        click.echo(line)
        for mask in masks:
            click.echo("  " + ", ".join(f"{one.token} {one.score:.3f}" for one in mask))


@bertie.command()
@click.argument("folder", type=Path)
@click.option("--length", type=click.IntRange(1), help="Tokens of a text, for the FLOPs; by default the longest.")
@PICKLE
def inspect(folder: Path, length: int | None, allow_pickle: bool) -> None:
    """The parts of the model in FOLDER: parameters, memory, FLOPs a token.

    \b
    Example: bertie inspect my-bert
    """
    from bertie.model.folder import load
    from bertie.model.sizes import count_parameters, flops_per_masked_word, flops_per_token, weight_bytes

    model = load(folder, dtype=None, allow_pickle=allow_pickle)
    shape, counts = model.config, count_parameters(model)
    num_parameters, length = sum(counts.values()), length or shape.max_positions
    heads = ", ".join(model.heads) or "none"
    click.echo(
        f"{folder}: {shape.family}, {shape.num_layers} layers, {shape.width} wide, {shape.num_heads} attention heads, "
        f"{shape.vocabulary_size:,} words, {shape.max_positions:,} positions; heads: {heads}\n"
    )
    rows = [[part, f"{count:,}", f"{count / num_parameters:.1%}"] for part, count in counts.items()]
    click.echo(console.table(["part", "parameters", "share"], [*rows, ["all", f"{num_parameters:,}", "100.0%"]]))
    click.echo(f"\nweights: {console.amount(weight_bytes(model), 'B')}")
    click.echo(f"forward: {console.amount(flops_per_token(shape, length), 'FLOP')} a token at {length:,} tokens a text")
    if "masked" in model.heads:
        click.echo(f"         {console.amount(flops_per_masked_word(shape), 'FLOP')} more a masked word")
    click.echo("training takes three times as many")


@bertie.command()
@click.argument("source", type=Path)
@click.argument("target", type=Path)
@click.option("--to", required=True, type=click.Choice(["hf", "tf"]), help="Hugging Face's layout or Google's.")
@PICKLE
def convert(source: Path, target: Path, to: str, allow_pickle: bool) -> None:
    """Rewrite the model in SOURCE as TARGET: Google's TF checkpoints and Hugging Face's folders, both ways.

    \b
    Example: bertie convert my-bert my-bert-tf --to tf
    """
    from bertie.model.convert import convert as convert_folder
    from bertie.text.wordpiece import Tokenizer

    convert_folder(source, target, to, lambda folder, cased: Tokenizer.load(folder, cased).files(), allow_pickle)
    console.say(f"{target} holds the model of {source}.")


@bertie.command()
@click.option("--out", required=True, type=Path, help="The folder to write.")
def demo(out: Path) -> None:
    """See it work on text that every machine has: Python's own documentation.

    \b
    Example: bertie demo --out demo
    """
    from bertie.demo import run_demo

    run_demo(out)


def main() -> None:
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """The exit code: 0, 2 for what the user can mend (after one sentence), 130 or 143 when stopped from outside."""
    shows_traceback = "--traceback" in arguments
    try:
        bertie.main(list(arguments), prog_name="bertie", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as problem:
        problem.show()
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        console.error("stopped.")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, `head` say, has all it wants
        sys.stderr.close()
        return 0
    except (ValueError, OSError) as problem:
        if shows_traceback:
            raise
        console.error(_sentence(problem))
        return USER_ERROR
    return 0


def _sentence(problem: ValueError | OSError) -> str:
    if isinstance(problem, OSError) and problem.filename is not None:
        return f"{problem.filename}: {problem.strerror}."
    return str(problem)


def _terminate(signal_number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def _texts(text: str) -> Iterator[str]:
    """The text itself, or for `-` a text from each line of standard input."""
    if text != "-":
        yield text
        return
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"standard input, line {number} is not UTF-8: {error.reason} at byte {error.start}."
            ) from error


def _print_json(values: object) -> None:
    click.echo(json.dumps(values, ensure_ascii=False))


def _set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
