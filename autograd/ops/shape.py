"""Ops that rearrange elements; backward rearranges the gradient in reverse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.engine import Op, apply
from autograd.ops.arguments import refuse_list
from autograd.ops.flops import moves_only
from autograd.tensor import Tensor, TensorLike, TensorOrArray

# ---- Other axes for the same elements (views where NumPy gives views) ----


class Reshape(Op):
    """y = the elements of x, in the same order, in another shape."""

    flops = moves_only
    computes_again = "input"

    def forward(self, x, *, shape):
        self.shape = x.shape
        return x.reshape(shape)

    def again(self, x):
        return x.reshape(self.output_specs[0][0])

    def backward(self, g_y):
        return g_y.reshape(self.shape)


def reshape(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """The elements of x in `shape`; one size may be -1 and is inferred from the others."""
    return apply(Reshape, x, shape=shape)


class Transpose(Op):
    """y[i, j, …] = x[…] with the axes in the order `axes`."""

    flops = moves_only

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


def transpose(x: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    """The axes of x in the order `axes`, or reversed."""
    return apply(Transpose, x, axes=None if axes is None else tuple(axes))


class SwapAxes(Op):
    """y = x with two axes exchanged."""

    flops = moves_only
    computes_again = "input"

    def forward(self, x, *, axis1, axis2):
        self.axes = axis1, axis2
        return self.again(x)

    def again(self, x):
        return self.xp.swapaxes(x, *self.axes)

    def backward(self, g_y):
        return g_y.swapaxes(*self.axes)


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """x with two axes exchanged."""
    return apply(SwapAxes, x, axis1=axis1, axis2=axis2)


class ExpandDims(Op):
    """y = x with new axes of size 1."""

    flops = moves_only

    def forward(self, x, *, axis):
        self.shape = x.shape
        return self.xp.expand_dims(x, axis)

    def backward(self, g_y):
        return g_y.reshape(self.shape)


def expand_dims(x: TensorLike, axis: int | tuple[int, ...]) -> Tensor:
    """x with new axes of size 1, at the positions `axis` of the result."""
    return apply(ExpandDims, x, axis=axis)


class Squeeze(Op):
    """y = x without axes of size 1."""

    flops = moves_only

    def forward(self, x, *, axis):
        self.shape = x.shape
        return self.xp.squeeze(x, axis)

    def backward(self, g_y):
        return g_y.reshape(self.shape)


def squeeze(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x without the axes at `axis`, which must have size 1, or without all axes of size 1."""
    refuse_list(axis)
    return apply(Squeeze, x, axis=axis)


class BroadcastTo(Op):
    """y = x repeated along its axes of size 1, and along new axes in front: a view

    Shapes: x [...] -> y [shape]
    """

    broadcasts = True  # the engine sums the gradient over the repeated axes
    flops = moves_only

    def forward(self, x, *, shape):
        return self.xp.broadcast_to(x, shape)

    def backward(self, g_y):
        return g_y


def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """x repeated to `shape` by NumPy's broadcasting rules, without copying; the result is read-only."""
    return apply(BroadcastTo, x, shape=shape)


# ---- Joining, splitting, padding ----


class Concatenate(Op):
    """y = the inputs one after the other along `axis` (None: all flattened)

    Shapes: x_i [..., n_i, ...] -> y [..., Σ n_i, ...]
    """

    flops = moves_only

    def forward(self, *arrays, axis):
        self.axis = axis
        self.shapes = [self.xp.shape(a) for a in arrays]
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


def concatenate(arrays: Sequence[TensorLike], axis: int | None = 0) -> Tensor:
    """Join arrays along an existing axis; with axis=None, flatten them first."""
    return apply(Concatenate, *arrays, axis=axis)


class Stack(Op):
    """y = the inputs side by side along a new axis

    Shapes: x_i [...], n of them -> y [..., n, ...]
    """

    flops = moves_only

    def forward(self, *arrays, axis):
        self.axis = axis
        return self.xp.stack(arrays, axis=axis)

    def backward(self, g_y):
        needed = self.needs_gradient
        return tuple([g_y[_along(g_y.ndim, self.axis, i)] if needed[i] else None for i in range(len(needed))])


def stack(arrays: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Join arrays of one shape along a new axis, at the position `axis` of the result."""
    return apply(Stack, *arrays, axis=axis)


class Split(Op):
    """y_i = the i-th piece of x along `axis`: views

    Shapes: x [..., n, ...] -> y_i [..., n_i, ...]
    """

    flops = moves_only

    def forward(self, x, *, indices_or_sections, axis):
        pieces = self.xp.split(x, indices_or_sections, axis)
        self.shape, self.axis = x.shape, axis
        self.indices_or_sections = indices_or_sections
        return tuple(pieces)

    def backward(self, *g_pieces):
        g_x = self.xp.zeros(self.shape, g_pieces[0].dtype)
        pieces = self.xp.split(g_x, self.indices_or_sections, self.axis)
        for piece, g in zip(pieces, g_pieces, strict=True):
            piece += g  # views of g_x, which overlap if the indices are not in order
        return g_x


def split(x: TensorLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Split x along `axis` into a number of equal sections, or before each of the given indices.

    Raises: ValueError if the axis cannot be divided into that many equal sections
    """
    if isinstance(indices_or_sections, (list, np.ndarray)):
        indices_or_sections = tuple(indices_or_sections)  # a copy, which the caller cannot change before backward
    return tuple(apply(Split, x, indices_or_sections=indices_or_sections, axis=axis))


class Pad(Op):
    """y = x with `value` around it

    Shapes: x [..., n, ...] -> y [..., before + n + after, ...]
    """

    flops = moves_only

    def forward(self, x, *, pad_width, value):
        self.inside = tuple(
            [slice(before, before + n) for (before, _), n in zip(pad_width.tolist(), x.shape, strict=True)]
        )
        return self.xp.pad(
            x, pad_width.tolist() if x.shape else 0, constant_values=value
        )  # an array of no axis has no sides

    def backward(self, g_y):
        return g_y[self.inside]


def pad(
    x: TensorOrArray, pad_width: int | Sequence[int] | Sequence[Sequence[int]], constant_values: float = 0
) -> Tensor:
    """x with `constant_values` added at its edges.

    `pad_width` is n for every side, (before, after) for every axis, or one such pair per axis, as in NumPy.

    Raises: ValueError for a pad_width of another form, or a negative one
    """
    ndim = len(x.shape)
    message = f"pad_width={pad_width!r} is neither n, (before, after) nor {ndim} such pairs, of integers ≥ 0"
    try:
        pairs = np.broadcast_to(np.asarray(pad_width), (ndim, 2))
    except ValueError as error:
        raise ValueError(message) from error
    if pairs.dtype.kind not in "iu" or (pairs < 0).any():
        raise ValueError(message)
    return apply(Pad, x, pad_width=pairs.astype(np.intp), value=constant_values)


def _along(ndim: int, axis: int, part: Any) -> tuple[Any, ...]:
    """The index that picks `part` along `axis` and everything along the other axes."""
    index: list[Any] = [slice(None)] * ndim
    index[axis] = part
    return tuple(index)
