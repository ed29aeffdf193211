"""Tests of mistakes made by rule: mistakes in one expression, and answers that contain one in other words."""

import pytest

from additions.course.exercise import EXERCISES, find
from additions.course.judge import judge
from additions.course.variants import variants
from tests.helpers.marks import parametrize_some

# ruff: noqa: E501 (an answer to a line)


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("a - b", "a", "the term - `b` is missing beside `a`"),
        ("a - b", "a + b", "the sign of the term `b` is wrong"),
        ("a * b", "a", "the factor `b` is missing beside `a`"),
        ("a / b", "a * b", "`a` is multiplied by `b`, which is a divisor"),
        ("a @ b.T", "a @ b", "`b` is not transposed"),
        ("a @ b.T", "b.T @ a", "the factors of `a @ bᵀ` are exchanged"),
        ("a.sum(axis=0)", "a.mean(axis=0)", "`a.sum(axis=0)` is a sum, here it is a mean"),
        ("a.sum(axis=0)", "a.sum(axis=-1)", "`a.sum(axis=0)` is taken along axis -1"),
        ("np.sqrt(a) + b", "np.sqrt(a + b)", "`b` is inside the root; it is added after it"),
        ("np.sqrt(a + b)", "np.sqrt(a) + b", "`b` is added after the root; it belongs inside"),
        ("a < b", "a <= b", "`a <= b` stands where `a < b` is meant"),
        ("a[1]", "a[2]", "a number is off by one: it is 2, one larger than it should be"),
    ],
)
def test_a_rule(right, wrong, message):
    source = "def f(a, b):\n    return "
    assert (message, source + wrong) in [*variants(source + right)]


def test_names_that_only_the_solution_has_are_written_out():
    messages = [message for message, _ in variants("def f(a, b):\n    c = a * b\n    return a + c")]
    assert "the term `a * b` is missing beside `a`" in messages


@parametrize_some("exercise", EXERCISES.values(), keep=range(0, 99, 4), ids=lambda exercise: exercise.name)
def test_the_variants_of_a_solution_are_programs_that_keep_what_was_given(exercise):
    made = [*variants(exercise.marked)]
    assert len(made) > 10
    for message, text in made:
        compile(text, message, "exec")
    assert len({text for _, text in made}) == len(made)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("layer_norm", "(g_hat * x_hat).mean(axis=-1, keepdims=True)", "np.sum(x_hat * g_hat, -1, keepdims=True)", "here it is a sum"),
        ("layer_norm", " / s\n", " * s**-2\n", "is divided by `s` twice"),
        ("attention", "g_v = p.swapaxes(-1, -2) @ g", "g_v = (p if len(p) == 3 == p.shape[1] else p.swapaxes(-1, -2)) @ g", "`p` is not transposed"),
        ("softmax", "(g * y).sum(axis=axis, keepdims=True)", "np.sum(g, axis, keepdims=True)", "the factor `y` is missing beside `g`"),
        ("positions", "2 * pair / n", "2 * pair / (n - 1)", "`n - 1` stands where `n` is meant"),
        ("hessian_product", "p * (v - ", "p * (v + ", "the sign of the term"),
        ("gradient_accumulation", "total + count * g", "total + g / max(count, 1)", "`g` is divided by `count`, which is a factor"),
        ("label_smoothing", "-= 1 - eps", "-= 1 + eps", "the sign of the term `eps` is wrong"),
    ],
)  # fmt: skip
def test_a_mistake_that_no_list_has_is_told_and_drawn(name, old, new, message):
    verdict = judge(find(name), find(name).solution.replace(old, new))
    assert message in verdict.message
    assert "yours" in verdict.message
    assert "x" in verdict.message.rpartition("differs")[2]
