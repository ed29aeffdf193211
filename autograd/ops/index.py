"""Ops that select, rearrange, join and split elements: the gradient goes to where each of them came from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autograd.backend import backend_of
from autograd.engine import Op, apply
from autograd.ops.nn import AddRows, add_rows, check_indices
from autograd.ops.shape import expand_dims, reshape
from autograd.tensor import Tensor, TensorLike, TensorOrArray, array_of, attach, tensors

_ARRAY = object()  # placeholder in an index for an array, which is an input of the op


def add_elements(xp: Any, g: Any, positions: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of `shape` with g added at `positions` of the flattened array.  Shapes: g [...], positions int [...]"""
    return add_rows(xp, g.reshape(-1), positions.reshape(-1), (math.prod(shape),)).reshape(shape)


class GetItem(Op):
    """y = x[index]

    Shapes: x [...] -> y as NumPy's indexing gives it
    """

    reads = "arrays"

    @staticmethod
    def forward(xp, x, *arrays, index):
        return x[_with_arrays(index, arrays)]

    @staticmethod
    def backward(xp, g, y, x, *arrays, index):
        index = _with_arrays(index, arrays)

        def g_x():
            once = not arrays or (len(arrays) == 1 and arrays[0].dtype.kind == "b")  # no element is selected twice
            if once and not isinstance(g, Tensor):
                total = xp.zeros(x.shape, g.dtype)
                total[index] = g
                return total
            if len(index) == 1 and not once:
                return add_rows(xp, g, arrays[0], x.shape)
            return add_elements(xp, g, xp.arange(x.size).reshape(x.shape)[index], x.shape)

        return g_x, *[None] * len(arrays)


def _with_arrays(index: tuple[Any, ...], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The index with its arrays in the place of the placeholders."""
    rest = iter(arrays)
    return tuple([next(rest) if part is _ARRAY else part for part in index])


def getitem(x: TensorLike, index: Any) -> Tensor:
    """x[index] with every index of NumPy: integers, slices, None, Ellipsis, boolean masks, integer arrays, Tensors."""
    arrays = []
    parts: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if part is None or part is Ellipsis or isinstance(part, (slice, np.integer)) or type(part) is int:
            parts.append(part)
            continue
        # other array-likes: lists, tuples, ranges, booleans
        if not hasattr(part, "dtype") or isinstance(part, np.generic):
            part = np.asarray(part) if np.size(part) else np.zeros(np.shape(part), np.intp)
        arrays.append(part)
        parts.append(_ARRAY)
    return apply(GetItem, x, *arrays, index=tuple(parts))


def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """The elements (axis=None) or slices along `axis` at `indices`, which may repeat and count from the end.

    Raises: TypeError for indices that are not integers
    """
    (x,) = tensors(x=x)
    places = array_of(indices)
    if places.dtype.kind not in "iu":
        raise TypeError(f"take needs integer indices, found {places.dtype}; a mask selects by x[mask]")
    return x.reshape(-1)[places] if axis is None else x[(*[slice(None)] * (axis % x.ndim), places)]


class TakeAlongAxis(Op):
    """y[…, i, …] = x[…, indices[…, i, …], …] along `axis`; of the flattened x for axis=None

    Shapes: x [..., n, ...], indices [..., m, ...], with the other axes equal or 1 -> y [..., m, ...]
    """

    reads = "indices"

    @staticmethod
    def forward(xp, x, indices, *, axis):
        return xp.take_along_axis(x, indices, axis)

    @staticmethod
    def backward(xp, g, y, x, indices, *, axis):
        positions = xp.take_along_axis(xp.arange(x.size).reshape(x.shape), indices, axis)
        return add_elements(xp, g, positions, x.shape), None


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int | None = -1) -> Tensor:
    """The element of x at each of `indices` along `axis`.

    `gather` in PyTorch, where the indices may also be shorter than x along the other axes.
    """
    return apply(TakeAlongAxis, x, indices, axis=axis)


def index_add(x: TensorLike, axis: int, index: TensorLike, source: TensorLike, *, alpha: float = 1) -> Tensor:
    """x with alpha · source[i] added to slice index[i] along `axis`, for every i; an index may occur several times.

    Raises: ValueError for shapes that do not fit; TypeError for an index that is not of integers; IndexError for one
    outside 0 … n - 1
    """
    x, source = tensors(x=x, source=source)
    places, shape = array_of(index), [*x.shape]
    if x.ndim:
        shape[axis % x.ndim] = places.size
    if x.ndim == 0 or places.ndim != 1 or source.shape != tuple(shape):
        raise ValueError(
            f"index_add along axis {axis} of shape {x.shape} needs an index [m] and a source of m slices; "
            f"found index {places.shape} and source {source.shape}"
        )
    check_indices(places, x.shape[axis], "index_add index")
    first = x.swapaxes(0, axis)  # [n, ...]
    total = apply(AddRows, source.swapaxes(0, axis), places, shape=first.shape)
    return x + (total if alpha == 1 else total * alpha).swapaxes(0, axis)


def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the largest element along `axis`, of the flattened x for None: integers, without a gradient.

    The first of equal elements; the first NaN if there is one.
    """
    array = array_of(x)
    return Tensor(backend_of([array]).xp.argmax(array, axis=axis, keepdims=keepdims))


def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position of the smallest element along `axis`: see `argmax`."""
    array = array_of(x)
    return Tensor(backend_of([array]).xp.argmin(array, axis=axis, keepdims=keepdims))


def repeat(x: TensorLike, repeats: int | Sequence[int], axis: int | None = None) -> Tensor:
    """Each element (axis=None) or slice along `axis` several times in a row: a number of times, or one for each."""
    (x,) = tensors(x=x)
    n = x.size if axis is None else x.shape[axis]
    return take(x, np.repeat(np.arange(n), array_of(repeats)), axis)


def diagonal(x: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals of the matrices that `axis1` and `axis2` span, along a new last axis; `offset` above the main one.

    Shapes: x [..., M, N] -> [..., K]
    """
    (x,) = tensors(x=x)
    return take(x, np.diagonal(np.arange(x.size).reshape(x.shape), offset, axis1, axis2))


def _places(x: Tensor) -> Any:
    """The number of each element.  Shapes: -> int, as x"""
    return backend_of([x.data]).xp.arange(x.size).reshape(x.shape)


def flip(x: TensorLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x with its elements in reverse order along `axis`, or along all axes."""
    (x,) = tensors(x=x)
    return take(x, backend_of([x.data]).xp.flip(_places(x), axis))


def roll(x: TensorLike, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Tensor:
    """x with its elements moved by `shift` places along `axis`, or in the flattened x; the last come to the front."""
    (x,) = tensors(x=x)
    return take(x, backend_of([x.data]).xp.roll(_places(x), shift, axis))


def tile(x: TensorLike, reps: int | Sequence[int]) -> Tensor:
    """x side by side with itself, `reps` times along each axis; new axes come in front."""
    (x,) = tensors(x=x)
    return take(x, backend_of([x.data]).xp.tile(_places(x), reps))


def sort(x: TensorLike, axis: int | None = -1) -> Tensor:
    """x in ascending order along `axis`, or of the flattened x for None; NaN comes last, equal elements in their order.

    The result is x alone, as NumPy's; `take_along_axis` with `np.argsort` sorts others in the same way.
    """
    (x,) = tensors(x=x)
    x, axis = (reshape(x, (-1,)), 0) if axis is None else (x, axis)
    return take_along_axis(x, backend_of([x.data]).xp.argsort(x.data, axis=axis, kind="stable"), axis)


def topk(x: TensorLike, k: int, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along `axis`, the first the most extreme, and their positions.

    Equal elements are taken in their order, and NaN is larger than any number, as in PyTorch.  The gradient goes to the
    elements taken.

    Raises: ValueError for k outside 0 … n
    """
    (x,) = tensors(x=x)
    n = x.shape[axis]
    if not 0 <= k <= n:
        raise ValueError(f"topk: k={k} is outside 0 … {n}, the size of axis {axis} of shape {x.shape}")
    xp = backend_of([x.data]).xp
    order = xp.argsort(xp.flip(x.data, axis) if largest else x.data, axis=axis, kind="stable")  # NaN is the last
    places = n - 1 - xp.flip(order, axis) if largest else order
    places = xp.take(places, xp.arange(k), axis=axis)
    return take_along_axis(x, places, axis), Tensor(places)


def rows(x: Tensor) -> Iterator[Tensor]:
    """x[0], x[1], …  Raises: TypeError for a Tensor of no axis"""
    if x.ndim == 0:
        raise TypeError("cannot iterate over a 0-d Tensor")
    return (x[i] for i in range(len(x)))


attach(__getitem__=getitem, __iter__=rows)


# ---- Several arrays, and arrays in larger ones ----


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
        n, whole = x.shape[axis], xp.concatenate(g, axis)
        places = np.concatenate(np.split(np.arange(n), indices_or_sections))
        if len(places) == n:
            return whole
        rows = whole.swapaxes(0, axis)  # [places, ...]: the pieces overlap
        return add_rows(xp, rows, xp.asarray(places), (n, *rows.shape[1:])).swapaxes(0, axis)


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
