"""Which numerical derivatives are believed: complex steps where they work, differences with a reason elsewhere."""

import math
import re

import numpy as np
import pytest

import autograd as ag
from autograd import gradcheck
from autograd.gradcheck import NondifferentiableError, Options, gradient_error
from tests.helpers.ops import CENTRAL, COMPLEX, X, message, op

FAST = pytest.mark.parametrize("how", [{}, {"fast": True}], ids=["full", "fast"])


def nearly(forward, slope, by):
    return op(forward, lambda self, g: slope(self.saved[0]) * g * (1 + by))


def absolute(x):
    return np.abs(x) if not np.iscomplexobj(x) else np.where(x.real > 0, x, -x)


@FAST
@pytest.mark.parametrize("by", [1e-7, 1e-6, 1e-4])
def test_small_errors_are_found_by_default(by, how):
    function = nearly(np.sin, np.cos, by)
    assert "times the right one" in message(function, X, **how)
    assert "complex steps do not suit" not in message(function, X, **how)
    assert gradcheck(nearly(np.sin, np.cos, 1e-12), X, **how)


UNSUITABLE = {  # what NumPy cannot compute, casts that lose the imaginary part, and what is not analytic
    "logaddexp": (
        lambda x: np.logaddexp(0, x),
        lambda x: 1 / (1 + np.exp(-x)),
        "stops with TypeError: ufunc 'logaddexp'",
    ),
    "math": (lambda x: np.array([[math.sin(v) for v in row] for row in x]), np.cos, "stops with ComplexWarning"),
    "float64 buffer": (lambda x: np.copyto(y := np.empty(x.shape), np.sin(x)) or y, np.cos, "stops with TypeError"),
    "astype": (lambda x: np.sin(x.astype(float)), np.cos, "stops with ComplexWarning"),
    "real": (lambda x: np.sin(x.real), np.cos, "Made turns complex numbers into real ones"),
    "not analytic": (lambda x: np.abs(x) * (1 + 0j if np.iscomplexobj(x) else 1), np.sign, "is not analytic"),
    "NaN": (lambda x: np.sin(x) * (np.nan if np.iscomplexobj(x) else 1), np.cos, "is not analytic"),
}


@FAST
@pytest.mark.parametrize(("forward", "slope", "reason"), UNSUITABLE.values(), ids=UNSUITABLE)
@pytest.mark.filterwarnings("error")
def test_differences_where_complex_steps_do_not_suit(forward, slope, reason, how, capsys):
    """A right gradient passes, an error of 1e-4 is found, and both say why: as mode "complex" does."""
    assert gradcheck(nearly(forward, slope, 0), X, options=Options(verbose=True), **how)
    printed = capsys.readouterr().out
    assert re.match(rf"gradients right: compared with central differences \(.*{reason}", printed)
    text = message(nearly(forward, slope, 1e-4), X, **how)
    assert re.search(rf"\(numerical: central differences \(complex steps do not suit this function: .*{reason}", text)
    with pytest.raises(ValueError, match=rf"mode='complex' does not suit this function: .*{reason}.*central"):
        gradcheck(nearly(forward, slope, 0), X, options=COMPLEX, **how)


@FAST
def test_a_small_part_that_is_not_analytic(how):
    """Complex steps lose it, and would call the right gradient wrong by 1e-7; one with half of it is wrong."""

    def function(part):
        return op(lambda x: x + 1e-7 * np.abs(x), lambda self, g: g * (1 + part * np.sign(self.saved[0])))

    assert gradcheck(function(1e-7), X, **how)
    with pytest.raises(ValueError, match="complex"):
        gradcheck(function(1e-7), X, options=COMPLEX, **how)
    assert "wrong gradient" in message(function(5e-8), X, **how)
    assert gradcheck(function(0), X, **how)  # what neither can see


def test_steps_are_not_searched_for_each_of_many_wrong_derivatives():
    calls = []
    function = op(lambda x: calls.append(x) or np.logaddexp(0, x), lambda self, g: g)
    assert "wrong gradient" in message(function, np.linspace(-2, 2, 100), options=CENTRAL)
    assert len(calls) < 2000


def test_a_line_moves_all_inputs_at_once():
    calls = []  # were one left out, each element would be compared alone
    assert gradcheck(lambda x, y: calls.append(x) or ag.sin(x) * y, [X, X + 1], fast=True)
    assert len(calls) < 200


def test_steps_are_searched_for_each_of_many_where_the_first_shows_too_little():
    k = np.tile([1.0, 1000.0], 8)
    slopes = k * np.where(np.arange(16) < 15, 1, 1.001)
    wrong = op(lambda x: 1e9 + np.sin(k * x), lambda self, g: g * slopes * np.cos(k * self.saved[0]))
    assert "1 of 256 derivatives differ" in message(wrong, np.linspace(0.1, 0.2, 16), options=CENTRAL)


def test_verbose_says_what_was_compared(capsys):
    assert gradcheck(ag.tanh, X, options=Options(verbose=True))
    assert re.fullmatch(r"gradients right: compared with complex steps, largest error \d?.*\n", capsys.readouterr().out)
    assert gradcheck(ag.tanh, X)
    assert capsys.readouterr().out == ""


@FAST
def test_kinks_are_found_though_complex_steps_see_none(how):
    function = op(lambda x: np.where(x > 0, x, 0), lambda self, g: np.where(self.saved[0] > 0, g, 0))
    with pytest.raises(NondifferentiableError, match=r"\[1\] = 0"):
        gradcheck(function, np.array([0.4, 0.0, -0.3]), **how)
    assert gradcheck(function, np.array([0.4, 0.1, -0.3]), **how)


def test_a_kink_is_named_by_the_output_that_has_it():
    slopes = np.array([100.0, 0.5, 100.0])
    function = op(lambda x: slopes * x + 0.5 * abs(x) * [0, 1, 0], lambda self, g: slopes * g)
    with pytest.raises(NondifferentiableError, match=r"slope of the output\[1\] is 0 to the left and 1 to the right"):
        gradcheck(function, np.array([0.4, 0.0, -0.3]))


@FAST
@pytest.mark.parametrize(
    ("forward", "slope", "x"),
    [
        (lambda x: np.logaddexp(0, 1e4 * x), lambda x: 1e4 / (1 + np.exp(-1e4 * x)), X * 1e-4),
        (lambda x: np.logaddexp(0, x) * 1e6, lambda x: 1e6 / (1 + np.exp(-x)), X),
        (lambda x: np.logaddexp(0, x) + 1e9, lambda x: 1 / (1 + np.exp(-x)), X),
        (lambda x: abs(1 / x), lambda x: -np.sign(x) / x**2, np.array([1e-3, -2e-3])),
        (lambda x: abs(x) ** 3, lambda x: 3 * x * abs(x), X * 1e5),
    ],
    ids=["bent", "large", "beside a large number", "steep", "far"],
)
def test_differences_know_their_own_error(forward, slope, x, how):
    assert gradcheck(op(forward, lambda self, g: slope(self.saved[0]) * g), x, **how)
    assert gradcheck(op(forward, lambda self, g: slope(self.saved[0]) * g), x, options=CENTRAL, **how)


def test_how_coarse_values_are_is_said_relative_to_their_size():
    function = op(lambda x: np.float64(np.float32(1e6 * np.sin(x))), lambda self, g: 1.1e6 * g * np.cos(self.saved[0]))
    assert "known to 2e-08 of their size" in message(function, np.array([0.3, 0.9, 1.7]))


def test_ill_conditioned_functions_pass():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 4)) @ np.diag([1, 1e-1, 1e-2, 1e-3]) @ rng.standard_normal((4, 4))

    def backward(self, g):
        inverse = np.linalg.inv(self.saved[0])
        return -inverse.T @ g @ inverse.T

    assert gradcheck(op(np.linalg.inv, backward), a + np.eye(4))
    assert gradient_error(op(np.linalg.inv, backward), a + np.eye(4)) < 1e-10


def test_steps_are_compared_with_differences_input_by_input():
    """|z| is not analytic; beside a slope of 10,000, its part of the slope along all inputs is too small to see."""
    function = op(
        lambda x, z: 1e4 * x.sum() + abs(z).sum(), lambda self, g: (1e4 * g * np.ones(X.shape), 0 * self.saved[1])
    )
    with pytest.raises(ValueError, match="not analytic"):
        gradcheck(function, [X, X + 3], options=COMPLEX)
