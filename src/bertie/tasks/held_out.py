"""Examples that are not learned from, where no file of them is given: a seeded share, of each class alike."""

from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from bertie.tasks.task import Example


def hold_out(
    examples: Sequence[Example], share: float, seed: int, keeps_documents: bool = False
) -> tuple[list[Example], list[Example]]:
    """(those to learn from, those held out), in their order.

    What belongs together stays so: the questions about one passage, and with keeps_documents the sentences of one.
    """
    groups: defaultdict[Hashable, list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        groups[_belonging(example, number, keeps_documents)].append(number)
    strata: defaultdict[tuple[str, ...], list[list[int]]] = defaultdict(list)
    for group in groups.values():
        strata[_labels(examples[group[0]])].append(group)
    rng = np.random.default_rng(seed)
    held: set[int] = set()
    for _, inside in sorted(strata.items()) if len(strata) < len(groups) / 2 else [((), list(groups.values()))]:
        count = max(1, round(share * len(inside))) if len(inside) > 1 else 0
        held |= {number for chosen in rng.permutation(len(inside))[:count] for number in inside[chosen]}
    if not held:
        raise ValueError(f"{examples[0].where}: there is too little to hold a part of it out: name one with --dev.")
    kept = [example for number, example in enumerate(examples) if number not in held]
    return kept, [examples[number] for number in sorted(held)]


def _labels(example: Example) -> tuple[str, ...]:
    """The class, or all of several; tags are none."""
    if example.label is not None:
        return (example.label,)
    return () if example.words else tuple(sorted(example.labels or ()))


def _belonging(example: Example, number: int, keeps_documents: bool) -> Hashable:
    if example.answers is not None:
        return example.text
    return ("document", example.document) if keeps_documents else number
