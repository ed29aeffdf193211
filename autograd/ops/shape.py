"""Ops that rearrange elements; backward rearranges the gradient in reverse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.engine import Op, apply
from autograd.ops.flops import moves_only
from autograd.ops.reduce import refuse_list
from autograd.tensor import Tensor, TensorLike, TensorOrArray, attach, tensors

# ---- Other axes for the same elements (views where NumPy gives views) ----


class Reshape(Op):
    """y = the elements of x, in the same order, in another shape"""

    flops = moves_only

    @staticmethod
    def forward(xp, x, *, shape):
        return x.reshape(shape)

    @staticmethod
    def backward(xp, g, y, x, *, shape):
        return g.reshape(x.shape)


def reshape(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """The elements of x in `shape`; one size may be -1 and is inferred from the others."""
    return apply(Reshape, x, shape=shape)


class Transpose(Op):
    """y[i, j, …] = x[…] with the axes in the order `axes`"""

    flops = moves_only

    @staticmethod
    def forward(xp, x, *, axes):
        return xp.transpose(x, axes)

    @staticmethod
    def backward(xp, g, y, x, *, axes):
        return g.transpose(None if axes is None else np.argsort([axis % x.ndim for axis in axes]).tolist())


def transpose(x: TensorLike, axes: Sequence[int] | None = None) -> Tensor:
    """The axes of x in the order `axes`, or reversed."""
    return apply(Transpose, x, axes=None if axes is None else tuple(axes))


class SwapAxes(Op):
    """y = x with two axes exchanged"""

    flops = moves_only

    @staticmethod
    def forward(xp, x, *, axis1, axis2):
        return x.swapaxes(axis1, axis2)

    @staticmethod
    def backward(xp, g, y, x, *, axis1, axis2):
        return g.swapaxes(axis1, axis2)


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """x with two axes exchanged."""
    return apply(SwapAxes, x, axis1=axis1, axis2=axis2)


def expand_dims(x: TensorLike, axis: int | tuple[int, ...]) -> Tensor:
    """x with new axes of size 1, at the positions `axis` of the result."""
    (x,) = tensors(x=x)
    return reshape(x, np.expand_dims(_outline(x), axis).shape)


def squeeze(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x without the axes at `axis`, which must have size 1, or without all axes of size 1."""
    refuse_list(axis)
    (x,) = tensors(x=x)
    return reshape(x, np.squeeze(_outline(x), axis).shape)


def _outline(x: Tensor) -> np.ndarray:
    """An array of the shape of x in the memory of one number: NumPy finds the shape of a result with it."""
    return np.broadcast_to(np.zeros(()), x.shape)


class BroadcastTo(Op):
    """y = x repeated along its axes of size 1, and along new axes in front: a view

    Shapes: x [...] -> y [shape]
    """

    broadcasts = True  # the engine sums the gradient over the repeated axes
    flops = moves_only

    @staticmethod
    def forward(xp, x, *, shape):
        return xp.broadcast_to(x, shape)

    @staticmethod
    def backward(xp, g, y, x, *, shape):
        return g


def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """x repeated to `shape` by NumPy's broadcasting rules, without copying; the result is read-only."""
    return apply(BroadcastTo, x, shape=shape)


# ---- Joining, splitting, padding ----


def _refuse_second_array(name: str, axis: Any) -> None:
    if hasattr(axis, "shape") and np.ndim(axis.shape):
        raise TypeError(f"{name} takes the arrays as one sequence: write {name}([x, y])")


class Concatenate(Op):
    """y = the inputs one after the other along `axis` (None: all flattened)

    Shapes: x_i [..., n_i, ...] -> y [..., Σ n_i, ...]
    """

    flops = moves_only

    @staticmethod
    def forward(xp, *arrays, axis):
        return xp.concatenate(arrays, axis=axis)

    @staticmethod
    def backward(xp, g, y, *arrays, axis):
        shapes = [np.shape(x) for x in arrays]
        sizes = [math.prod(shape) if axis is None else shape[axis] for shape in shapes]
        pieces = xp.split(g, list(itertools.accumulate(sizes))[:-1], 0 if axis is None else axis)
        return tuple([piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)])


def concatenate(arrays: Sequence[TensorLike], axis: int | None = 0) -> Tensor:
    """Join arrays along an existing axis; with axis=None, flatten them first."""
    _refuse_second_array("concatenate", axis)
    return apply(Concatenate, *arrays, axis=axis)


class Stack(Op):
    """y = the inputs side by side along a new axis

    Shapes: x_i [...], n of them -> y [..., n, ...]
    """

    flops = moves_only

    @staticmethod
    def forward(xp, *arrays, axis):
        return xp.stack(arrays, axis=axis)

    @staticmethod
    def backward(xp, g, y, *arrays, axis):
        pieces = xp.split(g, len(arrays), axis)  # [..., 1, ...] each
        return tuple([piece.reshape(np.shape(x)) for piece, x in zip(pieces, arrays, strict=True)])


def stack(arrays: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Join arrays of one shape along a new axis, at the position `axis` of the result."""
    _refuse_second_array("stack", axis)
    return apply(Stack, *arrays, axis=axis)


class Split(Op):
    """y_i = the i-th piece of x along `axis`: views

    Shapes: x [..., n, ...] -> y_i [..., n_i, ...]
    """

    flops = moves_only

    @staticmethod
    def forward(xp, x, *, indices_or_sections, axis):
        return tuple(xp.split(x, indices_or_sections, axis))

    @staticmethod
    def backward(xp, g, y, x, *, indices_or_sections, axis):
        n = x.shape[axis]
        if np.ndim(indices_or_sections) == 0 or list(indices_or_sections) == sorted(
            min(max(i, 0), n) for i in indices_or_sections
        ):
            return xp.concatenate(g, axis)
        total, places = 0, np.split(np.arange(n), indices_or_sections)  # which may overlap
        for g_piece, place in zip(g, places, strict=True):
            before = int(place[0]) if len(place) else 0
            around = [(0, 0)] * x.ndim
            around[axis] = before, n - before - len(place)
            total = total + xp.pad(g_piece, around)
        return total


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

    @staticmethod
    def forward(xp, x, *, sides, value):
        return xp.pad(x, sides or 0, constant_values=value)  # an array of no axis has no sides

    @staticmethod
    def backward(xp, g, y, x, *, sides, value):
        return g[tuple([slice(before, before + n) for (before, _), n in zip(sides, x.shape, strict=True)])]


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
    return apply(Pad, x, sides=pairs.tolist(), value=constant_values)


# ---- Methods of Tensors ----


def flatten(x: Tensor, start_axis: int = 0, end_axis: int = -1) -> Tensor:
    """The axes from `start_axis` to `end_axis`, all by default, as one."""
    if x.ndim == 0:
        return reshape(x, (1,))
    start, end = start_axis % x.ndim, end_axis % x.ndim + 1
    return reshape(x, (*x.shape[:start], math.prod(x.shape[start:end]), *x.shape[end:]))


def _one_sequence(numbers: tuple[Any, ...]) -> Any:
    """The arguments of a method that takes its numbers one by one or as one sequence."""
    return numbers[0] if len(numbers) == 1 and not isinstance(numbers[0], int) else numbers


attach(
    T=property(transpose, doc="All axes reversed."),
    reshape=lambda x, *shape: reshape(x, _one_sequence(shape)),
    transpose=lambda x, *axes: transpose(x, _one_sequence(axes) or None),
    swapaxes=swapaxes,
    squeeze=squeeze,
    flatten=flatten,
    ravel=flatten,
)
