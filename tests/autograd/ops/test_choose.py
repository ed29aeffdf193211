"""Magnitudes, maxima of two, bounds, masks: where the gradient goes, and at ties."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def leaf(values, dtype=np.float64):
    return Tensor(np.array(values, dtype=dtype), requires_grad=True)


# ---- Magnitude ----


def test_abs_has_no_slope_at_zero():
    x = leaf([0.0, -0.0])
    ag.abs(x).backward(np.ones(2))
    np.testing.assert_array_equal(x.grad.data, [0, 0])


# ---- The larger and the smaller ----


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("function", [ag.maximum, ag.minimum])
def test_ties_share_the_gradient(function, dtype):
    a, b = leaf([1.0, 2.0, 3.0], dtype), leaf([1.0, 3.0, 3.0], dtype)
    function(a, b).backward(np.array([4.0, 5.0, np.inf]))
    chosen = [5, 0] if function is ag.minimum else [0, 5]
    np.testing.assert_array_equal(a.grad.data, np.array([2, chosen[0], np.inf], dtype))
    np.testing.assert_array_equal(b.grad.data, np.array([2, chosen[1], np.inf], dtype))


def test_extremum_with_a_scalar():
    x = leaf([-1.0, 0.0, 1.0], np.float32)
    y = ag.maximum(0.0, x)
    assert y.dtype == np.float32
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.data, [0, 0.5, 1])


def test_nan_wins():
    a, b = leaf([np.nan, 1.0]), leaf([1.0, np.nan])
    y = ag.maximum(a, b)
    assert np.isnan(y.data).all()
    y.backward(np.ones(2))
    np.testing.assert_array_equal(a.grad.data + b.grad.data, [1, 1])


# ---- Bounds ----


def test_clip_passes_the_gradient_at_the_bounds():
    x = leaf([-2.0, -1.0, 0.0, 1.0, 2.0, np.nan])
    ag.clip(x, -1, 1).backward(np.full(6, np.inf))
    np.testing.assert_array_equal(x.grad.data, [0, np.inf, np.inf, np.inf, 0, np.inf])


def test_clip_with_crossed_bounds_is_the_upper_one():
    x, low, high = leaf([-2.0, 0.0, 2.0]), leaf(1.0), leaf(-1.0)
    y = ag.clip(x, low, high)
    np.testing.assert_array_equal(y.data, [-1, -1, -1])
    y.sum().backward()
    assert (x.grad.tolist(), low.grad.item(), high.grad.item()) == ([0, 0, 0], 0, 3)


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


def test_where_before_the_logarithm_is_finite():
    """The two patterns of the docstring."""
    x = leaf([0.0, 2.0])
    safe = ag.where(x > 0, x, 1.0)
    ag.where(x > 0, ag.log(safe), 0.0).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [0, 0.5])
    x = leaf([0.0, 2.0])
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        y = ag.where(x > 0, ag.log(x), 0.0)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.data, [np.nan, 0.5])


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
