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


# ---- Positions of extremes, additions at positions ----


def test_topk_takes_equal_elements_in_order_and_nan_as_the_largest():
    x = np.array([[1.0, np.nan, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, -np.inf, 5.0]])
    values, places = ag.topk(x, 3)
    np.testing.assert_array_equal(values.data, [[np.nan, 3, 3], [5, 5, 5]])
    assert places.tolist() == [[1, 2, 3], [0, 1, 2]]
    values, places = ag.topk(x, 2, largest=False)
    assert values.tolist() == [[1, 2], [-np.inf, 5]]
    assert places.tolist() == [[0, 4], [3, 0]]
    assert not places.requires_grad


@pytest.mark.parametrize("k", [-1, 4])
def test_topk_of_more_than_there_are_is_refused(k):
    with pytest.raises(ValueError, match=rf"k={k} is outside 0 … 3, the size of axis -1 of shape \(2, 3\)"):
        ag.topk(np.ones((2, 3)), k)


def test_argmax_is_the_first_of_equal_elements():
    x = Tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 2.0]], requires_grad=True)
    assert ag.argmax(x).item() == x.argmax().item() == 1
    assert x.argmax(axis=1).tolist() == [1, 0]
    assert x.argmax(axis=0, keepdims=True).tolist() == [[1, 0, 0]]
    assert not x.argmax().requires_grad


def test_index_add_adds_up_at_equal_places():
    x = np.zeros((2, 3))
    y = ag.index_add(x, 1, [2, 2, 0], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], alpha=2)
    assert y.tolist() == [[6, 0, 6], [12, 0, 18]]
    assert (x == 0).all()


@pytest.mark.parametrize(
    ("index", "source", "error", "message"),
    [
        ([0, 3], np.ones((2, 2)), IndexError, r"index_add index must lie in 0 … 2, found 0 … 3"),
        ([0, -1], np.ones((2, 2)), IndexError, r"found -1 … 0"),
        ([0.0, 1.0], np.ones((2, 2)), TypeError, "integer array"),
        (
            [0, 1],
            np.ones((2, 3)),
            ValueError,
            r"along axis 1 of shape \(2, 3\).*found index \(2,\) and source \(2, 3\)",
        ),
        ([[0, 1]], np.ones((2, 2)), ValueError, r"found index \(1, 2\)"),
    ],
)
def test_index_add_refuses_what_does_not_fit(index, source, error, message):
    with pytest.raises(error, match=message):
        ag.index_add(np.ones((2, 3)), 1, index, source)
