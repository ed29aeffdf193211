"""Cases of the ops that rearrange, pick or sum elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import autograd as ag
from autograd.testing import draw
from autograd.testing.case import Example, register

# ---- Sums, means, variances, extrema ----


def _count(shape: draw.Shape, axis: Any) -> int:
    """How many elements go into one result."""
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return math.prod([shape[a] for a in axes])


def _plain_mean(x: Any, axis: Any, keepdims: bool) -> Any:
    return ag.sum(x, axis, keepdims) / _count(x.shape, axis)


def _plain_var(x: Any, axis: Any, keepdims: bool) -> Any:
    centred = x - _plain_mean(x, axis, True)
    return _plain_mean(centred * centred, axis, keepdims)


def _plain_logsumexp(x: Any, axis: Any, keepdims: bool) -> Any:
    return ag.log(ag.sum(ag.exp(x), axis, keepdims))


REDUCTIONS: dict[str, tuple[Callable, Callable | None]] = {
    "Sum": (ag.sum, None),
    "Mean": (ag.mean, _plain_mean),
    "Var": (lambda x, axis, keepdims: ag.var(x, axis, keepdims=keepdims), _plain_var),
    "Max": (ag.max, None),
    "Min": (ag.min, lambda x, axis, keepdims: -ag.max(-x, axis, keepdims)),
    "LogSumExp": (ag.logsumexp, _plain_logsumexp),
}


def _register_reduction(op: str, function: Callable, plain: Callable | None) -> None:
    def example(rng: draw.Rng, shape: draw.Shape, axis: Any) -> Example:
        keepdims = bool(rng.integers(2))
        x = draw.distinct(rng, shape)[0] if op in ("Max", "Min") else draw.uniform(rng, shape)
        return Example(lambda x: function(x, axis, keepdims), [x], plain and (lambda x: plain(x, axis, keepdims)))

    @register(op, "any axes")
    def any_axes(rng):
        shape = draw.shape(rng)
        return example(rng, shape, draw.axis(rng, len(shape)))

    @register(op, "all axes")
    def all_axes(rng):
        return example(rng, draw.shape(rng), None)

    @register(op, "inner axis of three")
    def inner_axis(rng):
        return example(rng, draw.shape(rng, min_ndim=3, min_side=2), int(rng.choice([1, -2])))

    @register(op, "reused")
    def reused(rng):
        shape = draw.shape(rng, min_ndim=1)
        x = draw.distinct(rng, shape)[0]
        return Example(lambda x: function(x, -1, True) * x + function(x * x * x, -1, True), [x])

    @register(op, "zero size")
    def zero_size(rng):
        """No element in the result; over no element, extrema have no value."""
        return Example(lambda x: function(x, 1, False), [draw.uniform(rng, (0, 3))])


for _op, (_function, _plain) in REDUCTIONS.items():
    _register_reduction(_op, _function, _plain)


@register("Sum", "over no element")
def _(rng):
    return Example(lambda x: ag.sum(x, 1), [draw.uniform(rng, (3, 0))])


@register("Var", "with a correction")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, min_side=3)
    axis = int(rng.integers(-len(shape), len(shape)))
    n = shape[axis]
    return Example(
        lambda x: ag.var(x, axis, ddof=1), [draw.uniform(rng, shape)],
        lambda x: _plain_var(x, axis, False) * (n / (n - 1)),
    )  # fmt: skip


# ---- The softmax family ----


def _plain_softmax(x: Any, axis: Any) -> Any:
    e = ag.exp(x)
    return e / ag.sum(e, axis, keepdims=True)


SOFTMAXES: dict[str, tuple[Callable, Callable]] = {
    "Softmax": (ag.softmax, _plain_softmax),
    "LogSoftmax": (ag.log_softmax, lambda x, axis: ag.log(_plain_softmax(x, axis))),
}


def _register_softmax(op: str, function: Callable, plain: Callable) -> None:
    @register(op, "any axis")
    def any_axis(rng):
        shape = draw.shape(rng, min_ndim=1)
        axis = draw.axis(rng, len(shape), none=False, several=False)
        return Example(lambda x: function(x, axis), [draw.uniform(rng, shape)], lambda x: plain(x, axis))

    @register(op, "several axes at once")
    def several_axes(rng):
        shape = draw.shape(rng, min_ndim=2)
        axes: Any = (0, -1) if rng.integers(2) else None
        return Example(lambda x: function(x, axes), [draw.uniform(rng, shape)], lambda x: plain(x, axes))

    @register(op, "large numbers")
    def large(rng):
        """Whoever exponentiates without subtracting the maximum overflows."""
        x = draw.uniform(rng, (2, 4)) + 1000
        return Example(function, [x], lambda x: plain(x - 1000, -1))

    @register(op, "reused")
    def reused(rng):
        return Example(lambda x: function(x) * x + function(2 * x), [draw.uniform(rng, (2, 3))])

    @register(op, "zero size")
    def zero_size(rng):
        return Example(function, [draw.uniform(rng, (0, 3))])


for _op, (_function, _plain_pair) in SOFTMAXES.items():
    _register_softmax(_op, _function, _plain_pair)


@register("LogSumExp", "large numbers")
def _(rng):
    return Example(
        lambda x: ag.logsumexp(x, -1), [draw.uniform(rng, (2, 4)) - 1000],
        lambda x: _plain_logsumexp(x + 1000, -1, False) - 1000,
    )  # fmt: skip


@register("LogSumExp", "rows of nothing but minus infinity")
def _(rng):
    shape = draw.shape(rng, min_ndim=1)
    hidden = ~draw.attention_mask(rng, shape)
    return Example(
        lambda x: ag.exp(ag.logsumexp(ag.masked_fill(x, hidden, -math.inf), -1)), [draw.uniform(rng, shape)],
        lambda x: ag.sum(ag.exp(x) * ~hidden, -1),
    )  # fmt: skip


# ---- Other axes for the same elements ----


def _factors(rng: draw.Rng, size: int) -> list[int]:
    """A shape of so many elements."""
    sides = [1] * int(rng.integers(1, 4))
    for prime in (2, 3):
        while size % prime == 0:
            size //= prime
            sides[rng.integers(len(sides))] *= prime
    return [size * sides[0], *sides[1:]]


@register("Reshape", "any shape")
def _(rng):
    shape = draw.shape(rng)
    new = _factors(rng, math.prod(shape))
    if rng.integers(2):
        new[rng.integers(len(new))] = -1
    return Example(lambda x: ag.reshape(x, new), [draw.uniform(rng, shape)])


@register("Reshape", "zero size")
def _(rng):
    return Example(lambda x: ag.reshape(x, (0, 5)), [draw.uniform(rng, (2, 0))])


@register("Transpose", "reversed")
def _(rng):
    return Example(ag.transpose, [draw.uniform(rng, draw.shape(rng))])


@register("Transpose", "any order")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, max_ndim=4, max_side=3)
    axes = [int(a) - len(shape) * int(rng.integers(2)) for a in rng.permutation(len(shape))]
    return Example(lambda x: ag.transpose(x, axes), [draw.uniform(rng, shape)])


@register("Transpose", "three axes in a circle")
def _(rng):
    """Not its own inverse: whoever transposes the gradient by `axes` again is found out."""
    return Example(lambda x: ag.transpose(x, (1, 2, 0)), [draw.uniform(rng, (2, 2, 2))])


@register("SwapAxes", "any two axes")
def _(rng):
    shape = draw.shape(rng, min_ndim=1)
    a, b = rng.integers(-len(shape), len(shape), 2).tolist()
    return Example(lambda x: ag.swapaxes(x, a, b), [draw.uniform(rng, shape)])


@register("ExpandDims", "one axis or two")
def _(rng):
    shape = draw.shape(rng)
    axis = [0, -1, (0, -1), (0, 1)][rng.integers(4)]
    return Example(lambda x: ag.expand_dims(x, axis), [draw.uniform(rng, shape)])


@register("Squeeze", "one axis, several or all")
def _(rng):
    shape = (1, *draw.shape(rng, max_ndim=2), 1)
    axis = [0, -1, (0, -1), None][rng.integers(4)]
    return Example(lambda x: ag.squeeze(x, axis), [draw.uniform(rng, shape)])


@register("BroadcastTo", "any shape")
def _(rng):
    full = draw.shape(rng)
    return Example(lambda x: ag.broadcast_to(x, full), [draw.uniform(rng, draw.shrunk(rng, full))])


@register("BroadcastTo", "to zero size")
def _(rng):
    return Example(lambda x: ag.broadcast_to(x, (0, 3)), [draw.uniform(rng, (1, 3))])


# ---- Putting together and taking apart ----


def _alike(rng: draw.Rng, axis: int, shape: Sequence[int]) -> list[np.ndarray]:
    """Two or three arrays whose shapes differ along `axis` only; one may have nothing there."""
    arrays = []
    for _ in range(rng.integers(2, 4)):
        each = list(shape)
        each[axis] = int(rng.integers(0, 4))
        arrays.append(draw.uniform(rng, tuple(each)))
    return arrays


@register("Concatenate", "any axis")
def _(rng):
    shape = draw.shape(rng, min_ndim=1)
    axis = int(rng.integers(-len(shape), len(shape)))
    return Example(lambda *arrays: ag.concatenate(arrays, axis), _alike(rng, axis, shape))


@register("Concatenate", "flattened")
def _(rng):
    arrays = [draw.uniform(rng, draw.shape(rng, max_ndim=2)) for _ in range(3)]
    return Example(lambda *arrays: ag.concatenate(arrays, None), arrays)


@register("Concatenate", "a Tensor with itself")
def _(rng):
    return Example(lambda x: ag.concatenate([x, x * x, x]), [draw.uniform(rng, (2, 2))])


@register("Stack", "any axis")
def _(rng):
    shape = draw.shape(rng)
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    arrays = [draw.uniform(rng, shape) for _ in range(3)]
    return Example(lambda *arrays: ag.stack(arrays, axis), arrays)


@register("Split", "equal sections")
def _(rng):
    shape = list(draw.shape(rng, min_ndim=1))
    axis = int(rng.integers(-len(shape), len(shape)))
    sections = int(rng.integers(1, 4))
    shape[axis] *= sections
    return Example(lambda x: ag.split(x, sections, axis), [draw.uniform(rng, tuple(shape))])


@register("Split", "before indices")
def _(rng):
    """Indices out of order name some elements twice, others never."""
    points = rng.integers(0, 6, 2).tolist()
    return Example(lambda x: ag.split(x, points, 1), [draw.uniform(rng, (2, 5))])


@register("Split", "one piece used")
def _(rng):
    return Example(lambda x: ag.split(x, 2)[1] * 2, [draw.uniform(rng, (4, 2))])


@register("Pad", "any widths")
def _(rng):
    shape = draw.shape(rng, min_ndim=1)
    widths = rng.integers(0, 3, (len(shape), 2)).tolist()
    return Example(lambda x: ag.pad(x, widths, constant_values=0.5), [draw.uniform(rng, shape)])


@register("Pad", "one width for all sides")
def _(rng):
    return Example(lambda x: ag.pad(x, 1), [draw.uniform(rng, draw.shape(rng))])


# ---- Picking by position ----


def _index(rng: draw.Rng) -> Any:
    """An index into shape (4, 3, 5), of every kind that NumPy has."""
    i = draw.indices(rng, (2, 3), 4, negative=True)
    j = draw.indices(rng, (3,), 3)
    kinds: list[Any] = [
        2,
        (slice(None), -1),
        slice(3, None, -2),
        (slice(1, 1), 0),
        (Ellipsis, slice(0, 4, 2)),
        (None, 1, Ellipsis, None),
        (i,),
        (i, slice(1, 3)),
        (slice(None), j, 0),
        (i, j),
        (i, slice(None), j),  # advanced indices apart: their axes come first
        [1, 1, 1],
        draw.mask(rng, (4,)),
        draw.mask(rng, (4, 3)),
        (slice(None), draw.mask(rng, (3, 5))),
        np.zeros(4, bool),
        np.zeros((0,), int),
    ]
    return kinds[rng.integers(len(kinds))]


@register("GetItem", "every kind of index")
def _(rng):
    index = _index(rng)
    return Example(lambda x: ag.getitem(x, index), [draw.uniform(rng, (4, 3, 5))])


@register("GetItem", "rows that repeat")
def _(rng):
    rows = draw.indices(rng, (6,), 3, negative=True)
    return Example(lambda x: x[rows], [draw.uniform(rng, (3, 2))], lambda x: ag.matmul(np.eye(3)[rows], x))


@register("GetItem", "reused")
def _(rng):
    return Example(lambda x: x[1:] * x[:-1] + x[0], [draw.uniform(rng, (4, 2))])


@register("Take", "along an axis")
def _(rng):
    shape = draw.shape(rng, min_ndim=1)
    axis = int(rng.integers(-len(shape), len(shape)))
    where = draw.indices(rng, draw.shape(rng, max_ndim=2), shape[axis], negative=True)
    return Example(lambda x: ag.take(x, where, axis), [draw.uniform(rng, shape)])


@register("Take", "of the flattened array")
def _(rng):
    shape = draw.shape(rng)
    where = draw.indices(rng, draw.shape(rng, max_ndim=2), math.prod(shape), negative=True)
    return Example(lambda x: ag.take(x, where), [draw.uniform(rng, shape)])


@register("Take", "nothing")
def _(rng):
    return Example(lambda x: ag.take(x, np.zeros(0, int), 0), [draw.uniform(rng, (3, 2))])
