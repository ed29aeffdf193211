"""The limit of a rank's waits."""

import pytest

from minitf.errors import UserError
from minitf.parallel.group import Deadline


def test_a_job_that_was_stopped_as_a_whole_goes_on(monkeypatch):
    """A rank that wakes up first must not take the hour of the stop for the others' delay."""
    now_s = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now_s[0])
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setenv("MINITF_COLLECTIVE_TIMEOUT_S", "3")
    deadline = Deadline()
    now_s[0] += 3600
    assert not deadline.pause()
    for _ in range(20):
        now_s[0] += 0.1
        assert not deadline.pause()
    now_s[0] += 0.1
    assert deadline.pause()


def test_a_limit_that_is_no_number_is_refused(monkeypatch):
    monkeypatch.setenv("MINITF_COLLECTIVE_TIMEOUT_S", "soon")
    with pytest.raises(UserError, match="MINITF_COLLECTIVE_TIMEOUT_S='soon' is not a number of seconds"):
        Deadline()
