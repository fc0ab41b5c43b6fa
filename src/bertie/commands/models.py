"""A model put to work: bertie embed, fill, inspect, convert."""

from pathlib import Path

import click

from bertie import console
from bertie.commands.options import DEVICE, MODEL, PICKLE, THREADS, print_json, read_texts, set_threads


@click.command(short_help="The vectors of sentences.")
@click.argument("folder", metavar="MODEL", type=MODEL)
@click.argument("text")
@click.option("--json", "as_json", is_flag=True, help="One object a line: text and vector.")
@DEVICE
@THREADS
@PICKLE
def embed(folder: Path, text: str, as_json: bool, device: str, threads: int | None, allow_pickle: bool) -> None:
    """The sentence vector of TEXT, or of each line of standard input for -, by MODEL: a folder or a name.

    \b
    Example: bertie embed my-bert 'Any sentence.'
    """
    from bertie.serving.predict import load

    set_threads(threads)
    texts = list(read_texts(text))
    model = load(folder, device, allow_pickle)
    with console.progress("embedding", "texts") as report:
        vectors = model.encode(texts, report)
    for line, vector in zip(texts, vectors, strict=True):
        if as_json:
            print_json({"text": line, "vector": vector.tolist()})
        else:
            click.echo(" ".join(f"{number:.6g}" for number in vector))


@click.command(short_help="What stands where a text has [MASK].")
@click.argument("folder", metavar="MODEL", type=MODEL)
@click.argument("text")
@click.option("--top", type=click.IntRange(1), default=5, help="How many pieces for each mask.")
@click.option("--json", "as_json", is_flag=True, help="One object a line: text and predictions, best first.")
@DEVICE
@THREADS
@PICKLE
def fill(
    folder: Path, text: str, top: int, as_json: bool, device: str, threads: int | None, allow_pickle: bool
) -> None:
    """What stands where TEXT, or each line of standard input for -, has [MASK], by MODEL: a folder or a name.

    \b
    Example: bertie fill my-bert 'The capital of France is [MASK].'
    """
    from bertie.serving.predict import load

    set_threads(threads)
    texts = list(read_texts(text))
    filled = load(folder, device, allow_pickle).fill(texts, top)
    for line, masks in zip(texts, filled, strict=True):
        found = [[{"token": one.token, "score": one.score} for one in mask] for mask in masks]
        if as_json:
            print_json({"text": line, "predictions": found[0] if len(found) == 1 else found})
            continue
        click.echo(line)
        for mask in masks:
            click.echo("  " + ", ".join(f"{one.token} {one.score:.3f}" for one in mask))


@click.command(short_help="The parts of a model: parameters, memory, FLOPs.")
@click.argument("folder", metavar="MODEL", type=MODEL)
@click.option("--length", type=click.IntRange(1), help="Tokens of a text, for the FLOPs; by default the longest.")
@click.option("--json", "as_json", is_flag=True, help="One object: shape, parameters by part, bytes, FLOPs.")
@PICKLE
def inspect(folder: Path, length: int | None, as_json: bool, allow_pickle: bool) -> None:
    """The parts of MODEL, a folder or a name: parameters, memory, FLOPs a token.

    \b
    Example: bertie inspect my-bert
    """
    from bertie.carried import model_folder
    from bertie.config import to_values
    from bertie.model.folder import load
    from bertie.model.sizes import count_parameters, flops_per_masked_word, flops_per_token, weight_bytes

    model = load(model_folder(folder), dtype=None, allow_pickle=allow_pickle)
    shape, counts = model.config, count_parameters(model)
    num_parameters, length = sum(counts.values()), length or shape.max_positions
    if length > shape.max_positions:
        raise ValueError(f"--length {length:,} is more than the model's {shape.max_positions:,} positions.")
    if as_json:
        flops = {"length": length, "flops_per_token": flops_per_token(shape, length)}
        flops |= {"flops_per_masked_word": flops_per_masked_word(shape)} if "masked" in model.heads else {}
        sizes = {"heads": list(model.heads), "parameters": counts, "bytes": weight_bytes(model)}
        print_json({"model": to_values(shape), **sizes, **flops})
        return
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


@click.command(short_help="Google's checkpoints and Hugging Face's folders, both ways.")
@click.argument("source", type=MODEL)
@click.argument("target", type=Path)
@click.option(
    "--to",
    required=True,
    type=click.Choice(["hf", "int8", "tf"]),
    help="Hugging Face's layout; that in a fourth of the size, for bertie alone; Google's.",
)
@PICKLE
def convert(source: Path, target: Path, to: str, allow_pickle: bool) -> None:
    """Rewrite the model in SOURCE as TARGET: Google's TF checkpoints, Hugging Face's folders and small ones, all ways.

    \b
    Example: bertie convert my-bert my-bert-tf --to tf
    """
    from bertie.model.convert import convert as convert_folder
    from bertie.text.wordpiece import Tokenizer

    convert_folder(source, target, to, lambda folder, cased: Tokenizer.load(folder, cased).files(), allow_pickle)
    console.say(f"{target} holds the model of {source}.")
