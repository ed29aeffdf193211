"""The state of a run comes back from a checkpoint as it was, or not at all."""

import json
import math
from dataclasses import asdict, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitf.errors import UserError
from minitf.training.state import CLOCK_FIELDS, CLOCK_KEYS, Interval, TrainState, perplexity
from tests.helpers.batches import batch_of

BATCH = batch_of([[5, 6], [7]], [[8], [9, 10, 11]])  # source 3 + 2 and 2 slots, target 4 + 2 …


def an_interval():
    interval = Interval(start_s=2.0)
    update = Interval(gradient_norm=0.5)
    update.add(BATCH, 12.0, 6.0)
    update.add(BATCH, 6.0, 3.0)
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


def test_an_interval_without_updates_has_no_means():
    record = Interval().record(1.0)
    assert all(math.isnan(record[name]) for name in ("loss", "perplexity", "fill", "gradient_norm"))
    assert record["target_tokens"] == 0


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


def test_counting_an_update():
    state = TrainState(skipped_in_a_row=3, skipped_updates=4, target_tokens=5)
    state.add_update(an_interval())
    assert (state.skipped_in_a_row, state.skipped_updates, state.target_tokens) == (0, 4, 5 + 12)
    assert state.interval.slots == 28


def full_state():
    """A state in which nothing has its default."""
    state = TrainState(
        step=7,
        skipped_updates=2,
        skipped_in_a_row=1,
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
        saved_s=0.2,
        elapsed_s=0.1 + 0.2,
        log_offset=123,
        on_schedule=False,
        interval=an_interval(),
    )
    for each in fields(state):
        assert getattr(state, each.name) != getattr(TrainState(), each.name), each.name
    return state


@pytest.mark.parametrize("state", [TrainState(), full_state()])
def test_a_state_comes_back_through_json_as_it_was(state):
    back = TrainState.from_plain(json.loads(json.dumps(state.to_plain(), allow_nan=False)))
    assert back == state
    assert type(back.interval) is Interval


def test_the_clock_is_part_of_the_state():
    plain = full_state().to_plain()
    for name in CLOCK_FIELDS:
        place = plain
        for part in name.split("."):
            place = place[part]
        assert isinstance(place, int | float)


def broken(**changes):
    return {**full_state().to_plain(), **changes}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({}, "does not fit this version: best_bleu, best_loss, best_step, data, elapsed_s"),
        (broken(extra=1), "does not fit this version: extra differ"),
        (broken(step=-1), "step=-1 in the training state is negative"),
        (broken(step=1.5), "step=1.5; choose a whole number"),
        (broken(step=True), "step=true"),
        (broken(step="7"), "step='7'"),
        (broken(best_loss="inf"), "best_loss"),
        (broken(data=[]), "data"),
        (broken(on_schedule=0), "on_schedule"),
        (broken(interval=None), "does not fit this version: .*slots"),
        (broken(interval={**asdict(Interval()), "loss": None}), "loss"),
        (broken(interval={**asdict(Interval()), "more": 1}), "more differ"),
        (broken(elapsed_s=-0.5), "elapsed_s=-0.5"),
    ],
)
def test_what_cannot_be_a_state_is_refused(plain, message):
    with pytest.raises(UserError, match=message):
        TrainState.from_plain(plain)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from([each.name for each in fields(TrainState)]), VALUES))
def test_any_wrong_value_is_a_sentence(changes):
    try:
        state = TrainState.from_plain(broken(**changes))
    except UserError:
        return
    assert state.to_plain() == broken(**changes)


def test_numpy_numbers_do_not_slip_in():
    """They would not come back from JSON as they were."""
    with pytest.raises(UserError):
        TrainState.from_plain(broken(step=np.int64(3)))
