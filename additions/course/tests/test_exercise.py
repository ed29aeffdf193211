"""The files of the exercises: what a student sees of them, and what is kept back."""

import ast
import re

import pytest

from additions.course.exercise import ALL, BUG_EXERCISES, EXERCISES, PARTS, find
from minitf.errors import UserError

each = pytest.mark.parametrize("exercise", ALL.values(), ids=lambda exercise: exercise.name)
each_bug = pytest.mark.parametrize("exercise", BUG_EXERCISES.values(), ids=lambda exercise: exercise.name)


def test_30_exercises_in_five_parts_and_12_bugs():
    assert (len(EXERCISES), len(PARTS), len(BUG_EXERCISES)) == (30, 5, 12)


@each
def test_each_has_a_title_three_hints_and_a_file_that_is_python(exercise):
    assert 5 < len(exercise.title) <= 80
    assert len({*exercise.hints}) == 3
    for text in (exercise.starter, exercise.solution):
        assert ast.get_docstring(ast.parse(text)).startswith(exercise.title)
        assert not re.search(r"minitf\.learn|def check_|HINTS|# solution|# end", text)


def test_a_starter_has_holes_and_names_shapes_and_no_solution():
    for exercise in EXERCISES.values():
        assert (
            exercise.starter.count("raise NotImplementedError  # your code") == exercise.text.count("# solution") >= 1
        )
        assert "NotImplementedError" not in exercise.solution
        assert "Shapes:" in exercise.starter


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
    ("word", "message"), [("31", "there is no exercise 31; choose 1 to 30 or bug-1 to bug-12: minitf learn lists them"),
                          ("layer_nrm", "did you mean layer_norm"), ("0", "no exercise 0"),
                          ("bug-13", "no exercise bug-13"), ("x" * 500, "500 characters")],
)  # fmt: skip
def test_another_word_is_refused(word, message):
    with pytest.raises(UserError, match=re.escape(message)):
        find(word)
