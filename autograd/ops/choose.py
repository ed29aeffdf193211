"""Ops that select one of several values, element by element: the gradient goes to the value selected."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.engine import Op, apply
from autograd.ops.arguments import keep_bfloat16
from autograd.ops.flops import moves_only, per_output
from autograd.tensor import Tensor, TensorLike


class Abs(Op):
    """y = |x|

    Saves:  x
    """

    flops = per_output(1, 1)

    def forward(self, x):
        self.save(x)
        return self.xp.abs(x)

    def backward(self, g_y):
        (x,) = self.saved
        return g_y * self.xp.sign(x)


def abs(x: TensorLike) -> Tensor:
    """|x|, element by element; the gradient at 0 is 0, and NaN at NaN (PyTorch's is 0 there)."""
    return apply(Abs, x)


class Sign(Op):
    """y = 1 for x > 0, -1 for x < 0, else x: its gradient is 0"""

    flops = per_output(1, 0)

    def forward(self, x):
        return self.xp.sign(x)

    def backward(self, g_y):
        return None


def sign(x: TensorLike) -> Tensor:
    """1, 0 or -1 with the sign of x, element by element; the gradient is 0.  NaN stays NaN (PyTorch gives 0)."""
    return apply(Sign, x)


# ---- Maximum, minimum, clip ----


class Maximum(Op):
    """y = max(a, b); where they are equal, half the gradient goes to each

    Shapes: a [...], b [...] -> y [broadcast]
    Saves:  two masks, one byte an element each: where y is a, where y is b
    """

    broadcasts = True
    flops = per_output(1, 2)

    def forward(self, a, b):
        y = self.xp.maximum(a, b)
        if any(self.needs_gradient):
            self.save(*_chosen(a, b, y))
        return y

    def backward(self, g_y):
        return _to_chosen(self, g_y)


def maximum(a: TensorLike, b: TensorLike) -> Tensor:
    """The larger of a and b, element by element, with broadcasting; NaN where one of them is NaN.

    Where a = b, half the gradient goes to each, as in PyTorch and JAX.
    """
    return apply(Maximum, a, b)


class Minimum(Op):
    """y = min(a, b); where they are equal, half the gradient goes to each

    Shapes: a [...], b [...] -> y [broadcast]
    Saves:  two masks, one byte an element each: where y is a, where y is b
    """

    broadcasts = True
    flops = per_output(1, 2)

    def forward(self, a, b):
        y = self.xp.minimum(a, b)
        if any(self.needs_gradient):
            self.save(*_chosen(a, b, y))
        return y

    def backward(self, g_y):
        return _to_chosen(self, g_y)


def minimum(a: TensorLike, b: TensorLike) -> Tensor:
    """The smaller of a and b, element by element, with broadcasting; NaN where one of them is NaN.

    Where a = b, half the gradient goes to each, as in PyTorch and JAX.
    """
    return apply(Minimum, a, b)


def _chosen(a: Any, b: Any, y: Any) -> tuple[Any, Any]:
    """Masks of the elements that y takes from a and from b: from both where they are equal or one is NaN."""
    nan = y != y
    return (y == a) | nan, (y == b) | nan


def _to_chosen(op: Op, g_y: Any) -> tuple[Any, Any]:
    """The gradient of each input where it was chosen, half of it where both were."""
    from_a, from_b = op.saved
    share = g_y * 0.5 * op.xp.subtract(2, from_a & from_b, dtype=op.xp.int8)  # int8 changes no floating dtype
    needs_a, needs_b = op.needs_gradient
    return (
        op.backend.keep_where(share, from_a) if needs_a else None,
        op.backend.keep_where(share, from_b) if needs_b else None,
    )


class Clip(Op):
    """y = min(max(x, low), high); either bound may be None

    Shapes: x [...], low [...], high [...] -> y [broadcast]
    Saves:  masks, one byte an element, for the inputs that need a gradient: where y is x, the bound below, above
    """

    broadcasts = True
    flops = per_output(2, 1)

    def forward(self, x, low, high):
        xp = self.xp
        y = keep_bfloat16(xp.clip(x, low, high), x, low, high)
        if any(self.needs_gradient):
            self.save(*self._replaced(x, low, high))
        return y

    def _replaced(self, x, low, high):
        xp = self.xp
        needs_x, needs_low, needs_high = self.needs_gradient
        too_low = False if low is None else xp.less(x, low)
        too_high = False if high is None else xp.greater(x, high)
        crossed = False if low is None or high is None else xp.greater(low, high)  # then y is high everywhere
        return (
            xp.logical_not(too_low | too_high) if needs_x else None,
            too_low & xp.logical_not(crossed) if needs_low else None,
            too_high | crossed if needs_high else None,
        )

    def backward(self, g_y):
        return tuple([None if mask is None else self.backend.keep_where(g_y, mask) for mask in self.saved])


def clip(x: TensorLike, min: TensorLike | None = None, max: TensorLike | None = None) -> Tensor:
    """min(max(x, `min`), `max`), element by element, with broadcasting; either bound may be None.

    The slope is 1 inside, at the bounds too, and 0 outside.  The bounds may be Tensors, which get the gradient of the
    elements that they replaced.

    Raises: ValueError if both bounds are None
    """
    if min is None and max is None:
        raise ValueError("clip needs a bound: give min, max or both")
    return apply(Clip, x, min, max)


# ---- Triangles ----


class Tril(Op):
    """y = x on and below the k-th diagonal, else 0, in the last two axes"""

    flops = moves_only

    def forward(self, x, *, k):
        self.k = k
        return self.xp.tril(x, k)

    def backward(self, g_y):
        return self.xp.tril(g_y, self.k)


def tril(x: TensorLike, k: int = 0) -> Tensor:
    """The lower triangle of each matrix [..., M, N]: x on and below the k-th diagonal, else 0.

    Raises: ValueError for x of fewer than two axes
    """
    _require_matrices("tril", x)
    return apply(Tril, x, k=k)


class Triu(Op):
    """y = x on and above the k-th diagonal, else 0, in the last two axes"""

    flops = moves_only

    def forward(self, x, *, k):
        self.k = k
        return self.xp.triu(x, k)

    def backward(self, g_y):
        return self.xp.triu(g_y, self.k)


def triu(x: TensorLike, k: int = 0) -> Tensor:
    """The upper triangle of each matrix [..., M, N]: x on and above the k-th diagonal, else 0.

    Raises: ValueError for x of fewer than two axes
    """
    _require_matrices("triu", x)
    return apply(Triu, x, k=k)


def _require_matrices(name: str, x: Any) -> None:
    if len(np.shape(x)) < 2:
        raise ValueError(f"{name} needs matrices [..., M, N], found shape {np.shape(x)}")


# ---- By a mask ----


class Where(Op):
    """y = a where condition, else b

    Shapes: condition [...], a [...], b [...] -> y [broadcast]
    Saves:  condition
    """

    broadcasts = True
    flops = per_output(0, 1)

    def forward(self, condition, a, b):
        condition = self.xp.asarray(condition).astype(bool, copy=False)
        self.save(condition)
        return keep_bfloat16(self.xp.where(condition, a, b), a, b)

    def backward(self, g_y):
        (condition,) = self.saved
        _, needs_a, needs_b = self.needs_gradient
        return (
            None,
            self.backend.keep_where(g_y, condition) if needs_a else None,
            self.backend.keep_where(g_y, ~condition) if needs_b else None,
        )


def where(condition: TensorLike, a: TensorLike, b: TensorLike) -> Tensor:
    """a where `condition` is true, else b, element by element, with broadcasting.

    The gradient of the side not chosen is 0, even if the incoming gradient is infinite.  The ops that computed that
    side still run backward: in `where(x > 0, log(x), 0)`, 0 times 1/x is NaN at x = 0; choose before the logarithm,
    `log(where(x > 0, x, 1))`.
    """
    return apply(Where, condition, a, b)


class MaskedFill(Op):
    """y = value where mask, else x

    Shapes: x [...], mask bool [...], value [] -> y [broadcast]
    Saves:  mask
    """

    broadcasts = True
    flops = per_output(0, 1)

    def forward(self, x, mask, value):
        mask = self.xp.asarray(mask)
        self.save(mask)
        return keep_bfloat16(self.xp.where(mask, value, x), value, x)

    def backward(self, g_y):
        (mask,) = self.saved
        needs_x, _, needs_value = self.needs_gradient
        return (
            self.backend.keep_where(g_y, ~mask) if needs_x else None,
            None,
            self.backend.keep_where(g_y, mask) if needs_value else None,
        )


def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Tensor:
    """x with `value` where `mask` is True, with broadcasting; attention masks are True in the opposite places.

    Raises: TypeError for a mask that is not boolean; ValueError for a value of more than one element
    """
    mask = mask if isinstance(mask, Tensor) or hasattr(mask, "dtype") else np.asarray(mask)
    if mask.dtype.kind != "b":
        raise TypeError(f"masked_fill needs a boolean mask, found {mask.dtype}; write mask != 0 or mask == 0")
    if np.ndim(value) != 0:
        raise ValueError(f"masked_fill fills with one value, found shape {np.shape(value)}; use where(mask, value, x)")
    return apply(MaskedFill, x, mask, value)
