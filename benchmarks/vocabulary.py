"""Claim: bertie's vocabularies are learned no slower than tokenizers' WordPieceTrainer does, cut text in fewer tokens.

Both learn from the same file, one after the other in turn, each in a process of its own with as many threads or
processes as --workers says, timed from opening the file to the list of entries: seconds of the wall, and of the
processor, which mean the same on a machine that others use too. Then both vocabularies cut the same documents, which
neither has seen, by the same rules. With --memory the whole folders are learned from once more by `bertie vocab`, and
the memory of all its processes together is watched.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from zlib import crc32

from tokenizers import Tokenizer as Pipeline
from tokenizers import models, normalizers, pre_tokenizers, trainers

from bertie.text.documents import TextConfig, read_documents
from bertie.text.figures import measure
from bertie.text.vocabulary import SPECIAL, VocabularyConfig, learn_vocabulary
from bertie.text.wordpiece import Tokenizer

HELD_OUT_EVERY = 50  # about one document in so many
SECONDS_BETWEEN_LOOKS = 0.05


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of text")
    parser.add_argument("--size", type=int, default=30_522, help="entries")
    parser.add_argument("--language", choices=["en", "zh"], default="en")
    parser.add_argument("--cased", action="store_true")
    parser.add_argument("--megabytes", type=int, default=100, help="characters to learn from, in millions")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--times", type=int, default=3, help="how often each side learns")
    parser.add_argument("--memory", action="store_true", help="watch the memory on all of the folders too")
    parser.add_argument("--learn", choices=LEARN, help=argparse.SUPPRESS)  # one side, in its own process
    arguments = parser.parse_args()
    folders = [folder for folder in arguments.folders if folder.exists()]
    if arguments.learn:
        print(json.dumps(learn_once(arguments)))
        return
    if not folders:
        print("Skipped: give a folder of text, such as an unpacked English Wikipedia.")
        return
    compare(folders, arguments)
    if arguments.memory:
        watch(folders, arguments)


def compare(folders, arguments):
    """Print what each side takes, and how the two vocabularies cut what they have not seen."""
    with tempfile.TemporaryDirectory() as scratch:
        text = Path(scratch) / "text.txt"
        held_out = write(read_documents(folders, TextConfig()), text, arguments.megabytes * 10**6)
        size = text.stat().st_size / 1e6
        print(f"{size:.0f} MB, {arguments.size:,} entries, {arguments.workers} threads or processes")
        sides = {name: [] for name in LEARN}
        for _ in range(arguments.times):
            for name, runs in sides.items():
                runs.append(run_alone(name, text, arguments))
                wall, processor = runs[-1]["wall"], runs[-1]["processor"]
                print(f"{name:>10}: {wall:7.1f} s of the wall, {processor:7.1f} s of the processor", flush=True)
    for clock in ("wall", "processor"):
        ratio = sum(run[clock] for run in sides["tokenizers"]) / sum(run[clock] for run in sides["bertie"])
        print(f"bertie's speed over tokenizers', by seconds of the {clock}: {ratio:.2f}x")
    print(f"on {sum(map(len, held_out)) / 1e6:.1f} million held-out characters:")
    for name, runs in sides.items():
        num_other = max(len({*run["entries"]}.symmetric_difference(runs[0]["entries"])) // 2 for run in runs)
        again = f"{num_other} entries differ between its runs" if num_other else "the same entries each time"
        figures = measure(Tokenizer.build(runs[0]["entries"], arguments.cased), held_out)
        print(
            f"{name:>10}: {figures.entries:,} entries, {figures.tokens_per_word:.4f} tokens per word, "
            f"{figures.unknown_rate:.4%} unknown, {figures.never_used:,} never used; {again}"
        )


def write(documents, path, most):
    """Write documents, a line each and a blank one after it, up to so many characters; give those held out."""
    held_out, written = [], 0
    with path.open("w", encoding="utf-8") as file:
        for text in documents:
            text = " ".join(text.split())
            if crc32(text.encode()) % HELD_OUT_EVERY == 0:
                held_out.append(text)
                continue
            file.write(f"{text}\n\n")
            written += len(text)
            if written >= most:
                break
    return held_out


def run_alone(name, text, arguments):
    """One side's entries and seconds, from a process of its own."""
    options = ["--size", str(arguments.size), "--workers", str(arguments.workers), "--language", arguments.language]
    options += ["--cased"] if arguments.cased else []
    threads = {
        "RAYON_NUM_THREADS": str(arguments.workers),
        "TOKENIZERS_PARALLELISM": str(arguments.workers > 1).lower(),
    }
    command = [sys.executable, __file__, str(text), "--learn", name, *options]
    done = subprocess.run(command, env=os.environ | threads, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def learn_once(arguments):
    wall, processor = time.perf_counter(), processor_seconds()
    entries = LEARN[arguments.learn](arguments.folders[0], arguments)
    return {"entries": entries, "wall": time.perf_counter() - wall, "processor": processor_seconds() - processor}


def processor_seconds():
    """Of this process, and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def learn_by_tokenizers(text, arguments):
    pipeline = Pipeline(models.WordPiece(unk_token="[UNK]"))
    pipeline.normalizer = normalizers.BertNormalizer(lowercase=not arguments.cased)
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=arguments.size, special_tokens=SPECIAL, show_progress=False)
    pipeline.train([str(text)], trainer)
    ids = pipeline.get_vocab()
    return sorted(ids, key=ids.get)


def learn_by_bertie(text, arguments):
    config = VocabularyConfig(arguments.size, cased=arguments.cased, language=arguments.language)
    with tempfile.TemporaryDirectory() as scratch:
        learn_vocabulary(config, [text], Path(scratch) / "out", workers=arguments.workers)
        return Tokenizer.load(Path(scratch) / "out").vocabulary


def watch(folders, arguments):
    """Print the most memory that `bertie vocab` and its processes held at a time, on the whole folders."""
    if not Path("/proc/self/smaps_rollup").exists():
        print("Skipped: the memory of several processes is watched on Linux alone.")
        return
    size = sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--size", str(arguments.size), "--workers", str(arguments.workers), "--language", arguments.language]
        command = [sys.executable, "-m", "bertie", "vocab", *map(str, folders), *options, "--out", f"{scratch}/out"]
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        most, most_shared_once = 0, 0
        while process.poll() is None:
            tree = processes_of(process.pid)
            most = max(most, sum(kilobytes(pid, "status", "VmRSS:") for pid in tree))
            most_shared_once = max(most_shared_once, sum(kilobytes(pid, "smaps_rollup", "Pss:") for pid in tree))
            time.sleep(SECONDS_BETWEEN_LOOKS)
        seconds = time.perf_counter() - started
    assert process.returncode == 0, "bertie vocab failed"
    print(
        f"{size / 1e6:.0f} MB in {seconds:.0f} s; all processes together held at most {most / 1024:.0f} MB "
        f"({most_shared_once / 1024:.0f} MB where pages that they share count once)"
    )


def processes_of(first):
    """The process and those that it started, directly or not."""
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(path.name)] = int(fields[1])
    found = [first]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def kilobytes(pid, name, field):
    try:
        lines = Path(f"/proc/{pid}/{name}").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(field))


LEARN = {"bertie": learn_by_bertie, "tokenizers": learn_by_tokenizers}

if __name__ == "__main__":
    main()
