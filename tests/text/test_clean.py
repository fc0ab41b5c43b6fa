from collections import Counter

import pytest

from bertie.text.clean import clean, unwrap

WRAPPED = """It was a bright cold day in the month of April, and all of the
clocks of the town were striking, one after the other, with the
sound of iron on stone that is heard in old towns where nobody
has thought of replacing what still goes. A man in a grey coat
went by them without looking up, as he had done every day of all
the years that he could remember, and he could remember many.
"""
VERSE = """The wind came down in winter,
The snow came after it,
And nobody in all the house
Had any candle lit.
The door stood open to the dark,
The dog lay by the door,
And what he heard there in the night
Was never heard before.
"""


@pytest.mark.parametrize(
    ("text", "expected", "counts"),
    [
        ("plain text, 1 < 2 & 3 > 2, a[1][2], {x}", None, {}),
        ("a &amp; b &eacute; &#38; &#x26; &nonsense;", "a & b é & & &nonsense;", {"entities": 5}),
        ("AT&T; R&D", "AT&T; R&D", {}),
        ("a<!-- hidden\n --> b", "a b", {"comments": 1}),
        ("a<ref name=x>Smith 1990</ref> b<ref name=x/> c", "a b c", {"tags": 2}),
        ("a<ref name=x/> b <ref>one</ref> c", "a b  c", {"tags": 2}),
        ("so <math>x^2</math> is", "so  is", {"tags": 1}),
        ("one<br>two<br />three", "one\ntwo\nthree", {"tags": 2}),
        ("<p>a</p>", "\na\n", {"tags": 2}),
        ("a <b>bold</b> <span class='x'>word</span>", "a bold word", {"tags": 4}),
        ("if a <b and c> d: <unknown>", None, {"tags": 1}),
        ("{{a {{b}} c}}d", "d", {"templates": 2}),
        ("[[London]] and [[Paris|the city]]", "London and the city", {"links": 2}),
        ("[[File:a.jpg|thumb|a caption]]b", "b", {"links": 1}),
        ("Rome (; , ) is", "Rome  is", {"empty brackets": 1}),
        ("罗马（；，）是", "罗马是", {"empty brackets": 1}),
        ("call print() and f(x)() and a[0]()", None, {}),
        ("so formula_12, 且codice_3。 formula_x", "so formula, 且code。 formula_x", {"placeholders": 2}),
        (
            "_Hamlet_, '_A b\nc_,' (_no_) __init__ a_b_ _x y_z _",
            "Hamlet, 'A b\nc,' (no) __init__ a_b_ _x y_z _",
            {"emphasis": 3},
        ),
        ("-{zh-hans:计算机; zh-hant:電腦}-", "计算机", {"spelling variants": 1}),
        ("-{T|zh-cn:标题}-x-{原文}-", "x原文", {"spelling variants": 2}),
        ("a\r\nb\rc\u2028d\x85e\0f\x1fg", "a\nb\nc\nd\nef\ng", {}),
    ],
)
def test_what_an_extractor_left_behind_is_removed_and_counted(text, expected, counts):
    found = Counter()
    if "<unknown>" in text:
        assert clean(text, found).endswith("<unknown>"), "only known tags go"
        return
    assert clean(text, found) == (text if expected is None else expected)
    assert found == counts


@pytest.mark.parametrize(
    "text", ["<ref>" * 3000, "{{" * 20_000, "[[" * 20_000, "<!--" * 3000, "-{" * 20_000, " _a" * 9000]
)
def test_markup_that_never_ends_takes_no_long_time(text):
    assert clean(text, Counter()) in (text, "")


def test_wrapped_paragraphs_become_lines():
    counts = Counter()
    first, second = unwrap(f"{WRAPPED}\n{WRAPPED}", counts).split("\n\n")
    assert first == WRAPPED.replace("\n", " ").rstrip()
    assert second == first + "\n"
    assert counts == {"joined lines": 10}


def test_short_lines_in_a_wrapped_text_stay():
    text = f"CHAPTER I\n\n{WRAPPED}\nOne.\nTwo.\nThree.\n\n{WRAPPED}"
    unwrapped = unwrap(text, Counter())
    assert unwrapped.startswith("CHAPTER I\n\nIt was")
    assert "\n\nOne.\nTwo.\nThree.\n\n" in unwrapped


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "one line",
        VERSE,
        WRAPPED.replace("\n", " ") * 3,
        "- milk\n- eggs\n- bread\n- butter\n- salt\n- pepper\n",
        "\n".join(
            "A whole paragraph of its own length stands on this line. " * (1 + number % 7) for number in range(9)
        ),
    ],
    ids=["empty", "blank", "line", "verse", "unwrapped", "list", "paragraphs"],
)
def test_what_no_editor_wrapped_stays(text):
    assert unwrap(text, Counter()) == text


def test_a_hyphen_and_chinese_characters_join_without_a_space():
    hyphened = WRAPPED.replace("of the\nclocks", "of well-\nknown clocks")
    assert "of well-known clocks" in unwrap(hyphened, Counter())
    chinese = "\n".join(["天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳云腾致雨露结为霜"] * 6)
    assert unwrap(chinese, Counter()) == chinese.replace("\n", "")


def test_a_lone_surrogate_goes_through():
    text = WRAPPED.replace("grey", "gr\ud800y")
    assert "gr\ud800y" in unwrap(text, Counter())
