"""Ids for whole corpora: what stands between two spaces is cut once and looked up ever after."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator

LONGEST_KEY = 64  # characters; what is longer hardly comes again
MOST_KEYS = 1 << 19
BLOCK = 1 << 20  # characters of a text that are split at a time
SPACE = re.compile("[ \n]")


class Lookup(dict[str, bytes]):
    """A table that makes the value of a missing key, and forgets everything when it holds MOST_KEYS."""

    def __init__(self, make: Callable[[str], bytes]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> bytes:
        value = self._make(key)
        if len(key) <= LONGEST_KEY:
            if len(self) >= MOST_KEYS:
                self.clear()
            self[key] = value
        return value


class Packer:
    """Texts to packed ids, through a table of chunks (what stands between spaces) and one of words.

    Google's rules never look across a space, so a chunk has the same ids wherever it stands.
    """

    def __init__(
        self, words: Callable[[str], Iterable[str]], ids: Callable[[str], Iterable[int]], typecode: str
    ) -> None:
        self.words = Lookup(lambda word: array(typecode, ids(word)).tobytes())
        word = self.words.__getitem__
        self.chunks = Lookup(lambda chunk: b"".join(map(word, words(chunk))))

    def pack(self, text: str) -> bytes:
        """The ids of the text's tokens, no special tokens, as the bytes of an array."""
        chunk = self.chunks.__getitem__
        if len(text) <= BLOCK:
            return b"".join(map(chunk, text.split(" ")))
        return b"".join([b"".join(map(chunk, block.split(" "))) for block in _blocks(text)])


def _blocks(text: str) -> Iterator[str]:
    """The text in parts of about BLOCK characters, cut at spaces, so that few chunks are in memory at a time."""
    start = 0
    while start < len(text):
        space = SPACE.search(text, start + BLOCK)
        end = space.start() if space else len(text)
        yield text[start:end]
        start = end + 1
