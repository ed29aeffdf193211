"""Joining, splitting, padding and repeating arrays."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from tests.helpers.leaves import agrees, check_gradients


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


# ---- Putting together ----


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [
        ([(2, 3), (1, 3)], 0),
        ([(2, 3), (2, 1), (2, 2)], 1),
        ([(2, 3), (2, 1)], -1),
        ([(2, 3), (0, 3)], 0),
        ([(0,), (0,)], 0),
        ([(2, 3)], 0),
        ([(2, 3), (4,), ()], None),
        ([(2, 1, 2), (2, 3, 2)], -2),
    ],
)
def test_concatenate(shapes, axis):
    arrays = [normal(shape, seed=i) for i, shape in enumerate(shapes)]
    agrees(lambda *xs: ag.concatenate(xs, axis), lambda *xs: np.concatenate(xs, axis), *arrays)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("count", [1, 3])
def test_stack(count, axis):
    arrays = [normal((2, 3), seed=i) for i in range(count)]
    agrees(lambda *xs: ag.stack(xs, axis), lambda *xs: np.stack(xs, axis), *arrays)


def test_stack_of_0d_and_zero_size_arrays():
    agrees(lambda *xs: ag.stack(xs), lambda *xs: np.stack(xs), normal(()), normal(()))
    agrees(lambda *xs: ag.stack(xs, 1), lambda *xs: np.stack(xs, 1), normal((0, 2)), normal((0, 2)))


@pytest.mark.parametrize("join", [ag.concatenate, ag.stack])
def test_joining_tensors_and_constants(join):
    x = Tensor(normal((2, 2)), requires_grad=True)
    constant = normal((2, 2), seed=1)
    y = join([constant, x, Tensor(constant)])
    y.backward(np.arange(12.0).reshape(y.shape))
    np.testing.assert_array_equal(x.grad.data, [[4, 5], [6, 7]])


def test_joining_dtypes():
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    y = ag.concatenate([x, np.ones(2)])
    assert y.dtype == np.float64
    y.sum().backward()
    assert x.grad.dtype == np.float32


def test_joining_what_does_not_fit_is_numpys_error():
    with pytest.raises(ValueError, match="dimension"):
        ag.concatenate([Tensor(normal((2, 3))), Tensor(normal((2, 2)))])
    with pytest.raises(ValueError, match="same shape"):
        ag.stack([Tensor(normal(2)), Tensor(normal(3))])
    for join in (ag.concatenate, ag.stack):
        with pytest.raises(ValueError, match="need at least one array"):
            join([])


# ---- Taking apart ----


@pytest.mark.parametrize(
    ("shape", "sections", "axis"),
    [
        ((6,), 3, 0),
        ((4, 6), 2, 1),
        ((4, 6), 1, 0),
        ((4, 6), 3, -1),
        ((4, 6), [1, 3], 0),
        ((4, 6), [1, 3], -1),
        ((6,), [2, 2, 5], 0),
        ((6,), [-2], 0),
        ((6,), [4, 2], 0),
        ((6,), [9], 0),
        ((6,), [], 0),
        ((0, 2), 3, 0),
    ],
)
def test_split(shape, sections, axis):
    def ours(x):
        return ag.split(x, sections, axis)

    agrees(ours, lambda x: np.split(x, sections, axis), normal(shape))
    check_gradients(lambda x: ours(x)[-1] * 2, normal(shape))  # the other pieces unused


def test_split_into_unequal_sections_is_numpys_error():
    with pytest.raises(ValueError, match="equal division"):
        ag.split(Tensor(normal(5)), 2)


# ---- Padding ----


@pytest.mark.parametrize(
    ("shape", "width"),
    [
        ((), 1),
        ((3,), 2),
        ((3,), (1, 2)),
        ((2, 3), (1, 0)),
        ((2, 3), ((0, 1), (2, 0))),
        ((2, 3), 0),
        ((2, 3), ((1, 2),)),
        ((0, 3), 1),
    ],
)
def test_pad(shape, width):
    agrees(lambda x: ag.pad(x, width), lambda x: np.pad(x, width), normal(shape))
    agrees(lambda x: ag.pad(x, width, 5.0), lambda x: np.pad(x, width, constant_values=5.0), normal(shape))


def test_pad_keeps_the_dtype():
    assert ag.pad(Tensor(np.ones(2, np.float16)), 1, -np.inf).dtype == np.float16


@pytest.mark.parametrize("width", [((1, 2), (3, 4), (5, 6)), (1, 2, 3), -1, ((0, -1), (0, 0)), 1.5, "1", None])
def test_pad_width_errors(width):
    with pytest.raises(ValueError, match=r"pad_width=.* is neither n"):
        ag.pad(Tensor(normal((2, 3))), width)


@pytest.mark.parametrize(
    ("shape", "new"),
    [
        ((), (2, 3)),
        ((3,), (2, 3)),
        ((2, 1), (2, 3)),
        ((2, 3), (2, 3)),
        ((1, 3), (4, 2, 3)),
        ((1,), 5),
        ((1, 3), (0, 3)),
    ],
)
def test_broadcast_to(shape, new):
    agrees(lambda x: ag.broadcast_to(x, new), lambda x: np.broadcast_to(x, new), normal(shape))
