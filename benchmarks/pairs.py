r"""Whether sentence pairs are learned from real text: do next sentence and sentence order both rise above chance?

Trains `tiny-cpu` once for each, with masked words, or what --set makes of it, and compares the share of held-back pairs
that it gets right with the share of the commoner label, which is all there is to be had without reading. Exit code 1
unless it is above by more than 4.5 standard errors (1 in 300,000 by chance). It takes some hundred thousand pairs,
which is work for a GPU.

    python benchmarks/pairs.py CORPUS OUT --steps 3000 \
        --set device=cuda precision=bf16 preset=small batch=256 lr=4e-4 warmup=0.05
"""

import argparse
import math
import sys
from pathlib import Path

from bertie.corpus.shards import open_corpus
from bertie.pretraining.drawing import validation_batches
from bertie.pretraining.objective import NO_PAIR
from bertie.pretraining.recipe import Recipe, change, read_recipe, with_budget
from bertie.pretraining.run import Order, pretrain
from bertie.text.wordpiece import Tokenizer
from bertie.training.loop import Budget
from bertie.training.run_folder import read_card

KINDS = ("next_sentence", "sentence_order")
SETTINGS = ("dropout=0", "lr=2e-3", "max_length=64", "validation_sequences=4000", "evaluate_every=0", "threads=1")
STANDARD_ERRORS = 4.5


def labels_of(corpus_folder: Path, recipe: Recipe) -> list[int]:
    """Of the held-back pairs, whether B follows A (0) or not (1)."""
    batches = validation_batches(open_corpus(corpus_folder).validation, Tokenizer.load(corpus_folder), recipe)
    labels = [label for drawn in batches if drawn.batch.pair_S is not None for label in drawn.batch.pair_S.tolist()]
    return [label for label in labels if label != NO_PAIR]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--set", nargs="*", default=[], help="key=value, as for bertie pretrain")
    arguments = parser.parse_args()
    have_failed = False
    for kind in KINDS:
        settings = [*SETTINGS, f"pairs.kind={kind}", *arguments.set]
        recipe = with_budget(change(read_recipe("tiny-cpu"), settings), Budget(arguments.steps))
        labels, out = labels_of(arguments.corpus, recipe), arguments.out / kind
        chance = max(labels.count(0), labels.count(1)) / len(labels)
        pretrain(Order(recipe, arguments.corpus, out, resumes=out.exists()), lambda event, share: None)
        right = read_card(out)["validation_pair_accuracy"]
        assert isinstance(right, float)
        errors = (right - chance) / math.sqrt(chance * (1 - chance) / len(labels))
        have_failed |= errors < STANDARD_ERRORS
        print(f"{kind}: {right:.1%} of {len(labels):,} held-back pairs right, {errors:.1f} errors above {chance:.1%}")
    return int(have_failed)


if __name__ == "__main__":
    sys.exit(main())
