"""Lines on standard error, and durations."""

import pytest

from minitf.system.messages import clock, say


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (75.2, "1:15"), (59.7, "1:00"), (3600, "1:00:00"), (90061, "25:01:01"), (float("inf"), "?")],
)
def test_times(seconds, shown):
    assert clock(seconds) == shown


def test_say_goes_to_standard_error(capsys):
    say("ü")
    assert capsys.readouterr() == ("", "ü\n")
