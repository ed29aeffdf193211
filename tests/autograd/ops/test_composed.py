"""Functions made of other ops, against NumPy's; and every function of an array as a method."""

import inspect

import numpy as np
import pytest

import autograd as ag
from autograd import ops

X = np.array([[0.3, -1.2, 2.5], [0.7, 0.7, -0.4]])
LIKE_NUMPY = {  # the same call of both
    "tan": lambda m, x: m.tan(x),
    "log2": lambda m, x: m.log2(x * x + 1),
    "dot of matrices": lambda m, x: m.dot(x, x.T),
    "dot of vectors": lambda m, x: m.dot(x[0], x[1]),
    "dot with a number": lambda m, x: m.dot(x, 3.0),
    "dot of more axes": lambda m, x: m.dot(x.reshape(1, 2, 1, 3), x[0]),
    "outer": lambda m, x: m.outer(x, x[0]),
    "flip": lambda m, x: m.flip(x),
    "flip along an axis": lambda m, x: m.flip(x, 1),
    "roll": lambda m, x: m.roll(x, 2),
    "roll along axes": lambda m, x: m.roll(x, (1, -1), (0, 1)),
    "tile": lambda m, x: m.tile(x, 2),
    "tile with more axes": lambda m, x: m.tile(x, (2, 1, 3)),
    "sort": lambda m, x: m.sort(x),
    "sort along an axis": lambda m, x: m.sort(x, 0),
    "sort flattened": lambda m, x: m.sort(x, None),
}


@pytest.mark.parametrize("name", LIKE_NUMPY)
def test_functions_compute_what_numpy_s_do(name):
    """Their gradients are those of the ops that they are made of."""
    call = LIKE_NUMPY[name]
    np.testing.assert_allclose(call(ag, ag.Tensor(X)).data, call(np, X), rtol=1e-15)


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


@pytest.mark.parametrize("name", ["relu", "sin", "softmax", "sigmoid", "square", "sort", "exp", "argmax", "squeeze"])
def test_a_function_of_an_array_is_a_method(name):
    np.testing.assert_array_equal(getattr(ag.Tensor(X), name)().data, getattr(ag, name)(X).data)


def test_no_function_of_an_array_is_without_a_method():
    first = {name: next(iter(inspect.signature(getattr(ops, name)).parameters)) for name in ops.__all__}
    assert [name for name in first if first[name] in ("x", "a") and not hasattr(ag.Tensor, name)] == []
