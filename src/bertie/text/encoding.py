"""What a tokenizer gives for a text, how special tokens frame it, and how it is cut to a length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Encoding:
    """Parallel lists, one entry a token.

    offsets: the characters of its own text a token came from, `text[start:end]`; None for special tokens.
    words: which word of its own text the token is a piece of, counted from 0; None for special tokens. A word is what
    WordPiece is applied to: a run of letters and digits, one punctuation mark, one Chinese character.
    truncated: how many tokens were cut off, over both texts.
    """

    ids: list[int]
    segments: list[int]
    offsets: list[tuple[int, int] | None]
    words: list[int | None]
    truncated: int = 0

    def __len__(self) -> int:
        return len(self.ids)

    def part(self, start: int, end: int) -> "Encoding":
        """The tokens from start to end, and no record of the others: for windows over a long text."""
        return Encoding(self.ids[start:end], self.segments[start:end], self.offsets[start:end], self.words[start:end])


class Slot(NamedTuple):
    """One place of a frame: a special token, or all tokens of the first (0) or second (1) text."""

    segment: int
    special_id: int | None = None
    text: int = -1


Frame = tuple[Slot, ...]


def framed(frame: Frame, texts: Sequence[Encoding], truncated: int) -> Encoding:
    """The texts' tokens and the frame's special tokens in the frame's order."""
    whole = Encoding([], [], [], [], truncated)
    for slot in frame:
        if slot.special_id is not None:
            whole.ids.append(slot.special_id)
            whole.segments.append(slot.segment)
            whole.offsets.append(None)
            whole.words.append(None)
        else:
            inner = texts[slot.text]
            whole.ids.extend(inner.ids)
            whole.segments.extend([slot.segment] * len(inner))
            whole.offsets.extend(inner.offsets)
            whole.words.extend(inner.words)
    return whole


def share_google(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each text stay: the longer one (if equal, the second) loses its last until both fit."""
    excess = max(0, first + second - room)
    from_longer = min(excess, abs(first - second))
    if first > second:
        first -= from_longer
    else:
        second -= from_longer
    rest = excess - from_longer  # equal by now: the second, the first, the second ...
    return first - rest // 2, second - (rest + 1) // 2


def share_huggingface(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of each text stay: as above, but what is left over from an odd room goes to the longer text."""
    if first + second <= room:
        return first, second
    shorter = min(first, second, room // 2)
    longer = room - shorter
    return (longer, shorter) if first > second else (shorter, longer)


SHARES: dict[str, Callable[[int, int, int], tuple[int, int]]] = {
    "google": share_google,
    "huggingface": share_huggingface,
}
