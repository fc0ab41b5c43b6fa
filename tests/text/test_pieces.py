import random
from collections import Counter
from itertools import product

import numpy as np
import pytest
from tokenizers.models import WordPiece

from bertie.text.pieces import LONGEST_PIECE, Cuts, choose_pieces, count_candidates


def invented(seed, number=300, letters="abc"):
    """Different words, some of them stems with endings, and how often each occurs."""
    rng = random.Random(seed)
    stems = ["".join(rng.choices(letters, k=rng.randint(1, 6))) for _ in range(number)]
    words = sorted({stem + rng.choice(["", "", "abab", "cc", "ing"]) for stem in stems})
    return words, np.array([rng.randint(1, 50) for _ in words], dtype=np.int64)


def spelling(words):
    return sorted({word[0] for word in words} | {f"##{char}" for word in words for char in word[1:]})


def all_substrings(words, counts):
    found = Counter()
    for word, count in zip(words, counts, strict=True):
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + LONGEST_PIECE) + 1):
                found[("##" if start else "") + word[start:end]] += int(count)
    return found


def num_tokens(pieces, words, counts):
    model = WordPiece({piece: at for at, piece in enumerate([*pieces, "[UNK]"])}, unk_token="[UNK]")
    cut = [[token.value for token in model.tokenize(word)] for word in words]
    assert ["[UNK]"] not in cut
    return sum(len(pieces) * int(count) for pieces, count in zip(cut, counts, strict=True))


def silent(done, total):
    pass


@pytest.mark.parametrize("seed", range(3))
def test_candidates_are_the_substrings_that_occur_twice(seed):
    words, counts = invented(seed)
    expected = {piece: number for piece, number in all_substrings(words, counts).items() if number >= 2}
    assert count_candidates(words, counts, 10**6) == expected


@pytest.mark.parametrize("most", [10, 50, 200])
def test_only_the_most_frequent_substrings_stay(most):
    words, counts = invented(4)
    every = all_substrings(words, counts)
    found = count_candidates(words, counts, most)
    fewest = sorted(every.values())[-most]
    assert found == {piece: number for piece, number in every.items() if number >= fewest}


def test_candidates_of_long_words_and_of_characters_beyond_the_first_plane():
    words, counts = ["😀𠀀😀𠀀", "x" * 40], np.array([2, 3])
    found = count_candidates(words, counts, 10**6)
    assert found == {piece: number for piece, number in all_substrings(words, counts).items() if number >= 2}
    assert max(map(len, found)) == LONGEST_PIECE + len("##")


def test_dropping_pieces_cuts_as_if_they_had_never_been():
    words, counts = invented(5)
    needed = spelling(words)
    pieces = [*needed, *sorted(set(count_candidates(words, counts, 200)).difference(needed))]
    cuts = Cuts(words, counts, pieces)
    rng = random.Random(0)
    while cuts.num_kept > len(needed):
        kept = np.flatnonzero(cuts.is_kept)[len(needed) :].tolist()
        cuts.drop(np.array(rng.sample(kept, min(17, len(kept)))))
        left = [piece for piece, is_kept in zip(pieces, cuts.is_kept, strict=True) if is_kept]
        fresh = Cuts(words, counts, left)
        assert dict(zip(left, fresh.usage, strict=True)) == {
            piece: number for piece, number, is_kept in zip(pieces, cuts.usage, cuts.is_kept, strict=True) if is_kept
        }
        assert cuts.usage[~cuts.is_kept].sum() == 0
        assert cuts.usage.sum() == num_tokens(left, words, counts)


def test_how_many_pieces_spell_a_piece_in_its_absence():
    pieces = ["a", "b", "##a", "##b", "##c", "ab", "##ab", "##bc", "abc", "abab", "##abab"]
    cuts = Cuts(["abab"], np.array([1]), pieces)
    lengths = cuts.spell_without(range(5, len(pieces)))
    # abc: ab ##c; abab: abc does not fit, ab ##ab; ##abab: ##ab ##ab
    assert dict(zip(pieces[5:], lengths, strict=True)) == {
        "ab": 2, "##ab": 2, "##bc": 2, "abc": 2, "abab": 2, "##abab": 2,
    }  # fmt: skip
    cuts.drop(np.array([pieces.index("##ab")]))
    assert cuts.spell_without([pieces.index("abab")]) == [3]


@pytest.mark.parametrize("size", [20, 40, 100])
def test_the_chosen_pieces_have_the_size_and_spell_every_word(size):
    words, counts = invented(6)
    needed = spelling(words)
    pieces = choose_pieces(words, counts, needed, size, silent)
    assert len(pieces) == len(set(pieces)) == size
    assert pieces[: len(needed)] == needed
    usage = dict(zip(pieces, Cuts(words, counts, pieces).usage.tolist(), strict=True))
    extra = [usage[piece] for piece in pieces[len(needed) :]]
    assert extra == sorted(extra, reverse=True)
    assert num_tokens(pieces, words, counts) < num_tokens(needed, words, counts)


def test_a_small_choice_is_nearly_the_best_there_is():
    words = ["aba", "abab", "bab", "ababab", "baba", "bb", "abb", "aab", "abba"]
    counts = np.array([9, 5, 7, 3, 2, 4, 6, 1, 8])
    needed = spelling(words)
    candidates = sorted(set(count_candidates(words, counts, 10**6)).difference(needed))
    best = min(
        num_tokens([*needed, *chosen], words, counts)
        for chosen in product(candidates, repeat=3)
        if len(set(chosen)) == 3
    )
    found = num_tokens(choose_pieces(words, counts, needed, len(needed) + 3, silent), words, counts)
    assert best <= found <= 1.05 * best


def test_frequent_pieces_are_better_than_frequent_substrings():
    words, counts = invented(7, number=800, letters="abcdefgh")
    needed = spelling(words)
    frequent = sorted(all_substrings(words, counts).items(), key=lambda item: -item[1])
    plain = list(dict.fromkeys([*needed, *(piece for piece, _ in frequent)]))[:120]
    chosen = choose_pieces(words, counts, needed, 120, silent)
    assert num_tokens(chosen, words, counts) < 0.95 * num_tokens(plain, words, counts)


def test_fewer_pieces_than_asked_for_where_there_are_no_more():
    words, counts = ["ab", "abc"], np.array([1, 1])
    needed = spelling(words)
    assert choose_pieces(words, counts, needed, 100, silent) == [*needed, "ab"]
    assert choose_pieces([], np.zeros(0, np.int64), ["a"], 100, silent) == ["a"]


def test_progress_reaches_the_end():
    words, counts = invented(8)
    needed = spelling(words)
    calls = []
    choose_pieces(words, counts, needed, 30, lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1] > 0
