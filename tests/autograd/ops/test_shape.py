"""Other axes for the same elements."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, safety
from tests.helpers.leaves import agrees


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# ---- Same elements, other axes ----


@pytest.mark.parametrize(
    ("shape", "new"),
    [
        ((2, 3), (3, 2)),
        ((2, 3), 6),
        ((2, 3), -1),
        ((2, 3), (1, -1, 2)),
        ((), (1, 1)),
        ((1,), ()),
        ((0, 3), (3, 0, 2)),
        ((0, 3), (0,)),
        ((2, 3), [6]),
    ],
)
def test_reshape(shape, new):
    agrees(lambda x: ag.reshape(x, new), lambda x: x.reshape(new), normal(shape))
    agrees(lambda x: x.reshape(new), lambda x: x.reshape(new), normal(shape))


def test_reshape_to_another_size_is_numpys_error():
    with pytest.raises(ValueError, match="cannot reshape"):
        ag.reshape(Tensor(normal(6)), (4, 2))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((), None),
        ((3,), None),
        ((2, 3), None),
        ((2, 3), (1, 0)),
        ((2, 3, 4), (2, 0, 1)),
        ((2, 3, 4), (-2, 2, 0)),
        ((0, 2), (1, 0)),
    ],
)
def test_transpose(shape, axes):
    agrees(lambda x: ag.transpose(x, axes), lambda x: x.transpose(axes), normal(shape))


def test_transpose_methods():
    x = normal((2, 3, 4))
    for ours, numpys in (
        (Tensor(x).T, x.T),
        (Tensor(x).transpose(), x.transpose()),
        (Tensor(x).transpose(2, 0, 1), x.transpose(2, 0, 1)),
        (Tensor(x).transpose((1, 0, 2)), x.transpose(1, 0, 2)),
        (Tensor(x).swapaxes(0, -1), x.swapaxes(0, -1)),
    ):
        np.testing.assert_array_equal(ours.data, numpys)


@pytest.mark.parametrize("axes", [(0, 1), (0, -1), (1, 1), (-1, -3)])
def test_swapaxes(axes):
    agrees(lambda x: ag.swapaxes(x, *axes), lambda x: x.swapaxes(*axes), normal((2, 3, 4)))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, (0, 1), (0, -1), (1, 3)])
def test_expand_dims(axis):
    agrees(lambda x: ag.expand_dims(x, axis), lambda x: np.expand_dims(x, axis), normal((2, 3)))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
def test_squeeze(axis):
    agrees(lambda x: ag.squeeze(x, axis), lambda x: np.squeeze(x, axis), normal((1, 3, 1)))
    agrees(lambda x: x.squeeze(axis), lambda x: np.squeeze(x, axis), normal((1, 3, 1)))


def test_squeeze_of_an_axis_of_another_size_is_numpys_error():
    with pytest.raises(ValueError, match="size not equal to one"):
        ag.squeeze(Tensor(normal((2, 3))), 0)


def test_views_share_memory():
    x = Tensor(normal((2, 3)))
    for view in (
        x.T,
        x.reshape(3, 2),
        ag.expand_dims(x, 0),
        x.swapaxes(0, 1),
        ag.broadcast_to(x, (2, 2, 3)),
        x[1:],
        *ag.split(x, 2),
    ):
        assert np.shares_memory(view.data, x.data)
        assert safety.owner_of(view.data) is safety.owner_of(x.data)  # a change of one is noticed in the other
