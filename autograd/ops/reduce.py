"""Reductions over axes, and the softmax family.

A result lacks the axes that are reduced, or has size 1 there with keepdims.
"""

from __future__ import annotations

import math
from typing import Any

from autograd.backend import is_floating, keep_where, widened
from autograd.engine import Op, apply, evaluate
from autograd.tensor import Tensor, TensorLike

Axis = int | tuple[int, ...] | None


def kept_shape(shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """The shape after reducing over `axis` with keepdims=True."""
    if axis is None or not shape:
        return (1,) * len(shape)
    reduced = {a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,))}
    return tuple([1 if i in reduced else n for i, n in enumerate(shape)])


def terms(x: Any, y: Any) -> int:
    """The number of elements of x that go into one of y."""
    return x.size // y.size if y.size else 0


def in_float32(x: Any) -> Any:
    """x, in float32 if it is float16 or bfloat16: its sums and squares may be beyond these."""
    return widened(x)[0] if x.dtype.itemsize == 2 and is_floating(x.dtype) else x


def like(y: Any, x: Any) -> Any:
    """y, in the dtype of x if that is float16 or bfloat16."""
    return y.astype(x.dtype, copy=False) if x.dtype.itemsize == 2 and is_floating(x.dtype) else y


# ---- Sums ----


class Sum(Op):
    """y = Σ x over `axis`"""

    @staticmethod
    def forward(xp, x, *, axis, keepdims):
        x = xp.asarray(x)
        return like(in_float32(x).sum(axis=axis, keepdims=keepdims), x)

    @staticmethod
    def backward(xp, g, y, x, *, axis, keepdims):
        return xp.broadcast_to(g.reshape(kept_shape(x.shape, axis)), x.shape)  # a view, not a copy


def sum(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over `axis` (an int, a tuple, or None for all axes)."""
    return apply(Sum, x, axis=axis, keepdims=keepdims)


class Mean(Op):
    """y = Σ x / n over `axis`"""

    @staticmethod
    def forward(xp, x, *, axis, keepdims):
        x = xp.asarray(x)
        return like(in_float32(x).mean(axis=axis, keepdims=keepdims), x)

    @staticmethod
    def backward(xp, g, y, x, *, axis, keepdims):
        n = terms(x, y) or 1  # a mean over no element has a gradient without elements
        g_each = g * (1 / n)  # not g / n: n may be larger than float16 can hold
        return xp.broadcast_to(g_each.reshape(kept_shape(x.shape, axis)), x.shape)


def mean(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over `axis` (an int, a tuple, or None for all axes)."""
    return apply(Mean, x, axis=axis, keepdims=keepdims)


class Var(Op):
    """y = Σ (x - mean)² / (n - ddof) over `axis`"""

    reads = "x"

    @staticmethod
    def forward(xp, x, *, axis, ddof, keepdims):
        x = xp.asarray(x)
        centred = in_float32(x) - in_float32(x).mean(axis=axis, keepdims=True)
        y = (centred * centred).mean(axis=axis, keepdims=keepdims)
        return like(y * Var.correction(terms(centred, y), ddof), x)

    @staticmethod
    def backward(xp, g, y, x, *, axis, ddof, keepdims):
        n, wide = terms(x, y), in_float32(x)
        slope = 2 * Var.correction(n, ddof) / (n or 1)
        return (wide - wide.mean(axis=axis, keepdims=True)) * (g * slope).reshape(kept_shape(x.shape, axis))

    @staticmethod
    def correction(n, ddof):
        """n / (n - ddof): what makes a mean of n squares the sum divided by n - ddof."""
        return n / (n - ddof) if n > ddof else math.inf


def var(x: TensorLike, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """The variance over `axis`: Σ (x - mean)² / (n - ddof).

    PyTorch calls `ddof` the `correction`; its default there is 1.
    """
    return apply(Var, x, axis=axis, ddof=ddof, keepdims=keepdims)


class Std(Op):
    """y = √(Σ (x - mean)² / (n - ddof)) over `axis`"""

    reads = "x y"

    @staticmethod
    def forward(xp, x, *, axis, ddof, keepdims):
        x = xp.asarray(x)
        return like(xp.sqrt(Var.forward(xp, in_float32(x), axis=axis, ddof=ddof, keepdims=keepdims)), x)

    @staticmethod
    def backward(xp, g, y, x, *, axis, ddof, keepdims):
        spread = y != 0
        g_var = keep_where(xp, g / (2 * xp.where(spread, y, 1)), spread)  # 0 of equal elements, not 0 / 0
        return Var.backward(xp, g_var, y, x, axis=axis, ddof=ddof, keepdims=keepdims)


def std(x: TensorLike, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """The standard deviation over `axis`: √(Σ (x - mean)² / (n - ddof)); where it is 0, so is its gradient.

    PyTorch calls `ddof` the `correction`; its default there is 1.
    """
    return apply(Std, x, axis=axis, ddof=ddof, keepdims=keepdims)


# ---- Products, and sums so far ----


class Prod(Op):
    """y = Π x over `axis`; dy/dx_i is the product of the other elements, also where some of them are 0"""

    reads = "x"

    @staticmethod
    def forward(xp, x, *, axis, keepdims):
        return xp.prod(x, axis=axis, keepdims=keepdims)

    @staticmethod
    def backward(xp, g, y, x, *, axis, keepdims):
        axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        reduced = [a % x.ndim for a in axes if x.ndim]  # NumPy takes axis 0 of an x without axes, too
        order = [*[i for i in range(x.ndim) if i not in reduced], *reduced]  # the reduced axes last
        moved = x.transpose(order)
        rows = moved.reshape(y.size, math.prod([x.shape[i] for i in reduced]))  # [results, n]
        g_rows = g.reshape(-1, 1) * Prod.of_others(xp, rows)
        return g_rows.reshape(moved.shape).transpose([order.index(i) for i in range(x.ndim)])

    @staticmethod
    def of_others(xp, x):
        """Return, for each element of a row, the product of all others.  Shapes: x [N, n] -> [N, n]"""
        one = xp.ones_like(x[:, :1])
        before = xp.concatenate([one, xp.cumprod(x[:, :-1], axis=1)], axis=1)
        after = xp.concatenate([xp.cumprod(x[:, :0:-1], axis=1)[:, ::-1], one], axis=1)
        return before * after


def prod(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product over `axis` (an int, a tuple, or None for all axes)."""
    return apply(Prod, x, axis=axis, keepdims=keepdims)


class CumSum(Op):
    """y_i = Σ x_j over j ≤ i along `axis`; of the flattened x for axis=None"""

    @staticmethod
    def forward(xp, x, *, axis):
        return cumulative(xp, xp.asarray(x), axis)

    @staticmethod
    def backward(xp, g, y, x, *, axis):
        axis = 0 if axis is None else axis
        return xp.flip(cumulative(xp, xp.flip(g, axis), axis), axis).reshape(x.shape)


def cumulative(xp: Any, x: Any, axis: int | None) -> Any:
    """The sums so far along `axis`; of float16 and bfloat16 in float32."""
    return like(xp.cumsum(in_float32(x), axis=axis), x)


def cumsum(x: TensorLike, axis: int | None = None) -> Tensor:
    """The sums so far along `axis`; with axis=None, of the flattened x."""
    return apply(CumSum, x, axis=axis)


# ---- Extrema ----


class Max(Op):
    """y = max x over `axis`; equal maxima share the gradient evenly"""

    reads = "x y"

    @staticmethod
    def forward(xp, x, *, axis, keepdims):
        return xp.max(x, axis=axis, keepdims=keepdims)

    @staticmethod
    def backward(xp, g, y, x, *, axis, keepdims):
        kept = kept_shape(x.shape, axis)
        y = y.reshape(kept)
        chosen = (x == y) | ((x != x) & (y != y))  # the NaNs if the result is NaN
        share = 1 / chosen.sum(axis=axis, keepdims=True)
        return keep_where(xp, g.reshape(kept) * share.astype(g.dtype), chosen)


def max(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over `axis` (an int, a tuple, or None for all axes).

    Equal maxima share the gradient evenly, as in PyTorch's amax.
    """
    return apply(Max, x, axis=axis, keepdims=keepdims)


class Min(Max):
    """y = min x over `axis`; equal minima share the gradient evenly"""

    @staticmethod
    def forward(xp, x, *, axis, keepdims):
        return xp.min(x, axis=axis, keepdims=keepdims)


def min(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over `axis` (an int, a tuple, or None for all axes).

    Equal minima share the gradient evenly, as in PyTorch's amin.
    """
    return apply(Min, x, axis=axis, keepdims=keepdims)


# ---- The softmax family: logsumexp, and exp(x) or x normalised by it ----
#
# A row of -inf only (every key is masked) has logsumexp -inf, softmax 0 and log_softmax -inf everywhere, and its
# gradients are 0, not NaN.


def peak_of(xp: Any, x: Any, axis: Axis) -> Any:
    """max x along `axis`, with the axis kept, and 0 where it is not finite: exp(x - peak) cannot overflow."""
    if x.size == 0:
        return xp.zeros(kept_shape(x.shape, axis), x.dtype)
    peak = x.max(axis=axis, keepdims=True)
    return xp.where(xp.isfinite(peak), peak, 0)


class LogSumExp(Op):
    """y = ln Σ exp(x) over `axis`"""

    reads = "x"

    @staticmethod
    def forward(xp, x, *, axis, keepdims):
        x, dtype = widened(xp.asarray(x))
        peak = peak_of(xp, x, axis)
        total = xp.exp(x - peak).sum(axis=axis, keepdims=True)
        y = peak + xp.where(total == 0, -xp.inf, xp.log(xp.where(total == 0, 1, total)))  # ln 0 without a warning
        return (y if keepdims else y.squeeze(axis)).astype(dtype, copy=False)

    @staticmethod
    def backward(xp, g, y, x, *, axis, keepdims):
        return g.reshape(kept_shape(x.shape, axis)) * evaluate(Softmax, xp, x, axis=axis)


def logsumexp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """ln Σ exp(x) over `axis` (an int, a tuple, or None for all axes), without overflow.

    The result is -inf where all x are -inf or there are none; the gradient is 0 there.
    """
    return apply(LogSumExp, x, axis=axis, keepdims=keepdims)


class Softmax(Op):
    """y = exp(x) / Σ exp(x) along `axis`"""

    reads = "y"

    @staticmethod
    def forward(xp, x, *, axis):
        x, dtype = widened(xp.asarray(x))
        e = xp.exp(x - peak_of(xp, x, axis))
        total = e.sum(axis=axis, keepdims=True)
        return (e / xp.where(total == 0, 1, total)).astype(dtype, copy=False)

    @staticmethod
    def backward(xp, g, y, x, *, axis):
        return y * (g - (g * y).sum(axis=axis, keepdims=True))


def softmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """exp(x) / Σ exp(x) along `axis`.

    If every x along the axis is -inf, all weights and gradients are 0 (PyTorch's softmax gives NaN there, its
    scaled_dot_product_attention 0).
    """
    return apply(Softmax, x, axis=axis)


class LogSoftmax(Op):
    """y = x - ln Σ exp(x) along `axis`"""

    reads = "y"

    @staticmethod
    def forward(xp, x, *, axis):
        x, dtype = widened(xp.asarray(x))
        x = x - peak_of(xp, x, axis)
        total = xp.exp(x).sum(axis=axis, keepdims=True)
        return (x - xp.log(xp.where(total == 0, 1, total))).astype(dtype, copy=False)

    @staticmethod
    def backward(xp, g, y, x, *, axis):
        return g - xp.exp(y) * g.sum(axis=axis, keepdims=True)


def log_softmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """x - ln Σ exp(x) along `axis`: the logarithm of the softmax, more exact than log(softmax(x)).

    If every x along the axis is -inf, the result is -inf, not NaN.
    """
    return apply(LogSoftmax, x, axis=axis)
