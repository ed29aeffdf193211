"""The checker itself: it accepts right gradients and rejects each kind of wrong one."""

import numpy as np
import pytest
from numeric import away_from, check_gradients

import autograd as ag
from autograd import Op, apply

X = np.random.default_rng(1).standard_normal((2, 3))


def op_with_backward(backward):
    """x² · w with the given backward."""

    class SquareTimes(Op):
        def forward(self, x, w):
            self.save(x, w)
            return x * x * w

    SquareTimes.backward = backward
    return lambda x, w: apply(SquareTimes, x, w)


def right(self, g):
    x, w = self.saved
    return 2 * x * w * g, x * x * g


def slightly_off(self, g):
    x, w = self.saved
    return 2.001 * x * w * g, x * x * g


def drops_a_term(self, g):
    x, w = self.saved
    return x * w * g, x * x * g


def ignores_the_cotangent(self, g):
    x, w = self.saved
    return 2 * x * w, x * x


def returns_nothing(self, g):
    return None, None


def changes_its_input(self, g):
    x, w = self.saved
    result = 2 * x * w * g, x * x * g
    x += 1
    return result


def test_accepts_the_right_gradient():
    check_gradients(op_with_backward(right), X, X + 1)


@pytest.mark.parametrize(
    "backward", [slightly_off, drops_a_term, ignores_the_cotangent, returns_nothing, changes_its_input]
)
def test_rejects_a_wrong_gradient(backward):
    with pytest.raises(AssertionError):
        check_gradients(op_with_backward(backward), X, X + 1)


def test_rejects_a_softmax_gradient_of_zeros():
    """With a cotangent of ones, zeros would be right."""

    class Softmax(Op):
        def forward(self, x):
            return ag.softmax(x).data

        def backward(self, g):
            return np.zeros_like(g)

    with pytest.raises(AssertionError):
        check_gradients(lambda x: apply(Softmax, x), X)


def test_rejects_a_missing_accumulation():
    class Double(Op):
        def forward(self, x):
            return x + x

        def backward(self, g):
            return g

    with pytest.raises(AssertionError):
        check_gradients(lambda x: apply(Double, x), X)


def test_away_from_keeps_its_distance():
    x = away_from([0, 1], (1000,))
    assert np.abs(x).min() >= 0.05
    assert np.abs(x - 1).min() >= 0.05
