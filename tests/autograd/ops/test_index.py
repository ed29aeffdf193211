"""Indexing in all of NumPy's ways; gradients add up where positions repeat."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


X = normal((3, 4, 2))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_repeated_indices_add_up_in_every_dtype(dtype):
    x = Tensor(np.zeros((4, 2), dtype), requires_grad=True)
    index = np.array([3, 0, 3, 3])
    x[index].backward(np.arange(8.0).reshape(4, 2))
    expected = np.zeros((4, 2))
    np.add.at(expected, index, np.arange(8.0).reshape(4, 2))
    np.testing.assert_array_equal(x.grad.data, expected)
    assert x.grad.dtype == dtype
    x.zero_grad()
    x[index, [1, 0, 1, 1]].backward(np.arange(4.0))
    np.testing.assert_array_equal(x.grad.data, [[1, 0], [0, 0], [0, 0], [0, 5]])


def test_iteration_and_unpacking():
    x = Tensor(normal((2, 3)), requires_grad=True)
    a, b = x
    (a * 2 + b * 3).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [[2] * 3, [3] * 3])
    with pytest.raises(TypeError, match="0-d"):
        iter(Tensor(1.0))


# ---- Positions of extremes ----


def test_argmax_is_the_first_of_equal_elements():
    x = Tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 2.0]], requires_grad=True)
    assert ag.argmax(x).item() == x.argmax().item() == 1
    assert x.argmax(axis=1).tolist() == [1, 0]
    assert x.argmax(axis=0, keepdims=True).tolist() == [[1, 0, 0]]
    assert not x.argmax().requires_grad
