"""Tensors of zeros, ones and random numbers, and Tensors on another device."""

import numpy as np
import pytest

import autograd as ag
from autograd import creation, random
from autograd.backend import CPU, Backend
from tests.helpers.leaves import leaf


@pytest.mark.parametrize("make", [ag.zeros, ag.ones, ag.randn])
def test_shapes_dtypes_and_leaves(make):
    assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == (2, 3)
    assert make().shape == make(()).shape == ()
    assert make(2).dtype == np.float64
    x = make(2, dtype="float32", requires_grad=True)
    assert x.dtype == np.float32
    assert x.is_leaf
    assert x.requires_grad
    with pytest.raises(TypeError, match="write dtype="):
        make(2, "float32")


def test_values():
    assert ag.zeros(2).tolist() == [0, 0]
    assert ag.ones(2).tolist() == [1, 1]
    before = random.get_state()
    try:
        random.manual_seed(3)
        first, second = ag.randn(100, 100).data, ag.randn(100, 100).data
        random.manual_seed(3)
        np.testing.assert_array_equal(ag.randn(100, 100).data, first)
    finally:
        random.set_state(before)
    assert not (first == second).any()
    assert abs(first.mean()) < 0.05
    assert abs(first.std() - 1) < 0.05


def test_a_tensor_on_its_own_device_is_itself_and_unknown_devices_are_refused():
    x = leaf(1.0, 2.0)
    assert x.to("cpu") is x
    with pytest.raises(ValueError, match="'tpu' is not one of"):
        x.to("tpu")


def test_a_gradient_comes_back_to_the_device_of_the_tensor_that_was_moved():
    arrived = []

    class Other(Backend):
        def asarray(self, a):
            arrived.append(a)
            return a.copy()

    x = leaf(1.0, 2.0)
    y = creation._moved(x, CPU, Other())
    assert y.data is not x.data
    (y * y * y).backward(np.ones(2))
    assert x.grad.tolist() == [3, 12]
    assert len(arrived) == 1
    assert ag.gradcheck(lambda x: creation._moved(x, CPU, Other()) ** 3, np.array([1.0, 2.0]))
