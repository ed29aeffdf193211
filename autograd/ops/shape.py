"""Ops that rearrange elements: the gradient goes the same way back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autograd.engine import Op, apply
from autograd.tensor import Tensor

# ---- Other axes for the same elements (views where NumPy gives views) ----


class Reshape(Op):
    """y has the elements of x in the same order, in another shape."""

    def forward(self, x, *, shape):
        return self.xp.reshape(x, shape)

    def backward(self, g_y):
        return g_y.reshape(self.input_specs[0][0])


def reshape(x: Any, shape: int | Sequence[int]) -> Tensor:
    """The elements of x in `shape`; one -1 stands for what is left over."""
    return apply(Reshape, x, shape=shape)


class Transpose(Op):
    """y[i, j, …] = x[…] with the axes in the order `axes`."""

    def forward(self, x, *, axes):
        self.axes = axes
        return self.xp.transpose(x, axes)

    def backward(self, g_y):
        if self.axes is None:
            return g_y.transpose()
        inverse = [0] * g_y.ndim
        for i, axis in enumerate(self.axes):
            inverse[axis] = i
        return g_y.transpose(inverse)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Tensor:
    """The axes of x in the order `axes`, or reversed."""
    return apply(Transpose, x, axes=axes)


class SwapAxes(Op):
    """y = x with two axes exchanged."""

    def forward(self, x, *, axis1, axis2):
        self.axes = axis1, axis2
        return self.xp.swapaxes(x, axis1, axis2)

    def backward(self, g_y):
        return g_y.swapaxes(*self.axes)


def swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    """x with two axes exchanged."""
    return apply(SwapAxes, x, axis1=axis1, axis2=axis2)


# ---- Putting together and taking apart ----


class Concatenate(Op):
    """y = the inputs one after the other along `axis` (None: all flattened)

    Shapes: x_i [..., n_i, ...] -> y [..., Σ n_i, ...]
    """

    def forward(self, *arrays, axis):
        self.axis = axis
        self.shapes = [a.shape for a in arrays]
        return self.xp.concatenate(arrays, axis=axis)

    def backward(self, g_y):
        axis = 0 if self.axis is None else self.axis
        gradients: list[Any] = []
        start = 0
        for shape, needed in zip(self.shapes, self.needs_gradient, strict=True):
            end = start + (math.prod(shape) if self.axis is None else shape[axis])
            gradients.append(g_y[_along(g_y.ndim, axis, slice(start, end))].reshape(shape) if needed else None)
            start = end
        return tuple(gradients)


def concatenate(arrays: Sequence[Any], axis: int | None = 0) -> Tensor:
    """Join arrays along an axis that they have; with axis=None, flatten them first."""
    return apply(Concatenate, *arrays, axis=axis)


def _along(ndim: int, axis: int, part: Any) -> tuple[Any, ...]:
    """The index that picks `part` along `axis` and everything along the other axes."""
    index: list[Any] = [slice(None)] * ndim
    index[axis] = part
    return tuple(index)
