"""The walk of many documents at once against Google's procedure for one, written from the facts (4.2)."""

import math
import random
from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from bertie.pretraining.pairs import (
    IS_NEXT,
    IS_NOT,
    NO_PAIR,
    NUM_TOGETHER,
    Offsets,
    PairsConfig,
    draw_part,
    joined,
    num_parts,
)

MAX_LENGTH = 64


def corpus(num_documents, seed, mean_sentences=12, longest_sentence=40):
    """Documents of all lengths, some of a single sentence."""
    rng = np.random.default_rng(seed)
    num_sentences = rng.geometric(1 / mean_sentences, num_documents)
    lengths = np.minimum(rng.geometric(1 / 14, num_sentences.sum()), longest_sentence)
    return Offsets(np.append(0, np.cumsum(lengths)), np.append(0, np.cumsum(num_sentences)))


def draw_pass(offsets, config, seed, number):
    return (draw_part(offsets, config, (seed, number), part) for part in range(num_parts(offsets)))


def sequences(offsets, config, seed=0, number=0):
    """The sequences of a pass as (ranges, label)."""
    found = []
    for part in draw_pass(offsets, config, seed, number):
        ranges = list(zip(part.starts_R.tolist(), part.ends_R.tolist(), strict=True))
        firsts = part.firsts_S.tolist()
        found += [
            (ranges[first:last], label)
            for (first, last), label in zip(pairwise(firsts), part.labels_S.tolist(), strict=True)
        ]
    return found


# The plain procedure, tokens being the numbers of their places.


def plain_pass(offsets, kind, max_length, short_share, rng):
    sentences, starts = offsets.sentences.tolist(), offsets.documents.tolist()
    spelled = [list(range(first, last)) for first, last in pairwise(sentences)]
    documents = [spelled[first:last] for first, last in pairwise(starts)]
    for index in range(len(documents)):
        yield from plain_document(documents, index, kind, max_length, short_share, rng)


def plain_document(documents, index, kind, max_length, short_share, rng):
    document, most = documents[index], max_length - 3
    target = rng.randint(2, most) if rng.random() < short_share else most
    chunk, i = [], 0
    while i < len(document):
        chunk.append(document[i])
        if i == len(document) - 1 or sum(map(len, chunk)) >= target:
            a_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            a = [token for sentence in chunk[:a_end] for token in sentence]
            b = [token for sentence in chunk[a_end:] for token in sentence]
            label = 0
            if len(chunk) == 1 or (kind == "next_sentence" and rng.random() < 0.5):
                label, b = 1, plain_random(documents, index, target - len(a), rng)
                i -= len(chunk) - a_end
            elif kind == "sentence_order" and rng.random() < 0.5:
                label, a, b = 1, b, a
            plain_truncate(a, b, most, rng)
            yield a, b, label
            chunk = []
        i += 1


def plain_random(documents, index, length, rng):
    for _ in range(10):
        other = rng.randrange(len(documents))
        if other != index:
            break
    b = []
    for sentence in documents[other][rng.randrange(len(documents[other])) :]:
        b += sentence
        if len(b) >= length:
            break
    return b


def plain_truncate(a, b, most, rng):
    while len(a) + len(b) > most:
        longer = a if len(a) > len(b) else b
        del longer[0 if rng.random() < 0.5 else -1]


def lost_in_front(offsets, starts):
    """How many tokens of its sentence stand before each start."""
    return starts - offsets.sentences[np.searchsorted(offsets.sentences, starts, side="right") - 1]


def lost_at_end(offsets, ends):
    return offsets.sentences[np.searchsorted(offsets.sentences, ends)] - ends


NUM_COMPARED = 100_000


@pytest.mark.parametrize("kind", ["next_sentence", "sentence_order"])
def test_in_distribution_it_is_the_plain_procedure(kind):
    """100,000 of each. Shares may differ by 4.5 standard errors (1 in 150,000 by chance), distributions of lengths by
    the Kolmogorov-Smirnov bound of the same chance; sequences of one document hang together, but weakly."""
    offsets = corpus(6000, seed=1)
    rng = random.Random(2)
    found, expected, num_passes = [], [], 0
    while min(len(found), len(expected)) < NUM_COMPARED:
        for ranges, label in sequences(offsets, PairsConfig(kind, MAX_LENGTH), seed=3, number=num_passes):
            (a, a_end), (b, b_end) = ranges
            found.append((a_end - a, b_end - b, label, a, b))
        for a, b, label in plain_pass(offsets, kind, MAX_LENGTH, 0.1, rng):
            assert a == list(range(a[0], a[-1] + 1))  # ranges say all there is to say
            assert b == list(range(b[0], b[-1] + 1))
            expected.append((len(a), len(b), label, a[0], b[0]))
        num_passes += 1
    found, expected = np.array(found), np.array(expected)
    num = min(len(found), len(expected))
    assert len(found) == pytest.approx(len(expected), rel=0.01)

    def bound(share):
        return 4.5 * math.sqrt(2 * share * (1 - share) / num)

    for what in (
        lambda rows: rows[:, 2] == 1,  # random, or swapped
        lambda rows: rows[:, 4] == rows[:, 3] + rows[:, 0],  # B is what follows A, not truncated between them
        lambda rows: rows[:, 0] + rows[:, 1] == MAX_LENGTH - 3,
        lambda rows: rows[:, 0] > rows[:, 1],
        lambda rows: np.isin(rows[:, 3], offsets.sentences),  # A has lost nothing in front
        lambda rows: np.isin(rows[:, 3] + rows[:, 0], offsets.sentences),  # nor at its end
        lambda rows: np.isin(rows[:, 4], offsets.sentences),
        lambda rows: np.isin(rows[:, 4] + rows[:, 1], offsets.sentences),
        lambda rows: np.isin(rows[:, 3], offsets.sentences[offsets.documents]),  # A begins a document
        lambda rows: lost_in_front(offsets, rows[:, 3]) > lost_at_end(offsets, rows[:, 3] + rows[:, 0]),
        lambda rows: lost_in_front(offsets, rows[:, 4]) > lost_at_end(offsets, rows[:, 4] + rows[:, 1]),
    ):
        shares = [what(rows).mean() for rows in (found, expected)]
        assert 0 < shares[1] < 1
        assert abs(shares[0] - shares[1]) < bound(shares[1])

    lengths = [
        [rows[:, 0], rows[:, 1], rows[:, 0] + rows[:, 1], rows[rows[:, 2] == 1, 1]] for rows in (found, expected)
    ]
    for one, other in zip(*lengths, strict=True):
        counts = [np.cumsum(np.bincount(values, minlength=MAX_LENGTH)) / len(values) for values in (one, other)]
        few = min(len(one), len(other))
        assert np.abs(counts[0] - counts[1]).max() < 2.5 * math.sqrt(2 / few)  # Kolmogorov-Smirnov


@pytest.mark.parametrize("kind", ["next_sentence", "sentence_order"])
def test_a_pass_uses_every_sentence_once(kind):
    """With no limit that truncates, A and the B that belong to it tile each document: what was put back is used."""
    offsets = corpus(300, seed=4)
    config = PairsConfig(kind, max_length=4000)
    tiles = []
    for ((a, a_end), (b, b_end)), label in sequences(offsets, config):
        if label == IS_NEXT:
            assert a_end == b
            tiles.append((a, b_end))
        elif kind == "sentence_order" and b_end == a:
            tiles.append((b, a_end))  # swapped
        else:
            tiles.append((a, a_end))
    tiles.sort()
    assert tiles[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(tiles))
    assert tiles[-1][1] == offsets.sentences[-1]


@pytest.mark.parametrize("kind", ["next_sentence", "sentence_order", "full_sentences", "packed"])
def test_no_sequence_is_too_long_or_leaves_its_document(kind):
    offsets = corpus(5000, seed=5)
    assert len(offsets.documents) > NUM_TOGETHER
    ends = offsets.sentences[offsets.documents[1:]]
    for part in draw_pass(offsets, PairsConfig(kind, MAX_LENGTH), seed=6, number=7):
        lengths = part.lengths()
        assert lengths.max() == MAX_LENGTH
        sizes = part.ends_R - part.starts_R
        assert sizes.min() > 0
        assert lengths[0] == sizes[: part.firsts_S[1]].sum() + part.firsts_S[1] + 1
        document_of_start = np.searchsorted(ends, part.starts_R, side="right")
        document_of_end = np.searchsorted(ends, part.ends_R - 1, side="right")
        assert np.array_equal(document_of_start, document_of_end)
        if kind in ("next_sentence", "sentence_order"):
            assert (np.diff(part.firsts_S) == 2).all()
            assert set(part.labels_S.tolist()) == {IS_NEXT, IS_NOT}
        else:
            assert set(part.labels_S.tolist()) == {NO_PAIR}


def test_the_random_next_is_from_another_document():
    offsets = corpus(50, seed=8)
    ends = offsets.sentences[offsets.documents[1:]]
    for ((a, _), (b, _)), label in sequences(offsets, PairsConfig("next_sentence", MAX_LENGTH)):
        same = np.searchsorted(ends, a, side="right") == np.searchsorted(ends, b, side="right")
        assert same == (label == IS_NEXT)


def test_a_single_document_draws_from_itself():
    offsets = corpus(1, seed=9, mean_sentences=400)
    labels = [label for _, label in sequences(offsets, PairsConfig("next_sentence", MAX_LENGTH))]
    assert len(labels) > 50
    assert 0.35 < np.mean(labels) < 0.75


def test_documents_of_one_sentence_have_no_next():
    offsets = corpus(200, seed=10, mean_sentences=1)
    for kind in ("next_sentence", "sentence_order"):
        found = sequences(offsets, PairsConfig(kind, MAX_LENGTH))
        assert len(found) == 200
        assert {label for _, label in found} == {IS_NOT}


@pytest.mark.parametrize("short_share", [0.0, 0.1, 1.0])
def test_short_targets_are_drawn_once_a_document(short_share):
    """With sentences of one token a sequence has the target's length, unless the document ends."""
    num_documents, num_sentences, most = 3000, 300, MAX_LENGTH - 3
    offsets = Offsets(
        np.arange(num_documents * num_sentences + 1), np.arange(0, num_documents * num_sentences + 1, num_sentences)
    )
    targets = defaultdict(set)
    for ((a, a_end), (b, b_end)), _ in sequences(offsets, PairsConfig("sentence_order", MAX_LENGTH, short_share)):
        if max(a_end, b_end) % num_sentences:
            targets[a // num_sentences].add(a_end - a + b_end - b)
    assert len(targets) == num_documents
    assert all(len(lengths) == 1 for lengths in targets.values())
    short = np.array([length for (length,) in targets.values() if length < most])
    expected = short_share * (1 - 1 / (most - 1))  # one short target is the longest
    assert abs(len(short) / num_documents - expected) < 4.5 * math.sqrt(0.25 / num_documents)
    if short_share == 1:  # uniform from 2 to the most
        assert (short.min(), short.max()) == (2, most - 1)
        assert short.mean() == pytest.approx((2 + most - 1) / 2, abs=4.5 * most / math.sqrt(12 * len(short)))


def test_a_pass_is_a_function_of_seed_and_number():
    offsets = corpus(5000, seed=12)
    config = PairsConfig("next_sentence", MAX_LENGTH)
    one = sequences(offsets, config, seed=1, number=2)
    assert sequences(offsets, config, seed=1, number=2) == one
    assert sequences(offsets, config, seed=1, number=3) != one
    assert sequences(offsets, config, seed=2, number=2) != one
    parts = [len(part.labels_S) for part in draw_pass(offsets, config, 1, 2)]
    assert len(parts) == 2


def cut_sentences(offsets, room):
    """The sentences, those that would not fit even alone in pieces."""
    sentences = offsets.sentences.tolist()
    pieces = []
    for start, end in pairwise(sentences):
        pieces += [(at, min(at + room, end)) for at in range(start, end, room)]
    return pieces


def test_full_sentences():
    """The whole specification: every sentence once, whole, in order within its document; and no sequence could have
    taken the next sentence too."""
    offsets = corpus(400, seed=13)
    max_length = 32  # some sentences are longer
    pieces = dict(cut_sentences(offsets, max_length - 2))
    found = sequences(offsets, PairsConfig("full_sentences", max_length))
    document_ends = set(offsets.sentences[offsets.documents].tolist())
    seen = []
    for (ranges, label), following in zip(found, [*found[1:], None], strict=True):
        assert label == NO_PAIR
        length = 1 + sum(end - start + 1 for start, end in ranges)
        assert length <= max_length
        for start, end in ranges:
            while start < end:
                seen.append(start)
                start = pieces[start]
            assert start == end
        assert all(end in document_ends for _, end in ranges[:-1])
        if following:
            start = following[0][0][0]
            separator = 1 if ranges[-1][1] in document_ends else 0
            assert length + separator + pieces[start] - start > max_length
    assert sorted(seen) == sorted(pieces)
    assert any(len(ranges) > 2 for ranges, _ in found)
    order = [start for start in seen if start in document_ends]
    assert order != sorted(order)  # documents come in a drawn order


def test_packed():
    """Every token once; only a document's first and last sequence are not full; each pass cuts elsewhere."""
    offsets = corpus(300, seed=14)
    room = MAX_LENGTH - 2
    config = PairsConfig("packed", MAX_LENGTH)
    ranges = sorted(ranges[0] for ranges, _ in sequences(offsets, config))
    assert ranges[0][0] == 0
    assert ranges[-1][1] == offsets.sentences[-1]
    assert all(one[1] == other[0] for one, other in pairwise(ranges))
    document_starts = set(offsets.sentences[offsets.documents].tolist())
    assert all(end - start == room for start, end in ranges if not {start, end} & document_starts)
    assert document_starts - {0} <= {end for _, end in ranges}
    starts = [end - start for start, end in ranges if start in document_starts and end not in document_starts]
    assert min(starts) < room / 4 < 3 * room / 4 < max(starts)
    assert sorted(one[0] for one, _ in sequences(offsets, config, number=1)) != ranges


def test_lengths_count_special_tokens():
    offsets = Offsets(np.array([0, 3, 5, 9]), np.array([0, 1, 2, 3]))
    (part,) = draw_pass(offsets, PairsConfig("full_sentences", max_length=13), 0, 0)
    assert part.lengths().tolist() == [1 + 3 + 2 + 4 + 3]


@pytest.mark.parametrize(
    ("settings", "message"), [({"max_length": 4}, "max_length is 4"), ({"short_share": 1.5}, "short_share is 1.5")]
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PairsConfig(**settings)


def test_sequences_are_selected_in_any_order_and_joined_again():
    offsets = corpus(40, seed=8)
    (part,) = draw_pass(offsets, PairsConfig("full_sentences", max_length=MAX_LENGTH), 0, 0)
    num_sequences = len(part.labels_S)
    order = np.random.default_rng(3).permutation(num_sequences)
    shuffled = joined([part.select(order[:7]), part.select(order[7:])])
    back = shuffled.select(np.argsort(order))
    for name in ("starts_R", "ends_R", "firsts_S", "labels_S"):
        assert getattr(back, name).tolist() == getattr(part, name).tolist()
    assert (shuffled.lengths() == part.lengths()[order]).all()
