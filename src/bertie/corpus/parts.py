"""Which part and which shard each document goes to: its own text decides, whatever stands around it."""

from contextlib import ExitStack
from pathlib import Path

import numpy as np

from bertie.corpus.duplicates import Numbers
from bertie.corpus.shards import PARTS, Documents, Part, ShardEntry, ShardWriter

# Shards are filled side by side, each document going to one at random, so that each is a fair sample of the corpus and
# training can work through one after the other.
TEXT_PER_SHARD = 1 << 28  # bytes
MOST_SIDE_BY_SIDE = 128  # each has up to four files open
LARGEST_SHARD = 1 << 27  # tokens; the size of compressed text or of a pipe does not tell how many will come


class Parts:
    """The shards of a folder, which documents are dealt out to.

    If any are to be held back, at least one is, as long as there are two: until there is one that is, the one that
    comes closest waits in memory.
    """

    def __init__(self, folder: Path, dtype: str, has_words: bool, validation: float, num_bytes: int) -> None:
        self._folder, self._dtype, self._has_words = folder, dtype, has_words
        self._end_of_validation = int(validation * 2**64)
        self._num_side_by_side = min(1 + num_bytes // TEXT_PER_SHARD, MOST_SIDE_BY_SIDE)
        self._open: dict[tuple[Part, int], ShardWriter] = {}
        self._num_begun = dict.fromkeys(PARTS, 0)
        self._entries: list[ShardEntry] = []
        self._waiting: tuple[Documents, Numbers] | None = None
        self.counts: dict[str, dict[str, int]] = {part: {"documents": 0, "sentences": 0, "tokens": 0} for part in PARTS}

    def add(self, documents: Documents, digests: Numbers) -> None:
        """Deal out the documents."""
        is_held_back = digests < self._end_of_validation
        is_waiting = np.zeros(len(documents), np.bool_)
        if self._end_of_validation and not self.counts["validation"]["documents"] and len(documents):
            closest = int(np.argmin(digests))
            if self._waiting is None or digests[closest] < self._waiting[1]:
                self._release("train")
                is_waiting[closest] = not is_held_back[closest]
            if is_waiting[closest]:
                self._waiting = documents.select(is_waiting), digests[is_waiting]
        self._deal("validation", documents.select(is_held_back), digests[is_held_back])
        is_left = ~(is_held_back | is_waiting)
        self._deal("train", documents.select(is_left), digests[is_left])

    def finish(self) -> list[ShardEntry]:
        """Close all shards; none where there was no document."""
        self._release("validation" if self.counts["train"]["documents"] else "train")
        for key in list(self._open):
            self._end(key)
        return sorted(self._entries, key=lambda entry: entry.name)

    def close(self) -> None:
        with ExitStack() as stack:  # one that fails, on a full disk, keeps no other from being closed
            for writer in self._open.values():
                stack.callback(writer.close)

    def _release(self, part: Part) -> None:
        if self._waiting is not None:
            self._deal(part, *self._waiting)
            self._waiting = None

    def _deal(self, part: Part, documents: Documents, digests: Numbers) -> None:
        number = self._num_side_by_side if part == "train" else 1
        places = digests % number
        for place in np.unique(places).tolist():
            self._write((part, place), documents.select(places == place))

    def _write(self, key: tuple[Part, int], documents: Documents) -> None:
        part = key[0]
        if key not in self._open:
            name = f"{part}-{self._num_begun[part]:05}"
            self._num_begun[part] += 1
            self._open[key] = ShardWriter(self._folder, name, self._dtype, self._has_words)
        writer = self._open[key]
        writer.add(documents)
        sizes = {
            "documents": len(documents),
            "sentences": len(documents.sentence_lengths),
            "tokens": len(documents.tokens),
        }
        for unit, size in sizes.items():
            self.counts[part][unit] += size
        if writer.num_tokens >= LARGEST_SHARD:
            self._end(key)

    def _end(self, key: tuple[Part, int]) -> None:
        writer = self._open.pop(key)
        self._entries.append(ShardEntry(writer.name, key[0], writer.finish()))
