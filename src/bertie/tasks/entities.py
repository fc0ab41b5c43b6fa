"""Entities in a row of tags, and their F1, equal to what conlleval.pl counts, for tags that break the rules too."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

OUTSIDE = "O"
# Prefixes of two neighbouring tags of one type between which an entity ends and the next begins. What is not here goes
# on, as in conlleval: E followed by B of the same type is one entity. S, which it does not know, stands alone.
PARTED = {("B", "B"), ("I", "B"), ("E", "E"), ("E", "I"), ("S", "S"), ("S", "B"), ("S", "I"), ("S", "E")}
PARTED |= {("B", "S"), ("I", "S"), ("E", "S")}


class Entity(NamedTuple):
    """Words start to end (the first that is no longer in it), of a type."""

    start: int
    end: int
    type: str


def find_entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, tagged in any of IOB1, IOB2, IOBES, rightly or not: a change of type is a border,
    and an entity may begin with I."""
    found: list[Entity] = []
    start, before = 0, ("", "")
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, hyphen, kind = tag.partition("-")
        now = (prefix, kind) if hyphen else ("", "")  # O, or what marks no entity
        is_border = now[0] == "" or before[0] == "" or now[1] != before[1] or (before[0], now[0]) in PARTED
        if is_border and before[0]:
            found.append(Entity(start, place, before[1]))
        if is_border:
            start = place
        before = now
    return found


def has_entities(labels: Sequence[str]) -> bool:
    """Whether the tags mark entities, as B-PER does, and are not just classes of words."""
    return any(label[:2] in ("B-", "I-", "E-", "S-") for label in labels)


def entity_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of whole entities, and accuracy of tags, over all sentences."""
    _, precision, recall, f1 = entity_table(gold, predicted)[-1]
    return {"f1": f1, "precision": precision, "recall": recall, "accuracy": tag_accuracy(gold, predicted)}


def entity_table(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> list[tuple[str, float, float, float]]:
    """(type, precision, recall, F1) of each type, by the alphabet, and last of all of them as "all"."""
    _check(gold, predicted)
    right: Counter[str] = Counter()
    given: Counter[str] = Counter()
    wanted: Counter[str] = Counter()
    for true, called in zip(gold, predicted, strict=True):
        these, those = set(find_entities(true)), set(find_entities(called))
        for counter, entities in ((wanted, these), (given, those), (right, these & those)):
            counter.update(entity.type for entity in entities)
            counter["all"] += len(entities)
    types = [*sorted((set(wanted) | set(given)) - {"all"}), "all"]
    return [
        (
            one,
            _share(right[one], given[one]),
            _share(right[one], wanted[one]),
            _share(2 * right[one], given[one] + wanted[one]),
        )
        for one in types
    ]


def tag_accuracy(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """The share of words whose tag is right."""
    _check(gold, predicted)
    pairs = [pair for sides in zip(gold, predicted, strict=True) for pair in zip(*sides, strict=True)]
    return _share(sum(true == called for true, called in pairs), len(pairs))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _check(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    lengths = [list(map(len, side)) for side in (gold, predicted)]
    if lengths[0] != lengths[1]:
        raise ValueError("the sentences of the predictions have not as many words as those of the truth.")
