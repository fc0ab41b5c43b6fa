"""Claim: the fast path trains as the plain one does: it stays no farther from float32 than plain bf16 does.

From the same weights on the same batches, in plain float32, plain bf16 and fused bf16, without dropout. Printed: how
far the losses are from those of float32, in the mean over all steps and over the last fifth. Exit code 1 if the fused
path is farther off than plain bf16 by more than a tenth.

    python benchmarks/same_result.py CORPUS --steps 500
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from bertie.corpus.shards import open_corpus
from bertie.pretraining.drawing import Ahead, Drawer
from bertie.pretraining.recipe import Recipe, change, read_recipe, with_budget
from bertie.pretraining.run import choose_loss, make_model
from bertie.text.wordpiece import Tokenizer
from bertie.training.distributed import Ranks
from bertie.training.loop import Budget, Hooks, State, fit
from bertie.training.optimizers import make_optimizers

WAYS = {
    "float32": ("precision=float32", "kernels=plain"),
    "plain bf16": ("precision=bf16", "kernels=plain"),
    "fused bf16": ("precision=bf16", "kernels=fused"),
}
TOLERANCE = 1.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=16_384, help="of a step")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--set", action="append", default=[], help="change a key of the recipe")
    parser.add_argument("--out", type=Path, help="write the losses here, as JSON")
    arguments = parser.parse_args()
    losses = {}
    for way in arguments.ways:
        begun = time.perf_counter()
        losses[way] = train(way, arguments)
        last = sum(losses[way][-50:]) / len(losses[way][-50:])
        print(f"{way:12} {time.perf_counter() - begun:6.1f} s, mean of the last losses {last:.4f}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(losses))
    distances = {way: distance(losses["float32"], losses[way]) for way in losses if way != "float32"}
    for way, (whole, late) in distances.items():
        print(f"{way} is {whole:.5f} from float32 in the mean over all steps, {late:.5f} over the last fifth")
    return int(len(distances) == 2 and distances["fused bf16"][0] > TOLERANCE * distances["plain bf16"][0])


def distance(exact: list[float], other: list[float]) -> tuple[float, float]:
    apart = [abs(one - two) for one, two in zip(exact, other, strict=True)]
    late = apart[-max(1, len(apart) // 5) :]
    return sum(apart) / len(apart), sum(late) / len(late)


def train(way: str, arguments: argparse.Namespace) -> list[float]:
    """The loss of each step."""
    recipe, device = recipe_of(way, arguments), torch.device(arguments.device)
    corpus, tokenizer = open_corpus(arguments.corpus), Tokenizer.load(arguments.corpus)
    torch.set_float32_matmul_precision("highest")
    model = make_model(recipe, tokenizer, device)
    state, losses = State(make_optimizers(model, recipe.optimizer)), list[float]()
    hooks = Hooks(
        evaluate=dict,
        save=lambda state: None,
        report=lambda event: losses.append(float(event["loss"])) if event["event"] == "train" else None,
        stop=lambda: False,
        clock=time.monotonic,
    )
    batches = Ahead(Drawer(corpus.train, tokenizer, recipe), 1, device)
    fit(model, batches, choose_loss(recipe), recipe.loop, state, Ranks(device), hooks)
    return losses


def recipe_of(way: str, arguments: argparse.Namespace) -> Recipe:
    settings = [
        f"batch={arguments.tokens}", "batches_per_step=1", "objective=masked+pair", "pairs.kind=next_sentence",
        f"max_length={arguments.length}", "masking.rate=0.15", "dropout=0.0", "lr=1e-4", "evaluate_every=0",
        "save_every=0", "max_sigma=inf", f"device={arguments.device}",
    ]  # fmt: skip
    recipe = change(read_recipe("modern-base"), [*settings, *WAYS[way], *arguments.set])
    return with_budget(recipe, Budget(arguments.steps))


if __name__ == "__main__":
    sys.exit(main())
