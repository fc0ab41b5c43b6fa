"""What is dropped: as many as asked, other ones for each seed, the same in a kernel and in torch."""

import pytest
import torch

pytest.importorskip("triton")

from bertie.kernels.dropout import MOST, draw_seeds, kept

PLACES = torch.arange(200_000)


@pytest.mark.parametrize("seed", [0, 1, 12345, MOST])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_drops_as_many_as_asked(seed: int, rate: float) -> None:
    assert (~kept(PLACES, seed, rate)).double().mean() == pytest.approx(rate, abs=0.004)


@pytest.mark.parametrize("shift", [1, 2, 7, 64, 768, 12 * 128])
def test_neighbours_and_seeds_do_not_go_together(shift: int) -> None:
    mask = kept(PLACES, 5, 0.5).double() * 2 - 1
    others = [mask.roll(shift), kept(PLACES, 5 + shift, 0.5).double() * 2 - 1, kept(PLACES ^ shift, 5, 0.5) * 2.0 - 1]
    for other in others:
        assert abs(float((mask * other).mean())) < 0.012  # five standard deviations


def test_masks_of_two_seeds_are_not_each_other_in_another_order() -> None:
    places = torch.arange(2**14)
    assert not torch.equal(kept(places, 8, 0.5), kept(places ^ (8 ^ 3), 3, 0.5))
    assert kept(places, 8, 0.5).sum() != kept(places, 3, 0.5).sum()


def test_seeds_come_from_the_generator_that_the_loop_seeds() -> None:
    torch.default_generator.manual_seed(3)
    first = draw_seeds(4)
    torch.default_generator.manual_seed(3)
    assert draw_seeds(4) == first
    assert len(set(first)) == 4
