"""When validations and checkpoints are due: by updates, epochs and minutes, and after an interruption; the clock."""

import math
import time
from dataclasses import replace

import pytest

from minitf.config import RunConfig
from minitf.training.schedule import (
    Clock,
    bleu_is_due,
    checkpoint_is_due,
    is_finished,
    record_checkpoint,
    record_validation,
    validation_is_due,
)
from minitf.training.state import TrainState

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


@pytest.mark.parametrize(
    ("every", "unit", "expected"),
    [
        (3, "updates", [3, 6, 9]),
        (2, "epochs", [5, 6, 10]),
        (1, "minutes", [3, 6, 9]),  # 25 s a step
        (2, "minutes", [5, 10]),
    ],
)
def test_checkpoints(every, unit, expected):
    config = replace(RunConfig(), save_every=every, save_every_unit=unit)
    assert steps_due(config, checkpoint_is_due, lambda *a: record_checkpoint(config, *a)) == expected


@pytest.mark.parametrize("unit", ["updates", "epochs", "minutes"])
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
    assert on_schedule == {"updates": [2, 4, 6, 8, 10], "epochs": [5, 6, 10], "minutes": [5, 10]}[unit]


def test_what_the_best_validation_leaves():
    state = TrainState(step=4)
    record_validation(state, 1, True, 2.5, 30.0)
    state.step = 8
    record_validation(state, 2, False, 2.75, 20.0)
    assert (state.best_loss, state.best_bleu, state.best_step, state.validations_since_best) == (2.5, 30.0, 4, 1)
    assert (state.validated_step, state.validated_epoch) == (8, 2)


def test_when_a_validation_computes_bleu():
    state = TrainState(step=9, validated_step=6, validated_epoch=2)
    every = RunConfig(valid_bleu_every=3)
    assert bleu_is_due(every, state, 2)
    assert not bleu_is_due(replace(every, valid_bleu_every=10), state, 2)
    assert bleu_is_due(replace(every, valid_bleu_every=7), state, 2)  # the first validation after step 7
    in_epochs = replace(every, valid_every_unit="epochs")
    assert not bleu_is_due(in_epochs, state, 2)
    assert bleu_is_due(in_epochs, state, 3)
    assert bleu_is_due(RunConfig(valid_metric="bleu"), state, 2)
    assert not bleu_is_due(RunConfig(), state, 2)


def test_what_ends_a_run():
    config = RunConfig(max_steps=1_000)
    clock = Clock(0.0, None)
    assert not is_finished(config, TrainState(), clock)
    assert is_finished(config, TrainState(step=1_000), clock)
    assert is_finished(config, TrainState(step=1_001), clock)  # resumed with fewer steps
    assert not is_finished(config, TrainState(), Clock(0.0, 1e-9))  # one step is made, or there were nothing to keep
    assert is_finished(config, TrainState(step=1), Clock(0.0, 1e-9))
    assert is_finished(replace(config, patience=2), TrainState(step=1, validations_since_best=2), clock)


def test_the_clock_counts_all_resumptions():
    clock = Clock(100.0, max_minutes=2)
    first = clock.elapsed_s
    assert 100 <= first < 101
    time.sleep(0.01)
    assert clock.elapsed_s >= first + 0.01
    assert not clock.is_up
    assert clock.remaining_s(step=50, max_steps=100) == pytest.approx(20, abs=1)  # by the limit
    assert clock.remaining_s(step=95, max_steps=100) == pytest.approx(100 / 19, abs=1)  # by the pace
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
    assert clock.estimate(12, 12_000) == "at this speed: 6 h 40 min for 12,000 steps"


def test_the_share_is_of_steps_or_of_minutes_whichever_is_larger(monkeypatch):
    monkeypatch.setattr(Clock, "own_s", 540.0)
    assert Clock(0.0, max_minutes=15).share(1_160, 100_000) == pytest.approx(0.6)
    assert Clock(0.0, max_minutes=None).share(1_160, 100_000) == pytest.approx(0.0116)
    assert Clock(0.0, max_minutes=5).share(1, 2) == 1
    limited = Clock(0.0, max_minutes=15).estimate(100, 100_000)
    assert limited == "at this speed: 6 d 6 h for 100,000 steps; max_minutes ends the run after 15 min"


def test_a_shared_clock_shows_what_it_follows():
    clock = Clock(100.0, max_minutes=2, shared=True)
    time.sleep(0.01)
    assert clock.elapsed_s == 100.0
    assert clock.own_s > 100.0
    clock.follow(119.0)
    assert (clock.elapsed_s, clock.is_up) == (119.0, False)
    clock.follow(120.0)
    assert clock.is_up
