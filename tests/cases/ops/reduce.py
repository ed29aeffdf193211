"""Cases of autograd/ops/reduce.py."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch
from tests.cases.families import reduction

# ---- Sums, means, variances, extrema ----


def _count(shape: draw.Shape, axis: Any) -> int:
    """The number of elements that go into one result."""
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return math.prod([shape[a] for a in axes])


def _plain_mean(x: Any, axis: Any, keepdims: bool) -> Any:
    return ag.sum(x, axis, keepdims) / _count(x.shape, axis)


def _plain_var(x: Any, axis: Any, keepdims: bool) -> Any:
    centred = x - _plain_mean(x, axis, True)
    return _plain_mean(centred * centred, axis, keepdims)


def _plain_logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    return ag.log(ag.sum(ag.exp(x), axis, keepdims))


reduction("Sum", ag.sum, lambda x, **axes: torch.sum(x, **axes), empty=True)
reduction("Mean", ag.mean, lambda x, **axes: torch.mean(x, **axes), _plain_mean, empty=False)
reduction(
    "Var", lambda x, axis, keepdims: ag.var(x, axis, keepdims=keepdims),
    lambda x, **axes: torch.var(x, correction=0, **axes), _plain_var, empty=False,
)  # fmt: skip
reduction(
    "Std", lambda x, axis, keepdims: ag.std(x, axis, keepdims=keepdims),
    lambda x, **axes: torch.std(x, correction=0, **axes), distinct=True, empty=False,
)  # fmt: skip
reduction("Prod", ag.prod, lambda x, *, dim, keepdim: _torch_prod(x, dim, keepdim), empty=True)
reduction("Max", ag.max, lambda x, **axes: torch.amax(x, **axes), distinct=True, empty=False)
reduction(
    "Min", ag.min, lambda x, **axes: torch.amin(x, **axes),
    lambda x, axis, keepdims: -ag.max(-x, axis, keepdims), distinct=True, empty=False,
)  # fmt: skip
reduction("LogSumExp", ag.logsumexp, lambda x, **axes: torch.logsumexp(x, **axes), _plain_logsumexp, empty=False)


def _torch_prod(x: Any, dim: Any, keepdim: bool) -> Any:
    """PyTorch's product, which reduces one axis at a time."""
    for axis in sorted(dim, reverse=True):
        x = torch.prod(x, axis, keepdim=keepdim)
    return x


@register("Prod", "with zeros")
def _(rng):
    """None, one or several in a row: each gradient is the product of the others."""
    x = draw.uniform(rng, (4, 3)) * (rng.random((4, 3)) < 0.7)
    axis = [None, 0, 1, (0, 1)][rng.integers(4)]
    return Example(
        lambda x: ag.prod(x, axis), [x], lambda x: _plain_prod(x, axis),
        lambda x: _torch_prod(x, (0, 1) if axis is None else axis if isinstance(axis, tuple) else (axis,), False),
    )  # fmt: skip


def _plain_prod(x: Any, axis: Any) -> Any:
    """The factors one after the other."""
    for a in [1, 0] if axis in (None, (0, 1)) else [axis]:
        product = 1.0
        for i in range(x.shape[a]):
            product = product * (x[i] if a == 0 else x[:, i])
        x = product
    return x


def _cumsum_axis(rng: draw.Rng, shape: draw.Shape) -> int | None:
    return None if not shape or rng.random() < 0.3 else int(rng.integers(-len(shape), len(shape)))


@register("CumSum", "any axis")
def _(rng):
    shape = draw.shape(rng, min_side=0)
    axis = _cumsum_axis(rng, shape)
    return Example(
        lambda x: ag.cumsum(x, axis), [draw.uniform(rng, shape)], lambda x: _plain_cumsum(x, axis),
        lambda x: torch.cumsum(x.reshape(-1) if axis is None else x, 0 if axis is None else axis),
    )  # fmt: skip


def _plain_cumsum(x: Any, axis: int | None) -> Any:
    """A product with a matrix of ones below the diagonal."""
    if axis is None:
        x, axis = ag.reshape(x, (math.prod(x.shape),)), 0
    ones = np.tri(x.shape[axis])  # [n, n]
    return ag.swapaxes(ag.matmul(ag.swapaxes(x, axis, -1), ones.T), axis, -1)


@register("CumSum", "reused")
def _(rng):
    return Example(
        lambda x: ag.cumsum(x, 0) * x + ag.cumsum(x * x, -1), [draw.uniform(rng, (2, 3))],
        torch=lambda x: torch.cumsum(x, 0) * x + torch.cumsum(x * x, -1),
    )  # fmt: skip


@register("Sum", "over no element")
def _(rng):
    return Example(lambda x: ag.sum(x, 1), [draw.uniform(rng, (3, 0))], torch=lambda x: torch.sum(x, 1))


@register("Var", "with a correction")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, max_ndim=3, min_side=3)
    axis = int(rng.integers(-len(shape), len(shape)))
    n = shape[axis]
    return Example(
        lambda x: ag.var(x, axis, ddof=1), [draw.uniform(rng, shape)],
        lambda x: _plain_var(x, axis, False) * (n / (n - 1)), lambda x: torch.var(x, axis, correction=1),
    )  # fmt: skip


# ---- The softmax family ----


def _plain_softmax(x: Any, axis: Any) -> Any:
    e = ag.exp(x)
    return e / ag.sum(e, axis, keepdims=True)


def _softmax(op: str, function: Callable, peer: Callable, plain: Callable) -> None:
    @register(op, "any axis")
    def any_axis(rng):
        shape = draw.shape(rng, min_ndim=1, min_side=0)
        axis = draw.axis(rng, len(shape), none=False, several=False)
        return Example(
            lambda x: function(x, axis), [draw.uniform(rng, shape)], lambda x: plain(x, axis), lambda x: peer(x, axis)
        )

    @register(op, "several axes at once")
    def several_axes(rng):
        shape = draw.shape(rng, min_ndim=2)
        axes: Any = (0, -1) if rng.integers(2) else None
        return Example(lambda x: function(x, axes), [draw.uniform(rng, shape)], lambda x: plain(x, axes))

    @register(op, "large numbers")
    def large(rng):
        """An exponential without subtracting the maximum would overflow."""
        x = draw.uniform(rng, (2, 4)) + 1000
        return Example(function, [x], lambda x: plain(x - 1000, -1), lambda x: peer(x, -1))

    @register(op, "reused")
    def reused(rng):
        return Example(
            lambda x: function(x) * x + function(2 * x), [draw.uniform(rng, (2, 3))],
            torch=lambda x: peer(x, -1) * x + peer(2 * x, -1),
        )  # fmt: skip

    @register(op, "zero size")
    def zero_size(rng):
        return Example(function, [draw.uniform(rng, (0, 3))], torch=lambda x: peer(x, -1))


_softmax("Softmax", ag.softmax, lambda x, axis: torch.softmax(x, axis), _plain_softmax)
_softmax(
    "LogSoftmax", ag.log_softmax, lambda x, axis: torch.log_softmax(x, axis),
    lambda x, axis: ag.log(_plain_softmax(x, axis)),
)  # fmt: skip


@register("LogSumExp", "large numbers")
def _(rng):
    return Example(
        lambda x: ag.logsumexp(x, -1), [draw.uniform(rng, (2, 4)) - 1000],
        lambda x: _plain_logsumexp(x + 1000, -1, False) - 1000, lambda x: torch.logsumexp(x, -1),
    )  # fmt: skip


@register("LogSumExp", "rows of nothing but minus infinity")
def _(rng):
    shape = draw.shape(rng, min_ndim=1)
    hidden = ~draw.attention_mask(rng, shape)
    return Example(
        lambda x: ag.exp(ag.logsumexp(ag.masked_fill(x, hidden, -math.inf), -1)), [draw.uniform(rng, shape)],
        lambda x: ag.sum(ag.exp(x) * ~hidden, -1),
    )  # fmt: skip
