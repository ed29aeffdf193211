"""Values and gradients at kinks, ties, zeros, infinity and NaN: the conventions that the docstrings state."""

import math

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor

INF, NAN = math.inf, math.nan
EDGES = {  # function, inputs, value, gradients for the cotangent 1, 2, 3, …
    "abs": (ag.abs, [[0.0, -0.0, NAN]], [0, 0, NAN], [[0, 0, NAN]]),
    "sign": (ag.sign, [[0.0, NAN]], [0, NAN], [[0, 0]]),
    "relu": (ag.relu, [[-0.0, 0, 1, -1, -INF, INF, NAN]], [0, 0, 1, 0, 0, INF, NAN], [[0, 0, 3, 0, 0, 6, 0]]),
    "silu": (ag.silu, [[-INF, NAN]], [0, NAN], [[0, NAN]]),
    "gelu": (ag.gelu, [[-INF, NAN]], [0, NAN], [[0, NAN]]),
    "softplus": (ag.softplus, [[-INF, INF, NAN]], [0, INF, NAN], [[0, 2, NAN]]),
    "erf": (ag.erf, [[INF]], [1], [[0]]),
    "sqrt of 0": (ag.sqrt, [[0.0]], [0], [[INF]]),
    "maximum, ties": (ag.maximum, [[1, 2, 3], [1, 3, 3]], [1, 3, 3], [[0.5, 0, 1.5], [0.5, 2, 1.5]]),
    "minimum, ties": (ag.minimum, [[1, 2, 3], [1, 3, 3]], [1, 2, 3], [[0.5, 2, 1.5], [0.5, 0, 1.5]]),
    "maximum with a number": (lambda x: ag.maximum(0.0, x), [[-1, 0, 1]], [0, 0, 1], [[0, 1, 3]]),
    "maximum, NaN wins": (ag.maximum, [[NAN, 1], [1, NAN]], [NAN, NAN], [[0.5, 1], [0.5, 1]]),
    "clip": (lambda x: ag.clip(x, -1, 1), [[-2, -1, 0, 1, 2, NAN]], [-1, -1, 0, 1, 1, NAN], [[0, 2, 3, 4, 0, 6]]),
    "clip between equal bounds": (ag.clip, [[-2, 1, 3], 1, 1], [1, 1, 1], [[0, 0, 0], 0, 6]),
    "clip between crossed bounds": (ag.clip, [[-2, 0, 2], 1, -1], [-1, -1, -1], [[0, 0, 0], 0, 6]),
    "power 0": (ag.power, [[0, 2], [0, 0]], [1, 1], [[0, 0], [0, 2 * math.log(2)]]),
    "power 0, a number": (lambda x: x**0, [[0, 2]], [1, 1], [[0, 0]]),
    "powers of 0": (ag.power, [[0, 0, 0, 0], [0.5, 1, 2, 3]], [0, 0, 0, 0], [[INF, 2, 0, 0], [0, 0, 0, 0]]),
    "power of a negative number": (ag.power, [[-2.0], [3.0]], [-8], [[12], [NAN]]),
    "a power of a number of 0": (lambda x: 0.0**x, [[0, 1, 2]], [1, 0, 0], [[0, 0, 0]]),
    "max, ties": (lambda x: ag.max(x, 1), [[[1, 3, 3], [2, 2, 2]]], [3, 2], [[[0, 0.5, 0.5], [2 / 3] * 3]]),
    "min, ties": (lambda x: ag.min(x), [[[3, 1], [1, 2]]], 1, [[[0, 0.5], [0.5, 0]]]),
    "max of NaN": (lambda x: ag.max(x, 1), [[[1, NAN, NAN], [1, 2, 0]]], [NAN, 2], [[[0, 0.5, 0.5], [0, 2, 0]]]),
    "max of -∞": (ag.max, [[-INF, -INF]], -INF, [[0.5, 0.5]]),
    "softmax of -∞": (ag.softmax, [[[-INF, -INF], [0, 0]]], [[0, 0], [0.5, 0.5]], [[[0, 0], [-0.25, 0.25]]]),
    "logsumexp of -∞": (
        lambda x: ag.logsumexp(x, -1), [[[-INF, -INF], [0, 0]]], [-INF, math.log(2)], [[[0, 0], [1, 1]]],
    ),
    "logsumexp of ∞": (lambda x: ag.logsumexp(x, -1), [[INF, 1]], INF, None),
    "log_softmax of -∞": (ag.log_softmax, [[[-INF, -INF]]], [[-INF, -INF]], None),
    "std of equal elements": (lambda x: ag.std(x, 1), [[[2, 2], [1, 3]]], [0, 1], [[[0, 0], [-1, 1]]]),
    "where before log": (
        lambda x: ag.where(x > 0, ag.log(ag.where(x > 0, x, 1.0)), 0.0), [[0, 2]], [0, math.log(2)], [[0, 1]],
    ),
    "log before where": (lambda x: ag.where(x > 0, ag.log(x), 0.0), [[0, 2]], [0, math.log(2)], [[NAN, 1]]),
    "softmax after masked_fill": (
        lambda x: ag.softmax(ag.masked_fill(x, [True, False], -INF)), [[1, 2]], [0, 1], [[0, 0]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_edges(name):
    for dtype in [np.float16, np.float32, np.float64]:
        function, inputs, value, gradients = EDGES[name]
        leaves = [Tensor(np.array(x, dtype), requires_grad=True) for x in inputs]
        with np.errstate(divide="ignore", invalid="ignore"):
            y = function(*leaves)
        y.backward(np.arange(1, y.size + 1, dtype=dtype).reshape(y.shape))
        tolerance = 3e-3 if dtype == np.float16 else 1e-6
        np.testing.assert_allclose(y.data, value, rtol=tolerance)
        assert y.dtype == dtype
        for leaf, g in zip(leaves, gradients or [], strict=gradients is not None):
            np.testing.assert_allclose(leaf.grad.data, g, rtol=tolerance)
            assert leaf.grad.dtype == dtype
