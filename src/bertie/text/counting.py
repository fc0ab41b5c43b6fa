"""How often each word occurs, in memory that has a bound whatever the text."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from bertie.text.documents import BLOCK, Block, Tally, TextConfig, blocks, documents
from bertie.text.rules import LONGEST_WORD, Rules
from bertie.text.sources import Source
from bertie.text.workers import in_order

MOST_WORDS = 2_000_000  # in the table; some 150 bytes each
HELD_OUT_EVERY = 100  # about one document in so many
MOST_HELD_OUT = 4_000_000  # characters
LEARNED_SAMPLE = 100_000  # characters of a block


@dataclass(frozen=True)
class BlockCounts:
    """What one block gave: its words, the documents held out, a sample of the others, how far the sources are read."""

    words: Counter[str]
    held_out: list[str]
    learned: list[str]
    tally: Tally
    done: int


@dataclass
class WordCounts:
    """The words of a text and how often they occur; rare words of a text with very many may be missing."""

    most_words: int
    words: dict[str, int] = field(default_factory=dict)
    num_forgotten: int = 0
    held_out: list[str] = field(default_factory=list)
    learned: list[str] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    @property
    def sample(self) -> tuple[list[str], bool]:
        """Text to measure on, and whether it was held out: where no document was, it is some that was learned from."""
        return (self.held_out, True) if self.held_out else (self.learned, False)

    def add(self, block: BlockCounts) -> None:
        """Take in a block's words. The same blocks in the same order always leave the same table."""
        words = self.words
        for word, number in block.words.items():
            words[word] = words.get(word, 0) + number
        self.tally.add(block.tally)
        self.held_out = _first_characters([*self.held_out, *block.held_out], MOST_HELD_OUT)
        self.learned = _first_characters([*self.learned, *block.learned], MOST_HELD_OUT)
        if len(words) > self.most_words:
            self._forget()

    def _forget(self) -> None:
        """Forget the rarest words, at least half of all."""
        numbers = sorted(self.words.values())
        rarest = numbers[len(numbers) - self.most_words // 2]
        kept = {word: number for word, number in self.words.items() if number > rarest}
        self.num_forgotten += len(self.words) - len(kept)
        self.words = kept


class BlockCounter:
    """Counts the words of some blocks; a process keeps one, with the spellings it has looked up."""

    def __init__(self, cased: bool) -> None:
        self.rules = Rules(lowercase=not cased)

    def __call__(self, some: Sequence[Block]) -> BlockCounts:
        learned: list[str] = []
        held_out: list[str] = []
        tally = Tally()
        for block in some:
            texts, one = documents(block)
            tally.add(one)
            for text in texts:
                (learned if crc32(text.encode()) % HELD_OUT_EVERY else held_out).append(text)
        sample = _first_characters(learned, LEARNED_SAMPLE)
        return BlockCounts(count_words(learned, self.rules), held_out, sample, tally, some[-1].done)


def _first_characters(texts: Iterable[str], most: int) -> list[str]:
    """The first texts, the last of them cut, up to so many characters."""
    first = []
    for text in texts:
        if most <= 0:
            break
        first.append(text[:most])
        most -= len(text)
    return first


def count_words(texts: Iterable[str], rules: Rules) -> Counter[str]:
    """How often each word occurs in the texts.

    What stands between spaces is counted as it is and goes through the rules once, all that is equally frequent at a
    time: a tenth of the time of the rules on the whole text.
    """
    chunks = Counter[str]()
    for text in texts:
        chunks.update(text.split())
    groups: dict[tuple[int, bool], list[str]] = {}  # by the number, and as the rules are faster with ASCII alone
    for chunk, number in chunks.items():
        groups.setdefault((number, chunk.isascii()), []).append(chunk)
    words = Counter[str]()
    for (number, _), group in groups.items():
        for word, times in Counter(rules.words(" ".join(group))).items():
            if len(word) <= LONGEST_WORD:
                words[word] += number * times
    return words


def count_sources(
    sources: Sequence[Source], config: TextConfig, cased: bool, workers: int, report: Callable[[int, int], None]
) -> WordCounts:
    """The words of all sources, the same for any number of workers."""
    counts = WordCounts(MOST_WORDS)
    counter = BlockCounter(cased)
    size = sum(source.size for source in sources)
    for block in in_order(counter, _some_at_a_time(blocks(sources, config)), workers):
        counts.add(block)
        report(block.done, size)
    if counts.tally.documents < HELD_OUT_EVERY:  # too few to spare one
        spared = counts.held_out
        counts.held_out = []
        counts.add(BlockCounts(count_words(spared, counter.rules), [], spared, Tally(), size))
    return counts


def _some_at_a_time(several: Iterable[Block]) -> Iterator[list[Block]]:
    """The blocks of small files together, as words that are counted together need less adding up."""
    some: list[Block] = []
    size = 0
    for block in several:
        some.append(block)
        size += block.size
        if size >= BLOCK:
            yield some
            some, size = [], 0
    if some:
        yield some
