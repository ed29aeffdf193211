"""The cases that many ops have in common: those of one input, of two inputs that broadcast, and of reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from tests.cases import draw
from tests.cases.checks import Example, register, torch

Numbers = Callable[[draw.Rng, draw.Shape], np.ndarray]
Sides = Callable[[draw.Rng, list[draw.Shape]], list[np.ndarray]]
Peer = Callable[..., Any]


def one_input(
    op: str,
    function: Callable,
    peer: Peer,
    numbers: Numbers = draw.uniform,
    plain: Callable | None = None,
    analytic: bool | Literal["cpu"] = True,
) -> None:
    """Register the cases of an op that treats every element of one input alike; `peer` is PyTorch's function.

    analytic: False for an op with |x|, a maximum or a branch, which complex steps do not suit; "cpu": see `Case`
    """

    @register(op, "any shape", analytic)
    def any_shape(rng):
        return Example(function, [numbers(rng, draw.shape(rng, min_side=0))], plain, peer)

    @register(op, "reused", analytic)
    def reused(rng):
        """Two uses of one input and one of the output: the gradients must add up."""
        return Example(
            lambda x: function(x) * x + function(x), [numbers(rng, draw.shape(rng))],
            torch=lambda x: peer(x) * x + peer(x),
        )  # fmt: skip

    @register(op, "zero size", analytic)
    def zero_size(rng):
        return Example(function, [numbers(rng, (2, 0, 3))], plain, peer)


def two_inputs(
    op: str, function: Callable, peer: Peer, numbers: Sides, plain: Callable | None = None, analytic: bool = True
) -> None:
    """Register the cases of an op whose two inputs are broadcast against each other."""

    @register(op, "same shape", analytic)
    def same_shape(rng):
        shape = draw.shape(rng)
        return Example(function, numbers(rng, [shape, shape]), plain, peer)

    @register(op, "broadcast", analytic)
    def broadcast(rng):
        return Example(function, numbers(rng, draw.broadcastable(rng, min_side=0)), plain, peer)

    @register(op, "reused", analytic)
    def reused(rng):
        """One Tensor in several places, as a left and as a right operand."""
        shape = draw.shape(rng)
        return Example(
            lambda a, b: function(a, b) * a + function(a, b) * b, numbers(rng, [shape, shape]),
            torch=lambda a, b: peer(a, b) * a + peer(a, b) * b,
        )  # fmt: skip

    @register(op, "with a number on the right", analytic)
    def number_right(rng):
        a, b = numbers(rng, [draw.shape(rng), ()])
        number = b.item()
        return Example(
            lambda a: function(a, number), [a], plain and (lambda a: plain(a, number)),
            lambda a: peer(a, torch.tensor(number, dtype=a.dtype)),
        )  # fmt: skip

    @register(op, "with a number on the left", analytic)
    def number_left(rng):
        a, b = numbers(rng, [(), draw.shape(rng)])
        number = a.item()
        return Example(lambda b: function(number, b), [b], torch=lambda b: peer(torch.tensor(number, dtype=b.dtype), b))

    @register(op, "zero size", analytic)
    def zero_size(rng):
        return Example(function, numbers(rng, [(2, 0), (1, 1)]), plain, peer)


def reduction(
    op: str, function: Callable, peer: Peer, plain: Callable | None = None, *, distinct: bool = False, empty: bool
) -> None:
    """Register the cases of an op that reduces axes.

    distinct: True if elements are compared with each other, so that none may be nearly equal
    empty: True if the reduction of no element has a value
    """

    def example(rng: draw.Rng, shape: draw.Shape, axis: Any) -> Example:
        keepdims = bool(rng.integers(2))
        x = draw.distinct(rng, shape)[0] if distinct else draw.uniform(rng, shape)
        return Example(
            lambda x: function(x, axis, keepdims), [x], plain and (lambda x: plain(x, axis, keepdims)),
            lambda x: over(peer, x, axis, keepdims),
        )  # fmt: skip

    @register(op, "any axes")
    def any_axes(rng):
        shape = draw.shape(rng, min_side=0 if empty else 1)
        return example(rng, shape, draw.axis(rng, len(shape)))

    @register(op, "all axes")
    def all_axes(rng):
        return example(rng, draw.shape(rng), None)

    @register(op, "inner axis of three")
    def inner_axis(rng):
        return example(rng, draw.shape(rng, min_ndim=3, max_ndim=3, min_side=2), int(rng.choice([1, -2])))

    @register(op, "reused")
    def reused(rng):
        return Example(
            lambda x: function(x, -1, True) * x + function(x * x * x, -1, True),
            draw.distinct(rng, draw.shape(rng, min_ndim=1)),
            torch=lambda x: over(peer, x, -1, True) * x + over(peer, x * x * x, -1, True),
        )

    @register(op, "zero size")
    def zero_size(rng):
        """No element in the result; over no element, extrema have no value."""
        return Example(
            lambda x: function(x, 1, False), [draw.uniform(rng, (0, 3))], torch=lambda x: over(peer, x, 1, False)
        )


def over(peer: Peer, x: Any, axis: Any, keepdims: bool) -> Any:
    """A reduction of PyTorch's, with NumPy's `axis`: a further axis is reduced too, as PyTorch takes () for all."""
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    y = peer(x[None], dim=[0, *[a % x.ndim + 1 for a in axes]], keepdim=keepdims)
    return y[0] if keepdims else y
