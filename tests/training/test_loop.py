import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bertie.training.distributed import Ranks
from bertie.training.loop import (
    Budget,
    Drawn,
    Hooks,
    LoopConfig,
    Part,
    State,
    fit,
    learning_rate_share,
    num_batches,
)
from bertie.training.optimizers import OptimizerConfig, make_optimizers
from bertie.training.schedule import ScheduleConfig

CONSTANT = ScheduleConfig(curve="wsd", warmup=0.0, decay=0.0)


@pytest.fixture
def fit_tiny(tiny):
    """Train the tiny model on the CPU; gives the events, the model and the state."""

    def run(config, model=None, batches=tiny.draw, loss=tiny.loss, rule="adamw", **hooks):
        model = model or tiny.Tiny()
        state = State(make_optimizers(model, OptimizerConfig(rule=rule, lr=0.01)))
        events = []
        outcome = fit(model, batches, loss, config, state, tiny.CPU, tiny.hooks(report=events.append, **hooks))
        return events, model, state, outcome

    return run


def named(events, name):
    return [event for event in events if event["event"] == name]


def test_it_learns(fit_tiny, tiny):
    config = replace(tiny.CONFIG, budget=Budget(300), schedule=CONSTANT, max_sigma=math.inf)
    events, *_ = fit_tiny(config)
    train = named(events, "train")
    assert train[0]["masked_loss"] > 2.2
    assert np.mean([event["masked_loss"] for event in train[-20:]]) < 0.3
    assert np.mean([event["masked_accuracy"] for event in train[-20:]]) > 0.9


def test_a_step_descends_the_mean_over_all_its_targets(fit_tiny, tiny):
    """Three batches of different sizes, one without a pair: the weights that one gradient worked out by hand gives."""
    config = replace(tiny.CONFIG, budget=Budget(1), batches_per_step=3, schedule=CONSTANT, clip=0.5)
    by_hand = tiny.Tiny().eval()  # no dropout
    losses = [tiny.loss(by_hand, tiny.draw(number).batch) for number in range(3)]
    counts = [tiny.draw(number).num_targets for number in range(3)]
    masked = sum(parts["masked"].loss for parts in losses) / sum(count["masked"] for count in counts)
    pair = sum(parts["pair"].loss for parts in losses) / sum(count["pair"] for count in counts)
    (masked + pair).backward()
    norm = nn.utils.clip_grad_norm_(by_hand.parameters(), 0.5)
    (optimizer,) = make_optimizers(by_hand, OptimizerConfig(rule="adam_weight_decay", lr=0.01))
    optimizer.step()

    model = tiny.Tiny()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    events, model, state, _ = fit_tiny(config, model, rule="adam_weight_decay")
    for one, other in zip(model.parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)
    (event,) = named(events, "train")
    right = sum(int(parts["masked"].num_correct) for parts in losses)
    assert event["masked_loss"] == pytest.approx(masked.item(), rel=1e-6)
    assert event["pair_loss"] == pytest.approx(pair.item(), rel=1e-6)
    assert event["loss"] == pytest.approx((masked + pair).item(), rel=1e-6)
    assert event["masked_accuracy"] == pytest.approx(right / sum(count["masked"] for count in counts))
    assert event["gradient_norm"] == pytest.approx(norm.item(), rel=1e-5)
    assert event["tokens"] == state.tokens == sum(tiny.draw(number).num_tokens for number in range(3))
    assert (event["step"], state.batches, event["lr"]) == (1, 3, 0.01)


def test_what_is_called_when(fit_tiny, tiny):
    config = replace(tiny.CONFIG, budget=Budget(6), evaluate_every=2, save_every=4)
    saved = []
    events, *_, outcome = fit_tiny(config, save=lambda state: saved.append(state.step))
    assert outcome == "finished"
    assert saved == [4, 6]
    assert [(event["event"], event["step"]) for event in events] == [
        ("train", 1),
        ("train", 2),
        ("evaluate", 2),
        ("train", 3),
        ("train", 4),
        ("evaluate", 4),
        ("save", 4),
        ("train", 5),
        ("train", 6),
        ("evaluate", 6),
        ("save", 6),
    ]
    assert named(events, "evaluate")[0]["validation_loss"] == 1.0


def test_every_step_has_its_speed_from_the_first_to_the_last_and_after_a_stop(tiny):
    now, events = [1000.0], []

    def draw(number):
        drawn = tiny.draw(number)
        now[0] += drawn.num_tokens / 40
        return drawn

    def save(state):
        now[0] += 500.0

    model = tiny.Tiny()
    state = State(make_optimizers(model, OptimizerConfig(rule="adamw", lr=0.01)))
    config = replace(tiny.CONFIG, budget=Budget(6), save_every=2)
    for stop in (tiny.stop_after(3), lambda: False):
        hooks = tiny.hooks(save, events.append, stop, lambda: now[0])
        fit(model, draw, tiny.loss, config, state, tiny.CPU, hooks)
    assert [event["step"] for event in named(events, "train")] == [1, 2, 3, 4, 5, 6]
    assert [event["tokens_per_second"] for event in named(events, "train")] == pytest.approx([40.0] * 6)


def test_the_model_trains_after_it_was_evaluated(tiny):
    model = tiny.Tiny()
    is_training = []

    def loss(model, batch):
        is_training.append(model.training)
        return tiny.loss(model, batch)

    def evaluate():
        model.eval()
        return {}

    hooks = Hooks(evaluate, lambda state: None, lambda event: None, lambda: False, lambda: 0.0)
    config = replace(tiny.CONFIG, budget=Budget(3), evaluate_every=1)
    fit(model, tiny.draw, loss, config, State(make_optimizers(model, OptimizerConfig(lr=0.1))), tiny.CPU, hooks)
    assert all(is_training)


def test_steps_follow_the_schedule(fit_tiny, tiny):
    config = replace(tiny.CONFIG, budget=Budget(10), schedule=ScheduleConfig(curve="google", warmup=0.2))
    events, *_ = fit_tiny(config)
    rates = [event["lr"] for event in named(events, "train")]
    assert rates == pytest.approx([0, 0.005, *(0.01 * (1 - step / 10) for step in range(2, 10))])


def test_a_budget_in_tokens(fit_tiny, tiny):
    config = replace(tiny.CONFIG, budget=Budget(100, "tokens"), schedule=ScheduleConfig(warmup=0.0))
    events, _, state, _ = fit_tiny(config)
    tokens = [0, *(event["tokens"] for event in named(events, "train"))]
    assert tokens[-2] < 100 <= tokens[-1] == state.tokens
    assert [event["lr"] for event in named(events, "train")] == pytest.approx(
        [0.01 * (1 - count / 100) for count in tokens[:-1]]
    )


def test_a_budget_in_minutes(fit_tiny, tiny):
    seconds = itertools.count(step=1)  # a clock that is a second on whenever it is read
    config = replace(tiny.CONFIG, budget=Budget(0.5, "minutes"), schedule=ScheduleConfig(warmup=0.0))
    events, _, state, outcome = fit_tiny(config, clock=lambda: next(seconds))
    assert outcome == "finished"
    assert 30 <= state.seconds < 33
    train = named(events, "train")
    assert [event["lr"] for event in train] == pytest.approx(
        [0.01 * max(1 - event["seconds"] / 30, 0) for event in train]
    )


def test_batch_size_warmup(fit_tiny, tiny):
    config = replace(tiny.CONFIG, budget=Budget(8), batches_per_step=5, batches_at_start=1, batch_warmup=0.5)
    sizes = [num_batches(config, State([], step=step)) for step in range(8)]
    assert sizes == [1, 2, 3, 4, 5, 5, 5, 5]
    _, _, state, _ = fit_tiny(config)
    assert state.batches == sum(sizes)


def test_stopping_finishes_the_step_and_saves(fit_tiny, tiny):
    saved = []
    events, *_, outcome = fit_tiny(tiny.CONFIG, stop=tiny.stop_after(3), save=lambda state: saved.append(state.step))
    assert outcome == "stopped"
    assert saved == [3]
    assert [event["event"] for event in events] == ["train"] * 3 + ["save"]


def weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("rule", ["adam_weight_decay", "adamw", "lamb", "muon"])
def test_the_batch_tried_out_before_the_first_step_leaves_no_trace(fit_tiny, tiny, rule):
    model = tiny.Tiny()
    before = weights(model)
    _, _, state, _ = fit_tiny(tiny.CONFIG, model, rule=rule, stop=lambda: True)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None
    remembered = [
        tensor for optimizer in state.optimizers for memory in optimizer.state.values() for tensor in memory.values()
    ]
    assert remembered  # the memory for it is taken
    assert all((tensor == 0).all() for tensor in remembered)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes"),
    ],
)
def test_a_batch_that_does_not_fit_is_found_at_once(fit_tiny, tiny, error):
    def loss(model, batch):
        raise error

    with pytest.raises(ValueError, match=r"One batch of \d+ tokens does not fit .*batches_per_step"):
        fit_tiny(tiny.CONFIG, loss=loss)


def test_other_errors_of_torch_are_not_taken_for_it(fit_tiny, tiny):
    def loss(model, batch):
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        fit_tiny(tiny.CONFIG, loss=loss)


def test_a_loss_that_is_not_a_number_skips_the_step(fit_tiny, tiny):
    """All steps but the third are the same as if it had never been."""
    events, *_ = fit_tiny(replace(tiny.CONFIG, budget=Budget(5), save_every=0), batches=tiny.draw_poisoned({5}))
    assert [event["event"] for event in events[:5]] == ["train", "train", "skip", "train", "train"]
    assert math.isnan(events[2]["loss"])
    assert "not finite" in events[2]["reason"]
    assert all(math.isfinite(event["loss"]) for event in events[3:5])

    def draw_without(number):
        return tiny.draw(number if number < 4 else number + 2)

    # Dropout is seeded by the number of the batch, so that the runs can be compared only without it.
    models = []
    for batches, steps in ((tiny.draw_poisoned({5}), 5), (draw_without, 4)):
        one = tiny.Tiny()
        for module in one.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        fit_tiny(replace(tiny.CONFIG, budget=Budget(steps), schedule=CONSTANT), one, batches)
        models.append(weights(one))
    for name in models[0]:
        assert torch.equal(models[0][name], models[1][name]), name


def test_a_gradient_that_is_not_finite_skips_the_step(fit_tiny, tiny):
    model = tiny.Tiny()
    calls = itertools.count()
    # Two batches are tried out, and two are a step: calls 4 and 5 are step 2's.
    model.head.bias.register_hook(lambda gradient: gradient * math.inf if next(calls) == 4 else gradient)
    events, *_ = fit_tiny(replace(tiny.CONFIG, budget=Budget(4)), model)
    assert [event["event"] for event in events[:4]] == ["train", "skip", "train", "train"]
    assert math.isfinite(events[1]["loss"])
    assert "not finite" in events[1]["reason"]


def loss_that_jumps(tiny, where):
    calls = itertools.count(-1)  # the batch tried out is not a step's

    def loss(model, batch):
        parts = tiny.loss(model, batch)
        times = 20 if next(calls) in where else 1
        return {**parts, "masked": Part(parts["masked"].loss * times, parts["masked"].num_correct)}

    return loss


@pytest.mark.parametrize(("max_sigma", "expected"), [(6.0, {51}), (math.inf, set())])
def test_a_jump_is_skipped(fit_tiny, tiny, max_sigma, expected):
    config = replace(
        tiny.CONFIG, budget=Budget(60), batches_per_step=1, batches_at_start=1, max_sigma=max_sigma, schedule=CONSTANT
    )
    events, *_ = fit_tiny(config, loss=loss_that_jumps(tiny, {50}))
    assert {event["step"] for event in named(events, "skip")} == expected
    assert all("jumped" in event["reason"] for event in named(events, "skip"))


def test_a_jump_cannot_be_told_before_there_are_losses_to_compare(fit_tiny, tiny):
    config = replace(tiny.CONFIG, budget=Budget(30), batches_per_step=1, batches_at_start=1)
    events, *_ = fit_tiny(config, loss=loss_that_jumps(tiny, {20}))
    assert named(events, "skip") == []


def test_a_loss_past_mending_stops_the_run(fit_tiny, tiny):
    saved = []
    config = replace(tiny.CONFIG, budget=Budget(40), max_skips=4, save_every=2)
    with pytest.raises(ValueError, match=r"4 steps in a row were skipped, up to step 9, because .* not finite"):
        fit_tiny(config, batches=tiny.draw_poisoned(range(10, 80)), save=lambda state: saved.append(state.step))
    assert saved[:2] == [2, 4]


def test_skips_in_a_row_are_counted_anew_after_a_good_step(fit_tiny, tiny):
    config = replace(tiny.CONFIG, budget=Budget(12), max_skips=2)
    events, *_, outcome = fit_tiny(config, batches=tiny.draw_poisoned({2, 6, 10, 14}))
    assert outcome == "finished"
    assert len(named(events, "skip")) == 4


def test_bf16_keeps_float32_weights(fit_tiny, tiny):
    config = replace(tiny.CONFIG, budget=Budget(20), schedule=CONSTANT)
    exact, *_ = fit_tiny(config)
    events, model, state, _ = fit_tiny(replace(config, precision="bf16"))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert {memory["exp_avg"].dtype for memory in state.optimizers[0].state.values()} == {torch.float32}
    losses = [[event["loss"] for event in named(found, "train")] for found in (exact, events)]
    assert losses[0] != losses[1]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_the_share_of_the_rate_is_that_of_the_next_step(tiny):
    config = replace(tiny.CONFIG, budget=Budget(10), schedule=ScheduleConfig(curve="google", warmup=0.2))
    assert learning_rate_share(config, State([], step=1)) == 0.5


def test_dropout_is_the_batchs_own(tiny):
    """The same batch is dropped the same way in whatever step, on whatever rank, it is run."""
    seen = {}

    def loss(model, number):
        seen.setdefault(number, []).append(nn.functional.dropout(torch.ones(20)).tolist())
        return {"masked": Part(model.bias.sum(), torch.zeros(()))}

    def draw(number):
        return Drawn(number, 1, {"masked": 1})

    for count in (1, 2):
        model = nn.Linear(1, 1)
        config = LoopConfig(Budget(4), batches_per_step=count, schedule=CONSTANT, max_sigma=math.inf)
        state = State(make_optimizers(model, OptimizerConfig(lr=0.1)))
        fit(model, draw, loss, config, state, Ranks(torch.device("cpu")), tiny.hooks())
    assert all(mask == seen[number][0] for number in seen for mask in seen[number])
    assert len({tuple(masks[0]) for masks in seen.values()}) == len(seen) == 8


def test_wrong_settings_are_refused():
    for amount, unit, message in (
        (0, "steps", "0 steps; it must be a whole number above 0"),
        (1.5, "tokens", "1.5 tok"),
    ):
        with pytest.raises(ValueError, match=message):
            Budget(amount, unit)
    for settings, message in (
        ({"clip": 0.0}, "clip is 0.0"),
        ({"max_skips": 0}, "max_skips is 0"),
        ({"save_every": -1}, "save_every is -1"),
        ({"batch_warmup": 1.5}, "batch_warmup is 1.5"),
        ({"batches_at_start": 4, "batches_per_step": 2}, "a step grows"),
    ):
        with pytest.raises(ValueError, match=message):
            LoopConfig(Budget(1), **settings)
