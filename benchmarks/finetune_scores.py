"""Scores of fine-tuning, mean and deviation over seeds, on the dev parts: three studies, each run a process of its own.

    python benchmarks/finetune_scores.py peers recipes features GLUE CONLL --model MODEL --out OUT --device cuda

`peers`: bertie against the Trainer of transformers (which needs accelerate) from the same folder, on the same rows in
the same order, with the same batch, optimizer, curve and number of steps; new heads and dropout draw differently. What
counts is the last model, not the best. `recipes`: bertie's stable recipe against the paper's, its best model each.
`features`: the paper's table of what is read of a frozen encoder, for names in CoNLL-2003.

OUT/runs.jsonl holds each score as soon as it is known, and the same command again goes on with what is missing; models
are not kept. With --minutes no run begins after so many; 0 says only how much there is to do. A run that fails is named
and the others go on. With --jobs 8 on one GPU eight runs share it, each with two processor cores.
"""

import argparse
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
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
    arguments = parse()
    if arguments.theirs:
        print(json.dumps(theirs(Run(**json.loads(arguments.theirs)), arguments)))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    kept = arguments.out / "runs.jsonl"
    found = {row["name"]: row for row in map(json.loads, kept.read_text().splitlines())} if kept.exists() else {}
    runs = [run for study in arguments.study for run in STUDIES[study](arguments.seeds)]
    runs = [run for run in runs if run.task in (arguments.tasks or SCORES)]
    missing = [run for run in runs if run.name not in found]
    steps = {run.name: num_steps(run, arguments) for run in missing}
    for run in missing:
        data_of(run, arguments, "dev")  # so that two runs do not write it at once
    print(
        f"{len(runs)} runs, {len(runs) - len(missing)} of them known; to do: {sum(steps.values()):,} steps", flush=True
    )
    num_failed = 0
    with kept.open("a") as file:
        for run, result, seconds in done(missing, arguments):
            if isinstance(result, str):
                num_failed += 1
                print(f"{run.name} FAILED\n{result}", flush=True)
                continue
            found[run.name] = {"name": run.name, "score": result, "steps": steps[run.name], "seconds": seconds}
            file.write(json.dumps(found[run.name]) + "\n")
            file.flush()
            print(f"{run.name}: {result:.4f} ({seconds:.0f} s)", flush=True)
    print_table(runs, {name: row["score"] for name, row in found.items()})
    num_left = sum(run.name not in found for run in runs)
    if num_left:
        sys.exit(f"{num_left} runs are missing, {num_failed} of them failed: the same command goes on with them.")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="+", choices=STUDIES)
    parser.add_argument("glue", type=Path, help="the folder with CoLA, MRPC, STS-B and RTE")
    parser.add_argument("conll", type=Path, help="the folder of CoNLL-2003")
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seeds", type=int, help="of each row; the study's own number if it is left out")
    parser.add_argument("--tasks", nargs="+", choices=SCORES, help="of the study's, these alone")
    parser.add_argument("--rows", type=int, help="read the first so many rows of each part alone, to try the script")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--minutes", type=float, help="begin no run after so many")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--theirs", help=argparse.SUPPRESS)  # a run of transformers, in a process of its own
    return parser.parse_args()


def done(runs: Sequence[Run], arguments: argparse.Namespace) -> Iterator[tuple[Run, float | str, float]]:
    """Each run that was begun in time as it ends: its score, or what it said when it failed, and its seconds."""
    end = float("inf") if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes

    def one(run: Run) -> tuple[float | str, float] | None:
        begun = time.monotonic()
        if begun >= end:
            return None
        try:
            return score_of(run, arguments), time.monotonic() - begun
        except subprocess.CalledProcessError as error:
            return f"{' '.join(map(str, error.cmd))}\n{error.stderr[-3000:]}", time.monotonic() - begun

    with ThreadPoolExecutor(arguments.jobs) as pool:
        waiting = {pool.submit(one, run): run for run in runs}
        for future in as_completed(waiting):
            result = future.result()
            if result is not None:
                yield waiting[future], *result


def peers(num_seeds: int | None) -> Iterable[Run]:
    for seed in range(num_seeds or 5):
        for task in SCORES:
            own = ("context=sentence",) if task == "conll-ner" else ()
            yield Run("peers", task, "bertie", seed, (*PEERS, *own))
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


def num_steps(run: Run, arguments: argparse.Namespace) -> int:
    """How many steps it will take."""
    from bertie.tasks.recipe import change, loop_config, make_recipe

    settings = run.settings or (PEERS if run.study == "peers" else ())
    recipe, _ = change(make_recipe(run.recipe, run.task), run.task, settings)
    is_alone = run.study == "peers" or run.task != "conll-ner"
    budget = loop_config(recipe, num_rows(data_of(run, arguments), run.task, is_alone, arguments.model)).budget
    return int(budget.amount)


@cache
def num_rows(data: Path, task: str, is_alone: bool, model: Path) -> int:
    """The rows to learn from; is_alone: each example is one."""
    from bertie.tasks.files import Columns
    from bertie.tasks.named import named
    from bertie.text.wordpiece import Tokenizer

    examples = named(task).read(data, Columns())
    if is_alone:
        return len(examples)
    return len(named(task).task().learn(examples).encode(examples, Tokenizer.load(model)))


def print_table(runs: Sequence[Run], scores: dict[str, float]) -> None:
    """A row for each way of a study, as far as its runs are known."""
    groups = defaultdict(list)
    for run in runs:
        if run.name in scores:
            groups[run.study, run.task, run.way].append(scores[run.name])
    names = ("study", "task", "way", "mean", "deviation", "error", "worst", "best", "seeds")
    print("\n{:9} {:10} {:18} {:>7} {:>9} {:>7} {:>7} {:>7} {}".format(*names))
    for (study, task, way), each in groups.items():
        deviation = statistics.stdev(each) if len(each) > 1 else 0.0
        figures = (statistics.mean(each), deviation, deviation / len(each) ** 0.5, min(each), max(each))
        shown = " ".join(f"{100 * figure:{width}.2f}" for figure, width in zip(figures, (7, 9, 7, 7, 7), strict=True))
        print(f"{study:9} {task:10} {way:18} {shown} {len(each):5}  {SCORES[task]}")


def score_of(run: Run, arguments: argparse.Namespace) -> float:
    """Have another process do the run; its score on the dev part."""
    folder = arguments.out / run.name
    if run.way == "transformers":
        command = [sys.executable, __file__, *sys.argv[1:], "--theirs", json.dumps(asdict(run))]
        score = float(json.loads(output_of(command).splitlines()[-1]))
    else:
        output_of(bertie_command(run, folder, arguments))
        score = last_score(run, folder) if run.study == "peers" else best_score(run, folder)
    shutil.rmtree(folder, ignore_errors=True)
    return score


def bertie_command(run: Run, folder: Path, arguments: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "bertie", "finetune", run.task, str(data_of(run, arguments)), "--dev"]
    command += [str(data_of(run, arguments, "dev")), "--model", str(arguments.model), "--out", str(folder)]
    command += ["--recipe", run.recipe, *(["--resume"] if folder.exists() else [])]
    precision = "bf16" if arguments.device == "cuda" else "float32"
    own = (f"seed={run.seed}", f"device={arguments.device}", f"precision={precision}", "threads=2", "save_every=10000")
    return [*command, *(word for setting in (*run.settings, *own) for word in ("--set", setting))]


def best_score(run: Run, folder: Path) -> float:
    return float(json.loads((folder / "card.json").read_text())["scores"][SCORES[run.task]])


def last_score(run: Run, folder: Path) -> float:
    events = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return float([event for event in events if event["event"] == "evaluate"][-1][f"validation_{SCORES[run.task]}"])


def output_of(command: Sequence[str]) -> str:
    quiet = {"OMP_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **quiet}).stdout


def data_of(run: Run, arguments: argparse.Namespace, part: str = "train") -> Path:
    """The task's training or dev file, or its first rows in a file of their own."""
    from bertie.tasks.named import find_parts, named

    folder = arguments.glue / GLUE[run.task] if run.task in GLUE else arguments.conll
    train, dev = find_parts(folder, named(run.task), None)
    whole = train if part == "train" or dev is None else dev
    if not arguments.rows:
        return whole
    apart = "\n\n" if run.task == "conll-ner" else "\n"
    shorter = arguments.out / f"{run.task}-{part}-{arguments.rows}{whole.suffix}"
    if not shorter.exists():
        rows = whole.read_text(encoding="utf8").split(apart)[: arguments.rows + 1]
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
    train, dev = (kind.read(data_of(run, arguments, part), Columns()) for part in ("train", "dev"))
    tokenizer = AutoTokenizer.from_pretrained(arguments.model)
    labels = names_of(run.task, [*train, *dev])
    steps = max(1, int(len(train) / BATCH * EPOCHS))
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
