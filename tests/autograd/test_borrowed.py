"""Arrays that are in other hands are not written into: cotangents, saved arrays, gradients that go two ways."""

import numpy as np
import pytest

import autograd as ag
from autograd import Op, apply
from tests.helpers.leaves import random_leaf


class HalfSquare(Op):
    """y = ½ Σ x², whose gradient for g = 1 is what it saved, as it is"""

    def forward(self, x):
        self.save(x)
        return 0.5 * (x * x).sum()

    def backward(self, g_y):
        (x,) = self.saved
        return x if g_y == 1 else g_y * x


def test_a_saved_array_returned_as_a_gradient_is_not_added_to():
    """Two gradients meet: the second would go into the first in place, were that the engine's own."""
    x = random_leaf(3)
    middle = x * 1.0
    before = middle.data.copy()
    first = ag.sum(middle * 2.0)
    (first + apply(HalfSquare, middle)).backward()  # the newest node, HalfSquare, is the first to arrive
    np.testing.assert_array_equal(middle.data, before)
    np.testing.assert_array_equal(x.grad.data, before + 2)


def test_a_saved_array_returned_as_a_gradient_does_not_become_that_of_a_leaf():
    x = random_leaf(3)
    before = x.data.copy()
    for times in (1, 2, 3):
        apply(HalfSquare, x).backward()
        np.testing.assert_array_equal(x.data, before)
        np.testing.assert_array_equal(x.grad.data, times * before)


def take_grad(y, x, cotangent):
    return ag.grad(y, x, cotangent)[0].data


def take_backward(y, x, cotangent):
    y.backward(cotangent)
    return x.grad.data


@pytest.mark.parametrize("take", [take_grad, take_backward])
@pytest.mark.parametrize(
    "function", [lambda x: x + 1.0, lambda x: x.reshape(3, 2), lambda x: x + x.data], ids=["as it is", "view", "of two"]
)
def test_results_are_not_the_array_that_was_given(take, function):
    x = random_leaf(2, 3)
    y = function(x)
    cotangent = np.random.default_rng(1).standard_normal(y.shape)
    before = cotangent.copy()
    g = take(y, x, cotangent)
    np.testing.assert_array_equal(g.reshape(-1), cotangent.reshape(-1))
    assert not np.shares_memory(g, cotangent)
    g += 1
    np.testing.assert_array_equal(cotangent, before)


@pytest.mark.parametrize("wanted", ["leaves", "results of ops"])
def test_two_inputs_do_not_share_a_gradient(wanted):
    """Addition sends the same array to both."""
    a, b = random_leaf(3), random_leaf(3, seed=1)
    if wanted == "results of ops":
        a, b = a * 2.0, b * 2.0
    g_a, g_b = ag.grad(a + b, [a, b], np.ones(3))
    assert not np.shares_memory(g_a.data, g_b.data)
