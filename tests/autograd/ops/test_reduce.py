"""Sums, means, variances, extrema, and the softmax family."""

import math

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


# ---- Zero-size arrays ----


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
@pytest.mark.parametrize("function", [ag.mean, ag.var])
def test_mean_of_nothing_is_nan_as_in_numpy(function):
    x = leaf(np.ones((0, 3)))
    y = function(x, axis=0)
    assert np.isnan(y.data).all()
    y.backward(np.ones(3))
    assert x.grad.shape == (0, 3)


# ---- Means and variances ----


def test_var_of_large_numbers():
    """Two passes: E[x²] - E[x]² would lose everything here."""
    x = normal(1000) + 1e9
    np.testing.assert_allclose(ag.var(Tensor(x)).data, np.var(x), rtol=1e-12)


def test_mean_in_float16_counts_beyond_float16():
    x = Tensor(np.ones(100_000, np.float16), requires_grad=True)
    y = ag.mean(x)
    assert y.item() == 1
    y.backward()
    np.testing.assert_array_equal(x.grad.data, np.float16(1e-5))


# ---- The softmax family ----


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_softmax_family_does_not_overflow(dtype):
    x = leaf([[60000.0, 60000.0, -60000.0]], dtype)
    np.testing.assert_array_equal(ag.softmax(x).data, np.array([[0.5, 0.5, 0]]))
    np.testing.assert_allclose(ag.logsumexp(x).data, 60000 + math.log(2), rtol=1e-3)
    np.testing.assert_allclose(ag.log_softmax(x * 0.5).data, [[-math.log(2), -math.log(2), -60000]], rtol=1e-3)


def test_softmax_family_of_many_in_float16():
    """100,000 terms of 1 are more than float16 can hold."""
    x = Tensor(np.zeros(100_000, np.float16))
    np.testing.assert_array_equal(ag.softmax(x).data, np.float16(1e-5))
    assert ag.logsumexp(x).data == np.float16(math.log(1e5))
    np.testing.assert_array_equal(ag.log_softmax(x).data, np.float16(-math.log(1e5)))


# ---- Products, sums so far, standard deviations ----


@pytest.mark.parametrize("x", [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 3.0, 0.0], [0.0, np.inf, 2.0], [5.0], []])
def test_the_gradient_of_a_product_is_the_product_of_the_others(x):
    leaf = Tensor(np.array(x), requires_grad=True)
    with np.errstate(invalid="ignore"):
        ag.prod(leaf).backward()
        expected = [np.prod(np.delete(x, i)) for i in range(len(x))]
    np.testing.assert_array_equal(leaf.grad.data, expected)


@pytest.mark.parametrize("axis", [0, -1, None, ()])
def test_a_product_of_a_number_along_an_axis(axis):
    """NumPy takes axis 0 of an array without axes."""
    x = Tensor(np.array(3.0), requires_grad=True)
    y = ag.prod(x, axis=axis)
    y.backward()
    assert (y.item(), x.grad.item()) == (3.0, 1.0)
