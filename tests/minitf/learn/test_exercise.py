"""The files of the exercises: what a student sees of them, and what is kept back."""

import ast
import re

import pytest

from minitf.errors import UserError
from minitf.learn.exercise import ALL, BUG_EXERCISES, EXERCISES, PARTS, find, find_bug
from minitf.learn.judge import judge

each = pytest.mark.parametrize("exercise", ALL.values(), ids=lambda exercise: exercise.name)
each_bug = pytest.mark.parametrize("exercise", BUG_EXERCISES.values(), ids=lambda exercise: exercise.name)


def test_25_exercises_in_four_parts_and_12_bugs():
    assert (len(EXERCISES), len(PARTS), len(BUG_EXERCISES)) == (25, 4, 12)


@each
def test_each_has_a_title_three_hints_and_a_file_that_is_python(exercise):
    assert 5 < len(exercise.title) <= 80
    assert len({*exercise.hints}) == 3
    for text in (exercise.starter, exercise.solution):
        assert ast.get_docstring(ast.parse(text)).startswith(exercise.title)
        assert not re.search(r"minitf\.learn|def check_|HINTS|# solution|# end", text)


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_a_starter_has_holes_and_names_shapes_and_no_solution(exercise):
    assert exercise.starter.count("raise NotImplementedError  # your code") == exercise.text.count("# solution") >= 1
    assert "NotImplementedError" not in exercise.solution
    assert "Shapes:" in exercise.starter
    assert len(exercise.starter) < len(exercise.solution)


@each_bug
def test_a_bug_is_one_wrong_line(exercise):
    right, wrong = exercise.constant("BUG")
    assert exercise.solution.count(right) == 1
    assert wrong.rpartition("\n")[2] not in [line.strip() for line in exercise.solution.splitlines()]
    assert "Symptom: " in exercise.starter


@pytest.mark.parametrize(
    ("word", "label"), [("7", "7"), ("07", "7"), ("bug-3", "bug-3"), ("bug3", "bug-3"), ("BUG 03", "bug-3"),
                        ("matmul", "7"), ("layer-norm", "9")],
)  # fmt: skip
def test_an_exercise_has_a_number_and_a_name(word, label):
    assert find(word).label == label


@pytest.mark.parametrize(
    ("word", "message"), [("26", "there is no exercise 26; choose 1 to 25 or bug-1 to bug-12: minitf learn lists them"),
                          ("layer_nrm", "did you mean layer_norm"), ("0", "no exercise 0"),
                          ("bug-13", "no exercise bug-13"), ("x" * 500, "500 characters")],
)  # fmt: skip
def test_another_word_is_refused(word, message):
    with pytest.raises(UserError, match=re.escape(message)):
        find(word)


# ---- Find the bug ------------------------------------------------------------------------------------------------


def marked(exercise, number):
    lines = exercise.starter.splitlines()
    lines[number - 1] += "  # bug"
    return "\n".join(lines)


@each_bug
def test_the_wrong_line_is_the_bug(exercise):
    for finding in (
        find_bug(exercise, exercise.starter, exercise.wrong_line),
        find_bug(exercise, marked(exercise, exercise.wrong_line)),
        find_bug(exercise, "# my note\n\n" + exercise.starter, exercise.wrong_line + 2),
    ):
        assert finding.is_right
        assert exercise.constant("WHY") in finding.message


@each_bug
def test_the_mended_line_may_be_named(exercise):
    lines = exercise.solution.splitlines()
    lines[exercise.wrong_line - 1] += "  # bug"
    assert find_bug(exercise, "\n".join(lines)).is_right


@pytest.mark.heavy
@each_bug
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


@each_bug
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
    assert (
        find_bug(find("bug-1"), find("bug-1").starter, 2).message
        == "line 2 is not a line of code; give the number of a line of code"
    )
