"""Texts -> what the model reads: framed by special tokens, cut to a length, or shown through several windows."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertie.tasks.task import Ints
from bertie.text.encoding import Encoding
from bertie.text.wordpiece import Tokenizer


class Framed(NamedTuple):
    """A sequence with its special tokens. sources: for each token which part it is from and its number in that, -1
    for special tokens; num_cut: tokens that had no room."""

    ids: Ints
    segments: Ints
    sources: Ints
    num_cut: int


def frame(tokenizer: Tokenizer, parts: Sequence[Sequence[int]], max_length: int | None = None) -> Framed:
    """One or two parts of tokens as one sequence, cut from the longer one's end to the length."""
    encodings = [
        Encoding(list(ids), [0] * len(ids), [(part, number) for number in range(len(ids))], [None] * len(ids))
        for part, ids in enumerate(parts)
    ]
    whole = tokenizer.frame(encodings, max_length)
    sources = [(-1, -1) if source is None else source for source in whole.offsets]
    return Framed(np.array(whole.ids), np.array(whole.segments), np.array(sources), whole.truncated)


def token_lists(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[list[int]]:
    """Each text's tokens, without special tokens."""
    ids, starts = tokenizer.encode_ids(texts)
    ends = starts.tolist()
    for start, end in pairwise(ends):
        yield ids[start:end].tolist()


class Window(NamedTuple):
    """Tokens start to end, the last excluded."""

    start: int
    end: int


def cut_windows(num_tokens: int, room: int, stride: int) -> list[Window]:
    """Windows of at most `room` tokens, each `stride` after the one before, up to the first that reaches the end."""
    windows = []
    start = 0
    while start < num_tokens:
        end = min(start + room, num_tokens)
        windows.append(Window(start, end))
        if end == num_tokens:
            break
        start += min(end - start, stride)
    return windows


def best_window(windows: Sequence[Window], num_tokens: int) -> NDArray[np.int64]:
    """For each token the window that shows most on its poorer side, a longer window preferred by a hundredth of a token
    for each of its own, and then the first."""
    best = np.zeros(num_tokens, np.int64)
    most = np.full(num_tokens, -np.inf)
    for number, (start, end) in enumerate(windows):
        inside = np.arange(end - start)
        shown = np.minimum(inside, inside[::-1]) + 0.01 * (end - start)
        is_better = shown > most[start:end]
        best[start:end][is_better] = number
        most[start:end][is_better] = shown[is_better]
    return best
