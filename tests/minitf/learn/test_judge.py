"""The solution of each exercise passes its checks, wrong answers are refused with the mistake they look like."""

import pytest

from minitf.learn.exercise import ALL, BUG_EXERCISES, EXERCISES, find
from minitf.learn.judge import judge
from tests.helpers.wrong_answers import WRONG_ANSWERS

WRONG = [(name, *changes) for name, answers in WRONG_ANSWERS.items() for changes in answers]


@pytest.mark.parametrize("exercise", ALL.values(), ids=lambda exercise: exercise.name)
def test_the_solution_passes(exercise):
    verdict = judge(exercise, exercise.solution)
    assert verdict.message == ""
    assert verdict.passed


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_the_starter_is_still_to_be_written(exercise):
    assert "is still to be written (line " in judge(exercise, exercise.starter).message


@pytest.mark.parametrize("exercise", BUG_EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_a_bug_shows(exercise):
    assert not judge(exercise, exercise.starter).is_right


def test_each_exercise_has_three_wrong_answers_or_more():
    assert {*WRONG_ANSWERS} == {exercise.name for exercise in EXERCISES.values()}
    assert min(map(len, WRONG_ANSWERS.values())) >= 3


@pytest.mark.parametrize("answer", WRONG, ids=lambda answer: f"{answer[0]}: {answer[-1][:30]}")
def test_a_wrong_answer_is_refused_with_its_mistake(answer):
    name, *changes, message = answer
    text = find(name).solution
    for old, new in [changes] if isinstance(changes[0], str) else changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    verdict = judge(find(name), text, limit_s=1)
    assert message in verdict.message


def answered(text, **more):
    """The message for an answer to the first exercise whose body is `text`."""
    return judge(find("1"), f"def backward(tape, count):\n    {text}\n", "answer.py", **more).message


def test_an_error_is_shown_with_the_lines_of_the_answer_alone():
    message = answered("return [1 / 0]")
    assert message == (
        "the answer raises ZeroDivisionError:\n  line 2, in backward\n    return [1 / 0]\n"
        "ZeroDivisionError: division by zero"
    )  # fmt: skip


def test_an_answer_is_a_module_of_its_own():
    """dataclasses look for annotations in the module's names, and no `from __future__` of this program is in force."""
    exercise = find("1")
    more = "from dataclasses import dataclass\n\n@dataclass\nclass Entry:\n    output: int\n\nassert Entry(1).output\n"
    assert judge(exercise, f"{exercise.solution}\n{more}").is_right
    message = answered("pass\n\ndef f(x: undefined): pass")
    assert "NameError: name 'undefined' is not defined" in message


def test_what_is_not_python_is_shown_with_its_line():
    message = answered("return (")
    assert "line 2" in message
    assert message.endswith("SyntaxError: '(' was never closed")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("while True: pass", "no result within 0.2 s at line 2: `while True: pass`; is there a loop that never ends?"),
        (
            "while True:\n        try:\n            len(tape)\n        except Exception:\n            pass",
            "never ends?",
        ),
        ("raise SystemExit(0)", "the answer raises SystemExit"),
        ("return None", "g is None: is `return` missing?"),
        ("return 'abc'", "g is of type <U3, expected numbers"),
        ("return [1, [2]]", "g is of type object, expected numbers"),
        ("return [1.0]", "g has shape (1,), expected (3,)"),
    ],
)
def test_answers_that_do_not_end_or_give_no_numbers(text, message):
    assert message in answered(text, limit_s=0.2)


def test_a_function_that_is_missing():
    verdict = judge(find("7"), "x = 1\n")
    assert verdict.message.startswith("the file has no matmul_vjp; `minitf learn start N --force`")
