"""Reductions over axes, and the softmax family."""

from __future__ import annotations

import math
from typing import Any

from autograd.backend import is_floating
from autograd.engine import Op, apply
from autograd.ops.arguments import refuse_list
from autograd.ops.flops import per_input, per_output
from autograd.tensor import Tensor, TensorLike

Axis = int | tuple[int, ...] | None


def _kept_shape(shape: tuple[int, ...], axis: Axis) -> tuple[int, ...]:
    """The shape after reducing over `axis` with keepdims=True."""
    if axis is None or not shape:
        return (1,) * len(shape)
    reduced = {a % len(shape) for a in (axis if isinstance(axis, tuple) else (axis,))}
    return tuple([1 if i in reduced else n for i, n in enumerate(shape)])


def _reduced_count(shape: tuple[int, ...], kept: tuple[int, ...]) -> int:
    """The number of elements that go into one result."""
    return math.prod([n for n, k in zip(shape, kept, strict=True) if k == 1])


# ---- Sums ----


class Sum(Op):
    """y = Σ x over `axis`

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    """

    flops = per_input(1, 0)

    def forward(self, x, *, axis, keepdims):
        x = self.xp.asarray(x)
        self.shape, self.kept = x.shape, _kept_shape(x.shape, axis)
        return x.sum(axis=axis, keepdims=keepdims)

    def backward(self, g_y):
        return self.xp.broadcast_to(g_y.reshape(self.kept), self.shape)  # a view, not a copy


def sum(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over `axis` (an int, a tuple, or None for all axes)."""
    refuse_list(axis)
    return apply(Sum, x, axis=axis, keepdims=keepdims)


class Mean(Op):
    """y = Σ x / n over `axis`

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    """

    flops = per_input(1, 0)

    def forward(self, x, *, axis, keepdims):
        x = self.xp.asarray(x)
        self.shape, self.kept = x.shape, _kept_shape(x.shape, axis)
        return x.mean(axis=axis, keepdims=keepdims)

    def backward(self, g_y):
        count = _reduced_count(self.shape, self.kept) or 1  # a mean over no element has a gradient without elements
        g_each = g_y * (1 / count)  # not g_y / count: the count may be larger than float16 can hold
        return self.xp.broadcast_to(g_each.reshape(self.kept), self.shape)


def mean(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over `axis` (an int, a tuple, or None for all axes)."""
    refuse_list(axis)
    return apply(Mean, x, axis=axis, keepdims=keepdims)


class Var(Op):
    """y = Σ (x - mean)² / (n - ddof) over `axis`

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    Saves:  x and its mean; saving the centred x would take another array
    """

    flops = per_input(4, 2)

    def forward(self, x, *, axis, ddof, keepdims):
        x = self.xp.asarray(x)
        x_mean = x.mean(axis=axis, keepdims=True)
        self.kept = x_mean.shape
        count = _reduced_count(x.shape, self.kept)
        correction = count / (count - ddof) if count > ddof else math.inf  # n / (n - ddof)
        self.slope = 2 * correction / (count or 1)
        self.save(x, x_mean)
        centred = x - x_mean
        variance = (centred * centred).mean(axis=axis, keepdims=keepdims) * correction
        return variance.astype(x_mean.dtype, copy=False)  # bfloat16 times a number is float32

    def backward(self, g_y):
        x, x_mean = self.saved
        return (x - x_mean) * (g_y * self.slope).reshape(self.kept)


def var(x: TensorLike, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """The variance over `axis`: Σ (x - mean)² / (n - ddof).

    PyTorch calls `ddof` the `correction`; its default there is 1.
    """
    refuse_list(axis)
    return apply(Var, x, axis=axis, ddof=ddof, keepdims=keepdims)


class Std(Var):
    """y = √(Σ (x - mean)² / (n - ddof)) over `axis`

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    Saves:  x, its mean and y
    """

    flops = per_input(4, 3)

    def forward(self, x, *, axis, ddof, keepdims):
        y = self.xp.sqrt(super().forward(x, axis=axis, ddof=ddof, keepdims=keepdims))
        self.save(*self.saved, y)
        return y

    def backward(self, g_y):
        x, x_mean, y = self.saved
        ratio = self.backend.keep_where(g_y / y, y != 0)  # of equal elements, where the formula says 0 / 0
        return (x - x_mean) * (ratio * (self.slope / 2)).reshape(self.kept)


def std(x: TensorLike, axis: Axis = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """The standard deviation over `axis`: √(Σ (x - mean)² / (n - ddof)); where it is 0, so is its gradient.

    PyTorch calls `ddof` the `correction`; its default there is 1.
    """
    refuse_list(axis)
    return apply(Std, x, axis=axis, ddof=ddof, keepdims=keepdims)


# ---- Products, and sums so far ----


class Prod(Op):
    """y = Π x over `axis`; dy/dx_i is the product of the other elements, also where some of them are 0

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    Saves:  x
    """

    flops = per_input(1, 4)

    def forward(self, x, *, axis, keepdims):
        x = self.xp.asarray(x)
        self.axis = axis
        self.save(x)
        return x.prod(axis=axis, keepdims=keepdims)

    def backward(self, g_y):
        (x,) = self.saved
        kept = _kept_shape(x.shape, self.axis)
        axes = range(x.ndim) if self.axis is None else self.axis if isinstance(self.axis, tuple) else (self.axis,)
        reduced = [axis % x.ndim for axis in axes]
        order = [*[i for i in range(x.ndim) if i not in reduced], *reduced]  # the reduced axes last
        moved = x.transpose(order)
        rows = moved.reshape(math.prod(kept), _reduced_count(x.shape, kept))  # [results, n]
        g_rows = g_y.reshape(-1, 1) * _products_of_others(self.xp, rows)
        return g_rows.reshape(moved.shape).transpose([order.index(i) for i in range(x.ndim)])


def _products_of_others(xp: Any, x: Any) -> Any:
    """Of each element of a row, the product of those before it and those after it.  Shapes: x [N, n] -> [N, n]"""
    before, after = xp.ones_like(x), xp.ones_like(x)
    before[:, 1:] = xp.cumprod(x[:, :-1], axis=1)
    after[:, :-1] = xp.cumprod(x[:, :0:-1], axis=1)[:, ::-1]
    return before * after


def prod(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The product over `axis` (an int, a tuple, or None for all axes)."""
    refuse_list(axis)
    return apply(Prod, x, axis=axis, keepdims=keepdims)


class CumSum(Op):
    """y_i = Σ x_j over j ≤ i along `axis`; of the flattened x for axis=None

    Shapes: x [...] -> y [...]
    """

    flops = per_output(1, 1)

    def forward(self, x, *, axis):
        self.shape, self.axis = self.xp.shape(x), axis
        return self.xp.cumsum(x, axis=axis)

    def backward(self, g_y):
        xp, axis = self.xp, 0 if self.axis is None else self.axis
        return xp.flip(xp.cumsum(xp.flip(g_y, axis), axis=axis), axis).reshape(self.shape)


def cumsum(x: TensorLike, axis: int | None = None) -> Tensor:
    """The sums so far along `axis`; with axis=None, of the flattened x."""
    return apply(CumSum, x, axis=axis)


# ---- Extrema ----


class Max(Op):
    """y = max x over `axis`; equal maxima share the gradient evenly

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    Saves:  x and y
    """

    flops = per_input(1, 3)

    def forward(self, x, *, axis, keepdims):
        y = self.xp.asarray(x).max(axis=axis, keepdims=keepdims)
        self.axis = axis
        self.save(x, y)
        return y

    def backward(self, g_y):
        return _to_extrema(self, self.axis, g_y)


def max(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element over `axis` (an int, a tuple, or None for all axes).

    Equal maxima share the gradient evenly, as in PyTorch's amax.
    """
    refuse_list(axis)
    return apply(Max, x, axis=axis, keepdims=keepdims)


class Min(Op):
    """y = min x over `axis`; equal minima share the gradient evenly

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    Saves:  x and y
    """

    flops = per_input(1, 3)

    def forward(self, x, *, axis, keepdims):
        y = self.xp.asarray(x).min(axis=axis, keepdims=keepdims)
        self.axis = axis
        self.save(x, y)
        return y

    def backward(self, g_y):
        return _to_extrema(self, self.axis, g_y)


def min(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element over `axis` (an int, a tuple, or None for all axes).

    Equal minima share the gradient evenly, as in PyTorch's amin.
    """
    refuse_list(axis)
    return apply(Min, x, axis=axis, keepdims=keepdims)


def _to_extrema(op: Op, axis: Axis, g_y: Any) -> Any:
    """The gradient, in equal shares, for the elements that equal the result, or for the NaNs if it is NaN."""
    x, y = op.saved
    kept = _kept_shape(x.shape, axis)
    y = y.reshape(kept)
    chosen = (x == y) | ((x != x) & (y != y))
    share = 1 / chosen.sum(axis=axis, keepdims=True)
    return op.backend.keep_where(g_y.reshape(kept) * share.astype(g_y.dtype), chosen)


# ---- The softmax family: logsumexp, and exp(x) or x normalised by it ----
#
# A row of -inf only (every key is masked) has logsumexp -inf, softmax 0 and log_softmax -inf everywhere, and its
# gradients are 0, not NaN.


def _wide(xp: Any, x: Any) -> tuple[Any, Any]:
    """x in the dtype to compute in, and the dtype of the result: float16 and bfloat16 are computed in float32.

    Integers give float64, as in NumPy's division; complex numbers, which gradcheck passes, stay complex.
    """
    x = xp.asarray(x)
    if x.dtype.kind == "c":
        return x, x.dtype
    if not is_floating(x.dtype):
        return x.astype(xp.float64), xp.dtype(xp.float64)
    return (x.astype(xp.float32) if x.dtype.itemsize == 2 else x), x.dtype


def _peak(xp: Any, x: Any, axis: Axis) -> Any:
    """max x along `axis`, with the axis kept, and 0 where it is not finite: exp(x - peak) cannot overflow."""
    if x.size == 0:
        return xp.zeros(_kept_shape(x.shape, axis), x.dtype)
    peak = x.max(axis=axis, keepdims=True)
    return xp.where(xp.isfinite(peak), peak, 0)


def _log(xp: Any, x: Any) -> Any:
    """ln x for x ≥ 0, -inf at 0 without a warning."""
    return xp.where(x == 0, -xp.inf, xp.log(xp.where(x == 0, 1, x)))


class LogSumExp(Op):
    """y = ln Σ exp(x) over `axis`

    Shapes: x [...] -> y [... without the axes, or 1 in their place]
    Saves:  x and y (dy/dx = exp(x - y))
    """

    flops = per_input(4, 3)

    def forward(self, x, *, axis, keepdims):
        xp = self.xp
        wide, dtype = _wide(xp, x)
        peak = _peak(xp, wide, axis)
        y = peak + _log(xp, xp.exp(wide - peak).sum(axis=axis, keepdims=True))
        self.save(x, y)
        return (y if keepdims else y.squeeze(axis)).astype(dtype, copy=False)

    def backward(self, g_y):
        x, y = self.saved
        weights = self.xp.exp(x - self.xp.where(y == -self.xp.inf, 0, y))
        return weights * g_y.reshape(y.shape)


def logsumexp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """ln Σ exp(x) over `axis` (an int, a tuple, or None for all axes), without overflow.

    The result is -inf where all x are -inf or there are none; the gradient is 0 there.
    """
    refuse_list(axis)
    return apply(LogSumExp, x, axis=axis, keepdims=keepdims)


class Softmax(Op):
    """y = exp(x) / Σ exp(x) along `axis`

    Shapes: x [...] -> y [...]
    Saves:  y (g_x = y · (g_y - Σ g_y · y))
    """

    flops = per_input(5, 4)  # maximum, difference, exponential, sum, division

    def forward(self, x, *, axis):
        xp = self.xp
        wide, dtype = _wide(xp, x)
        self.axis = axis
        y = xp.exp(wide - _peak(xp, wide, axis))
        total = y.sum(axis=axis, keepdims=True)
        y /= xp.where(total == 0, 1, total)
        y = y.astype(dtype, copy=False)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        g_x = g_y * y
        g_x -= y * g_x.sum(axis=self.axis, keepdims=True)
        return g_x


def softmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """exp(x) / Σ exp(x) along `axis`.

    If every x along the axis is -inf, all weights and gradients are 0 (PyTorch's softmax gives NaN there, its
    scaled_dot_product_attention 0).
    """
    refuse_list(axis)
    return apply(Softmax, x, axis=axis)


class LogSoftmax(Op):
    """y = x - ln Σ exp(x) along `axis`

    Shapes: x [...] -> y [...]
    Saves:  y (g_x = g_y - exp(y) · Σ g_y)
    """

    flops = per_input(5, 4)

    def forward(self, x, *, axis):
        xp = self.xp
        wide, dtype = _wide(xp, x)
        self.axis = axis
        y = wide - _peak(xp, wide, axis)
        total = xp.exp(y).sum(axis=axis, keepdims=True)
        y -= xp.log(xp.where(total == 0, 1, total))
        y = y.astype(dtype, copy=False)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return g_y - self.xp.exp(y) * g_y.sum(axis=self.axis, keepdims=True)


def log_softmax(x: TensorLike, axis: Axis = -1) -> Tensor:
    """x - ln Σ exp(x) along `axis`: the logarithm of the softmax, more exact than log(softmax(x)).

    If every x along the axis is -inf, the result is -inf, not NaN.
    """
    refuse_list(axis)
    return apply(LogSoftmax, x, axis=axis)
