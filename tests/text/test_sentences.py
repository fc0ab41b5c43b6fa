"""How often sentences are cut wrongly, on samples written for this: every hard case we know, more often than in life.

A line of a sample is a sentence, a blank line ends a paragraph. Sentences end at their stops inside quotations too;
what says who spoke belongs to what was said.
"""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertie.text.sentences import cut_sentences

SPACE = re.compile(r"\s+")


def paragraphs(language):
    text = Path(__file__).with_name(f"sentences.{language}.txt").read_text(encoding="utf-8")
    return [paragraph.split("\n") for paragraph in text.strip().split("\n\n")]


def ends(sentences):
    """Where sentences but the last end, in characters that are not white space."""
    places, length = set(), 0
    for sentence in sentences[:-1]:
        length += len(SPACE.sub("", sentence))
        places.add(length)
    return places


@pytest.mark.parametrize(("language", "between", "num_ends"), [("en", " ", 240), ("zh", "", 79)])
def test_at_most_two_ends_in_a_hundred_are_wrong(language, between, num_ends):
    labelled = [ends(sentences) for sentences in paragraphs(language)]
    found = [ends(cut_sentences(between.join(sentences))) for sentences in paragraphs(language)]
    wrong = sum(len(one ^ other) for one, other in zip(labelled, found, strict=True))
    assert sum(map(len, labelled)) == num_ends
    assert wrong / num_ends <= 0.02


def test_the_measure_sees_a_cut_too_many_and_one_too_few():
    assert ends(["One.", "Two two.", "Three."]) ^ ends(["One. Two two.", "Th", "ree."]) == {4, 13}


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Pym met J. R. R. Tolkien at 5 p.m. in St. Ives. It rained.", 2),
        ("He lives in the U.S. He was born there.", 2),
        ("The U.S. Army paid $3.50 for No. 5.", 1),
        ('"Stop!" he said. "Why?" Anna asked.', 2),
        ("It was filed. [1] Then it burned.[2] Few cared.", 3),
        ("Steps:\n1. Wash. 2. Dry.", 3),
        ("A heading\nA sentence. Another", 3),
        ("你好！”他说。我走了。", 2),
        ("他问：“你是谁？”没有人回答。", 2),
        ("《谁在那里？》很好。mRNA也是；这也是", 3),
        ("却又……算了。雨越下越大……天黑了", 3),
        ("他说“I love it!”球迷欢呼。", 2),
        ("我是H.O.T.。你也是", 2),
        ("MRS. LUNN. I never did. DR. NO. Nor I.", 4),
        ("他看了《瞧！這個人》。我看了《Go! Go!》，很好。", 2),
        ("《未完。他走了。", 2),
        (" \n \n", 0),
    ],
)
def test_some_cases(text, sentences):
    assert len(cut_sentences(text)) == sentences, cut_sentences(text)


@given(st.text(alphabet="aA1. !?…\"'”()[]\n。！？；，：“》说他…"))
def test_nothing_is_lost_and_nothing_is_empty(text):
    sentences = cut_sentences(text)
    assert SPACE.sub("", "".join(sentences)) == SPACE.sub("", text)
    assert all(sentence == sentence.strip() != "" for sentence in sentences)


@pytest.mark.parametrize(
    "text",
    [
        "." * 200_000,
        ". " * 100_000,
        "a" * 200_000 + ".",
        "”" * 200_000,
        "！”" * 100_000,
        "A! " * 70_000,
        "A\t. " * 50_000,
    ],
)
def test_hostile_text_ends_soon(text):
    assert SPACE.sub("", "".join(cut_sentences(text))) == SPACE.sub("", text)
