"""Google's rules for cutting a text into words, as one table from character to spelling, made from `unicodedata`.

Cleaning, lower-casing, dropping accents and setting punctuation and Chinese characters apart each look at one character
at a time, so a table does it all in one pass. Two rules look further, and take `_respell`: the Greek final sigma, and
the canonical order of the few combining marks that are not accents.
"""

import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from unicodedata import category, combining, decomposition, normalize

LONGEST_WORD = 200  # characters; longer ones are unknown (Google's value since 2018-11-23, before that 100)
CJK = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
SIGMA = "Σ"


def is_dropped(char: str) -> bool:
    """True for controls (NUL is one), formats, the replacement character, and lone surrogates, which no file holds."""
    return char == "\ufffd" or (category(char) in ("Cc", "Cf", "Cs") and char not in "\t\n\r")


def is_space(char: str) -> bool:
    """True for what parts words: `str.split()`'s whitespace, as far as it was not dropped."""
    return char.isspace() and not is_dropped(char)


def is_cjk(char: str) -> bool:
    """True for Chinese characters, which stand alone; Kana and Hangul do not."""
    return any(first <= ord(char) <= last for first, last in CJK)


def is_punctuation(char: str) -> bool:
    """True for what Unicode calls punctuation and for every ASCII sign that is no letter, digit or space."""
    return category(char).startswith("P") or (
        char.isascii() and char.isprintable() and not char.isalnum() and char != " "
    )


class Rules:
    """How texts become words: Google's one setting, the case, and the two more that other makers' folders have."""

    def __init__(self, lowercase: bool, strip_accents: bool | None = None, split_cjk: bool = True) -> None:
        self.lowercase = lowercase
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self.split_cjk = split_cjk
        self._spellings = _Spellings(self)

    def words(self, text: str) -> list[str]:
        """The words of the text: what WordPiece is applied to, one by one."""
        if self._needs_context(text):
            text, _ = self._respell(text)
        return text.translate(self._spellings).split()

    def align(self, text: str) -> tuple[str, list[int]]:
        """The words with spaces between them, and for each character of that, where in the text it came from."""
        if self._needs_context(text):
            text, origins = self._respell(text)
        else:
            origins = list(range(len(text)))
        spellings = list(map(self._spellings.__getitem__, map(ord, text)))
        return "".join(spellings), [at for at, spelling in zip(origins, spellings, strict=True) for _ in spelling]

    def spell(self, char: str) -> str:
        """What the character becomes: nothing, a space, itself or other letters; spaces around what stands alone."""
        if is_dropped(char):
            return ""
        if is_space(char):
            return " "
        letters = char.lower() if self.lowercase else char
        if self.strip_accents:
            letters = "".join(letter for letter in normalize("NFD", letters) if category(letter) != "Mn")
        spelling = "".join(f" {letter} " if is_punctuation(letter) else letter for letter in letters)
        return f" {spelling} " if self.split_cjk and is_cjk(char) else spelling

    def _needs_context(self, text: str) -> bool:
        if text.isascii():
            return False
        return (self.lowercase and SIGMA in text) or (self.strip_accents and _sortable().search(text) is not None)

    def _respell(self, text: str) -> tuple[str, list[int]]:
        """The text cleaned, lower-cased, decomposed and in canonical order, and where each character came from."""
        origins = [at for at, char in enumerate(text) if not is_dropped(char)]
        text = "".join([text[at] for at in origins])
        if self.lowercase:
            # A sigma takes one of two forms by its neighbours; no character's length depends on them.
            origins = [at for at, char in zip(origins, text, strict=True) for _ in char.lower()]
            text = text.lower()
        if not self.strip_accents:
            return text, origins
        parts = [(letter, at) for at, char in zip(origins, text, strict=True) for letter in normalize("NFD", char)]
        parts = _in_canonical_order(parts)
        return "".join([letter for letter, _ in parts]), [at for _, at in parts]


class _Spellings(dict[int, str]):
    """What each character met so far becomes, for `str.translate`; at most one entry a code point."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        self._rules = rules

    def __missing__(self, code: int) -> str:
        spelling = self._rules.spell(chr(code))
        self[code] = spelling
        return spelling


@cache
def _sortable() -> re.Pattern[str]:
    """Finds characters that outlive the dropping of accents and yet may trade places with others: some 40 of all."""
    planes = (*range(0xD800), *range(0xE000, 0x32000), *range(0xE0000, 0xE1000))  # the others hold none
    return re.compile("[" + "".join(char for char in map(chr, planes) if _is_sortable(char)) + "]")


def _is_sortable(char: str) -> bool:
    return (combining(char) > 0 or decomposition(char) != "") and any(
        combining(letter) and category(letter) != "Mn" for letter in normalize("NFD", char.lower())
    )


def _in_canonical_order(parts: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Unicode's order of combining marks. Python's own routine takes quadratic time on a long run of them."""
    ordered: list[tuple[str, int]] = []
    for _, run in groupby(parts, lambda part: combining(part[0]) > 0):
        ordered.extend(sorted(run, key=lambda part: combining(part[0])))
    return ordered
