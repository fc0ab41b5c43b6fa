"""Google's tokenizer written out rule by rule, to be read and compared with; it imports nothing of ours.

Source: the facts of google-research/bert (tokenization.py at its last commit). Unicode is the running Python's.
"""

import unicodedata
from functools import cache

CJK_RANGES = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def tokenize(text, vocabulary, lowercase):
    """The pieces of the text; the vocabulary is a set or dict of entries."""
    return [piece for word in words(text, lowercase) for piece in pieces(word, vocabulary)]


def words(text, lowercase):
    """What WordPiece is applied to, one by one."""
    split = []
    for token in spaced_cjk(cleaned(text)).split():
        if lowercase:
            token = without_accents(token.lower())
        split.extend(parted_punctuation(token))
    return " ".join(split).split()


def pieces(word, vocabulary):
    """The longest entry that begins the word, then the longest that goes on, and so forth; else unknown."""
    if len(word) > 200:
        return ["[UNK]"]
    found = []
    start = 0
    while start < len(word):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else "##" + word[start:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        found.append(piece)
        start = end
    return found


def cleaned(text):
    output = []
    for char in text:
        if 0xD800 <= ord(char) <= 0xDFFF:  # half a character: no UTF-8 file brings one
            continue
        if ord(char) in (0, 0xFFFD) or is_control(char):
            continue
        output.append(" " if is_whitespace(char) else char)
    return "".join(output)


def spaced_cjk(text):
    output = []
    for char in text:
        if is_cjk(char):
            output.append(" " + char + " ")
        else:
            output.append(char)
    return "".join(output)


def without_accents(text):
    return "".join(char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn")


def parted_punctuation(text):
    parts = []
    starts_word = True
    for char in text:
        if is_punctuation(char):
            parts.append(char)
            starts_word = True
        else:
            if starts_word:
                parts.append("")
            starts_word = False
            parts[-1] += char
    return parts


@cache
def is_cjk(char):
    return any(first <= ord(char) <= last for first, last in CJK_RANGES)


@cache
def is_control(char):
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


@cache
def is_whitespace(char):
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


@cache
def is_punctuation(char):
    code = ord(char)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(char).startswith("P")
