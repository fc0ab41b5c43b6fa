import random
import unicodedata

import pytest

from bertie.text.rules import Rules, is_cjk, is_dropped, is_punctuation, is_space


def test_examples_of_google():
    assert Rules(lowercase=True).words(" \tHeLLo!how  \n Are yoU?  ") == ["hello", "!", "how", "are", "you", "?"]
    assert Rules(lowercase=True).words("H\u00e9llo") == ["hello"]
    assert Rules(lowercase=False).words(" \tHeLLo!how  \n Are yoU?  ") == ["HeLLo", "!", "how", "Are", "yoU", "?"]
    assert Rules(lowercase=True).words("ah\u535a\u63a8zz") == ["ah", "\u535a", "\u63a8", "zz"]


def test_a_cased_vocabulary_leaves_letters_as_they_are():
    assert Rules(lowercase=False).words("Ünï e\u0301 ΣΑΣ \ufb01 한") == ["Ünï", "e\u0301", "ΣΑΣ", "\ufb01", "한"]


def test_kinds_of_characters_of_google():
    assert is_space(" ") and is_space("\t") and is_space("\r") and is_space("\n") and is_space("\u00a0")
    assert not is_space("A") and not is_space("-")
    assert is_dropped("\u0005") and is_dropped("\0") and is_dropped("\ufffd") and is_dropped("\u200d")
    assert not any(map(is_dropped, ["A", " ", "\t", "\r", "\U0001f4a9", "\ue000", "\u0378"]))
    assert all(map(is_punctuation, "-$`.")) and not is_punctuation("A") and not is_punctuation(" ")
    assert not any(map(is_punctuation, "€©°+".replace("+", "±")))
    assert is_cjk("\u4e00") and is_cjk("\U0002b820") and is_cjk("\U0002ceaf")
    assert not any(map(is_cjk, "\u3042\u30ab\uac00\U0002ceb0\u9fff".replace("\u9fff", "\u4dc0")))


@pytest.mark.parametrize("lowercase", [True, False])
def test_every_assigned_code_point(reference, generated, lowercase):
    """Alone, inside a word, and inside capitals; a space ends a word for both sides, so many words go into one text."""
    rules = Rules(lowercase)
    characters = generated.characters()
    for form in ("{0} ab{0}cd", "AB{0}CD"):
        for start in range(0, len(characters), 500):
            text = " ".join([form.format(char) for char in characters[start : start + 500]])
            assert rules.words(text) == reference.words(text, lowercase), f"{form}, from {characters[start]!r} on"


@pytest.mark.parametrize("lowercase", [True, False])
def test_aligned_text_is_the_words(generated, lowercase):
    rules = Rules(lowercase)
    for text in generated.texts(random.Random(11), 5000):
        spelled, origins = rules.align(text)
        assert spelled.split() == rules.words(text)
        assert len(spelled) == len(origins)
        for char, at in zip(spelled, origins, strict=True):
            assert char in rules.spell(text[at]) or text[at] == "Σ" or char == "ς"


def test_the_form_of_a_sigma_depends_on_its_word():
    rules = Rules(lowercase=True)
    assert rules.words("ΑΣ ΣΑ ΑΣ, ΑΣ'Α ΑΣ\0Α Α\u00adΣ") == ["ας", "σα", "ας", ",", "ασ", "'", "α", "ασα", "ας"]


def test_marks_that_stay_are_put_in_canonical_order(reference):
    """Mc marks with a class of their own: Python's NFD sorts them, and so must we, accents between them or not."""
    rules = Rules(lowercase=True)
    text = "x\u302f\u0301\u302e y\U0001d165\U0001d16d\U0001d165 z\U0001d16d\u034f\U0001d165 \U0001d160\U0001d16d\u1b44"
    assert rules.words(text) == reference.words(text, True)
    spelled, origins = rules.align("x\U0001d16d\U0001d165")
    assert (spelled, origins) == ("x\U0001d165\U0001d16d", [0, 2, 1])


def test_accents_and_chinese_characters_can_be_left_alone():
    assert Rules(lowercase=True, strip_accents=False).words("Ünï ΑΣ") == ["ünï", "ας"]
    assert Rules(lowercase=False, strip_accents=True).words("Ünï ΑΣ") == ["Uni", "ΑΣ"]
    assert Rules(lowercase=True, split_cjk=False).words("a中b，c") == ["a中b", "，", "c"]


def test_marks_without_end_take_no_quadratic_time():
    """Python's NFD needs minutes for this; the words are those it would give."""
    marks = "\u0301\u0316" * 100_000
    assert Rules(lowercase=True).words(f"e{marks}a") == ["ea"]
    sortable = "\u302e\U0001d165" * 100_000
    (word,) = Rules(lowercase=True).words(f"e{sortable}")
    assert word == "e" + "\U0001d165" * 100_000 + "\u302e" * 100_000
    assert unicodedata.combining("\U0001d165") < unicodedata.combining("\u302e")
