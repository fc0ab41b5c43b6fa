"""Where words begin, for masking whole words: in Chinese, which has no spaces, a segmenter says so.

A Chinese character begins a word where the segmenter says, any other token unless it goes on a word. For text without
Chinese characters that says no more than the vocabulary does, so nothing needs to be stored.
"""

import re
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bertie.text.rules import CJK
from bertie.text.wordpiece import Tokenizer

Segment = Callable[[str], list[str]]  # a text -> its words, which joined are the text
Ids = NDArray[np.uint16] | NDArray[np.uint32]

CHINESE = "".join(f"{chr(first)}-{chr(last)}" for first, last in CJK)
RUN = re.compile(f"[{CHINESE}]+|[^{CHINESE}]+")


def load_segmenter() -> Segment:
    """Cuts Chinese text into words; ValueError says what to install if the extra is missing."""
    try:
        import rjieba
    except ImportError:
        raise ValueError(
            "Whole words in Chinese need the segmenter rjieba, which is not installed: pip install 'bertie[zh]'."
        ) from None
    cut: Segment = rjieba.cut
    return cut


def encode_words(
    texts: Sequence[str], tokenizer: Tokenizer, segment: Segment
) -> tuple[Ids, NDArray[np.int64], NDArray[np.bool_]]:
    """The ids and starts that `tokenizer.encode_ids` gives, and for each token whether it begins a word.

    ValueError for a tokenizer to which a Chinese character is not a token.
    """
    runs = [RUN.findall(text) for text in texts]
    # Chinese characters stand alone, so cutting the text beside them changes no token.
    ids, run_tokens = tokenizer.encode_ids(list(chain.from_iterable(runs)))
    run_chars = _ends(chain.from_iterable(runs))
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    is_chinese_run = _is_chinese(codes[run_chars[:-1]])
    if (np.diff(run_tokens) != np.diff(run_chars))[is_chinese_run].any():
        raise ValueError(
            "Whole words in Chinese need a vocabulary to which each Chinese character is a token, as BERT's are."
        )
    begins = np.zeros(len(codes) + 1, dtype=np.bool_)
    begins[_ends(chain.from_iterable(map(segment, texts)))] = True
    run_of = np.repeat(np.arange(len(run_tokens) - 1), np.diff(run_tokens))
    chars = run_chars[run_of] + np.arange(len(ids)) - run_tokens[run_of]
    is_chinese = is_chinese_run[run_of]
    begins_word = ~tokenizer.is_continuation[ids]
    begins_word[is_chinese] = begins[chars[is_chinese]]
    text_runs = np.concatenate([[0], np.cumsum([len(one) for one in runs], dtype=np.int64)])
    return ids, run_tokens[text_runs], begins_word


def _ends(parts: "chain[str]") -> NDArray[np.int64]:
    """0, and where each part ends in what they are together."""
    return np.concatenate([[0], np.cumsum(np.fromiter(map(len, parts), np.int64), dtype=np.int64)])


def _is_chinese(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    found = np.zeros(len(codes), dtype=np.bool_)
    for first, last in CJK:
        found |= (first <= codes) & (codes <= last)
    return found
