"""Texts that try a tokenizer: seeded, cheap to make by the million, full of what breaks word splitting."""

import unicodedata

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def characters():
    """Every assigned character, lone surrogates too; of the two planes of private ones, which are all alike, some."""
    codes = (*range(0xF0000), *range(0xF0000, 0x110000, 61))
    return [char for char in map(chr, codes) if unicodedata.category(char) != "Cn"]


def texts(rng, count, *, with_surrogates=True):
    """So many texts of one to a dozen fragments each."""
    fragments, weights = _fragments(rng, with_surrogates)
    lengths = rng.choices(range(1, 13), k=count)
    drawn = iter(rng.choices(fragments, weights, k=sum(lengths)))
    return ["".join([next(drawn) for _ in range(length)]) for length in lengths]


def _fragments(rng, with_surrogates):
    kinds = [
        (30, ["un", "want", "WANT", "runn", "ing", "Hello", "the", "a", "B", "été", "É", "naïve", "ﬁ", "Æ", "ß", "ẞ"]),
        (30, [" ", " ", " ", "  "]),
        (6, ["\t", "\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2003", "\u3000"]),
        (3, ["\u2028", "\u2029", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\xad", "\u202e"]),
        (4, ["\0", "\ufffd", "\x01", "\x7f", "\x9f", "\ue000", "\U000f0000", "\U0010fffd", "\u0378"]),
        (20, list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")),
        (8, list("¡«·»¿‐–—‘’“”•…‹›€©®°±×÷←∞≠≮≯、。「」・！（），．：；？～\u037e\u1fef\u0387\u2329")),
        (10, list("0123456789²½Ⅷ①٣")),
        (12, ["\u0301", "\u0308", "\u0323", "\u0345", "\u034f", "\u0307", "\u20dd", "\u3099", "\u093c", "\ufe0f"]),
        (10, ["Σ", "σ", "ς", "ΑΣ", "ΣΑΣ", "Σ.", "Σ'Α", "Ά", "Ω", "\u2126", "\u1fbc"]),
        (6, ["İ", "I", "ı", "i", "K", "Å", "ǅ", "Ȟ", "Ⱥ", "Ꭰ", "Ა", "ꭰ"]),
        (15, list("中文博推龍\uf900\uf901\u3400\u4dbf\u4e00\u9fff\ufaff\u3007々〆ㄅ\U00020000\U0002b820\U0002ceb0")),
        (6, list("カガがあ한글각\u1100\u1161\u11a8ﾊﾟ")),
        (6, ["😀", "👩\u200d🔬", "🇩🇪", "👍🏽", "❤\ufe0f", "1\ufe0f\u20e3", "🏴\U000e0067\U000e007f"]),
        (5, list("ไทยที่हिन्दीعَرَبيّעִבְרִיتاريخไ")),
        (
            4,
            [
                "\u1b44",
                "\u1b34",
                "\u302e",
                "\u302f",
                "\U0001d165",
                "\U0001d16d",
                "\U0001d15e",
                "\U0001d160",
                "\U00016ff0",
            ],
        ),
        (4, [*SPECIAL, "[mask]", "##ing", "##", "[unused1]", "[UNK"]),
        (4, rng.choices(characters(), k=400)),
        (1, ["x" * 99, "x" * 100, "é" * 101, "x" * 199, "y" * 200, "e\u0301" * 201, "中" * 201]),
    ]
    if with_surrogates:
        kinds.append((2, ["\ud800", "\udfff", "\ud83d\ude00"]))
    else:
        kinds = [(weight, [part for part in parts if not _has_surrogate(part)]) for weight, parts in kinds]
    fragments = [part for _, parts in kinds for part in parts]
    weights = [weight / len(parts) for weight, parts in kinds for _ in parts]
    return fragments, weights


def _has_surrogate(text):
    return any("\ud800" <= char <= "\udfff" for char in text)
