"""Naming the wrong line, by its number or by a mark, in a file in which lines may have moved."""

import re

import pytest

from minitf.errors import UserError
from minitf.learn.bug import find_bug
from minitf.learn.exercise import BUG_EXERCISES, find
from minitf.learn.judge import judge

each = pytest.mark.parametrize("exercise", BUG_EXERCISES.values(), ids=lambda exercise: exercise.name)


def marked(exercise, number):
    lines = exercise.starter.splitlines()
    lines[number - 1] += "  # bug"
    return "\n".join(lines)


@each
def test_the_wrong_line_is_the_bug(exercise):
    for finding in (
        find_bug(exercise, exercise.starter, exercise.wrong_line),
        find_bug(exercise, marked(exercise, exercise.wrong_line)),
        find_bug(exercise, "# my note\n\n" + exercise.starter, exercise.wrong_line + 2),
    ):
        assert finding.is_right
        assert exercise.constant("WHY") in finding.message


@each
def test_the_mended_line_may_be_named(exercise):
    lines = exercise.solution.splitlines()
    lines[exercise.wrong_line - 1] += "  # bug"
    assert find_bug(exercise, "\n".join(lines)).is_right


@pytest.mark.heavy
@each
def test_other_lines_are_right_and_the_likely_ones_with_a_reason(exercise):
    reasons = exercise.constant("RIGHT_LINES")
    lines = exercise.starter.splitlines()
    assert len(reasons) >= 3
    for part, why in reasons.items():
        numbers = [number for number, line in enumerate(lines, 1) if part in line and number != exercise.wrong_line]
        assert numbers, part
        finding = find_bug(exercise, exercise.starter, numbers[0])
        assert not finding.is_right
        assert finding.message == f"line {numbers[0]} is right: {why}"
    others = set(range(1, len(lines) + 1)) - {exercise.wrong_line}
    assert not any(find_bug(exercise, exercise.starter, number).is_right for number in others)


@each
def test_a_mended_file_is_judged_by_running_it(exercise):
    assert find_bug(exercise, exercise.solution) is None
    assert judge(exercise, exercise.solution).is_right


@pytest.mark.parametrize(
    ("line", "change", "message"),
    [
        (None, "", "no line has `# bug` at the end; mark one, or give its number: --line N"),
        (None, "both", "lines 1, 2 have `# bug` at the end"),
        (0, "", "--line 0 is not a line of the file, which has "),
        (999, "", "--line 999 is not a line"),
    ],
)
def test_no_line_or_several_are_refused(line, change, message):
    exercise = find("bug-1")
    text = f"# a # bug\n# b # bug\n{exercise.starter}" if change else exercise.starter
    with pytest.raises(UserError, match=re.escape(message)):
        find_bug(exercise, text, line)


def test_an_empty_line_does_nothing():
    assert find_bug(find("bug-1"), find("bug-1").starter, 2).message == "line 2 does nothing; name a line of code"
