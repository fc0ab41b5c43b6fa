"""One epoch of fine-tuning against transformers' Trainer, which needs accelerate: half its time, no more memory.

    python benchmarks/finetune_speed.py rte GLUE/RTE --model MODEL --rows 500

Both learn from the same rows in the same order, with the same batch, optimizer and curve, and save once at the end.
Theirs are padded to 128 tokens, as their own script run_glue.py does where nothing is said, or with --padding batch to
the longest of their batch.
Each run is a process of its own; they take turns, and what counts is the ratio of processor time, starting included.
"""

import argparse
import json
import logging
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

BATCH, LENGTH, LR, WARMUP = 16, 128, 2e-5, 0.1


def main() -> None:
    arguments = parse()
    if arguments.side:
        print(json.dumps(SIDES[arguments.side](arguments)))
        return
    ratios = []
    for turn in range(arguments.times):
        found = {side: measure(side) for side in (("ours", "theirs") if turn % 2 else ("theirs", "ours"))}
        for side, figures in found.items():
            print(
                f"{side:6} {figures['seconds']:7.1f} s, processor {figures['processor']:7.1f} s, peak "
                f"{figures['peak'] / 1e6:,.0f} MB, last loss {figures['loss']:.4f}"
            )
        ratios.append({name: found["ours"][name] / found["theirs"][name] for name in ("seconds", "processor", "peak")})
    for name in ratios[0]:
        print(f"ours / theirs, {name}: {np.median([ratio[name] for ratio in ratios]):.2f} (median of {len(ratios)})")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", help="a task of texts or pairs: cola, mrpc, rte ...")
    parser.add_argument("data", type=Path, help="the folder of its official files")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--padding", choices=("length", "batch"), default="length", help="of theirs")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(side: str) -> dict[str, float]:
    """What one run in a process of its own took."""
    command = [sys.executable, __file__, *sys.argv[1:], "--side", side]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def figures(started: float, loss: float) -> dict[str, float]:
    """What this process has taken since it began to learn, and its peak."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": time.perf_counter() - started,
        "processor": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss * 1024,
        "loss": loss,
    }


def read(arguments: argparse.Namespace) -> list:
    """The first rows in a seeded order."""
    from bertie.tasks.files import Columns
    from bertie.tasks.named import find_parts, named

    kind = named(arguments.task)
    examples = kind.read(find_parts(arguments.data, kind, None)[0], Columns())[: arguments.rows]
    order = np.random.default_rng((0, 0)).permutation(len(examples))
    return [examples[place] for place in order]


def ours(arguments: argparse.Namespace) -> dict[str, float]:
    from bertie.tasks.recipe import change, make_recipe
    from bertie.tasks.run import Order, finetune

    settings = [f"max_length={LENGTH}", f"lr={LR}", f"warmup={WARMUP}", "epochs=1", f"batch={BATCH}", "device=cpu"]
    settings.append(f"threads={arguments.threads}")
    recipe, task = change(make_recipe("stable", arguments.task), arguments.task, settings)
    losses = []
    with tempfile.TemporaryDirectory() as folder:
        data, dev = Path(folder) / "train.jsonl", Path(folder) / "dev.jsonl"
        # The loop permutes by seed and epoch; rows written in file order come out as `read` gives them.
        examples = read(arguments)
        places = np.argsort(np.random.default_rng((0, 0)).permutation(len(examples)))
        rows = [{"text_a": one.text, "text_b": one.pair, "label": one.label} for one in examples]
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
        rows = [
            {"text" if name == "text_a" and "text_b" not in row else name: row[name] for name in row} for row in rows
        ]
        data.write_text("".join(json.dumps(rows[place]) + "\n" for place in places))
        dev.write_text("".join(json.dumps(row) + "\n" for row in rows[:2]))
        started = time.perf_counter()
        order = Order(arguments.task, task, recipe, arguments.model, data, Path(folder) / "run", dev)
        finetune(order, lambda event, share: losses.append(event.get("loss")))
        return figures(started, next(loss for loss in reversed(losses) if loss is not None))


def theirs(arguments: argparse.Namespace) -> dict[str, float]:
    import torch
    from torch.utils.data import SequentialSampler
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    class InOrder(Trainer):
        def _get_train_sampler(self, train_dataset: object = None) -> SequentialSampler:
            return SequentialSampler(self.train_dataset)

    torch.set_num_threads(arguments.threads)
    examples = read(arguments)
    started = time.perf_counter()
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    labels = sorted({one.label for one in examples})
    pairs = [one.pair for one in examples]
    encoded = tokenizer(
        [one.text for one in examples],
        pairs if pairs[0] is not None else None,
        truncation=True,
        max_length=LENGTH,
        padding="max_length" if arguments.padding == "length" else False,
    )
    rows = [
        {**{name: encoded[name][at] for name in encoded}, "labels": labels.index(one.label)}
        for at, one in enumerate(examples)
    ]
    model = AutoModelForSequenceClassification.from_pretrained(arguments.model, num_labels=len(labels))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            dataloader_drop_last=True,
            learning_rate=LR,
            warmup_steps=int(WARMUP * (len(rows) // BATCH)),
            weight_decay=0.01,
            adam_epsilon=1e-6,
            save_strategy="epoch",
            logging_steps=1,
            disable_tqdm=True,
            report_to=[],
            use_cpu=True,
        )
        trainer = InOrder(model, settings, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer))
        trainer.train()
        losses = [float(event["loss"]) for event in trainer.state.log_history if "loss" in event]
        trainer.save_model(str(Path(folder) / "model"))
        shutil.rmtree(folder, ignore_errors=True)
        Path(folder).mkdir()
        return figures(started, losses[-1])


SIDES = {"ours": ours, "theirs": theirs}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main()
