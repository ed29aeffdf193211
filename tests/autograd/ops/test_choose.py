"""Magnitudes, maxima of two, bounds, masks: where the gradient goes, and at ties."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


# ---- Bounds ----


def test_clip_without_bounds_is_an_error():
    with pytest.raises(ValueError, match="give min, max or both"):
        ag.clip(Tensor([1.0]))


# ---- Masks ----


def test_where_takes_tensors_numbers_and_scalars():
    x = leaf([1.0, 2.0, 3.0], np.float32)
    y = ag.where(x > 1.5, x, -1.0)
    assert y.dtype == np.float32
    assert y.tolist() == [-1, 2, 3]
    y.sum().backward()
    assert x.grad.tolist() == [0, 1, 1]
    assert ag.where([0, 2, 0], 1.0, Tensor(np.zeros(3))).tolist() == [0, 1, 0]


@pytest.mark.parametrize("zero", [0, False, 0.0, -0.0, np.float32(-0.0)])
def test_where_keeps_the_sign_of_a_zero(zero):
    x = Tensor(np.array([1.0, -2.0]))
    assert ag.where(np.array([True, False]), x * 1j, complex(zero)).data.tolist() == [1j, 0]
    assert ag.where(np.array([True, False]), 1.5, np.float64(zero)).data.tolist() == [1.5, 0]
    found = ag.where(np.array([True, False]), x, zero).data
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.where([True, False], x.data, zero)))


def test_where_stops_an_infinite_gradient():
    a, b = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    ag.where(np.array([True, False]), a, b).backward(np.array([np.inf, np.nan]))
    np.testing.assert_array_equal(a.grad.data, [np.inf, 0])
    np.testing.assert_array_equal(b.grad.data, [0, np.nan])
    for function in (ag.relu, lambda x: ag.clip(x, -1, 1), lambda x: ag.maximum(x, -0.5)):
        x = leaf([-2.0, 0.5])
        function(x).backward(np.full(2, np.inf))
        np.testing.assert_array_equal(x.grad.data, [0, np.inf])


def test_masked_fill_with_minus_infinity_keeps_the_dtype():
    x = leaf([1.0, 2.0], np.float16)
    y = ag.masked_fill(x, Tensor(np.array([True, False])), -np.inf)
    assert y.dtype == np.float16
    ag.softmax(y).backward(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(x.grad.data, [0, 0])


def test_masked_fill_errors():
    with pytest.raises(TypeError, match="boolean mask, found int64"):
        ag.masked_fill(Tensor([1.0]), np.array([1]), 0)
    with pytest.raises(TypeError, match="boolean mask, found int64"):
        ag.masked_fill(Tensor([1.0]), [1], 0)
    with pytest.raises(ValueError, match=r"one value, found shape \(2,\)"):
        ag.masked_fill(Tensor([1.0, 2.0]), [True, False], np.zeros(2))
