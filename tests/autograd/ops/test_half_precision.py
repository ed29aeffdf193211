"""Sums of float16 are taken in float32: ones add up to more than 2,048, where float16 alone stands still."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor

N = 5000


def ones(*shape: int, grad: bool = True) -> Tensor:
    return Tensor(np.ones(shape, np.float16), requires_grad=grad)


@pytest.mark.parametrize(
    "total",
    [
        lambda: ag.sum(ones(N, 3), axis=0),
        lambda: ag.sum(ones(3, N), axis=1),
        lambda: ag.sum(ones(N, 2, 1), axis=(0, 2)),
        lambda: ag.cumsum(ones(N))[-1],
        lambda: ag.einsum("ij->j", ones(N, 3)),
        lambda: ag.einsum("ij,ij->j", ones(N, 3), ones(N, 3)),
        lambda: ones(1, N) @ ones(N, 1),
    ],
)
def test_sums(total):
    y = total()
    assert y.dtype == np.float16
    assert np.all(y.data == N)


@pytest.mark.parametrize(
    ("shape", "function"),
    [
        ((3,), lambda b: ones(N, 3) + b),
        ((3,), lambda b: ones(N, 3) * b),
        ((2, 1), lambda x: ag.broadcast_to(x, (2, N))),
        ((2,), lambda b: ag.linear(ones(N, 2), ones(2, 2), b)),
        ((2, 2), lambda w: ag.linear(ones(N, 2), w, ones(2))),
        ((2,), lambda b: ag.layer_norm(ones(N, 2), ones(2), b)),
        ((1, 2), lambda w: ag.embedding(np.zeros(N, int), w)),
        ((1, 2), lambda w: ag.take(w, np.zeros(N, int), axis=0)),
        ((1, 2), lambda w: w[np.zeros(N, int)]),
        ((3,), lambda w: ag.einsum("ij,j->ij", ones(N, 3), w)),
    ],
)
def test_gradients_of_what_is_used_in_many_rows(shape, function):
    x = ones(*shape)
    y = function(x)
    y.backward(ones(*y.shape, grad=False))
    assert x.grad.dtype == np.float16
    assert np.all(x.grad.data == N)


def test_rows_beyond_the_root_of_the_largest_float16_are_normalised():
    x = np.array([[600, -600, 30_000, -30_000], [1, 2, 3, 4]], np.float16)
    y = ag.layer_norm(Tensor(x), ones(4), Tensor(np.zeros(4, np.float16)))
    wide = ag.layer_norm(Tensor(x.astype(np.float32)), ones(4), Tensor(np.zeros(4, np.float32)))
    np.testing.assert_allclose(y.data, wide.data, rtol=1e-3)
    assert ag.std(Tensor(x[0, :2])).data == 600
