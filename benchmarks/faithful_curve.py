"""Claim: faithful-base learns as transformers' BertForPreTraining does on the same batches: the same curve, within 1%.

Both begin with the same weights, read the same batches in the same order and follow the same schedule; only data and
initial weights come from bertie on the other side, whose optimizer is Google's rule written out plainly here. Dropout
draws differ. `bertie` and `transformers` each train and leave a log in OUT; `compare` reads both, and the exit code
is 1 if the mean loss of the last steps or the held-back loss differs by more than 1%. With --plot FILE it draws them.

    python benchmarks/faithful_curve.py bertie CORPUS OUT --steps 3000 --device cuda
    python benchmarks/faithful_curve.py transformers CORPUS OUT --steps 3000 --device cuda
    python benchmarks/faithful_curve.py compare OUT --plot curve.svg
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from bertie.corpus.shards import Corpus, open_corpus
from bertie.model.encoder import Batch
from bertie.model.folder import save
from bertie.pretraining.drawing import Ahead, Drawer, validation_batches
from bertie.pretraining.recipe import Recipe, change, read_recipe
from bertie.pretraining.run import Order, make_model, pretrain
from bertie.text.wordpiece import Tokenizer
from bertie.training.runlog import read_log
from bertie.training.schedule import share_at_step

LAST = 200  # steps whose mean loss is compared
TOLERANCE = 0.01


def recipe_of(arguments: argparse.Namespace) -> Recipe:
    settings = ["batches_per_step=1", "long_length=none", f"loop.budget.amount={arguments.steps}", "warmup=0.1"]
    settings += [f"device={arguments.device}", f"precision={arguments.precision}", "save_every=0", "evaluate_every=500"]
    return change(read_recipe("faithful-base"), [*settings, *arguments.set])


def train_bertie(arguments: argparse.Namespace) -> None:
    def watch(event: object, share: float) -> None:
        assert isinstance(event, dict)
        if event["step"] % 100 == 0 or event["event"] != "train":
            print(json.dumps(event), flush=True)

    pretrain(Order(recipe_of(arguments), arguments.corpus, arguments.out / "bertie"), watch)


def train_transformers(arguments: argparse.Namespace) -> None:
    from transformers import BertForPreTraining

    recipe, corpus, device = recipe_of(arguments), open_corpus(arguments.corpus), torch.device(arguments.device)
    tokenizer = Tokenizer.load(arguments.corpus)
    initial = arguments.out / "initial"
    save(initial, make_model(recipe, tokenizer, torch.device("cpu")), tokenizer.files())
    model = BertForPreTraining.from_pretrained(initial).to(device).train()
    draw = Ahead(Drawer(corpus.train, tokenizer, recipe), 1, device)
    google, tokens, begun = Google(model, recipe), 0, time.monotonic()
    num_steps = int(recipe.loop.budget.amount)
    with (arguments.out / "transformers.jsonl").open("w") as log:
        for step in range(num_steps):
            drawn = draw(step)
            masked, pair = losses(model, drawn.batch, recipe)
            (masked + pair).backward()
            google.step(share_at_step(recipe.loop.schedule, step, num_steps))
            tokens += drawn.num_tokens
            event = {"event": "train", "step": step + 1, "tokens": tokens, "seconds": time.monotonic() - begun}
            event |= {"loss": (masked + pair).item(), "masked_loss": masked.item(), "pair_loss": pair.item()}
            log.write(json.dumps(event) + "\n")
            if (step + 1) % 100 == 0:
                print(json.dumps(event), flush=True)
            if (step + 1) % 500 == 0 or step + 1 == num_steps:
                event = {"event": "evaluate", "step": step + 1, **evaluate(model, corpus, tokenizer, recipe, device)}
                log.write(json.dumps(event) + "\n")
                print(json.dumps(event), flush=True)


def losses(model: torch.nn.Module, batch: Batch, recipe: Recipe) -> tuple[Tensor, Tensor]:
    """transformers' two mean losses of the batch, padded as it wants it."""
    places = list(padded(batch, recipe.pairs.max_length))
    ids, segments, mask, labels = places
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=recipe.loop.precision == "bf16"):
        outputs = model(input_ids=ids, token_type_ids=segments, attention_mask=mask)
        entropy = torch.nn.functional.cross_entropy
        masked = entropy(outputs.prediction_logits.flatten(0, 1).float(), labels.flatten())
        pair = entropy(outputs.seq_relationship_logits.float(), batch.pair_S)
    return masked, pair


def padded(batch: Batch, length: int) -> Iterator[Tensor]:
    """ids, segments, attention mask and labels, a row a sequence."""
    lengths = batch.starts_S.diff().long()
    rows = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)
    places = rows * length + batch.positions_N
    flat_labels = torch.full_like(batch.ids_N, -100)
    used = batch.labels_M >= 0
    flat_labels[batch.masked_M[used]] = batch.labels_M[used]
    for values, empty in (
        (batch.ids_N, 0),
        (batch.segments_N, 0),
        (torch.ones_like(batch.ids_N), 0),
        (flat_labels, -100),
    ):
        table = torch.full((len(lengths) * length,), empty, dtype=torch.long, device=values.device)
        yield table.index_copy(0, places, values).view(len(lengths), length)


@torch.inference_mode()
def evaluate(
    model: torch.nn.Module, corpus: Corpus, tokenizer: Tokenizer, recipe: Recipe, device: torch.device
) -> dict[str, float]:
    model.eval()
    totals = {"masked": 0.0, "pair": 0.0}
    batches = validation_batches(corpus.validation, tokenizer, recipe)
    for drawn in batches:
        masked, pair = losses(model, drawn.batch.to(device), recipe)
        totals["masked"] += float(masked) * drawn.num_targets["masked"]
        totals["pair"] += float(pair) * drawn.num_targets["pair"]
    model.train()
    return {f"validation_{key}_loss": sum_ / sum(b.num_targets[key] for b in batches) for key, sum_ in totals.items()}


class Google:
    """AdamWeightDecayOptimizer and the clipping before it, as the facts say (4.4), a tensor after the other."""

    def __init__(self, model: torch.nn.Module, recipe: Recipe) -> None:
        self.config, self.clip = recipe.optimizer, recipe.loop.clip
        self.named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
        self.means = [torch.zeros_like(weight) for _, weight in self.named]
        self.squares = [torch.zeros_like(weight) for _, weight in self.named]

    @torch.no_grad()
    def step(self, share: float) -> None:
        torch.nn.utils.clip_grad_norm_([weight for _, weight in self.named], self.clip)
        for (name, weight), mean, square in zip(self.named, self.means, self.squares, strict=True):
            mean.mul_(self.config.beta1).add_(weight.grad, alpha=1 - self.config.beta1)
            square.mul_(self.config.beta2).addcmul_(weight.grad, weight.grad, value=1 - self.config.beta2)
            update = mean / (square.sqrt() + self.config.epsilon)
            if "LayerNorm" not in name and "bias" not in name:
                update += self.config.weight_decay * weight
            weight -= share * self.config.lr * update
            weight.grad = None


def compare(arguments: argparse.Namespace) -> int:
    logs = {
        "bertie": read_log(arguments.out / "bertie" / "log.jsonl"),
        "transformers": read_log(arguments.out / "transformers.jsonl"),
    }
    figures = {}
    for name, events in logs.items():
        steps = [event for event in events if event["event"] == "train"]
        last = [event for event in events if event["event"] == "evaluate"][-1]
        figures[name] = {
            f"mean loss of the last {LAST} steps": sum(event["loss"] for event in steps[-LAST:]) / len(steps[-LAST:]),
            "held-back masked-word loss": last["validation_masked_loss"],
            "held-back pair loss": last["validation_pair_loss"],
        }
        print(f"{name}: {len(steps):,} steps, {steps[-1]['tokens']:,} tokens, {steps[-1]['seconds']:.0f} s")
    is_same = True
    for what, ours in figures["bertie"].items():
        theirs = figures["transformers"][what]
        print(f"{what}: bertie {ours:.4f}, transformers {theirs:.4f}, {ours / theirs - 1:+.2%}")
        is_same &= "pair" in what or abs(ours / theirs - 1) <= TOLERANCE
    if arguments.plot:
        plot(logs, arguments.plot)
    return int(not is_same)


def plot(logs: dict[str, list[dict[str, float]]], path: Path) -> None:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for name, events in logs.items():
        steps = [event for event in events if event["event"] == "train"]
        window = max(1, len(steps) // 150)
        smooth = [sum(e["loss"] for e in steps[k : k + window]) / window for k in range(0, len(steps) - window, window)]
        axes.plot(range(0, len(steps) - window, window), smooth, label=name, linewidth=1.2)
    axes.set(xlabel="step", ylabel=f"loss, mean of {window} steps", title="BERT-base, sequences of 128, 256 a step")
    axes.legend()
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in (("bertie", train_bertie), ("transformers", train_transformers)):
        command = commands.add_parser(name)
        command.add_argument("corpus", type=Path)
        command.add_argument("out", type=Path)
        command.add_argument("--steps", type=int, default=3000)
        command.add_argument("--device", default="auto")
        command.add_argument("--precision", default="bf16")
        command.add_argument("--set", action="append", default=[], help="change a key of the recipe")
        command.set_defaults(run=function)
    command = commands.add_parser("compare")
    command.add_argument("out", type=Path)
    command.add_argument("--plot", type=Path)
    command.set_defaults(run=compare)
    arguments = parser.parse_args()
    return arguments.run(arguments) or 0


if __name__ == "__main__":
    sys.exit(main())
