"""Lines on standard error, and durations."""

import pytest

from minitf.system.messages import clock, duration, say


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (75.2, "1:15"), (59.7, "1:00"), (3600, "1:00:00"), (90061, "25:01:01"), (float("inf"), "?")],
)
def test_times(seconds, shown):
    assert clock(seconds) == shown


def test_say_goes_to_standard_error(capsys):
    say("ü")
    assert capsys.readouterr() == ("", "ü\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (99, "99 s"), (100, "2 min"), (3_540, "59 min"), (3_599, "1 h 0 min"), (23_400, "6 h 30 min")],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text
    assert duration(100 * 3_600) == "4 d 4 h"
    assert duration(float("inf")) == "?"


def test_control_characters_are_spelled_out(capsys):
    say("a\x1b]0;title\x07\x9b31m\tb\nc\x00")
    assert capsys.readouterr().err == "a\\x1b]0;title\\x07\\x9b31m\tb\nc\\x00\n"
