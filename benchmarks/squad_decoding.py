"""Claim: from the same logits our decoding gives the text that run_squad.py's rules give on real files.

FILES are in SQuAD's form (v1.1, v2.0, CMRC, DRCD). The rules are written out slowly in tests/tasks/squad_reference.py,
which shares with bertie the tokenizer alone. The logits are drawn: half of the questions have them rounded, so that
many are equal, and half have a peak where the answer is. Compared are windows, targets, the answer, all of the n-best
list and the odds of no answer. Answers that do not stand where a file says are counted. The exit code is 1 if anything
differs.
"""

import argparse
import importlib.util
import logging
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from bertie.tasks.answer import Answer
from bertie.tasks.squad_file import read_squad
from bertie.tasks.task import Output
from bertie.text.wordpiece import Tokenizer

REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "tasks" / "squad_reference.py"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHUNK = 200  # questions
SHOWN = 5  # differences
NEAR = 1e-5  # between odds: ours are of float64, and so are the reference's


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--vocabulary", type=Path, help="a folder; by default the characters of the file")
    parser.add_argument("--max-length", type=int, default=384)
    arguments = parser.parse_args()
    logging.basicConfig(format="%(message)s")
    are_equal = True
    for path in arguments.files:
        if not path.is_file():
            print(f"Skipped: {path} is no file; give one in SQuAD's form, such as dev-v2.0.json.")
            continue
        are_equal &= compare(path, arguments.vocabulary, arguments.max_length)
    return 0 if are_equal else 1


def compare(path, vocabulary, max_length):
    """Print how many questions were compared, and the first that differ."""
    started = time.monotonic()
    examples = read_squad(path)
    tokenizer = Tokenizer.load(vocabulary) if vocabulary else tokenizer_of_characters(examples)
    has_nulls = any(example.answers == () for example in examples)
    task = Answer(has_nulls=has_nulls, projection="google", max_length=max_length)
    reference, rng = load_reference(), np.random.default_rng(0)
    counts, different = Counter(), []
    logging.disable(logging.WARNING)  # each part would say how many answers are not in their passages
    for start in range(0, len(examples), CHUNK):
        some = [replace(example, where=f"{path.name}, {example.id}") for example in examples[start : start + CHUNK]]
        different += compare_some(some, task, tokenizer, reference, rng, counts)
    logging.disable(logging.NOTSET)
    for line in different[:SHOWN]:
        print(line)
    print(
        f"{path.name}: {len(examples):,} questions, {counts['windows']:,} windows, {counts['several']:,} questions "
        f"with several, {counts['lost']:,} whose answer cannot be learned from, {counts['candidates']:,} candidates, "
        f"{counts['empty']:,} empty answers: {len(different)} differ ({time.monotonic() - started:.0f} s)"
    )
    return not different


def compare_some(examples, task, tokenizer, reference, rng, counts):
    rows = task.encode(examples, tokenizer)
    outputs = [Output(row, draw(row, rng)) for row in rows]
    predictions = task.decode(outputs, examples, tokenizer)
    mine = [[] for _ in examples]
    for output in outputs:
        mine[output.row.example].append(output)
    different = []
    for example, ours, prediction in zip(examples, mine, predictions, strict=True):
        windows = reference.features(example, task, tokenizer)
        problem = differing_windows(ours, windows, tokenizer)
        if problem is None:
            logits = [[(float(a), float(b)) for a, b in output.logits] for output in ours]
            answer, odds, best = reference.predict(example, windows, logits, task, tokenizer)
            problem = differing_answer(prediction, answer, odds, best)
        if problem is not None:
            different.append(f"{example.where}: {problem}")
        counts["windows"] += len(ours)
        counts["several"] += len(ours) > 1
        counts["lost"] += bool(example.answers) and bool(windows) and windows[0].target is None
        counts["candidates"] += len(prediction.candidates)
        counts["empty"] += not prediction.answer
    return different


def draw(row, rng):
    logits = rng.normal(size=(row.num_tokens, 2))
    if row.example % 2:
        logits = np.round(logits, 1)
    elif row.targets is not None:
        logits[row.targets.astype(int), [0, 1]] += 5
    return logits.astype(np.float32)


def differing_windows(ours, windows, tokenizer):
    """What differs, or None."""
    if len(ours) != len(windows):
        return f"{len(ours)} windows, the reference has {len(windows)}"
    for number, ((row, _), window) in enumerate(zip(ours, windows, strict=True)):
        targets = None if window.target is None else list(window.target)
        if [tokenizer.vocabulary[piece] for piece in row.ids[0]] != window.tokens:
            return f"window {number} has other tokens"
        if (None if row.targets is None else row.targets.tolist()) != targets:
            return f"window {number} has the target {row.targets}, the reference {targets}"
    return None


def differing_answer(prediction, answer, odds, best):
    if prediction.answer != answer:
        return f"the answer is {prediction.answer!r}, the reference's {answer!r}"
    if [(one.text, one.start_logit, one.end_logit) for one in prediction.candidates] != best:
        return "the n-best list differs"
    if odds is not None and abs(prediction.null_odds - odds) > NEAR:
        return f"the odds of no answer are {prediction.null_odds}, the reference's {odds}"
    return None


def tokenizer_of_characters(examples):
    """A vocabulary of every character that the texts have, at the beginning of a word and inside."""
    characters = sorted({character for example in examples for character in (example.text + example.pair).lower()})
    entries = [*characters, *(f"##{character}" for character in characters)]
    return Tokenizer.build([*SPECIAL, *(entry for entry in entries if entry.strip() == entry)], cased=False)


def load_reference():
    spec = importlib.util.spec_from_file_location("squad_reference", REFERENCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
