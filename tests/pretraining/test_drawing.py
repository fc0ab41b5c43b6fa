from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from bertie.corpus.shards import open_corpus
from bertie.pretraining.drawing import Ahead, Drawer, fill_batches, phases, second_phase, validation_batches
from bertie.pretraining.objective import Slots
from bertie.pretraining.recipe import change, read_recipe
from bertie.text.wordpiece import Tokenizer


@pytest.fixture(scope="module")
def corpus(corpus_folder):
    return open_corpus(corpus_folder)


@pytest.fixture(scope="module")
def tokenizer(corpus_folder):
    return Tokenizer.load(corpus_folder)


def recipe(*settings):
    return change(read_recipe("tiny-cpu"), ["batch=8", "max_length=32", *settings])


FILLED = ("counts=tokens", "batch=256")


def as_lists(drawn):
    batch = drawn.batch
    tensors = (batch.ids_N, batch.segments_N, batch.positions_N, batch.starts_S, batch.masked_M, batch.labels_M)
    pairs = [] if batch.pair_S is None else batch.pair_S.tolist()
    return [tensor.tolist() for tensor in tensors], pairs, drawn.num_tokens, dict(drawn.num_targets)


def documents(batch):
    """The words of each sequence, as they were before masking."""
    ids_N = batch.ids_N.clone()
    is_used = batch.labels_M >= 0
    ids_N[batch.masked_M[is_used]] = batch.labels_M[is_used]
    starts = batch.starts_S.tolist()
    return [tuple(ids_N[start:end].tolist()) for start, end in pairwise(starts) if end > start]


@pytest.mark.parametrize("settings", [(), FILLED, ("kind=packed", "objective=masked", *FILLED)])
def test_a_batch_is_a_function_of_seed_and_number(corpus, tokenizer, settings):
    in_order = Drawer(corpus.train, tokenizer, recipe(*settings))
    drawn = [as_lists(in_order(number)) for number in range(60)]
    while in_order.place(len(drawn) - 5).unit < 2:
        drawn.append(as_lists(in_order(len(drawn))))
    other = Drawer(corpus.train, tokenizer, recipe(*settings))
    for number in (41, 3, 59, 0):
        assert as_lists(other(number)) == drawn[number]
    last = range(len(drawn) - 5, len(drawn))
    from_place = Drawer(corpus.train, tokenizer, recipe(*settings), in_order.place(last[0]))
    assert [as_lists(from_place(number)) for number in last] == drawn[-5:]
    reseeded = Drawer(corpus.train, tokenizer, recipe(*settings, "seed=1"))
    assert as_lists(reseeded(0)) != drawn[0]
    assert len({str(one) for one in drawn}) == len(drawn)


@pytest.mark.parametrize("kind", ["next_sentence", "packed"])
def test_a_batch_of_tokens_loses_less_than_a_hundredth(corpus, tokenizer, kind):
    objective = "masked" if kind == "packed" else "masked+pair"
    draw = Drawer(
        corpus.train, tokenizer, recipe("counts=tokens", "batch=1024", f"kind={kind}", f"objective={objective}")
    )
    several = [draw(number) for number in range(30)]
    shapes = {
        tuple(tensor.shape for tensor in (one.batch.ids_N, one.batch.starts_S, one.batch.masked_M)) for one in several
    }
    assert len(shapes) == 1
    assert np.mean([one.num_tokens / 1024 for one in several]) > 0.99
    for one in several:
        assert one.batch.starts_S[-1] == 1024
        assert one.batch.starts_S.diff().max() <= 32


def test_a_pass_reads_every_document_once(corpus, tokenizer):
    draw = Drawer(corpus.train, tokenizer, recipe("kind=packed", "objective=masked", "batch=16"))
    unit = draw._get(0)  # the whole pass is one
    lengths = unit.sequences.ends_R - unit.sequences.starts_R
    places = np.repeat(unit.sequences.starts_R - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
    assert sorted(places) == list(range(corpus.counts["train"]["tokens"]))


def test_a_corpus_smaller_than_a_batch_is_read_several_times(corpus, tokenizer):
    draw = Drawer(corpus.train, tokenizer, recipe("batch=2048"))
    assert draw(2).num_targets["pair"] == 2048


def test_dupe_factor_brings_the_first_passes_back(corpus, tokenizer):
    draw = Drawer(corpus.train, tokenizer, recipe("dupe_factor=2", "batch=16"))
    first = [as_lists(draw(number)) for number in range(len(draw._get(0).ends))]
    assert draw(draw._firsts[0] + len(first) + 1)
    second_starts = len(first)
    num_second = len(draw._get(1).ends)
    third = [as_lists(draw(second_starts + num_second + number)) for number in range(len(first))]
    assert third == first
    assert as_lists(draw(second_starts)) != first[0]


def test_every_kind_of_masking_and_pairing_is_drawn(corpus, tokenizer):
    for settings in (
        ("unit=words",),
        ("unit=spans", "kind=sentence_order"),
        ("kind=full_sentences", "objective=masked"),
        ("objective=pair",),
        ("objective=causal", "kind=packed"),
    ):
        drawn = Drawer(corpus.train, tokenizer, recipe(*settings))(0)
        assert drawn.num_tokens == int(drawn.batch.starts_S[-1])
        assert all(count > 0 for count in drawn.num_targets.values())


def test_phases_switch_to_longer_sequences_with_more_masks(corpus, tokenizer):
    two = recipe("cap=4", "long_length=64")
    assert second_phase(two).masking.cap == 8
    first, second = (Drawer(corpus.train, tokenizer, one) for one in (two, second_phase(two)))
    both = phases(first, second, 3)
    assert both(2).batch.starts_S.diff().max() <= 32
    assert both(3).batch.starts_S.diff().max() > 32
    assert as_lists(both(3)) == as_lists(second(0))


def test_what_is_drawn_ahead_is_what_would_be_drawn(corpus, tokenizer):
    draw = Drawer(corpus.train, tokenizer, recipe())
    ahead = Ahead(Drawer(corpus.train, tokenizer, recipe()), 2, torch.device("cpu"))
    for number in (1, 3, 5, 7, 4):
        assert as_lists(ahead(number)) == as_lists(draw(number))


def test_validation_is_always_the_same_and_no_more_than_asked_for(corpus, tokenizer):
    one, other = (validation_batches(corpus.validation, tokenizer, recipe(f"seed={seed}")) for seed in (0, 5))
    assert [as_lists(batch) for batch in one] == [as_lists(batch) for batch in other]
    few = validation_batches(corpus.validation, tokenizer, recipe("validation_sequences=10"))
    assert sum(batch.num_targets["pair"] for batch in few) == 10
    train = Drawer(corpus.train, tokenizer, recipe("kind=packed", "objective=masked"))
    held_back = validation_batches(corpus.validation, tokenizer, recipe("kind=packed", "objective=masked"))
    seen = {sequence for number in range(40) for sequence in documents(train(number).batch) if len(sequence) > 12}
    assert seen.isdisjoint({sequence for batch in held_back for sequence in documents(batch.batch)})


def test_filling_keeps_every_sequence_and_the_bounds():
    rng = np.random.default_rng(4)
    for _ in range(50):
        lengths = rng.integers(5, 65, rng.integers(1, 400))
        slots = Slots(int(rng.integers(64, 600)), int(rng.integers(12, 40)), 64)
        order, ends = fill_batches(lengths, slots)
        assert sorted(order) == list(range(len(lengths)))
        for start, end in zip(np.append(0, ends), ends, strict=False):
            num_tokens = lengths[order[start:end]].sum()
            fillers = -(-(slots.num_tokens - num_tokens) // slots.max_length)
            assert num_tokens <= slots.num_tokens
            assert end - start + fillers <= slots.num_sequences
        left = lengths[order[ends[-1] if len(ends) else 0 :]]
        assert left.sum() <= slots.num_tokens or len(left) > slots.num_sequences or len(ends) == 0


def test_word_bits_of_the_shard_come_before_the_vocabulary(corpus, tokenizer):
    """Where a segmenter said where words begin, that counts: here, one word to each document."""
    shard = corpus.train[0]
    bits = np.zeros(len(shard.tokens), np.bool_)
    bits[shard.sentences[shard.documents[:-1]]] = True
    marked = replace(shard, word_bits=np.packbits(bits, bitorder="little"))
    whole = recipe("unit=words", "kind=packed", "objective=masked", "rate=0.4")
    usual, changed = (Drawer([one], tokenizer, whole)(0) for one in (shard, marked))
    assert usual.num_targets["masked"] > 2 * changed.num_targets["masked"]
