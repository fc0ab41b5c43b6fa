"""Learn a WordPiece vocabulary from text, and say how well it cuts text that it has not seen."""

import logging
import os
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from bertie.config import to_values
from bertie.sealed import replacing_folder, seal
from bertie.text.counting import WordCounts, count_sources
from bertie.text.documents import Tally, TextConfig
from bertie.text.figures import Example, Figures, find_examples, measure
from bertie.text.folder import BERT_ROLES
from bertie.text.pieces import CONTINUATION, by_number, choose_pieces
from bertie.text.sources import find
from bertie.text.wordpiece import Tokenizer

logger = logging.getLogger(__name__)

CARD = "card.json"
SPECIAL = [BERT_ROLES[role] for role in ("pad", "unk", "cls", "sep", "mask")]
# The share of all characters that the alphabet spells. Chinese has thousands of characters that occur in a name or
# two; in other scripts what is rarer than one in 100,000 is mostly quoted from another language.
COVERAGE = {"en": 0.99999, "zh": 0.9995}
WORDS_PER_PIECE = 10  # so many of the most frequent words are learned from; more say nothing about frequent pieces

Report = Callable[[int, int], None]
Progress = Callable[[str, str], AbstractContextManager[Report]]


@dataclass(frozen=True)
class VocabularyConfig:
    """What vocabulary to learn.

    size: entries, special ones included. unused: so many `[unusedN]` entries after [PAD]; 99 gives the others the ids
    that Google's have. coverage: the share of characters that can be spelled; by the language when not said.
    """

    size: int
    cased: bool = False
    language: str = "en"
    unused: int = 0
    coverage: float | None = None
    text: TextConfig = field(default_factory=TextConfig)

    def __post_init__(self) -> None:
        if self.language not in COVERAGE:
            raise ValueError(f"language={self.language!r} is not known; allowed: {', '.join(COVERAGE)}.")
        if self.coverage is not None and not 0 < self.coverage <= 1:
            raise ValueError(f"coverage={self.coverage} is no share of the characters: give more than 0, at most 1.")
        if self.unused < 0:
            raise ValueError(f"unused={self.unused}: give 0 or more entries.")
        if self.size <= self.num_special:
            raise ValueError(
                f"size={self.size} leaves no room beside {self.num_special} special entries: BERT's size is 30522."
            )

    @property
    def num_special(self) -> int:
        return len(SPECIAL) + self.unused


@dataclass(frozen=True)
class Card:
    """What was learned from what, how well it does on held-out text, and how another vocabulary does there.

    num_words: different ones; num_forgotten: how many rare ones were forgotten to keep memory within its bound.
    is_held_out: False where the text had too few documents to spare any, so that the figures are of the text itself.
    """

    config: VocabularyConfig
    tally: Tally
    num_words: int
    num_forgotten: int
    is_held_out: bool
    figures: Figures
    compared: Figures | None
    examples: list[Example]

    def rows(self) -> list[list[str]]:
        """The figures as a table: what, of the new vocabulary, of the compared one if there is one."""
        columns = [self.figures] if self.compared is None else [self.figures, self.compared]
        return [[label, *(show(column) for column in columns)] for label, show in ROWS]

    def to_values(self) -> dict[str, object]:
        """The card as plain values."""
        return {
            "config": to_values(self.config),
            "read": {
                "documents": self.tally.documents,
                "characters": self.tally.characters,
                "words": self.num_words,
                "forgotten_words": self.num_forgotten,
                "dropped_or_mended": dict(sorted(self.tally.counts.items())),
                "bytes_not_utf8": dict(sorted(self.tally.not_utf8.items())),
            },
            "measured_on": "held-out documents" if self.is_held_out else "the text itself",
            "figures": asdict(self.figures),
            "compared": None if self.compared is None else asdict(self.compared),
            "examples": [asdict(example) for example in self.examples],
        }


ROWS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("entries", lambda figures: f"{figures.entries:,}"),
    ("tokens per word", lambda figures: f"{figures.tokens_per_word:.4f}"),
    ("unknown words", lambda figures: f"{figures.unknown_rate:.4%}"),
    ("characters per token", lambda figures: f"{figures.characters_per_token:.3f}"),
    ("continuation pieces", lambda figures: f"{figures.continuation_share:.2%}"),
    ("entries never used", lambda figures: f"{figures.never_used:,}"),
)


def _silent(label: str, unit: str) -> AbstractContextManager[Report]:
    return nullcontext(lambda done, total: None)


def learn_vocabulary(
    config: VocabularyConfig,
    inputs: Sequence[str | Path],
    out: Path,
    progress: Progress = _silent,
    workers: int = 1,
    compare: Path | None = None,
) -> Card:
    """The card of a vocabulary learned from files, folders, globs and `-`, which is then in the new folder `out`.

    The same text gives the same bytes for any number of workers. `progress` opens a stage by its name and unit and
    gives a function of (done, total). compare: another vocabulary to put beside it.
    """
    _require_new(out)
    other = None if compare is None else Tokenizer.load(compare)
    with progress("counting words", "bytes") as report:
        counts = count_sources(find(inputs), config.text, config.cased, workers, report)
    _require_words(counts)
    _warn_of_dropped(counts.tally)
    with progress("choosing pieces", "pieces") as report:
        vocabulary = learn(counts.words, config, report)
    tokenizer = Tokenizer.build(vocabulary, config.cased)
    texts, is_held_out = counts.sample
    card = Card(
        config,
        counts.tally,
        len(counts.words),
        counts.num_forgotten,
        is_held_out,
        measure(tokenizer, texts),
        None if other is None else measure(other, texts),
        find_examples(texts, tokenizer, other),
    )
    with replacing_folder(out) as folder:
        tokenizer.save(folder)
        seal(folder, CARD, card.to_values())
    return card


def learn(words: Mapping[str, int], config: VocabularyConfig, report: Report) -> list[str]:
    """The vocabulary for words that occur so often: special entries, the alphabet, then pieces, the most used first."""
    alphabet = choose_alphabet(words, config)
    spelled = {word: number for word, number in words.items() if alphabet.issuperset(word)}
    needed = sorted(
        {word[0] for word in spelled}
        | {CONTINUATION + char for word in spelled for char in word[1:]}
        | set(_ascii(config.cased))
        | {CONTINUATION + char for char in _ascii(config.cased) if char.isalnum()}
    )
    minimum = config.num_special + len(needed)
    if config.size < minimum:
        raise ValueError(
            f"size={config.size} is too small: the {config.num_special} special entries and what spells the text's "
            f"alphabet of {len(alphabet):,} characters take {minimum:,}. Give that, or in Python less coverage."
        )
    frequent = by_number(spelled)[: WORDS_PER_PIECE * config.size]
    counts = np.array([spelled[word] for word in frequent], dtype=np.int64)
    pieces = choose_pieces(frequent, counts, needed, config.size - config.num_special, report)
    if len(pieces) + config.num_special < config.size:
        logger.warning("The text has only %s pieces that occur twice, fewer than asked for.", f"{len(pieces):,}")
    unused = [f"[unused{number}]" for number in range(config.unused)]
    return [SPECIAL[0], *unused, *SPECIAL[1:], *pieces]


def choose_alphabet(words: Mapping[str, int], config: VocabularyConfig) -> set[str]:
    """The most frequent characters, up to the coverage, and ASCII's, which any text may have."""
    numbers = Counter[str]()
    for word, number in words.items():
        for char in word:
            numbers[char] += number
    coverage = COVERAGE[config.language] if config.coverage is None else config.coverage
    alphabet, num_left = set(_ascii(config.cased)), numbers.total() * (1 - coverage)
    for char, number in sorted(numbers.items(), key=lambda item: (item[1], item[0])):
        num_left -= number
        if num_left < 0:
            alphabet.add(char)
    return alphabet


def _ascii(cased: bool) -> str:
    letters = string.ascii_letters if cased else string.ascii_lowercase
    return letters + string.digits + string.punctuation


def _require_new(out: Path) -> None:
    """Refuse before the work what could not be written after it."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"{out} exists: give --out another name, or remove it first.")
    parent = next(parent for parent in out.absolute().parents if parent.exists())
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise ValueError(f"{out} cannot be made, as {parent} is not a folder that can be written to.")


def _warn_of_dropped(tally: Tally) -> None:
    if tally.not_utf8:
        name, number = tally.not_utf8.most_common(1)[0]
        others = len(tally.not_utf8) - 1
        logger.warning(
            "%s: what is not UTF-8 was dropped, %s%s; convert a file in another encoding first.",
            *(name, _several(number, "byte"), f", and some in {_several(others, 'other file')}" if others else ""),
        )


def _several(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _require_words(counts: WordCounts) -> None:
    if not counts.words:
        found = ", ".join(f"{number:,} {what}" for what, number in sorted(counts.tally.counts.items()) if number)
        raise ValueError(f"The text has no words{f' ({found})' if found else ''}: give text to learn from.")
