"""Tensors on another device."""

import numpy as np
import pytest

import autograd as ag
from autograd import transfer
from autograd.backend import CPU, Backend
from tests.helpers.leaves import leaf


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
    y = transfer._moved(x, CPU, Other())
    assert y.data is not x.data
    (y * y * y).backward(np.ones(2))
    assert x.grad.tolist() == [3, 12]
    assert len(arrived) == 1
    assert ag.gradcheck(lambda x: transfer._moved(x, CPU, Other()) ** 3, np.array([1.0, 2.0]))
