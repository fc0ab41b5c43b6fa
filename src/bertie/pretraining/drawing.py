"""The batches of a run by their number: what a batch holds is a function of seed and number alone.

The corpus is read pass after pass, in units: a part of a shard, some thousand documents, whose sequences are shuffled
and dealt out to batches. What is left over, less than a batch, waits for another pass. Where a part is too small for a
few batches, a unit is several passes over it.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

from bertie.corpus.shards import Shard
from bertie.model.encoder import Batch
from bertie.pretraining.objective import Rows, Slots, Specials, lay_out, make_batch, num_fillers
from bertie.pretraining.pairs import Booleans, Ints, Offsets, Sequences, draw_part, joined, num_parts
from bertie.pretraining.recipe import Recipe
from bertie.text.wordpiece import Tokenizer
from bertie.training.loop import Batches, Drawn

FEWEST_BATCHES = 4  # of a unit
LOOK_AHEAD = 256  # sequences among which one is sought that fills a batch up
SPARE_SLOTS = 1.25  # for sequences, times what a batch holds on average
NUM_AHEAD = 3  # batches drawn before they are asked for
ORDER, SHUFFLE, MASKS = 1, 2, 3  # what else is drawn from the seed, each from a generator of its own
VALIDATION_SEED, VALIDATION_BATCH = 0, 64  # the same for every run, so that runs can be compared


@dataclass(frozen=True)
class Place:
    """Where a drawer stands: a unit, and the number of its first batch. From it, any later batch is found quickly."""

    unit: int = 0
    batch: int = 0


@dataclass(frozen=True)
class Unit:
    """The sequences of a unit in their order, and where each batch of them ends."""

    shard: Shard
    sequences: Sequences
    ends: Ints
    seeds: tuple[int, ...]

    def batch(self, index: int) -> Sequences:
        start = self.ends[index - 1] if index else 0
        return self.sequences.select(np.arange(start, self.ends[index]))


class Drawer:
    """Draws the batches of one phase: all sequences are drawn by one PairsConfig. Asked for numbers that go up, it has
    the next unit drawn in the background."""

    def __init__(self, shards: Sequence[Shard], tokenizer: Tokenizer, recipe: Recipe, place: Place | None = None):
        self._recipe, self._shards = recipe, shards
        self._specials, self._goes_on = specials_of(tokenizer), tokenizer.is_continuation
        self._offsets = [_offsets(shard) for shard in shards]
        self._parts = [(nth, part) for nth, offsets in enumerate(self._offsets) for part in range(num_parts(offsets))]
        batch = recipe.batch // recipe.loop.batches_per_step
        num_tokens = batch if recipe.counts == "tokens" else batch * recipe.pairs.max_length
        smallest = min(len(shard.tokens) // num_parts(offsets) for shard, offsets in self._shards_and_offsets())
        self._num_passes = -(-FEWEST_BATCHES * num_tokens // max(smallest, 1))
        self._batch = batch
        self.slots = self._find_slots() if recipe.counts == "tokens" else None
        place = place or Place()
        self._firsts = {place.unit: place.batch}
        self._background = ThreadPoolExecutor(1)
        self._units: dict[int, Future[Unit]] = {}

    def __call__(self, number: int) -> Drawn[Batch]:
        """The batch of this number, on the CPU."""
        place = self.place(number)
        unit = self._get(place.unit)
        while number >= place.batch + len(unit.ends):
            place = Place(place.unit + 1, place.batch + len(unit.ends))
            self._firsts[place.unit] = place.batch
            unit = self._get(place.unit)
        index = number - place.batch
        rows = read_rows(unit.shard, unit.batch(index), self._goes_on, self._specials)
        rng = np.random.default_rng((*unit.seeds, MASKS, index))
        recipe = self._recipe
        return make_batch(rows, recipe.objective, recipe.masking, self._specials, self.slots, rng)

    def place(self, number: int) -> Place:
        """The last unit known to begin at or before this batch; ValueError for a batch before the first one known."""
        known = [Place(unit, first) for unit, first in self._firsts.items() if first <= number]
        assert known, f"batch {number} is before the place that the drawer was set to"
        return max(known, key=lambda place: place.unit)

    def _get(self, number: int) -> Unit:
        """The unit; the one after it is begun."""
        for wanted in (number, number + 1):
            if wanted not in self._units:
                self._units[wanted] = self._background.submit(self._draw, wanted)
        for old in [known for known in self._units if known < number]:
            del self._units[old]
        return self._units[number].result()

    def _draw(self, number: int) -> Unit:
        seed, dupe_factor = self._recipe.loop.seed, self._recipe.dupe_factor
        nth_round, index = divmod(number, len(self._parts))
        order = np.random.default_rng((seed, ORDER, nth_round, ORDER)).permutation(len(self._parts))
        nth_shard, part = self._parts[order[index]]
        again = nth_round % dupe_factor if dupe_factor else nth_round
        passes = range(again * self._num_passes, (again + 1) * self._num_passes)
        several = [
            draw_part(self._offsets[nth_shard], self._recipe.pairs, (seed, nth_shard, number_of_pass), part)
            for number_of_pass in passes
        ]
        sequences, seeds = joined(several), (seed, nth_shard, again, part)
        rng = np.random.default_rng((*seeds, SHUFFLE))
        order = rng.permutation(len(sequences.labels_S))
        if self.slots is None:
            ends = np.arange(self._batch, len(order) + 1, self._batch)
        else:
            packed, ends = fill_batches(sequences.lengths()[order], self.slots)
            order = order[packed]
        return Unit(self._shards[nth_shard], sequences.select(order), ends, seeds)

    def _find_slots(self) -> Slots:
        """Batches of fixed size, with slots for a few more sequences than they hold on average."""
        config = self._recipe.pairs
        lengths = draw_part(self._offsets[0], config, (self._recipe.loop.seed, 0, 0), 0).lengths()
        num_sequences = int(SPARE_SLOTS * self._batch / lengths.mean()) + 1
        return Slots(self._batch, num_sequences, config.max_length)

    def _shards_and_offsets(self) -> Iterator[tuple[Shard, Offsets]]:
        return zip(self._shards, self._offsets, strict=True)


class Ahead:
    """Batches drawn in the background before they are asked for, and on their way to the device."""

    def __init__(self, draw: Callable[[int], Drawn[Batch]], stride: int, device: torch.device) -> None:
        self._draw, self._stride, self._device = draw, stride, device
        self._background = ThreadPoolExecutor(1)
        self._drawn: dict[int, Future[Drawn[Batch]]] = {}

    def __call__(self, number: int) -> Drawn[Batch]:
        """The batch of this number, on the device; the next ones at this rank's stride are begun."""
        wanted = [number + step * self._stride for step in range(NUM_AHEAD + 1)]
        self._drawn = {one: self._drawn.get(one) or self._background.submit(self._draw_and_pin, one) for one in wanted}
        drawn = self._drawn[number].result()
        return replace(drawn, batch=drawn.batch.to(self._device))

    def _draw_and_pin(self, number: int) -> Drawn[Batch]:
        drawn = self._draw(number)
        return replace(drawn, batch=drawn.batch.pinned()) if self._device.type == "cuda" else drawn


def phases(first: Batches[Batch], second: Batches[Batch], switch: int) -> Batches[Batch]:
    """The batches of two phases as one, the second beginning with the number `switch`."""
    return lambda number: first(number) if number < switch else second(number - switch)


def validation_batches(shards: Sequence[Shard], tokenizer: Tokenizer, recipe: Recipe) -> list[Drawn[Batch]]:
    """Batches of the first sequences of a pass over the held-back documents, always the same with the same masks."""
    specials, batches, num_left = specials_of(tokenizer), list[Drawn[Batch]](), recipe.validation_sequences
    parts = [
        (shard, offsets, part)
        for shard in shards
        for offsets in [_offsets(shard)]
        for part in range(num_parts(offsets))
    ]
    for nth, (shard, offsets, part) in enumerate(parts):
        sequences = draw_part(offsets, recipe.pairs, (VALIDATION_SEED, nth, ORDER), part)
        order = np.random.default_rng((VALIDATION_SEED, nth, SHUFFLE)).permutation(len(sequences.labels_S))[:num_left]
        num_left -= len(order)
        for first in range(0, len(order), VALIDATION_BATCH):
            chosen = sequences.select(order[first : first + VALIDATION_BATCH])
            rows = read_rows(shard, chosen, tokenizer.is_continuation, specials)
            rng = np.random.default_rng((VALIDATION_SEED, nth, MASKS, first + 1))
            batches.append(make_batch(rows, recipe.objective, recipe.masking, specials, None, rng))
    return batches


def specials_of(tokenizer: Tokenizer) -> Specials:
    """The ids that the tokenizer's vocabulary has for special tokens."""
    ids = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id, tokenizer.pad_id)
    return Specials(*ids, vocabulary_size=tokenizer.size)


def fill_batches(lengths_S: Ints, slots: Slots) -> tuple[Ints, Ints]:
    """An order of the sequences, near the given one, and where batches end in it: each is filled in order as long as
    the next one fits, then with the longest of the following ones that fit. The last, not full one is left out."""
    order, ends, start = np.arange(len(lengths_S)), list[int](), 0
    while True:
        taken = np.cumsum(lengths_S[order[start : start + slots.num_sequences]])
        number = int(np.searchsorted(taken, slots.num_tokens, side="right"))
        number = _leave_fillers(taken, number, slots)
        if not number or start + number == len(order):
            return order, np.array(ends, np.int64)
        room = slots.num_tokens - int(taken[number - 1])
        while start + number < len(order):
            following = lengths_S[order[start + number : start + number + LOOK_AHEAD]]
            best = int(np.argmax(np.where(following <= room, following, 0)))
            rest = room - int(following[best])
            if rest < 0 or number + 1 + num_fillers(rest, slots.max_length) > slots.num_sequences:
                break
            swap = [start + number, start + number + best]
            order[swap] = order[swap[::-1]]
            room, number = rest, number + 1
        start += number
        ends.append(start)


def _leave_fillers(taken: Ints, number: int, slots: Slots) -> int:
    """As many of the first `number` sequences as leave a slot for each sequence of nothing that fills the batch up."""
    while number and number + num_fillers(slots.num_tokens - int(taken[number - 1]), slots.max_length) > (
        slots.num_sequences
    ):
        number -= 1
    return number


def read_rows(shard: Shard, sequences: Sequences, goes_on: Booleans, specials: Specials) -> Rows:
    """The tokens of the sequences, laid out. goes_on: of each id, whether its piece goes on a word; the shard's own
    word on that comes first."""
    lengths_R = sequences.ends_R - sequences.starts_R
    before_R = np.cumsum(lengths_R) - lengths_R
    places = np.repeat(sequences.starts_R - before_R, lengths_R) + np.arange(lengths_R.sum())
    tokens = shard.tokens[places].astype(np.int64)
    begins_word = shard.begins_word(places)
    return lay_out(tokens, goes_on[tokens] if begins_word is None else ~begins_word, sequences, specials)


def second_phase(recipe: Recipe) -> Recipe:
    """The recipe of the second phase: longer sequences, with as many more masks at most."""
    assert recipe.long_length is not None
    cap = recipe.masking.cap * recipe.long_length // recipe.pairs.max_length
    pairs, masking = replace(recipe.pairs, max_length=recipe.long_length), replace(recipe.masking, cap=cap)
    return replace(recipe, pairs=pairs, masking=masking, long_length=None)


def _offsets(shard: Shard) -> Offsets:
    return Offsets(shard.sentences, shard.documents)
