"""The clock of a run: time over all resumptions, the limit, and the estimate of what is left."""

import math
import time

import pytest

from minitf.training.clock import Clock


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


def test_a_shared_clock_shows_what_it_follows():
    clock = Clock(100.0, max_minutes=2, shared=True)
    time.sleep(0.01)
    assert clock.elapsed_s == 100.0
    assert clock.own_s > 100.0
    clock.follow(119.0)
    assert (clock.elapsed_s, clock.is_up) == (119.0, False)
    clock.follow(120.0)
    assert clock.is_up
