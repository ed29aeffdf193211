"""The gated recurrent unit: masks, long sequences, and what it refuses."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from studies.ops import gru
from tests.helpers.leaves import random_leaf


def arrays(steps=5, width=3, batch=2):
    rng = np.random.default_rng(steps)
    return [rng.standard_normal(shape) for shape in ((batch, steps, 3 * width), (3 * width, width), (3 * width,))]


def test_masked_positions_leave_the_state_and_pass_its_gradient_on():
    x, weight, bias = arrays()
    mask = np.array([True, True, False, False, True])
    leaf = Tensor(x, requires_grad=True)
    y = gru(leaf, weight, bias, mask)
    np.testing.assert_array_equal(y.data[:, 2:4], y.data[:, 1:2].repeat(2, axis=1))
    np.testing.assert_allclose(y.data[:, 4], gru(x[:, [0, 1, 4]], weight, bias).data[:, 2], rtol=1e-14)
    y[:, 4].backward(np.ones((2, 3)))
    np.testing.assert_array_equal(leaf.grad.data[:, 2:4], 0)
    assert (leaf.grad.data[:, :2] != 0).any()


def test_extreme_inputs_give_finite_states_and_gradients():
    x, weight, bias = arrays()
    leaf = Tensor(1e4 * x, requires_grad=True)
    y = gru(leaf, weight, bias)
    y.sum().backward()
    assert np.isfinite(y.data).all()
    assert np.isfinite(leaf.grad.data).all()


def test_no_position_gives_no_state():
    x, weight, bias = arrays()
    leaf = Tensor(weight, requires_grad=True)
    y = gru(x[:, :0], leaf, bias)
    assert y.shape == (2, 0, 3)
    y.sum().backward()
    np.testing.assert_array_equal(leaf.grad.data, 0)


def test_float32_stays_float32():
    assert gru(*[a.astype(np.float32) for a in arrays()]).dtype == np.float32


@pytest.mark.parametrize("which", [0, 1, 2])
def test_shapes_that_do_not_fit_are_refused(which):
    given = arrays()
    given[which] = given[which][..., :2]
    with pytest.raises(ValueError, match=r"expected \[\.\.\., T, 3 H\], \[3 H, H\], \[3 H\]"):
        gru(*given)


def test_a_mask_of_a_recurrent_unit_may_change():
    leaves = [random_leaf(2, 4, 6), random_leaf(6, 2), random_leaf(6)]
    mask = Tensor(np.array([[True, False, True, True]]))
    expected = ag.grad(gru(*leaves, mask), leaves, np.ones((2, 4, 2)))
    y = gru(*leaves, mask)
    mask[0, 1] = True
    for one, other in zip(ag.grad(y, leaves, np.ones((2, 4, 2))), expected, strict=True):
        np.testing.assert_array_equal(one.data, other.data)
