"""Ops that join, split, pad and repeat arrays; backward splits, joins, cuts and sums the gradient."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.engine import Op, apply
from autograd.ops.shape import expand_dims
from autograd.tensor import Tensor, TensorLike, TensorOrArray


def _refuse_second_array(name: str, axis: Any) -> None:
    if hasattr(axis, "shape") and np.ndim(axis.shape):
        raise TypeError(f"{name} takes the arrays as one sequence: write {name}([x, y])")


class Concatenate(Op):
    """y = the inputs one after the other along `axis` (None: all flattened)

    Shapes: x_i [..., n_i, ...] -> y [..., Σ n_i, ...]
    """

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


def stack(arrays: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """Join arrays of one shape along a new axis, at the position `axis` of the result.

    Raises: ValueError for arrays of different shapes
    """
    _refuse_second_array("stack", axis)
    return apply(Concatenate, *[expand_dims(x, axis) for x in arrays], axis=axis)


class Split(Op):
    """y_i = the i-th piece of x along `axis`: views

    Shapes: x [..., n, ...] -> y_i [..., n_i, ...]
    """

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


class BroadcastTo(Op):
    """y = x repeated along its axes of size 1, and along new axes in front: a view

    Shapes: x [...] -> y [shape]
    """

    broadcasts = True  # the engine sums the gradient over the repeated axes

    @staticmethod
    def forward(xp, x, *, shape):
        return xp.broadcast_to(x, shape)

    @staticmethod
    def backward(xp, g, y, x, *, shape):
        return g


def broadcast_to(x: TensorLike, shape: int | Sequence[int]) -> Tensor:
    """x repeated to `shape` by NumPy's broadcasting rules, without copying; the result is read-only."""
    return apply(BroadcastTo, x, shape=shape)
