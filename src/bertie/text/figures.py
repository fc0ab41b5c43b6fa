"""How well a vocabulary cuts a text: tokens for a word, words it cannot spell, pieces that the text never needs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bertie.text.wordpiece import Tokenizer

SPECIAL = re.compile(r"\[[A-Za-z]+\d*\]|<.*>")
NUM_EXAMPLES = 5
SHORTEST_EXAMPLE, LONGEST_EXAMPLE = 40, 160  # characters


@dataclass(frozen=True)
class Figures:
    """What a vocabulary makes of a text; rates are fractions.

    A word is what the tokenizer's rules take for one: punctuation marks and Chinese characters are words of their own.
    unknown_rate: of the words. continuation_share: of the tokens. characters_per_token: white space is not counted.
    never_used: entries other than special ones that the text does not need.
    """

    entries: int
    tokens_per_word: float
    unknown_rate: float
    characters_per_token: float
    continuation_share: float
    never_used: int


@dataclass(frozen=True)
class Example:
    """A line of the text and its pieces, with the vocabulary and with the one compared."""

    text: str
    pieces: str
    compared: str | None


def measure(tokenizer: Tokenizer, texts: Sequence[str]) -> Figures:
    """The figures of the tokenizer's vocabulary on the texts."""
    ids, _ = tokenizer.encode_ids(texts)
    usage = np.bincount(ids, minlength=tokenizer.size)
    num_tokens = max(len(ids), 1)
    num_going_on = int(usage[tokenizer.is_continuation].sum())
    num_words = max(num_tokens - num_going_on, 1)
    is_special = np.array([SPECIAL.fullmatch(piece) is not None for piece in tokenizer.vocabulary])
    return Figures(
        entries=tokenizer.size,
        tokens_per_word=num_tokens / num_words,
        unknown_rate=int(usage[tokenizer.unk_id]) / num_words,
        characters_per_token=sum(len(part) for text in texts for part in text.split()) / num_tokens,
        continuation_share=num_going_on / num_tokens,
        never_used=int(((usage == 0) & ~is_special).sum()),
    )


def find_examples(texts: Sequence[str], tokenizer: Tokenizer, other: Tokenizer | None) -> list[Example]:
    """Lines of the texts, at most one of each, with their pieces."""
    fitting = (
        next((line for line in text.split("\n") if SHORTEST_EXAMPLE <= len(line) <= LONGEST_EXAMPLE), None)
        for text in texts
    )
    return [
        Example(line, " ".join(tokenizer.tokenize(line)), None if other is None else " ".join(other.tokenize(line)))
        for line in islice(filter(None, fitting), NUM_EXAMPLES)
    ]
