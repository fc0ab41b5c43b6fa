import numpy as np
import pytest

from bertie.text.figures import Example, find_examples, measure
from bertie.text.wordpiece import Tokenizer

ENTRIES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[unused0]",
    "un",
    "##want",
    "##ed",
    "the",
    ",",
    "<never>",
    "cat",
]


@pytest.fixture
def tokenizer():
    return Tokenizer.build(ENTRIES, cased=False)


def test_the_figures_of_a_text_counted_by_hand(tokenizer):
    # un ##want ##ed, the | un [UNK] the the
    figures = measure(tokenizer, ["Unwanted, the", "un dog  the\tthe"])
    assert figures.entries == 13
    assert figures.tokens_per_word == 9 / 7
    assert figures.unknown_rate == 1 / 7
    assert figures.characters_per_token == (9 + 3 + 2 + 3 + 3 + 3) / 9
    assert figures.continuation_share == 2 / 9
    assert figures.never_used == 1, "cat; special entries have no use in a text"


def test_the_figures_of_no_text(tokenizer):
    figures = measure(tokenizer, [])
    assert (figures.unknown_rate, figures.continuation_share, figures.characters_per_token) == (0, 0, 0)
    assert np.isfinite(figures.tokens_per_word)
    assert measure(tokenizer, [" ", ""]) == figures


def test_examples_are_lines_of_middle_length_from_different_texts(tokenizer):
    fitting = "the unwanted, the unwanted, the unwanted the"
    texts = ["short\nx", f"x\n{fitting}\n{fitting}", "the " * 100, *[fitting] * 9]
    examples = find_examples(texts, tokenizer, None)
    pieces = "the un ##want ##ed , the un ##want ##ed , the un ##want ##ed the"
    assert examples == [Example(fitting, pieces, None)] * 5
    other = Tokenizer.build(["[UNK]", "the"], cased=False)
    assert find_examples(texts, tokenizer, other)[0].compared.startswith("the [UNK] [UNK] the [UNK]")
