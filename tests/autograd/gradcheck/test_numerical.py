"""What the differences find, and which of them are believed."""

import numpy as np
import pytest

from autograd import gradcheck
from autograd.gradcheck import NondifferentiableError
from tests.helpers.ops import X, message, op

FAST = pytest.mark.parametrize("how", [{}, {"fast": True}], ids=["full", "fast"])


def nearly(forward, slope, by):
    return op(forward, lambda self, g: slope(self.saved[0]) * g * (1 + by))


@FAST
@pytest.mark.parametrize("by", [1e-7, 1e-6, 1e-4])
def test_small_errors_are_found_by_default(by, how):
    function = nearly(np.sin, np.cos, by)
    assert "times the right one" in message(function, X, **how)
    assert gradcheck(nearly(np.sin, np.cos, 1e-12), X, **how)


@FAST
def test_kinks_are_found(how):
    function = op(lambda x: np.where(x > 0, x, 0), lambda self, g: np.where(self.saved[0] > 0, g, 0))
    with pytest.raises(NondifferentiableError, match=r"\[1\] = 0"):
        gradcheck(function, np.array([0.4, 0.0, -0.3]), **how)
    assert gradcheck(function, np.array([0.4, 0.1, -0.3]), **how)


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


def test_ill_conditioned_functions_pass():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((4, 4)) @ np.diag([1, 1e-1, 1e-2, 1e-3]) @ rng.standard_normal((4, 4))

    def backward(self, g):
        inverse = np.linalg.inv(self.saved[0])
        return -inverse.T @ g @ inverse.T

    assert gradcheck(op(np.linalg.inv, backward), a + np.eye(4))
