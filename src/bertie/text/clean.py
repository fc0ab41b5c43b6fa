"""Text as it was meant: markup that an extractor left behind removed, lines that an editor wrapped joined again."""

import html
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LINE_ENDS = ("\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u2028", "\u2029")

ENTITY = re.compile(r"&(?:[A-Za-z][A-Za-z0-9]{1,31}|#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6});")
COMMENT = re.compile(r"<!--.{0,5000}?-->", re.DOTALL)
# What stands between these is no prose. A tag that closes itself must not reach for another one's end.
ELEMENT = re.compile(
    r"<(ref|math|chem|score|gallery|timeline|hiero|imagemap)\b"
    r"(?:[^<>]{0,500}/>|[^<>]{0,500}>(?:(?!<\1\b).){0,5000}?</\1\s*>)",
    re.DOTALL | re.IGNORECASE,
)
BREAK = re.compile(r"</?(?:br|p|li|tr|hr|div|dd|dt|h[1-6])(?:\s[^<>]{0,500})?/?>", re.IGNORECASE)
TAG = re.compile(
    r"</?(?:a|abbr|b|big|blockquote|caption|center|chem|cite|code|del|dl|em|font|gallery|i|includeonly|ins|kbd|math|"
    r"noinclude|nowiki|ol|onlyinclude|poem|pre|q|ref|references|rp|rt|ruby|s|samp|score|section|small|span|strike|"
    r"strong|sub|sup|table|tbody|td|th|tt|u|ul|var|wbr)(?:\s[^<>]{0,500})?/?>",
    re.IGNORECASE,
)
LINK = re.compile(r"\[\[(?:[^][|:\n]{0,300}\|)?([^][|:\n]{1,300})\]\]")
NAMED_LINK = re.compile(r"\[\[[^][:|\n]{1,40}:[^][\n]{0,3000}\]\]")  # files, categories, other languages
TEMPLATE = re.compile(r"\{\{[^{}]{0,3000}\}\}")
VARIANT = re.compile(r"-\{([^{}]{0,1000})\}-")  # Chinese Wikipedia's spellings by region
SPELLING = re.compile(r"zh(?:-\w+)?\s*:\s*([^;]*)")
PLACEHOLDER = re.compile(r"(?:(formula)|codice)_[0-9]++")  # WikiExtractor numbers what it leaves out
# A pattern that begins with a plain character is found ten times as fast: what must not stand before it comes after it.
EMPHASIS = re.compile(r"_(?<!\w_)(?![\s_])((?:[^_\n]++|\n(?!\n))++)(?<!\s)_(?!\w)")  # italics in plain text
EMPTY_BRACKETS = re.compile(r"\((?<![A-Za-z0-9_)\]]\()[ ,;:/'\"“”]*\)")  # print() and f(x)() are not leftovers
EMPTY_WIDE_BRACKETS = re.compile(r"（[ ,;:/'\"“”，；：、]*）")

TAB, NEWLINE, SPACE, HYPHEN = 9, 10, 32, 45
JOINT = 0  # stands for a line end that leaves no space; cleaned text has no such character
FEWEST_BREAKS = 4  # between lines of a paragraph, to judge by
NARROWEST, WIDEST = 30, 130  # characters of a line that an editor wrapped
WIDTH_QUANTILE = 0.9  # of the lines' lengths: some stick out
FULL_SHARE = 0.6  # of the lines
GOING_ON_SHARE = 0.4  # of the lines


def clean(text: str, counts: "Counter[str]") -> str:
    """The text without leftovers of wiki markup and HTML; what was removed is added to the counts."""
    text = _plain_lines(text)
    # Asking whether a character is there takes a fifth of the time of looking for a pattern that begins with it.
    if "&" in text:
        text = _replace(ENTITY, lambda match: html.unescape(match[0]), text, "entities", counts)
    if "-{" in text:
        text = _replace(VARIANT, _spelling, text, "spelling variants", counts)
    if "<" in text:
        text = _replace(COMMENT, "", text, "comments", counts)
        text = _replace(ELEMENT, "", text, "tags", counts)
        text = _replace(BREAK, "\n", text, "tags", counts)
        text = _replace(TAG, "", text, "tags", counts)
    while "{{" in text and (shorter := _replace(TEMPLATE, "", text, "templates", counts)) != text:
        text = shorter  # the innermost first
    if "[[" in text:
        text = _replace(LINK, r"\1", text, "links", counts)
        text = _replace(NAMED_LINK, "", text, "links", counts)
    if "_" in text:
        if "formula_" in text or "codice_" in text:
            text = _replace(PLACEHOLDER, lambda match: match[1] or "code", text, "placeholders", counts)
        text = _replace(EMPHASIS, r"\1", text, "emphasis", counts)
    if "(" in text:
        text = _replace(EMPTY_BRACKETS, "", text, "empty brackets", counts)
    if "（" in text:
        text = _replace(EMPTY_WIDE_BRACKETS, "", text, "empty brackets", counts)
    return text


def _plain_lines(text: str) -> str:
    """The text with every end of a line or page as a line feed, and no NUL."""
    if "\0" in text:
        text = text.replace("\0", "")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    for end in LINE_ENDS:
        if end in text:
            text = text.replace(end, "\n")
    return text


def unwrap(text: str, counts: "Counter[str]") -> str:
    """The text with each hard-wrapped paragraph on one line, if its lines' lengths say that it was wrapped at all.

    An editor breaks a line where the next word has no room. A text where most lines are full in this sense, and most go
    on without a capital, is joined at such lines and left alone at the others: verse, lists and headings stay.
    """
    codes = np.frombuffer(f"{text}\n".encode("utf-32-le", "surrogatepass"), dtype=np.uint32).copy()
    breaks = _inner_breaks(codes)
    if len(breaks.at) < FEWEST_BREAKS:
        return text
    width = int(np.quantile(breaks.lengths, WIDTH_QUANTILE))
    is_full = breaks.lengths + 1 + breaks.next_words > width
    afters = codes[breaks.at + 1].tobytes().decode("utf-32-le", "surrogatepass")
    is_going_on = np.array([not char.isupper() for char in afters])
    if not (NARROWEST <= width <= WIDEST and is_full.mean() >= FULL_SHARE and is_going_on.mean() >= GOING_ON_SHARE):
        return text
    joined = breaks.at[is_full | np.array([char.islower() for char in afters])]
    counts["joined lines"] += len(joined)
    before, after = codes[joined - 1], codes[joined + 1]
    has_no_space = (before == HYPHEN) | (_is_wide(before) & _is_wide(after))
    codes[joined] = np.where(has_no_space, JOINT, SPACE)
    return codes[:-1].tobytes().decode("utf-32-le", "surrogatepass").replace(chr(JOINT), "")


def _replace(
    pattern: re.Pattern[str], new: str | Callable[[re.Match[str]], str], text: str, what: str, counts: "Counter[str]"
) -> str:
    text, number = pattern.subn(new, text)
    if number:
        counts[what] += number
    return text


def _spelling(match: re.Match[str]) -> str:
    """The first region's spelling; nothing for a rule that the page did not show."""
    flag, bar, body = match[1].rpartition("|")
    if bar and flag.strip() in ("H", "T"):
        return ""
    spellings: list[str] = SPELLING.findall(body)
    return next((spelling.strip() for spelling in spellings if spelling.strip()), "" if spellings else body)


@dataclass(frozen=True)
class _Breaks:
    """Where lines end inside paragraphs, how long those lines are, and the next ones' first words."""

    at: NDArray[np.int64]
    lengths: NDArray[np.int64]
    next_words: NDArray[np.int64]


def _inner_breaks(codes: NDArray[np.uint32]) -> _Breaks:
    gaps = np.flatnonzero((codes == SPACE) | (codes == NEWLINE) | (codes == TAB))
    ends = gaps[codes[gaps] == NEWLINE]
    starts = np.concatenate([[0], ends[:-1] + 1])
    at, lengths, afters = ends[:-1], (ends - starts)[:-1], codes[ends[:-1] + 1]
    is_inner = (lengths > 0) & ~np.isin(afters, (SPACE, NEWLINE, TAB))
    at, lengths, afters = at[is_inner], lengths[is_inner], afters[is_inner]
    next_words = gaps[np.searchsorted(gaps, at + 1)] - (at + 1)
    return _Breaks(at, lengths, np.where(_is_wide(afters), 1, next_words))


def _is_wide(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """True for the scripts written without spaces: Chinese and Japanese, their punctuation included."""
    return (
        ((codes >= 0x2E80) & (codes < 0xA000))
        | ((codes >= 0xF900) & (codes < 0xFB00))
        | ((codes >= 0xFE30) & (codes < 0xFE50))
        | ((codes >= 0xFF00) & (codes < 0xFFF0))
        | ((codes >= 0x20000) & (codes < 0x40000))
    )
