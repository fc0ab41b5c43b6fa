"""The array work against plain loops over one sequence, written from the facts (4.2): equal to the token where the same
order is given, equal in distribution where each draws its own."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertie.pretraining.masking import (
    MaskingConfig,
    Text,
    Words,
    find_words,
    mask,
    most_masked,
    num_to_mask,
    pick_spans,
    pick_words,
)

MASK, SIZE, FIRST_WORD = 4, 50, 10


def text_of(sequences):
    """Sequences given as strings: `|` is a special token, `w` a word's first piece, `#` one that goes on with it."""
    marks = "".join(sequences)
    rng = np.random.default_rng(0)
    return Text(
        ids_N=np.where([mark == "|" for mark in marks], 2, rng.integers(FIRST_WORD, SIZE, len(marks))),
        starts_S=np.append(0, np.cumsum([len(sequence) for sequence in sequences])),
        is_special_N=np.array([mark == "|" for mark in marks], bool),
        goes_on_N=np.array([mark == "#" for mark in marks], bool),
    )


sequences = st.lists(st.text("w#|", min_size=1, max_size=30), min_size=1, max_size=6)


# The plain loops.


def plain_words(sequence, whole):
    """The words of a sequence as lists of positions: a piece that goes on is appended to the last candidate."""
    words = []
    for position, mark in enumerate(sequence):
        if mark == "|":
            continue
        if whole and mark == "#" and words:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def plain_number(length, rate, cap):
    return min(cap or length, max(1, round(length * rate)))


def plain_pick(words, number, order, spans):
    """Google's loop, with ALBERT's spans; spans of 1 are Google's whole words, words of 1 its single tokens."""
    covered = []
    for word in order:
        if len(covered) >= number:
            break
        num_words = spans[word]
        while num_words > 1 and len(covered) + sum(map(len, words[word : word + num_words])) > number:
            num_words -= 1
        positions = [position for one in words[word : word + num_words] for position in one]
        if len(covered) + len(positions) > number or set(positions) & set(covered):
            continue
        covered += positions
    return sorted(covered)


@settings(deadline=None)
@given(sequences, st.booleans())
def test_words_are_the_plain_loops(sequences, whole):
    words, word_of_N = find_words(text_of(sequences), whole)
    expected, start = [], 0
    for index, sequence in enumerate(sequences):
        mine = [[start + position for position in word] for word in plain_words(sequence, whole)]
        assert words.firsts_S[index] == len(expected)
        expected += mine
        assert words.firsts_S[index + 1] == len(expected)
        assert list(words.sequences_W[words.firsts_S[index] :][: len(mine)]) == [index] * len(mine)
        start += len(sequence)
    assert words.lengths_W.tolist() == [len(word) for word in expected]
    assert {i: w for i, w in enumerate(word_of_N.tolist()) if w >= 0} == {
        position: number for number, word in enumerate(expected) for position in word
    }


def shuffled(words, seed):
    """Each sequence's words in some order, as product and plain loop take it."""
    rng = np.random.default_rng(seed)
    return np.argsort(words.sequences_W + rng.random(len(words.lengths_W)))


@settings(deadline=None)
@given(sequences, st.integers(0, 2**32), st.sampled_from([0.1, 0.3, 0.7]), st.integers(0, 4))
def test_words_and_spans_are_picked_as_by_the_plain_loop(sequences, seed, rate, cap):
    words, word_of_N = find_words(text_of(sequences), whole=True)
    config = MaskingConfig(rate=rate, cap=cap)
    lengths_S = np.array([len(sequence) for sequence in sequences])
    num_S = num_to_mask(lengths_S, config)
    assert num_S.tolist() == [plain_number(len(sequence), rate, cap) for sequence in sequences]
    order_W = shuffled(words, seed)
    spans_W = np.random.default_rng(seed).integers(1, 4, len(order_W))
    for spans, picked_W in (
        (np.ones_like(spans_W), pick_words(words, num_S, order_W)),
        (np.ones_like(spans_W), pick_spans(words, num_S, order_W, np.ones_like(spans_W))),
        (spans_W, pick_spans(words, num_S, order_W, spans_W)),
    ):
        start = 0
        for index, sequence in enumerate(sequences):
            first, last = words.firsts_S[index : index + 2]
            mine = plain_words(sequence, whole=True)
            expected = plain_pick(mine, num_S[index], order_W[first:last] - first, spans[first:last])
            found = [
                position
                for position in range(len(sequence))
                if word_of_N[start + position] >= 0 and picked_W[word_of_N[start + position]]
            ]
            assert found == expected
            start += len(sequence)


def test_rounding_is_half_to_even():
    # 0.15 * 10 = 1.5 -> 2, 0.5 * 5 = 2.5 -> 2, 0.5 * 7 = 3.5 -> 4; at least one.
    assert num_to_mask(np.array([1, 10, 128]), MaskingConfig(rate=0.15)).tolist() == [1, 2, 19]
    assert num_to_mask(np.array([5, 7]), MaskingConfig(rate=0.5)).tolist() == [2, 4]
    assert num_to_mask(np.array([128, 512]), MaskingConfig(cap=20)).tolist() == [19, 20]
    every = np.arange(1, 4000)
    assert num_to_mask(every, MaskingConfig()).tolist() == [max(1, round(n * 0.15)) for n in every.tolist()]


def english(num_sequences, seed, longest=128):
    """Pairs such as masking gets to see: a fifth of the pieces go on a word, some sequences are short."""
    rng = random.Random(seed)
    made = []
    for _ in range(num_sequences):
        length = longest if rng.random() < 0.9 else rng.randint(5, longest)
        split = rng.randint(2, length - 2)
        marks = ["|", *rng.choices("w#", (0.8, 0.2), k=length - 3), "|"]
        made.append("".join([*marks[:split], "|", *marks[split:]]))
    return made


CONFIGS = [
    MaskingConfig(unit="tokens", cap=20),
    MaskingConfig(unit="words", cap=20),
    MaskingConfig(unit="spans", cap=20),
    MaskingConfig(unit="spans", rate=0.3, longest_span=5, mask_share=0.6, keep_share=0.3),
]


def ids(config):
    return f"{config.unit}-{config.rate}"


@pytest.mark.parametrize("config", CONFIGS, ids=ids)
def test_what_must_hold(config):
    made = english(300, seed=1)
    text = text_of(made)
    num_slots = most_masked(len(text.ids_N), len(made), config)
    before = text.ids_N.copy()
    masked = mask(text, config, MASK, SIZE, num_slots, np.random.default_rng(2))
    assert np.array_equal(text.ids_N, before)  # what was handed in is left alone
    assert len(masked.masked_M) == len(masked.labels_M) == num_slots
    used = masked.labels_M != -100
    assert not used[used.sum() :].any()
    positions = masked.masked_M[used]
    assert (np.diff(positions) > 0).all()
    assert (masked.masked_M[~used] == 0).all()
    assert not text.is_special_N[positions].any()
    assert np.array_equal(masked.labels_M[used], before[positions])
    others = np.setdiff1d(np.arange(len(before)), positions)
    assert np.array_equal(masked.ids_N[others], before[others])
    counts = np.histogram(positions, text.starts_S)[0]
    limits = num_to_mask(np.diff(text.starts_S), config)
    assert (counts <= limits).all()
    if config.unit == "tokens":
        assert np.array_equal(counts, limits)
    else:  # whole words only
        _, word_of_N = find_words(text, whole=True)
        is_masked_N = np.isin(np.arange(len(before)), positions)
        for word in np.unique(word_of_N[positions]):
            assert is_masked_N[word_of_N == word].all()


def plain_mask(sequence, config, rng):
    """One sequence by the plain loop: the positions, and for each what it becomes."""
    words = plain_words(sequence, whole=config.unit != "tokens")
    order = rng.sample(range(len(words)), len(words))
    lengths = range(1, config.longest_span + 1) if config.unit == "spans" else [1]
    spans = rng.choices(lengths, [1 / n for n in lengths], k=len(words))
    positions = plain_pick(words, plain_number(len(sequence), config.rate, config.cap), order, spans)
    becomes = []
    for _ in positions:
        if rng.random() < config.mask_share:
            becomes.append("mask")
        else:
            is_kept = rng.random() < config.keep_share / (1 - config.mask_share)
            becomes.append("same" if is_kept else "random")
    return positions, becomes


def within(found, expected, num, z=4.5):
    """Two shares of so many draws each differ by no more than chance: z = 4.5 is passed by 1 in 150,000."""
    pooled = (found + expected) / 2
    return abs(found - expected) <= z * math.sqrt(2 * pooled * (1 - pooled) / num) + 1e-12


@pytest.mark.parametrize(
    ("config", "num_sequences", "longest", "together"),
    [
        (CONFIGS[0], 100_000, 24, 1),
        (CONFIGS[1], 1500, 128, 1.5),
        (CONFIGS[2], 1500, 128, 3),
        (CONFIGS[3], 1500, 128, 4),
    ],
    ids=map(ids, CONFIGS),
)
def test_in_distribution_it_is_the_plain_loop(config, num_sequences, longest, together):
    """Share of tokens masked, by position and by distance of the next one masked, and the shares of what they become;
    for Google's own setting over 100,000 sequences. The tokens of a word or span are masked `together`: they count as
    so many draws fewer."""
    made = english(num_sequences, seed=3, longest=longest)
    text = text_of(made)
    masked = mask(text, config, MASK, SIZE, most_masked(len(text.ids_N), len(made), config), np.random.default_rng(4))
    found = masked.masked_M[masked.labels_M != -100]
    rng = random.Random(5)
    plain = [plain_mask(sequence, config, rng) for sequence in made]
    expected = np.concatenate([start + np.array(one[0], int) for start, one in zip(text.starts_S, plain, strict=False)])
    num = len(found)
    assert num > 20_000
    assert abs(num - len(expected)) < 4.5 * math.sqrt(num)

    offsets = [
        positions - text.starts_S[np.searchsorted(text.starts_S, positions, "right") - 1]
        for positions in (found, expected)
    ]
    for low in range(0, longest, 8):
        shares = [np.mean((offset >= low) & (offset < low + 8)) for offset in offsets]
        assert within(*shares, num / together)
    for distance in (1, 2, 3):
        shares = [np.isin(positions + distance, positions).mean() for positions in (found, expected)]
        assert within(*shares, num / together)
    goes_on = [text.goes_on_N[positions].mean() for positions in (found, expected)]
    assert within(*goes_on, num / together)

    became = masked.ids_N[found]
    was = text.ids_N[found]
    kinds = [kind for one in plain for kind in one[1]]
    chance = 1 / SIZE  # a random entry may be [MASK], or the token itself
    random_share = kinds.count("random") / len(kinds)
    assert within((became == MASK).mean(), kinds.count("mask") / len(kinds) + random_share * chance, num)
    assert within((became == was).mean(), kinds.count("same") / len(kinds) + random_share * chance, num)
    drawn = became[(became != MASK) & (became != was)]
    # Uniform over the whole vocabulary, special and unused entries included.
    counts = np.bincount(drawn, minlength=SIZE)
    assert (np.delete(counts, MASK) > 0).all()
    is_word = np.arange(SIZE) >= FIRST_WORD
    assert within(counts[~is_word].sum() / len(drawn), (FIRST_WORD - 1) / (SIZE - 2), len(drawn))


def test_the_spans_lengths_are_in_proportion_to_one_over_n():
    words = Words(np.ones(60_000, int), np.zeros(60_000, int), np.array([0, 60_000]))
    config = MaskingConfig(unit="spans", rate=0.001)  # so few that they do not meet
    text = text_of(["w" * 60_000])
    assert len(find_words(text, whole=True)[0].lengths_W) == len(words.lengths_W)
    lengths = []
    for seed in range(60):
        masked = mask(text, config, MASK, SIZE, 100, np.random.default_rng(seed))
        positions = masked.masked_M[masked.labels_M != -100]
        lengths += np.diff(np.flatnonzero(np.append(np.diff(positions, prepend=-2) > 1, True))).tolist()
    shares = [lengths.count(n) / len(lengths) for n in (1, 2, 3)]
    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11], abs=4.5 * math.sqrt(0.25 / len(lengths)))


def test_a_seed_is_a_result():
    text = text_of(english(20, seed=6))
    one, same, other = (mask(text, MaskingConfig(), MASK, SIZE, 400, np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.masked_M, other.masked_M)


def test_nothing_to_mask():
    masked = mask(text_of(["||", "|"]), MaskingConfig(unit="spans"), MASK, SIZE, 3, np.random.default_rng(0))
    assert masked.labels_M.tolist() == [-100] * 3


@settings(deadline=None)
@given(sequences, st.sampled_from([0.05, 0.15, 0.5, 0.9]), st.integers(0, 3))
def test_there_are_always_slots_enough(sequences, rate, cap):
    config = MaskingConfig(rate=rate, cap=cap)
    lengths_S = np.array([len(sequence) for sequence in sequences])
    assert num_to_mask(lengths_S, config).sum() <= most_masked(lengths_S.sum(), len(sequences), config)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rate": 0.0}, "rate is 0.0"),
        ({"cap": -1}, "cap is -1"),
        ({"longest_span": 0}, "longest_span 0"),
        ({"mask_share": 0.8, "keep_share": 0.3}, "together at most 1"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        MaskingConfig(**wrong)
