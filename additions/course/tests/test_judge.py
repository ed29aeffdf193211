"""The solution of each exercise passes its checks, wrong answers are refused with the mistake they look like."""

from importlib import import_module

import numpy as np
import pytest

import autograd as ag
from additions.course.exercise import ALL, BUG_EXERCISES, EXERCISES, find
from additions.course.judge import SYMPTOM, judge
from additions.course.tests.wrong_answers import WRONG_ANSWERS
from autograd.engine import unbroadcast
from minitf.config.run_config import OptimizerConfig
from minitf.model.parameters import Parameter
from minitf.model.transformer import sinusoids
from minitf.training.optim import Adam, learning_rate
from tests.helpers.marks import parametrize_some

MISTAKES = [
    (exercise.name, *mistake)
    for exercise in EXERCISES.values()
    for mistake in getattr(import_module(f"additions.course.exercises.{exercise.name}"), "MISTAKES", ())
]
WRONG = [(name, *changes) for name, answers in WRONG_ANSWERS.items() for changes in answers]


@pytest.mark.heavy
@pytest.mark.parametrize("exercise", ALL.values(), ids=lambda exercise: exercise.name)
def test_the_solution_passes(exercise):
    verdict = judge(exercise, exercise.solution)
    assert verdict.message == ""
    assert verdict.passed


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_the_starter_is_still_to_be_written(exercise):
    assert "is not written yet (line " in judge(exercise, exercise.starter).message


@pytest.mark.parametrize("exercise", BUG_EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_a_bug_shows_and_its_line_stays_untold(exercise):
    verdict = judge(exercise, exercise.starter)
    assert verdict.message == SYMPTOM
    assert judge(exercise, f"# a note\n{exercise.starter}") == verdict


@pytest.mark.parametrize("exercise", BUG_EXERCISES.values(), ids=lambda exercise: exercise.name)
def test_a_mended_bug_needs_each_of_its_other_lines(exercise):
    """What a mending breaks beside the bug does not go unnoticed."""
    lines = exercise.solution.splitlines()
    for k, line in enumerate(lines):
        if " = " in line and line.startswith("    ") and '"""' not in line and k + 1 != exercise.wrong_line:
            indentation = line[: len(line) - len(line.lstrip())]
            without = [*lines[:k], f"{indentation}pass", *lines[k + 1 :]]
            assert not judge(exercise, "\n".join(without)).is_right, line


def test_each_exercise_has_three_wrong_answers_or_more():
    names = [name for name, *_ in (*WRONG, *MISTAKES)]
    assert {*names} == {exercise.name for exercise in EXERCISES.values()}
    assert min(map(names.count, names)) >= 3


@pytest.mark.heavy
@parametrize_some("answer", WRONG, keep=range(0, len(WRONG), 4), ids=lambda answer: f"{answer[0]}: {answer[-1][:30]}")
def test_a_wrong_answer_is_refused_with_its_mistake(answer):
    name, *changes, message = answer
    text = find(name).solution
    for old, new in [changes] if isinstance(changes[0], str) else changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    verdict = judge(find(name), text, limit_s=1 if "infinite loop" in message else 600)
    assert message in verdict.message


@parametrize_some(
    "mistake", MISTAKES, keep=range(0, len(MISTAKES), 4), ids=lambda mistake: f"{mistake[0]}: {mistake[1][:30]}"
)
def test_a_mistake_that_an_exercise_knows_is_told(mistake):
    name, message, *texts = mistake
    text = find(name).solution
    for right, other in zip(texts[::2], texts[1::2], strict=True):
        assert text.count(right) == 1, right
        text = text.replace(right, other)
    assert message in judge(find(name), text).message


def results_of(name, function, *inputs):
    return getattr(import_module(f"additions.course.exercises.{name}"), function)(*inputs)


def test_solutions_give_what_this_project_computes():
    """What an answer yields is compared with the solution, which is compared here with code of another hand."""
    rng = np.random.default_rng(0)
    assert results_of("tape", "backward", [(1, [0], [3.0]), (2, [1], [-2.0])], 3) == [-6, -2, 1]
    assert results_of("tape", "backward", [(1, [0], [2.0]), (2, [0], [7.0])], 3) == [7, 0, 1]
    g = rng.standard_normal((2, 3, 4))
    for shape in ((4,), (3, 1), (2, 1, 4), ()):
        np.testing.assert_allclose(results_of("broadcasting", "unbroadcast", g, shape), unbroadcast(g, shape))
    np.testing.assert_allclose(results_of("positions", "positional_encoding", 50, 16), sinusoids(50, 16))
    for step in (1, 100, 4000, 100_000):
        rate = learning_rate(step, 512, OptimizerConfig())
        np.testing.assert_allclose(results_of("warm_up", "learning_rate", step), rate)
    x, targets = rng.standard_normal((4, 5)), np.array([1, 0, 4, 1])
    smoothed = ag.cross_entropy(ag.Tensor(x), targets, label_smoothing=0.2).item()
    np.testing.assert_allclose(results_of("label_smoothing", "smoothed_loss", x, targets, 0.2), smoothed)
    padded = ag.cross_entropy(ag.Tensor(x), targets, ignore_index=0).item()
    np.testing.assert_allclose(results_of("cross_entropy", "cross_entropy", x, targets), padded)
    np.testing.assert_allclose(results_of("softmax", "softmax", x, 0), ag.softmax(ag.Tensor(x), 0).numpy())
    v = rng.standard_normal(x.shape)
    product = ag.hvp(lambda x: ag.cross_entropy(x, targets, reduction="sum"), x, v)
    np.testing.assert_allclose(results_of("hessian_product", "hessian_product", x, v), product.numpy())
    rows, weight = ag.Tensor(x, requires_grad=True), ag.Tensor(rng.standard_normal((6, 5)), requires_grad=True)
    loss = ag.fast.linear_cross_entropy(rows, weight, targets)
    loss.backward()
    found = results_of("linear_cross_entropy", "linear_cross_entropy", x, weight.numpy(), targets, 3)
    for each, expected in zip(found, (loss, rows.grad, weight.grad), strict=True):
        np.testing.assert_allclose(each, expected.numpy())
    mask = [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]]
    np.testing.assert_array_equal(results_of("masks", "decoder_mask", np.array([[1, 5, 0, 0]]))[0, 0], mask)


def test_adam_and_averages_give_what_this_project_computes():
    parameter = Parameter(np.array([1.0, 2.0, 3.0]))
    adam = Adam({"p": parameter}, OptimizerConfig(beta1=0.5, beta2=0.7, epsilon=1e-2))
    p, m, v = parameter.numpy().copy(), np.zeros(3), np.zeros(3)
    for step, g in enumerate(np.random.default_rng(0).standard_normal((3, 3)), 1):
        parameter.grad = ag.Tensor(g)
        adam.step(0.1)
        results_of("adam", "adam_step", p, g, m, v, step, 0.1, 0.5, 0.7, 1e-2)
        np.testing.assert_allclose(p, parameter.numpy())
    checkpoints = [{"w": np.array([2.0**24], np.float32)}, *[{"w": np.ones(1, np.float32)}] * 4]
    assert results_of("checkpoint_average", "average", checkpoints)["w"] == np.float32((2**24 + 4) / 5)
    batches = [np.array([[1.0, 2.0]]), np.array([[4.0, 0.0], [2.0, 2.0]])]
    mean = results_of("gradient_accumulation", "accumulated_gradient", batches, lambda b: (b.mean(axis=0), len(b)))
    np.testing.assert_allclose(mean, np.concatenate(batches).mean(axis=0))


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
        ("while True: pass", "no result within 0.2 s at line 2: `while True: pass`; is there an infinite loop?"),
        (
            "while True:\n        try:\n            len(tape)\n        except Exception:\n            pass",
            "infinite loop?",
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
