"""Ops that select one of several values, element by element: the gradient goes to the value selected."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.backend import keep_bfloat16, keep_where
from autograd.engine import Op, apply
from autograd.tensor import Tensor, TensorLike, attach, tensors


class Abs(Op):
    """y = |x|"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return xp.abs(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g * xp.sign(x)


def abs(x: TensorLike) -> Tensor:
    """|x|, element by element; the gradient at 0 is 0, and NaN at NaN (PyTorch's is 0 there)."""
    return apply(Abs, x)


class Sign(Op):
    """y = 1 for x > 0, -1 for x < 0, else x: its gradient is 0"""

    @staticmethod
    def forward(xp, x):
        return xp.sign(x)

    @staticmethod
    def backward(xp, g, y, x):
        return (None,)


def sign(x: TensorLike) -> Tensor:
    """1, 0 or -1 with the sign of x, element by element; the gradient is 0.  NaN stays NaN (PyTorch gives 0)."""
    return apply(Sign, x)


# ---- By a mask ----


class Where(Op):
    """y = a where condition, else b"""

    broadcasts = True
    reads = "condition"

    @staticmethod
    def forward(xp, condition, a, b):
        return keep_bfloat16(xp.where(condition, a, b), a, b)

    @staticmethod
    def backward(xp, g, y, condition, a, b):
        return None, lambda: keep_where(xp, g, condition != 0), lambda: keep_where(xp, g, condition == 0)


def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    """a where `condition` is true, else b, element by element, with broadcasting.

    The gradient of the side not chosen is 0, even if the incoming gradient is infinite.  The ops that computed that
    side still run backward: in `where(x > 0, log(x), 0)`, 0 times 1/x is NaN at x = 0; choose before the logarithm,
    `log(where(x > 0, x, 1))`.
    """
    return apply(Where, condition if hasattr(condition, "dtype") else np.asarray(condition), a, b)


def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """x with `value` where `mask` is True, with broadcasting; attention masks are True in the opposite places.

    Raises: TypeError for a mask that is not boolean; ValueError for a value of more than one element
    """
    filled: Any = mask if hasattr(mask, "dtype") else np.asarray(mask)
    if filled.dtype.kind != "b":
        raise TypeError(f"masked_fill needs a boolean mask, found {filled.dtype}; write mask != 0 or mask == 0")
    if np.ndim(value) != 0:
        raise ValueError(f"masked_fill fills with one value, found shape {np.shape(value)}; use where(mask, value, x)")
    return apply(Where, filled, value, x)


def tril(x: TensorLike, k: int = 0) -> Tensor:
    """The lower triangle of each matrix [..., M, N]: x on and below the k-th diagonal, else 0.

    Raises: ValueError for x of fewer than two axes
    """
    return _where_below("tril", x, k, True)


def triu(x: TensorLike, k: int = 0) -> Tensor:
    """The upper triangle of each matrix [..., M, N]: x on and above the k-th diagonal, else 0.

    Raises: ValueError for x of fewer than two axes
    """
    return _where_below("triu", x, k - 1, False)


def _where_below(name: str, x: TensorLike, k: int, below: bool) -> Tensor:
    """x where it is on and below the k-th diagonal (or where it is not), else 0."""
    (x,) = tensors(x=x)
    if x.ndim < 2:
        raise ValueError(f"{name} needs matrices [..., M, N], found shape {x.shape}")
    return apply(Where, np.tri(x.shape[-2], x.shape[-1], k, bool) == below, x, x.dtype.type(0))


# ---- Maximum, minimum, clip ----


class Maximum(Op):
    """y = max(a, b); where they are equal or one is NaN, half the gradient goes to each"""

    broadcasts = True
    reads = "a b"

    @staticmethod
    def forward(xp, a, b):
        return xp.maximum(a, b)

    @staticmethod
    def backward(xp, g, y, a, b):
        from_a, from_b = ~(a < b), ~(b < a)
        share = xp.where(from_a & from_b, g * 0.5, g)
        return lambda: keep_where(xp, share, from_a), lambda: keep_where(xp, share, from_b)


def maximum(a: TensorLike, b: TensorLike) -> Tensor:
    """The larger of a and b, element by element, with broadcasting; NaN where one of them is NaN.

    Where a = b, half the gradient goes to each, as in PyTorch and JAX.
    """
    return apply(Maximum, a, b)


class Minimum(Maximum):
    """y = min(a, b); where they are equal or one is NaN, half the gradient goes to each"""

    @staticmethod
    def forward(xp, a, b):
        return xp.minimum(a, b)

    @staticmethod
    def backward(xp, g, y, a, b):
        return Maximum.backward(xp, g, y, b, a)  # a is the smaller where b is the larger


def minimum(a: TensorLike, b: TensorLike) -> Tensor:
    """The smaller of a and b, element by element, with broadcasting; NaN where one of them is NaN.

    Where a = b, half the gradient goes to each, as in PyTorch and JAX.
    """
    return apply(Minimum, a, b)


class Clip(Op):
    """y = min(max(x, low), high); either bound may be None"""

    broadcasts = True
    reads = "x low high"

    @staticmethod
    def forward(xp, x, low, high):
        return keep_bfloat16(xp.clip(x, low, high), x, low, high)

    @staticmethod
    def backward(xp, g, y, x, low, high):
        too_low = False if low is None else xp.less(x, low)
        too_high = False if high is None else xp.greater(x, high)
        crossed = False if low is None or high is None else xp.greater_equal(low, high)  # then y is high everywhere
        return (
            lambda: keep_where(xp, g, xp.logical_not(too_low | too_high | crossed)),
            lambda: keep_where(xp, g, too_low & xp.logical_not(crossed)),
            lambda: keep_where(xp, g, too_high | crossed),
        )


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """min(max(x, `min`), `max`), element by element, with broadcasting; either bound may be None.

    The slope is 1 inside, at the bounds too, and 0 outside, or where the bounds are equal, unlike PyTorch's.  Bounds
    may be Tensors, which get the gradient of the elements that they replaced.

    Raises: ValueError if both bounds are None
    """
    if min is None and max is None:
        raise ValueError("clip needs a bound: give min, max or both")
    return apply(Clip, x, min, max)


class Remainder(Op):
    """y = a - b · floor(a / b), which has the sign of b"""

    broadcasts = True
    reads = ("", "a b")

    @staticmethod
    def forward(xp, a, b):
        return xp.remainder(a, b)

    @staticmethod
    def backward(xp, g, y, a, b):
        return g, lambda: -g * xp.floor_divide(a, b)


def remainder(a: TensorLike, b: TensorLike) -> Tensor:
    """a - b · floor(a / b), element by element, with broadcasting: Python's a % b.

    The slope in a is 1, also where it jumps, and that in b is -floor(a / b), as in PyTorch.
    """
    return apply(Remainder, a, b)


attach(__abs__=abs, __mod__=remainder, __rmod__=lambda x, other: remainder(other, x))
