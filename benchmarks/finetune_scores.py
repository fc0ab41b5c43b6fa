"""Scores of fine-tuning, mean and deviation over seeds, on the dev parts: three studies, each run a process of its own.

    python benchmarks/finetune_scores.py peers GLUE CONLL --model MODEL --out OUT --device cuda --jobs 8
    python benchmarks/finetune_scores.py recipes GLUE CONLL --model MODEL --out OUT
    python benchmarks/finetune_scores.py features GLUE CONLL --model MODEL --out OUT

`peers`: bertie against the Trainer of transformers (which needs accelerate) from the same folder, on the same rows in
the same order, with the same batch, optimizer, curve and number of steps; new heads and dropout draw differently. What
counts is the last model, not the best. `recipes`: bertie's stable recipe against the paper's, its best model each.
`features`: the paper's table of what is read of a frozen encoder, for names in CoNLL-2003.
Runs that OUT/runs.jsonl holds are not repeated.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

GLUE = {"cola": "CoLA", "mrpc": "MRPC", "sts-b": "STS-B", "rte": "RTE"}
SCORES = {"cola": "matthews", "mrpc": "accuracy", "sts-b": "pearson", "rte": "accuracy", "conll-ner": "f1"}
EPOCHS, BATCH, LR, WARMUP, LENGTH = 3, 16, 5e-5, 0.1, 128
PEERS = (f"epochs={EPOCHS}", f"batch={BATCH}", f"lr={LR}", f"warmup={WARMUP}", f"max_length={LENGTH}", "evaluations=1")
LAYERS = ("embeddings", "second_to_last", "last", "sum_all", "sum_last_four", "concat_last_four", "mix_last_four")


@dataclass(frozen=True)
class Run:
    """One model to be fine-tuned; `way` is the row of the table it belongs to."""

    study: str
    task: str
    way: str
    seed: int
    settings: tuple[str, ...] = ()
    recipe: str = "stable"

    @property
    def name(self) -> str:
        return f"{self.study}-{self.task}-{self.way}-{self.seed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("glue", type=Path, help="the folder with CoLA, MRPC, STS-B and RTE")
    parser.add_argument("conll", type=Path, help="the folder of CoNLL-2003")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seeds", type=int, help="of each row; the study's own number if it is left out")
    parser.add_argument("--tasks", nargs="+", choices=SCORES, help="of the study's, these alone")
    parser.add_argument("--rows", type=int, help="learn from the first so many rows of each training part")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--theirs", help=argparse.SUPPRESS)  # a run of transformers, in a process of its own
    arguments = parser.parse_args()
    if arguments.theirs:
        print(json.dumps(theirs(Run(**json.loads(arguments.theirs)), arguments)))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    kept = arguments.out / "runs.jsonl"
    found = {row["name"]: row for row in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    runs = [run for run in STUDIES[arguments.study](arguments.seeds) if run.task in (arguments.tasks or SCORES)]
    missing = [run for run in runs if run.name not in found]
    with ThreadPoolExecutor(arguments.jobs) as pool, kept.open("a") as file:
        for run, score in zip(missing, pool.map(lambda run: score_of(run, arguments), missing), strict=True):
            found[run.name] = {"name": run.name, "score": score}
            file.write(json.dumps(found[run.name]) + "\n")
            file.flush()
            print(f"{run.name}: {score:.4f}", flush=True)
    print_table(runs, {name: row["score"] for name, row in found.items()})


def peers(num_seeds: int | None) -> Iterable[Run]:
    for seed in range(num_seeds or 5):
        for task in SCORES:
            yield Run("peers", task, "bertie", seed, PEERS)
            yield Run("peers", task, "transformers", seed)


def recipes(num_seeds: int | None) -> Iterable[Run]:
    for seed in range(num_seeds or 10):
        for task in ("rte", "mrpc"):
            for recipe in ("stable", "faithful"):
                yield Run("recipes", task, recipe, seed, recipe=recipe)


def features(num_seeds: int | None) -> Iterable[Run]:
    for seed in range(num_seeds or 2):
        yield Run("features", "conll-ner", "fine-tuned", seed)
        for layers in LAYERS:
            settings = (f"features={layers}", "head=bilstm", "lstm_width=384", "epochs=10", "batch=32")
            yield Run("features", "conll-ner", layers, seed, settings)


STUDIES = {"peers": peers, "recipes": recipes, "features": features}


def print_table(runs: Sequence[Run], scores: dict[str, float]) -> None:
    groups = defaultdict(list)
    for run in runs:
        groups[run.task, run.way].append(scores[run.name])
    print(f"\n{'task':10} {'way':18} {'mean':>7} {'deviation':>9} {'error':>7} {'worst':>7} {'best':>7} seeds")
    for (task, way), each in groups.items():
        deviation = statistics.stdev(each) if len(each) > 1 else 0.0
        figures = (statistics.mean(each), deviation, deviation / len(each) ** 0.5, min(each), max(each))
        shown = " ".join(f"{100 * figure:{width}.2f}" for figure, width in zip(figures, (7, 9, 7, 7, 7), strict=True))
        print(f"{task:10} {way:18} {shown} {len(each):5}  {SCORES[task]}")


def score_of(run: Run, arguments: argparse.Namespace) -> float:
    """Have another process do the run; its score on the dev part."""
    if run.way == "transformers":
        command = [sys.executable, __file__, *sys.argv[1:], "--theirs", json.dumps(asdict(run))]
        return float(json.loads(output_of(command).splitlines()[-1]))
    folder = arguments.out / run.name
    command = [sys.executable, "-m", "bertie", "finetune", run.task, str(data_of(run, arguments)), "--dev"]
    command += [str(part(run.task, arguments, "dev")), "--model", str(arguments.model), "--out", str(folder)]
    command += ["--recipe", run.recipe, *(["--resume"] if folder.exists() else [])]
    precision = "bf16" if arguments.device == "cuda" else "float32"
    settings = (*run.settings, f"seed={run.seed}", f"device={arguments.device}", f"precision={precision}", "threads=2")
    output_of([*command, *(word for setting in settings for word in ("--set", setting))])
    if run.study != "peers":
        return float(json.loads((folder / "card.json").read_text())["scores"][SCORES[run.task]])
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return float([event for event in events if event["event"] == "evaluate"][-1][f"validation_{SCORES[run.task]}"])


def output_of(command: Sequence[str]) -> str:
    quiet = {"OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **quiet})
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr[-3000:]}")
    return done.stdout


def part(task: str, arguments: argparse.Namespace, which: str) -> Path:
    """The task's training or dev file."""
    from bertie.tasks.named import find_parts, named

    folder = arguments.glue / GLUE[task] if task in GLUE else arguments.conll
    train, dev = find_parts(folder, named(task), None)
    return train if which == "train" or dev is None else dev


def data_of(run: Run, arguments: argparse.Namespace) -> Path:
    """The training file, or its first rows in a file of their own."""
    train = part(run.task, arguments, "train")
    if not arguments.rows:
        return train
    apart = "\n\n" if run.task == "conll-ner" else "\n"
    shorter = arguments.out / f"{run.task}-{arguments.rows}{train.suffix}"
    if not shorter.exists():
        rows = train.read_text(encoding="utf8").split(apart)[: arguments.rows + 1]
        shorter.write_text(apart.join(rows) + "\n", encoding="utf8")
    return shorter


def theirs(run: Run, arguments: argparse.Namespace) -> float:
    """The same with transformers as its users run it."""
    import torch
    from torch.utils.data import SequentialSampler
    from transformers import (
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoTokenizer,
        DataCollatorForTokenClassification,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
        set_seed,
    )

    from bertie.tasks.files import Columns
    from bertie.tasks.named import named

    class InOrder(Trainer):
        def _get_train_sampler(self, train_dataset: object = None) -> SequentialSampler:
            return SequentialSampler(self.train_dataset)

    kind = named(run.task)
    train, dev = (kind.read(path, Columns()) for path in (data_of(run, arguments), part(run.task, arguments, "dev")))
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    labels = names_of(run.task, train)
    steps = int(len(train) / BATCH * EPOCHS)
    encode = encode_words if run.task == "conll-ner" else encode_texts
    rows, dev_rows = (encode(examples, tokenizer, labels) for examples in (train, dev))
    orders = [np.random.default_rng((run.seed, epoch)).permutation(len(rows)) for epoch in range(EPOCHS + 1)]
    ordered = [rows[place] for place in np.concatenate(orders)[: steps * BATCH]]
    set_seed(run.seed)
    is_tagging = run.task == "conll-ner"
    load = AutoModelForTokenClassification if is_tagging else AutoModelForSequenceClassification
    collator = DataCollatorForTokenClassification if is_tagging else DataCollatorWithPadding
    model = load.from_pretrained(arguments.model, num_labels=max(1, len(labels)), dtype=torch.float32)
    settings = TrainingArguments(
        str(arguments.out / run.name),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=64,
        learning_rate=LR,
        warmup_steps=int(WARMUP * steps),
        weight_decay=0.01,
        adam_epsilon=1e-6,
        seed=run.seed,
        save_strategy="no",
        disable_tqdm=True,
        report_to=[],
        bf16=arguments.device == "cuda",
        use_cpu=arguments.device == "cpu",
    )
    trainer = InOrder(model, settings, train_dataset=ordered, data_collator=collator(tokenizer))
    trainer.train()
    found = trainer.predict(dev_rows)
    return score(run.task, np.asarray(found.predictions), np.asarray(found.label_ids), labels)


def names_of(task: str, examples: Sequence) -> list[str]:
    """The labels, in order; none of a task of numbers."""
    if task == "sts-b":
        return []
    if task == "conll-ner":
        return sorted({label for example in examples for label in example.labels})
    return sorted({example.label for example in examples})


def encode_texts(examples: Sequence, tokenizer: object, labels: Sequence[str]) -> list[dict]:
    pairs = [example.pair for example in examples] if examples[0].pair is not None else None
    encoded = tokenizer([example.text for example in examples], pairs, truncation=True, max_length=LENGTH)
    targets = [labels.index(example.label) if labels else float(example.label) for example in examples]
    return [{**{name: encoded[name][at] for name in encoded}, "labels": target} for at, target in enumerate(targets)]


def encode_words(examples: Sequence, tokenizer: object, labels: Sequence[str]) -> list[dict]:
    """The first piece of each word has its label, the others none."""
    rows = []
    for example in examples:
        encoded = tokenizer(list(example.words), is_split_into_words=True, truncation=True, max_length=LENGTH)
        words = encoded.word_ids()
        is_first = [word is not None and word != before for before, word in zip([None, *words], words, strict=False)]
        targets = [
            labels.index(example.labels[word]) if first else -100 for word, first in zip(words, is_first, strict=True)
        ]
        rows.append({**encoded, "labels": targets})
    return rows


def score(task: str, logits: np.ndarray, gold: np.ndarray, labels: Sequence[str]) -> float:
    """By scikit-learn and numpy; names by bertie's conlleval, which is tested against the original."""
    if task == "sts-b":
        return float(np.corrcoef(logits.squeeze(-1), gold)[0, 1])
    if task == "conll-ner":
        from bertie.tasks.entities import entity_scores

        shown = [row != -100 for row in gold]
        tags = [
            [[labels[number] for number in row[is_shown]] for row, is_shown in zip(numbers, shown, strict=True)]
            for numbers in (gold, logits.argmax(-1))
        ]
        return entity_scores(*tags)["f1"]
    from sklearn.metrics import accuracy_score, matthews_corrcoef

    return float((matthews_corrcoef if task == "cola" else accuracy_score)(gold, logits.argmax(-1)))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main()
