"""Functions made of other ops; and every function of an array as a method."""

import inspect

import numpy as np
import pytest

import autograd as ag
from autograd import ops


def test_dot_refuses_more_axes_than_matmul_agrees_about():
    with pytest.raises(ValueError, match=r"found shape \(2, 2, 2\); write matmul"):
        ag.dot(np.ones((2, 2)), np.ones((2, 2, 2)))


def test_leaky_relu_and_its_slope_at_zero():
    x = ag.Tensor([-2.0, 0.0, 3.0], requires_grad=True)
    y = ag.leaky_relu(x, 0.1)
    y.backward(np.ones(3))
    assert y.tolist() == [-0.2, 0, 3]
    assert x.grad.tolist() == [0.1, 0.1, 1]


def test_mt_exchanges_the_last_two_axes():
    x = ag.Tensor(np.arange(12.0).reshape(2, 2, 3))
    np.testing.assert_array_equal(x.mT.data, x.data.swapaxes(1, 2))
    with pytest.raises(ValueError, match="last two axes"):
        _ = x[0, 0].mT


def test_no_function_of_an_array_is_without_a_method():
    first = {name: next(iter(inspect.signature(getattr(ops, name)).parameters)) for name in ops.__all__}
    assert [name for name in first if first[name] in ("x", "a") and not hasattr(ag.Tensor, name)] == []
