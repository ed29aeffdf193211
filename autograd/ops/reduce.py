"""Ops that shrink axes, and the softmax family, which normalises along them."""

from __future__ import annotations

from typing import Any

from autograd.engine import Op, apply
from autograd.tensor import Tensor

Axis = int | tuple[int, ...] | None


def _kept_shape(shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """The shape after reducing over `axis` with keepdims=True."""
    if axis is None or not shape:
        return (1,) * len(shape)
    reduced = {a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,))}
    return tuple([1 if i in reduced else n for i, n in enumerate(shape)])


def _reduced_count(shape: tuple[int, ...], kept: tuple[int, ...]) -> int:
    """How many elements go into one result."""
    count = 1
    for n, k in zip(shape, kept, strict=True):
        count *= n if k == 1 else 1
    return count


# ---- Sums ----


class Sum(Op):
    """y = Σ x over `axis`

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    """

    def forward(self, x, *, axis, keepdims):
        x = self.xp.asarray(x)
        self.kept = _kept_shape(x.shape, axis)
        return x.sum(axis=axis, keepdims=keepdims)

    def backward(self, g_y):
        shape, _ = self.input_specs[0]
        return self.xp.broadcast_to(g_y.reshape(self.kept), shape)  # a view: nothing is written


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over `axis` (an int, a tuple, or None for all axes)."""
    return apply(Sum, x, axis=axis, keepdims=keepdims)


class Mean(Op):
    """y = Σ x / n over `axis`

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    """

    def forward(self, x, *, axis, keepdims):
        x = self.xp.asarray(x)
        self.kept = _kept_shape(x.shape, axis)
        return x.mean(axis=axis, keepdims=keepdims)

    def backward(self, g_y):
        shape, _ = self.input_specs[0]
        count = _reduced_count(shape, self.kept) or 1  # of nothing, the gradient has no elements
        return self.xp.broadcast_to((g_y / count).reshape(self.kept), shape)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over `axis` (an int, a tuple, or None for all axes)."""
    return apply(Mean, x, axis=axis, keepdims=keepdims)


# ---- The softmax family ----


def _stable(xp: Any, x: Any, axis: Axis) -> Any:
    """x minus its maximum along `axis` (minus 0 where all is -inf): exp of it neither overflows nor is all 0."""
    x = xp.asarray(x)
    if x.dtype.kind != "f":
        x = x.astype(xp.float64)
    if x.size == 0:
        return x.copy()
    top = x.max(axis=axis, keepdims=True)
    return x - xp.where(top == -xp.inf, 0, top)


class Softmax(Op):
    """y = exp(x) / Σ exp(x) along `axis`

    Shapes: x [...] -> y [...]
    Saves:  y (g_x = y · (g_y - Σ g_y · y))
    """

    def forward(self, x, *, axis):
        xp = self.xp
        self.axis = axis
        y = xp.exp(_stable(xp, x, axis))
        total = y.sum(axis=axis, keepdims=True)
        y = y / xp.where(total == 0, 1, total)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        g_x = g_y * y
        g_x -= y * g_x.sum(axis=self.axis, keepdims=True)
        return g_x


def softmax(x: Any, axis: Axis = -1) -> Tensor:
    """exp(x) / Σ exp(x) along `axis`.

    Where every x along the axis is -inf, so that nothing may be chosen, all weights are 0 and so are their gradients
    (PyTorch's softmax gives NaN there, its scaled_dot_product_attention 0).
    """
    return apply(Softmax, x, axis=axis)
