"""The state of a run comes back from a checkpoint as it was, or not at all."""

import json
import math
import time
from dataclasses import asdict, fields, replace

import pytest

from minitf.config import RunConfig
from minitf.errors import UserError
from minitf.training.resuming import state_from_plain
from minitf.training.state import (
    CLOCK_KEYS,
    Clock,
    Interval,
    TrainState,
    checkpoint_is_due,
    is_finished,
    perplexity,
    record_checkpoint,
    record_validation,
    schedule,
    validation_is_due,
)
from tests.helpers.batches import batch_of

BATCH = batch_of([[5, 6], [7]], [[8], [9, 10, 11]])  # source 3 + 2 and 2 slots, target 4 + 2 …


def an_interval():
    interval = Interval(start_s=2.0)
    update = Interval.of([(BATCH, 12.0, 6.0), (BATCH, 6.0, 3.0)])
    update.gradient_norm = 0.5
    interval.add_update(update)
    return interval


def test_sums_and_means():
    record = an_interval().record(elapsed_s=6.0)
    tokens = 2 * (2 + 4)
    assert record == {
        "loss": pytest.approx(18 / tokens),
        "perplexity": pytest.approx(math.exp(9 / tokens)),
        "source_tokens": 2 * (3 + 2),
        "target_tokens": tokens,
        "padded_tokens": 2 * (1 + 2),
        "fill": pytest.approx(22 / 28),
        "gradient_norm": 0.5,
        "target_tokens_per_s": pytest.approx(tokens / 4.0),
        "elapsed_s": 6.0,
    }
    assert set(CLOCK_KEYS) & record.keys() == {"elapsed_s", "target_tokens_per_s"}


@pytest.mark.parametrize("name", ["loss", "nll", "gradient_norm"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_finite(name, value):
    assert Interval().is_finite
    assert not Interval(**{name: value}).is_finite


def test_perplexity():
    assert perplexity(0.0) == 1.0
    assert perplexity(701.0) == math.inf
    assert perplexity(math.inf) == math.inf
    assert math.isnan(perplexity(math.nan))


def full_state():
    """A state in which nothing has its default."""
    state = TrainState(
        step=7,
        target_tokens=99,
        data={"epoch": 1, "position": 3, "shuffle": True},
        valid_corpus="v",
        vocabulary="w",
        best_loss=1.25,
        best_bleu=30.5,
        best_step=4,
        validations_since_best=1,
        validated_step=4,
        validated_epoch=2,
        saved_step=6,
        saved_epoch=1,
        elapsed_s=0.1 + 0.2,
        log_offset=123,
        on_schedule=False,
        planned_steps=5,
        interval=an_interval(),
    )
    for each in fields(state):
        assert getattr(state, each.name) != getattr(TrainState(), each.name), each.name
    return state


@pytest.mark.parametrize("state", [TrainState(), full_state()])
def test_a_state_comes_back_through_json_as_it_was(state):
    back = state_from_plain(json.loads(json.dumps(asdict(state), allow_nan=False)))
    assert back == state
    assert type(back.interval) is Interval


def test_a_state_of_an_earlier_version_is_read():
    old = asdict(full_state()) | {"skipped_updates": 0, "skipped_in_a_row": 0, "saved_s": 0.2}
    assert state_from_plain(old) == full_state()


def broken(**changes):
    return {**asdict(full_state()), **changes}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({}, "does not fit this version: best_bleu, best_loss, best_step, data, elapsed_s"),
        (broken(extra=1), "does not fit this version: extra differ"),
        (broken(skipped_updates=8), "8 updates of this run were skipped .*; continue it with minitf "),
        (broken(step=-1), "step=-1 in the training state is negative"),
        (broken(step=1.5), "step=1.5; choose a whole number"),
        (broken(best_loss="inf"), "best_loss"),
        (broken(interval=None), "does not fit this version: .*slots"),
        (broken(interval={**asdict(Interval()), "loss": None}), "loss"),
        (broken(interval={**asdict(Interval()), "more": 1}), "more differ"),
    ],
)
def test_what_cannot_be_a_state_is_refused(plain, message):
    with pytest.raises(UserError, match=message):
        state_from_plain(plain)


EPOCHS = [0, 0, 1, 1, 2, 4, 4, 5, 5, 6]  # epochs complete after step 1, 2, …; one update may end two of them


def steps_due(config, is_due, count):
    state, due = TrainState(), []
    for step, epoch in enumerate(EPOCHS, start=1):
        state.step, state.elapsed_s = step, 25.0 * step
        if is_due(config, state, epoch):
            due.append(step)
            count(state, epoch)
            assert not is_due(config, state, epoch)  # once a step
    return due


@pytest.mark.parametrize(
    ("every", "unit", "expected"),
    [
        (3, "updates", [3, 6, 9]),
        (1, "updates", [*range(1, 11)]),
        (1, "epochs", [3, 5, 6, 8, 10]),
        (2, "epochs", [5, 6, 10]),
        (3, "epochs", [6, 10]),
    ],
)
def test_validations(every, unit, expected):
    config = replace(RunConfig(), valid_every=every, valid_every_unit=unit)
    assert steps_due(config, validation_is_due, lambda *a: record_validation(*a, True, 1.0, None)) == expected


@pytest.mark.parametrize(("every", "unit", "expected"), [(3, "updates", [3, 6, 9]), (2, "epochs", [5, 6, 10])])
def test_checkpoints(every, unit, expected):
    config = replace(RunConfig(), save_every=every, save_every_unit=unit)
    assert steps_due(config, checkpoint_is_due, lambda *a: record_checkpoint(config, *a)) == expected


@pytest.mark.parametrize("unit", ["updates", "epochs"])
def test_a_checkpoint_in_passing_moves_no_other(unit):
    """Saved because the run stopped: the next one on schedule comes when it would have come."""
    config = replace(RunConfig(), save_every=2, save_every_unit=unit)
    state, on_schedule = TrainState(), []
    for step, epoch in enumerate(EPOCHS, start=1):
        state.step, state.elapsed_s = step, 25.0 * step
        record_checkpoint(config, state, epoch)  # saved at every step
        record_checkpoint(config, state, epoch)  # and again, once a validation has been made up for
        if state.on_schedule:
            on_schedule.append(step)
    assert on_schedule == {"updates": [2, 4, 6, 8, 10], "epochs": [5, 6, 10]}[unit]


def test_what_ends_a_run():
    config = RunConfig(max_steps=1_000)
    clock = Clock(0.0, None)
    assert not is_finished(config, TrainState(), clock)
    assert is_finished(config, TrainState(step=1_000), clock)
    assert is_finished(config, TrainState(step=1_001), clock)  # resumed with fewer steps
    assert not is_finished(config, TrainState(), Clock(0.0, 1e-9))  # one step is made, or there were nothing to keep
    assert is_finished(config, TrainState(step=1), Clock(0.0, 1e-9))
    assert is_finished(replace(config, patience=2), TrainState(step=1, validations_since_best=2), clock)


def test_the_clock_counts_all_resumptions(monkeypatch):
    before = time.monotonic()
    clock = Clock(100.0, max_minutes=2)
    first = clock.elapsed_s
    assert 100 <= first <= 101 + time.monotonic() - before
    time.sleep(0.01)
    assert clock.elapsed_s >= first + 0.01
    monkeypatch.setattr(Clock, "own_s", 100.0)
    assert not clock.is_up
    assert clock.remaining_s(step=50, max_steps=100) == 20  # by the limit
    assert clock.remaining_s(step=95, max_steps=100) == pytest.approx(100 / 19)  # by the pace
    monkeypatch.undo()
    assert Clock(120.0, max_minutes=2).is_up
    assert not Clock(120.0, max_minutes=None).is_up
    assert Clock(120.0, max_minutes=None).remaining_s(step=0, max_steps=9) == math.inf


def test_the_pace_of_a_resumed_run_is_that_since_it_was_resumed(monkeypatch):
    """It may be on another machine."""
    clock = Clock(1_000.0, max_minutes=None, step=10)
    assert clock.remaining_s(10, 20) == math.inf
    monkeypatch.setattr(Clock, "own_s", 1_004.0)
    assert clock.seconds_per_step(12) == 2
    assert clock.remaining_s(12, 20) == 16
    assert clock.estimate(12, 12_000) == "at this speed: 6:40:00 for 12,000 steps"


def test_the_share_is_of_steps_or_of_minutes_whichever_is_larger(monkeypatch):
    monkeypatch.setattr(Clock, "own_s", 540.0)
    assert Clock(0.0, max_minutes=15).share(1_160, 100_000) == pytest.approx(0.6)
    assert Clock(0.0, max_minutes=None).share(1_160, 100_000) == pytest.approx(0.0116)
    assert Clock(0.0, max_minutes=5).share(1, 2) == 1
    limited = Clock(0.0, max_minutes=15).estimate(100, 100_000)
    assert limited == "at this speed: 150:00:00 for 100,000 steps; max_minutes ends the run after 15:00"


def test_a_shared_clock_shows_what_it_follows():
    clock = Clock(100.0, max_minutes=2, shared=True)
    time.sleep(0.01)
    assert clock.elapsed_s == 100.0
    assert clock.own_s > 100.0
    clock.follow(119.0)
    assert (clock.elapsed_s, clock.is_up) == (119.0, False)
    clock.follow(120.0)
    assert clock.is_up


@pytest.mark.parametrize(("planned", "warmup"), [(200, 100), (480, 200), (5_000, 500), (90_000, 4_000)])
def test_a_planned_schedule_warms_up_for_a_tenth_and_falls_to_0(planned, warmup):
    config = RunConfig()
    assert schedule(config, TrainState()) == config.optimizer
    found = schedule(config, TrainState(planned_steps=planned))
    assert found == replace(config.optimizer, warmup_steps=warmup, decay_steps=planned)
