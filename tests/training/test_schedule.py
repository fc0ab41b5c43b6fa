import math

import pytest

from bertie.training.schedule import ScheduleConfig, share_at_fraction, share_at_step

CURVES = ["google", "linear", "cosine", "wsd"]


def shares(config, num_steps):
    return [share_at_step(config, step, num_steps) for step in range(num_steps)]


def test_google_to_the_letter():
    # Paper: peak 1e-4, 10,000 of 1,000,000 steps of warm-up. The decay is counted from step 0.
    config = ScheduleConfig(curve="google", warmup=0.01)
    for step in (0, 1, 5_000, 9_999):
        assert 1e-4 * share_at_step(config, step, 1_000_000) == pytest.approx(1e-4 * step / 10_000, rel=1e-12)
    for step in (10_000, 10_001, 500_000, 999_999):
        assert 1e-4 * share_at_step(config, step, 1_000_000) == pytest.approx(1e-4 * (1 - step / 1_000_000), rel=1e-12)
    assert share_at_step(config, 0, 1_000_000) == 0
    assert share_at_step(config, 10_000, 1_000_000) == 0.99  # the drop where warm-up ends


def test_linear_is_anchored_where_warmup_ends():
    found = shares(ScheduleConfig(curve="linear", warmup=0.25), 8)
    assert found == pytest.approx([0, 1 / 2, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])


def test_cosine():
    found = shares(ScheduleConfig(curve="cosine", warmup=0.0), 8)
    assert found == pytest.approx([(1 + math.cos(math.pi * step / 8)) / 2 for step in range(8)])


def test_warmup_stable_decay():
    found = shares(ScheduleConfig(curve="wsd", warmup=0.2, decay=0.4), 10)
    assert found == pytest.approx([0, 0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25])


def test_no_decay_stays_at_the_peak():
    assert shares(ScheduleConfig(curve="wsd", warmup=0.0, decay=0.0), 5) == [1] * 5


def test_warmup_is_whole_steps():
    # Google's fine-tuning scripts: int(0.1 * 25) = 2 steps of warm-up, so step 2 is already past it.
    assert share_at_step(ScheduleConfig(curve="google", warmup=0.1), 1, 25) == 0.5
    assert share_at_step(ScheduleConfig(curve="google", warmup=0.1), 2, 25) == 1 - 2 / 25


@pytest.mark.parametrize("curve", CURVES)
def test_the_end_is_final_and_stays_there(curve):
    config = ScheduleConfig(curve=curve, warmup=0.1, final=0.02)
    assert share_at_step(config, 1000, 1000) == 0.02
    assert share_at_fraction(config, 1.3) == 0.02
    assert 0.02 < share_at_step(config, 999, 1000) < 0.03
    assert max(shares(config, 1000)) <= 1


@pytest.mark.parametrize("curve", CURVES)
def test_a_fraction_of_the_minutes_gives_the_same_curve(curve):
    config = ScheduleConfig(curve=curve, warmup=0.125)  # a whole number of steps
    for step in range(64):
        assert share_at_fraction(config, step / 64) == pytest.approx(share_at_step(config, step, 64), abs=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warmup": 10_000.0}, "warmup is 10000.0; it is a share"),
        ({"final": -0.1}, "final is -0.1"),
        ({"curve": "wsd", "warmup": 0.5, "decay": 0.7}, "more than the whole run"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ScheduleConfig(**settings)
