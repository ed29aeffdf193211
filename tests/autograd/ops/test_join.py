"""Joining and padding arrays: constants beside Tensors, dtypes, errors."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("join", [ag.concatenate, ag.stack])
def test_joining_tensors_and_constants(join):
    x = Tensor(normal((2, 2)), requires_grad=True)
    constant = normal((2, 2), seed=1)
    y = join([constant, x, Tensor(constant)])
    y.backward(np.arange(12.0).reshape(y.shape))
    np.testing.assert_array_equal(x.grad.data, [[4, 5], [6, 7]])


def test_pad_keeps_the_dtype():
    assert ag.pad(Tensor(np.ones(2, np.float16)), 1, -np.inf).dtype == np.float16


@pytest.mark.parametrize("width", [((1, 2), (3, 4), (5, 6)), (1, 2, 3), -1, ((0, -1), (0, 0)), 1.5, "1", None])
def test_pad_width_errors(width):
    with pytest.raises(ValueError, match=r"pad_width=.* is neither n"):
        ag.pad(Tensor(normal((2, 3))), width)
