"""The best small model that twenty minutes of one GPU can make: ideas ranked by short runs, the yardstick, the scores.

    python benchmarks/speedrun.py prepare TEXT --work WORK --sizes 16384
    python benchmarks/speedrun.py rank --work WORK --minutes 1.25 --ideas base adamw mask-15
    bertie pretrain WORK/corpus-16384 --out RUN --recipe modern-small --minutes 20    (--resume goes on)
    python benchmarks/speedrun.py theirs --work WORK --minutes 20
    python benchmarks/speedrun.py bits RUN/model WORK/theirs --work WORK
    python benchmarks/speedrun.py score RUN/model --glue GLUE --conll CONLL --work WORK --jobs 8

What is compared over vocabularies and shapes are bits a character: in stretches of held-out text that no corpus has
seen, 15% of the words are hidden, the same ones for every model, all their pieces at once; what a model gives for the
pieces that stood there, over the characters of those words. `theirs` is transformers as its users run it: its BERT of
the same width and depth, AdamW, linear decay, padded rows, compiled bf16. `score` tries the grid below with one seed,
then the winner with five, on dev parts; many jobs share a GPU well under NVIDIA's MPS (nvidia-cuda-mps-control -d).
Everything that WORK holds already is gone on with or not made again.
"""

import argparse
import json
import math
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

# What differs from the recipe. A name that begins with "vocabulary-" is of another corpus too.
IDEAS: dict[str, tuple[str, ...]] = {
    "base": (),
    "adamw": ("rule=adamw", "lr=1.5e-3"),
    "matrix-lr-0.01": ("matrix_lr=0.01",),
    "matrix-lr-0.04": ("matrix_lr=0.04",),
    "tables-1e-3": ("lr=1e-3",),
    "tables-4e-3": ("lr=4e-3",),
    "mask-15": ("rate=0.15",),
    "mask-40": ("rate=0.4",),
    "all-masks": ("mask_share=1.0", "keep_share=0.0"),
    "words": ("unit=words",),
    "spans": ("unit=spans",),
    "batch-65k": ("batch=65536",),
    "batch-262k": ("batch=262144",),
    "length-64": ("pairs.max_length=64",),
    "length-256": ("pairs.max_length=256",),
    "masked": ("objective=masked",),
    "replaced-5": ("replaced_weight=5",),
    "replaced-25": ("replaced_weight=25",),
    "sentences": ("pairs.kind=full_sentences",),
    "linear": ("curve=linear", "warmup=0.02"),
    "decay-0.4": ("decay=0.4",),
    "weight-decay-0.1": ("weight_decay=0.1",),
    "no-zeros": ("zero_outputs=false",),
    "deep": ("num_layers=14", "width=320", "num_heads=5", "inner_width=896"),
    "wide": ("num_layers=6", "width=512", "num_heads=8", "inner_width=1344"),
    "12-layers": ("num_layers=12",),
    "vocabulary-8192": (),
    "vocabulary-28672": (),
}
GRID = tuple((f"lr={lr}", "batch=32") for lr in ("5e-5", "1e-4", "2e-4"))
SCORES = {
    "cola": "matthews",
    "sst-2": "accuracy",
    "mrpc": "f1",
    "sts-b": "spearman",
    "rte": "accuracy",
    "conll-ner": "f1",
}
FOLDERS = {"cola": "CoLA", "sst-2": "SST-2", "mrpc": "MRPC", "sts-b": "STS-B", "rte": "RTE"}
HELD_OUT, STRETCH, SHARE = "held-out.txt", 400, 0.15  # characters of a stretch; share of the words that are hidden
ONE_IN = 100  # files of the text is held out
NUM_STRETCHES = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    prepare_ = commands.add_parser("prepare")
    prepare_.add_argument("text", type=Path, nargs="+", help="folders of text")
    prepare_.add_argument("--sizes", type=int, nargs="+", default=[16_384], help="of the vocabularies")
    prepare_.add_argument("--cased", action="store_true")
    prepare_.add_argument("--workers", type=int, default=2)
    rank_ = commands.add_parser("rank")
    rank_.add_argument("--ideas", nargs="+", choices=IDEAS, default=list(IDEAS))
    rank_.add_argument("--seed", type=int, default=0)
    theirs_ = commands.add_parser("theirs")
    for command in (rank_, theirs_):
        command.add_argument("--minutes", type=float, required=True)
        command.add_argument("--size", type=int, default=16_384, help="of the vocabulary")
        command.add_argument("--set", action="append", default=[], help="change a key of the recipe")
    theirs_.add_argument("--this-time", type=float, default=math.inf, help="minutes, after which it is gone on with")
    bits_ = commands.add_parser("bits")
    bits_.add_argument("models", type=Path, nargs="+")
    score_ = commands.add_parser("score")
    score_.add_argument("models", type=Path, nargs="+")
    score_.add_argument("--glue", type=Path, required=True)
    score_.add_argument("--conll", type=Path, required=True)
    score_.add_argument("--tasks", nargs="+", choices=SCORES, default=list(SCORES))
    score_.add_argument("--seeds", type=int, default=5)
    score_.add_argument("--jobs", type=int, default=1, help="runs at a time")
    for command in (rank_, theirs_, bits_, score_):
        command.add_argument("--device", default="cuda")
    for command in commands.choices.values():
        command.add_argument("--work", required=True, type=Path, help="the folder that everything goes into")
    arguments = parser.parse_args()
    {"prepare": prepare, "rank": rank, "theirs": theirs, "bits": bits, "score": score}[arguments.command](arguments)


def prepare(arguments: argparse.Namespace) -> None:
    """The held-out stretches, and a vocabulary and a corpus of each size from the files that are left."""
    files = sorted(path for folder in arguments.text for path in folder.rglob("*") if path.is_file())
    held_out = files[:: max(2, min(ONE_IN, len(files) // 4))]
    arguments.work.mkdir(parents=True, exist_ok=True)
    stretches = [one for path in held_out for one in stretches_of(path.read_text(encoding="utf8", errors="replace"))]
    random.Random(0).shuffle(stretches)
    (arguments.work / HELD_OUT).write_text("\n".join(stretches[:NUM_STRETCHES]) + "\n", encoding="utf8")
    kept = [str(path) for path in files if path not in set(held_out)]
    work = ("--workers", arguments.workers, "--document", "file")  # a book is one document, not one a paragraph
    for size in arguments.sizes:
        vocabulary, corpus = arguments.work / f"vocabulary-{size}", corpus_of(arguments.work, size)
        cased = ["--cased"] if arguments.cased else []
        if not vocabulary.exists():
            bertie("vocab", *kept, "--size", size, "--out", vocabulary, *work, *cased)
        if not corpus.exists():
            bertie("corpus", *kept, "--vocab", vocabulary, "--out", corpus, *work)
    print(f"{len(kept)} files for learning, {len(held_out)} held out: {len(stretches):,} stretches")


def stretches_of(text: str) -> Iterator[str]:
    """Each paragraph's first words, cut at a blank, without markup; lines that are wrapped are joined."""
    for paragraph in re.split(r"\n\s*\n", re.sub(r"<[^>]*>", "\n\n", text)):
        words = " ".join(paragraph.split())
        if len(words) > STRETCH:
            yield words[:STRETCH].rpartition(" ")[0]


def rank(arguments: argparse.Namespace) -> None:
    """Train by each idea so long; the table, best first."""
    rows = []
    for idea in arguments.ideas:
        size = int(idea.removeprefix("vocabulary-")) if idea.startswith("vocabulary-") else arguments.size
        out = arguments.work / f"{idea}-{arguments.minutes:g}-{arguments.seed}"
        settings = [*IDEAS[idea], *arguments.set, "evaluate_every=0", "save_every=0", f"device={arguments.device}"]
        begun = time.monotonic()
        if not (out / "model").exists():
            shutil.rmtree(out, ignore_errors=True)
            changes = [word for setting in settings for word in ("--set", setting)]
            recipe = ("--recipe", "modern-small", "--minutes", arguments.minutes, "--seed", arguments.seed)
            bertie("pretrain", corpus_of(arguments.work, size), "--out", out, *recipe, *changes, "--quiet")
        card = json.loads((out / "card.json").read_text())
        figures = bits_of(out / "model", arguments.work / HELD_OUT, arguments.device)
        speed = card["tokens_per_second"] / 1e6
        rows.append((figures, card["validation_masked_loss"], card["parameters"] / 1e6, speed, card["steps"], idea))
        print(f"{idea}: {figures:.4f} bits a character; {time.monotonic() - begun:.0f} s in all", flush=True)
    print(f"\n{'idea':18} {'bits':>7} {'loss':>7} {'M param':>8} {'M tok/s':>8} {'steps':>7}")
    for figures, loss, parameters, speed, steps, idea in sorted(rows):
        print(f"{idea:18} {figures:7.4f} {loss:7.4f} {parameters:8.1f} {speed:8.2f} {steps:7}")


def bits(arguments: argparse.Namespace) -> None:
    for model in arguments.models:
        print(f"{model}: {bits_of(model, arguments.work / HELD_OUT, arguments.device):.4f} bits a character")


@torch.inference_mode()
def bits_of(folder: Path, text: Path, device: str) -> float:
    """What the hidden words of the held-out stretches cost the model, a character."""
    from bertie.model.encoder import pack
    from bertie.model.folder import load
    from bertie.text.wordpiece import Tokenizer

    model, tokenizer = load(folder).to(device), Tokenizer.load(folder)
    lost, num_characters = 0.0, 0
    stretches = text.read_text(encoding="utf8").splitlines()
    for first in range(0, len(stretches), 64):
        ids, masked, labels, before = [], [], [], 0
        for number, stretch in enumerate(stretches[first : first + 64], first):
            encoding, hidden = tokenizer.encode(stretch), hidden_words(stretch, number)
            num_characters += sum(end - start for start, end in hidden)
            own = list(encoding.ids)
            for place, span in enumerate(encoding.offsets):
                if span and any(span[0] < stop and span[1] > begin for begin, stop in hidden):
                    masked.append(before + place)
                    labels.append(own[place])
                    own[place] = tokenizer.mask_id
            ids.append(own)
            before += len(own)
        batch = pack(ids).to(device)
        words_VE = model.encoder.embeddings.words.weight
        hidden_MD = model.encoder(batch)[torch.tensor(masked, device=device)]
        logits_MV = model.heads["masked"](hidden_MD, words_VE)[:, : tokenizer.size].float()
        targets_M = torch.tensor(labels, device=device)
        lost += float(torch.nn.functional.cross_entropy(logits_MV, targets_M, reduction="sum"))
    return lost / math.log(2) / num_characters


def hidden_words(text: str, number: int) -> list[tuple[int, int]]:
    """Where the words stand that are hidden of this text: the same ones whatever reads it."""
    words = [match.span() for match in re.finditer(r"\S+", text)]
    return random.Random(number).sample(words, max(1, round(SHARE * len(words))))


def theirs(arguments: argparse.Namespace) -> None:
    """transformers' usual way, for so many minutes, saved as a folder; a state beside it to go on from."""
    from transformers import BertConfig, BertForMaskedLM

    from bertie.corpus.shards import open_corpus
    from bertie.pretraining.drawing import Ahead, Drawer
    from bertie.pretraining.recipe import change, model_config, read_recipe
    from bertie.text.wordpiece import Tokenizer

    folder = corpus_of(arguments.work, arguments.size)
    corpus, tokenizer = open_corpus(folder), Tokenizer.load(folder)
    recipe = change(
        read_recipe("modern-small"), ["objective=masked", "counts=sequences", "batch=1024", "rate=0.15", *arguments.set]
    )
    config, length = model_config(recipe, tokenizer.size, tokenizer.pad_id), recipe.pairs.max_length
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    model = BertForMaskedLM(
        BertConfig(
            vocab_size=config.vocabulary_size,
            hidden_size=config.width,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            intermediate_size=4 * config.width,
            attn_implementation="sdpa",
        )
    ).to(arguments.device)
    decayed = [one for one in model.parameters() if one.ndim >= 2]
    others = [one for one in model.parameters() if one.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-4, fused=True)
    state = arguments.work / "theirs.pt"
    seconds, step = 0.0, 0
    if state.exists():
        saved = torch.load(state, map_location=arguments.device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        seconds, step = saved["seconds"], saved["step"]
    batches = Ahead(Drawer(corpus.train, tokenizer, recipe), 1, torch.device(arguments.device))
    compiled = torch.compile(model)
    compiled(**inputs_of(batches(step).batch, length)).loss.backward()  # compiled apart from the time
    optimizer.zero_grad()
    begun, before = time.monotonic(), seconds
    while seconds < 60 * arguments.minutes and seconds - before < 60 * arguments.this_time:
        done = seconds / (60 * arguments.minutes)
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * min(done / 0.06, (1 - done) / 0.94)
        with torch.autocast(arguments.device, torch.bfloat16):
            found = compiled(**inputs_of(batches(step).batch, length))
        found.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % 50 == 0:  # a number that is read waits for the GPU
            loss, seconds = found.loss.item(), before + time.monotonic() - begun
            print(f"step {step:,}, {seconds:.0f} s, loss {loss:.4f}", flush=True)
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "seconds": seconds, "step": step}
    torch.save(saved, state)
    model.save_pretrained(arguments.work / "theirs")
    for name, data in tokenizer.files().items():
        (arguments.work / "theirs" / name).write_bytes(data)


def inputs_of(batch: object, length: int) -> dict[str, torch.Tensor]:
    from pretrain_speed import padded

    names = ("input_ids", "token_type_ids", "attention_mask", "labels")
    return dict(zip(names, padded(batch, length), strict=True))


def score(arguments: argparse.Namespace) -> None:
    for model in arguments.models:
        score_model(model, arguments)


def score_model(model: Path, arguments: argparse.Namespace) -> None:
    """Mean and deviation over seeds at the best of the grid, for each task; the seeds side by side too."""
    name = "-".join(model.parts[-2:])
    tried = [(task, settings, 0) for task in arguments.tasks for settings in GRID]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = dict(zip(tried, pool.map(lambda one: finetuned(model, name, *one, arguments), tried), strict=True))
        best = {task: max(GRID, key=lambda settings: found[task, settings, 0]) for task in arguments.tasks}
        again = [(task, best[task], seed) for task in arguments.tasks for seed in range(1, arguments.seeds)]
        found |= zip(again, pool.map(lambda one: finetuned(model, name, *one, arguments), again), strict=True)
    for task, settings in best.items():
        each = [100 * found[task, settings, seed] for seed in range(arguments.seeds)]
        deviation = statistics.stdev(each) if len(each) > 1 else 0.0
        shown = " ".join(f"{one:.1f}" for one in each)
        row = f"{name:24} {task:10} {statistics.mean(each):6.2f} +- {deviation:5.2f}"
        print(f"{row}  {SCORES[task]}, {' '.join(settings)}: {shown}", flush=True)


def finetuned(
    model: Path, name: str, task: str, settings: Sequence[str], seed: int, arguments: argparse.Namespace
) -> float:
    """The dev score of one run."""
    out = arguments.work / "scores" / name / "-".join((task, *settings, str(seed))).replace("=", "")
    card = out / "card.json"
    if not (card.exists() and "scores" in json.loads(card.read_text())):
        data = arguments.glue / FOLDERS[task] if task in FOLDERS else arguments.conll
        precision = "bf16" if arguments.device == "cuda" else "float32"
        own = (f"seed={seed}", f"device={arguments.device}", f"precision={precision}", "threads=2")
        changes = [word for setting in (*settings, *own) for word in ("--set", setting)]
        resume = ["--resume"] if out.exists() else []
        bertie("finetune", task, data, "--model", model, "--out", out, *resume, *changes, "--quiet")
        shutil.rmtree(out / "state", ignore_errors=True)
        shutil.rmtree(out / "model", ignore_errors=True)
    return float(json.loads(card.read_text())["scores"][SCORES[task]])


def corpus_of(work: Path, size: int) -> Path:
    return work / f"corpus-{size}"


def bertie(*words: object) -> None:
    """Run the command; what it says of a failure ends this one too."""
    done = subprocess.run(
        [sys.executable, "-m", "bertie", *map(str, words)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"bertie {' '.join(map(str, words))[:300]}\n{done.stderr[-3000:]}")


if __name__ == "__main__":
    main()
