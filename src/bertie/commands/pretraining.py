"""From a corpus to a model: bertie pretrain, plan."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from bertie import console
from bertie.commands import completion
from bertie.commands.options import CARD_JSON, MODEL, print_card, print_json, stopped

if TYPE_CHECKING:
    from bertie.pretraining.recipe import Recipe
    from bertie.training.loop import Budget
    from bertie.training.runlog import Event

RECIPE = click.option(
    "--recipe",
    default="tiny-cpu",
    shell_complete=completion.recipes,
    help="A recipe's name, or a .toml file.",
)
PRESET = click.option(
    "--preset",
    shell_complete=completion.presets,
    help="The model's shape in place of the recipe's: tiny, bert-base ...",
)
SET = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe.")
MINUTES = click.option("--minutes", type=float, help="Train so long; the learning rate comes down in time.")
STEPS = click.option("--steps", type=int, help="Train so many steps.")
TOKENS = click.option("--tokens", type=int, help="Train on so many tokens.")
INIT = click.option(
    "--init", type=MODEL, help="A model to go on from, with the corpus's vocabulary: a folder or a name."
)
SEED = click.option("--seed", type=int, help="Of the initial weights, the order of the text, masks and dropout.")
DEVICE = click.option("--device", type=click.Choice(["auto", "cpu", "cuda", "mps"]), help="Where to train.")
PRECISION = click.option("--precision", type=click.Choice(["float32", "bf16"]), help="bf16: products in bfloat16.")
THREADS = click.option("--threads", type=int, help="Processor threads.")


@click.command(short_help="Train a model on a corpus.")
@click.argument("corpus", type=Path)
@click.option("--out", required=True, type=Path, help="The run folder to write; the model will be in OUT/model.")
@RECIPE
@PRESET
@SET
@MINUTES
@STEPS
@TOKENS
@INIT
@SEED
@DEVICE
@PRECISION
@THREADS
@click.option("--resume", is_flag=True, help="Go on with the run in OUT; repeat the command it was begun with.")
@click.option("--allow-changes", is_flag=True, help="With --resume: go on though the recipe is another.")
@click.option("--tensorboard", is_flag=True, help="Write the figures for TensorBoard too, to OUT/tensorboard.")
@CARD_JSON
def pretrain(
    corpus: Path,
    out: Path,
    recipe: str,
    preset: str | None,
    settings: tuple[str, ...],
    minutes: float | None,
    steps: int | None,
    tokens: int | None,
    init: Path | None,
    seed: int | None,
    device: str | None,
    precision: str | None,
    threads: int | None,
    resume: bool,
    allow_changes: bool,
    tensorboard: bool,
    as_json: bool,
) -> None:
    """Train a model on the folder that `bertie corpus` made, or go on with a run that was stopped.

    \b
    Example: bertie pretrain my-corpus --out my-run --recipe tiny-cpu --steps 500
    """
    from bertie.pretraining.run import Order, pretrain

    said = {"preset": preset, "init": init, "seed": seed, "device": device, "precision": precision, "threads": threads}
    changed = make_recipe(recipe, settings, said, budgets(minutes, steps, tokens))
    order = Order(changed, corpus, out, resume, allow_changes, tensorboard)
    with console.run_progress("training") as show:

        def watch(event: "Event", share: float) -> None:
            if event["event"] == "train":
                show(share, _figures(event))
            elif event["event"] == "evaluate" and "validation_loss" in event:
                console.say(f"step {event['step']:,}, held-back text: {_figures(event, 'validation_')}")
            elif event["event"] == "skip":
                console.say(f"step {event['step']:,} was skipped: {event['reason']}")

        ending = pretrain(order, watch)
    if ending.outcome == "stopped":
        raise stopped(out, ending.signal)
    if ending.outcome == "finished":
        console.say(f"{out / 'model'} holds the model, {out / 'log.jsonl'} how it came about.")
    if as_json:
        print_card(out)


@click.command(short_help="What a pre-training will take: memory, speed, time.")
@click.argument("corpus", type=Path)
@RECIPE
@PRESET
@SET
@MINUTES
@STEPS
@TOKENS
@SEED
@DEVICE
@PRECISION
@THREADS
@click.option("--check/--no-check", default=True, help="Measure some steps of the whole network.")
@click.option("--json", "as_json", is_flag=True, help="One object: bytes, seconds, steps, tokens.")
def plan(
    corpus: Path,
    recipe: str,
    preset: str | None,
    settings: tuple[str, ...],
    minutes: float | None,
    steps: int | None,
    tokens: int | None,
    seed: int | None,
    device: str | None,
    precision: str | None,
    threads: int | None,
    check: bool,
    as_json: bool,
) -> None:
    """What `bertie pretrain` with these options will take: memory, tokens per second, time.

    \b
    Example: bertie plan my-corpus --recipe tiny-cpu --steps 500
    """
    from bertie.pretraining.plan import plan

    said = {"preset": preset, "seed": seed, "device": device, "precision": precision, "threads": threads}
    changed = make_recipe(recipe, settings, said, budgets(minutes, steps, tokens))
    with console.progress("measuring", "networks") as report:
        found = plan(changed, corpus, check, report)
    if as_json:
        print_json(asdict(found) | {"seconds": found.seconds})
        return
    columns = {"predicted": found.predicted} | ({"measured": found.measured} if found.measured else {})
    rows = [
        ["memory", *(console.amount(needs.memory, "B") for needs in columns.values())],
        ["tokens per second", *(f"{found.num_tokens / needs.seconds:,.0f}" for needs in columns.values())],
        ["one step", *(f"{needs.seconds:.3g} s" for needs in columns.values())],
    ]
    click.echo(console.table([f"{found.num_parameters:,} parameters", *columns], rows))
    click.echo(
        f"\nthe run: {found.num_steps:,.0f} steps of {found.num_tokens:,.0f} tokens, "
        f"{console.amount(found.num_steps * found.num_tokens)} in all, {console.duration(found.seconds)}"
    )


def show_corpus_scores(
    folder: Path, corpus: Path, as_object: bool, device: str, precision: Literal["float32", "bf16"]
) -> None:
    """What `bertie evaluate` says of a model and a corpus."""
    from bertie.pretraining.evaluation import evaluate_folder

    with console.progress("evaluating", "batches") as report:
        found = evaluate_folder(folder, corpus, device, precision, report)
    if as_object:
        print_json({"task": "pretrain", "examples": found.num_sequences, "scores": found.scores})
        return
    rows = [[name, f"{score:.4f}"] for name, score in found.scores.items()]
    click.echo(console.table(["score", f"{found.num_sequences:,} sequences"], rows))


def make_recipe(name: str, settings: Sequence[str], said: Mapping[str, object], ends: Sequence["Budget"]) -> "Recipe":
    """The recipe of that name as the options change it: those that have a flag, then `--set`, then the end."""
    from bertie.pretraining.recipe import change, read_recipe, with_budget

    if len(ends) > 1:
        raise ValueError("--minutes, --steps and --tokens each say when the run ends: give one of them.")
    flags = [f"{key}={value}" for key, value in said.items() if value is not None]
    recipe = change(read_recipe(name), [*flags, *settings])
    return with_budget(recipe, ends[0]) if ends else recipe


def budgets(minutes: float | None, steps: int | None, tokens: int | None) -> list["Budget"]:
    """The ends that were given."""
    from bertie.training.loop import Budget

    ends = [] if minutes is None else [Budget(minutes, "minutes")]
    ends += [] if steps is None else [Budget(steps, "steps")]
    return ends + ([] if tokens is None else [Budget(tokens, "tokens")])


def _figures(event: "Event", prefix: str = "") -> str:
    """Those a person follows: loss 5.213, words 21.3%, pairs 60.2%, 12,345 tokens/s."""
    parts = [f"loss {event[prefix + 'loss']:.3f}"]
    for what, key in (("words", f"{prefix}masked_accuracy"), ("pairs", f"{prefix}pair_accuracy")):
        parts += [f"{what} {event[key]:.1%}"] if key in event else []
    parts += [f"{event['tokens_per_second']:,.0f} tokens/s"] if "tokens_per_second" in event else []
    return ", ".join(parts)
