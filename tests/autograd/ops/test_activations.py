"""Nonlinearities: values against known functions, gradients, and what happens far out."""

import math

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


def cdf(x):
    return math.erfc(-x / math.sqrt(2)) / 2


REFERENCES = {
    "relu": (ag.relu, lambda x: max(x, 0.0)),
    "tanh": (ag.tanh, math.tanh),
    "sigmoid": (ag.sigmoid, lambda x: 1 / (1 + math.exp(-x))),
    "silu": (ag.silu, lambda x: x / (1 + math.exp(-x))),
    "gelu": (ag.gelu, lambda x: x * cdf(x)),
    "gelu_tanh": (
        lambda x: ag.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_values(name):
    function, reference = REFERENCES[name]
    x = np.linspace(-30, 30, 2001)
    expected = np.array([reference(v) for v in x.tolist()])
    np.testing.assert_allclose(function(Tensor(x)).data, expected, rtol=2e-13, atol=1e-15)
    np.testing.assert_allclose(
        function(Tensor(x.astype(np.float32))).data, expected.astype(np.float32), rtol=1e-5, atol=1e-6
    )
    half = function(Tensor(x.astype(np.float16))).data
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, expected, rtol=5e-3, atol=2e-2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", REFERENCES)
def test_far_out_nothing_overflows(name, dtype):
    """Values and slopes at ±800 and ±∞ are the limits, and no warning is given."""
    function, _ = REFERENCES[name]
    x = leaf([-np.inf, -800, 800, np.inf], dtype)
    y = function(x)
    low, high = {"tanh": (-1, [1, 1]), "sigmoid": (0, [1, 1])}.get(name, (0, [800, np.inf]))
    np.testing.assert_array_equal(y.data, np.array([low, low, *high], dtype))
    y.backward(np.ones(4))
    slope = 0 if name in ("tanh", "sigmoid") else 1
    np.testing.assert_array_equal(x.grad.data, np.array([0, 0, slope, slope], dtype))


def test_sigmoid_keeps_its_relative_precision_in_the_tail():
    x = np.array([-40.0, -100.0, -700.0])
    np.testing.assert_allclose(ag.sigmoid(Tensor(x)).data, np.exp(x), rtol=1e-13)


def test_gelu_of_integers_is_float64():
    y = ag.gelu(Tensor(np.array([-1, 0, 2])))
    assert y.dtype == np.float64
    np.testing.assert_allclose(y.data, [-cdf(-1), 0, 2 * cdf(2)], rtol=1e-15)


def test_gelu_rejects_an_unknown_approximation():
    with pytest.raises(ValueError, match="approximate='erf' is not one of 'none', 'tanh'"):
        ag.gelu(Tensor([1.0]), approximate="erf")
