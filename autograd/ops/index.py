"""Ops that select elements by position: the gradient is added to these positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.backend import backend_of
from autograd.engine import Op, apply
from autograd.ops.flops import per_output
from autograd.tensor import Tensor, TensorLike, array_of, attach, tensors

_ARRAY = object()  # placeholder in an index for an array, which is an input of the op


def add_rows(xp: Any, g_rows: Any, indices: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of `shape` with g_rows[i] added to row indices[i] for every i; negative indices count from the end.

    Rows of equal index are brought together by sorting, and summed in their order: the result is the same on every run.

    Shapes: g_rows [*indices.shape, ...], indices [...] -> [rows, ...]
    """
    total = xp.zeros(shape, g_rows.dtype)
    if isinstance(g_rows, Tensor):  # in a backward pass that is recorded
        return apply(IndexAdd, total, indices.reshape(-1), g_rows.reshape(indices.size, *shape[1:]), axis=0, alpha=1)
    if g_rows.size:
        indices = indices.reshape(-1).astype(xp.intp, copy=False)  # wide enough for the sum
        indices = xp.where(indices < 0, indices + shape[0], indices)
        order = xp.argsort(indices, kind="stable")
        indices = indices[order]
        starts = xp.flatnonzero(xp.concatenate([xp.ones(1, bool), indices[1:] != indices[:-1]]))
        total[indices[starts]] = xp.add.reduceat(g_rows.reshape(-1, *shape[1:])[order], starts, axis=0)
    return total


def add_elements(xp: Any, g: Any, positions: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of `shape` with g added at `positions` of the flattened array.  Shapes: g [...], positions int [...]"""
    return add_rows(xp, g.reshape(-1), positions, (math.prod(shape),)).reshape(shape)


def check_indices(indices: Any, size: int, what: str) -> None:
    """Raises: TypeError unless `indices` holds integers, IndexError unless all are in 0 … size - 1.

    On a GPU, their values are not checked.
    """
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{what} must be an integer array, found {indices.dtype}")
    if isinstance(indices, np.ndarray) and indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexError(f"{what} must lie in 0 … {size - 1}, found {indices.min()} … {indices.max()}")


class GetItem(Op):
    """y = x[index]

    Shapes: x [...] -> y as NumPy's indexing gives it
    """

    reads = "arrays"
    flops = per_output(0, 1)

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


class Take(Op):
    """y = x[..., indices, ...] along `axis`; of the flattened x for axis=None

    Shapes: x [..., n, ...], indices [...] -> y [..., *indices.shape, ...]
    """

    reads = "indices"
    flops = per_output(0, 1)

    @staticmethod
    def forward(xp, x, indices, *, axis):
        return xp.take(x, indices, axis=axis)

    @staticmethod
    def backward(xp, g, y, x, indices, *, axis):
        if axis is None:
            return add_elements(xp, g, indices, x.shape), None
        axis %= x.ndim
        first = list(range(indices.ndim))
        g_rows = xp.moveaxis(g, [axis + i for i in first], first)  # [*indices.shape, ...]
        rows = x.shape[axis], *x.shape[:axis], *x.shape[axis + 1 :]
        return xp.moveaxis(add_rows(xp, g_rows, indices, rows), 0, axis), None


def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """The elements (axis=None) or slices along `axis` at `indices`, which may repeat and count from the end."""
    return apply(Take, x, array_of(indices), axis=axis)


class TakeAlongAxis(Op):
    """y[…, i, …] = x[…, indices[…, i, …], …] along `axis`; of the flattened x for axis=None

    Shapes: x [..., n, ...], indices [..., m, ...], with the other axes equal or 1 -> y [..., m, ...]
    """

    reads = "indices"
    flops = per_output(0, 1)

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


class IndexAdd(Op):
    """y = x with alpha · source[i] added to slice index[i] along `axis`, for every i

    Shapes: x [..., n, ...], index [m], source [..., m, ...] -> y [..., n, ...]
    """

    reads = ("", "", "index")
    flops = per_output(1, 1)

    @staticmethod
    def forward(xp, x, index, source, *, axis, alpha):
        rows = xp.moveaxis(source, axis, 0)  # [m, ...]
        total = add_rows(xp, rows, index, (x.shape[axis], *rows.shape[1:]))
        return x + xp.moveaxis(total if alpha == 1 else total * alpha, 0, axis)

    @staticmethod
    def backward(xp, g, y, x, index, source, *, axis, alpha):
        return g, None, lambda: xp.take(g, index, axis=axis) * alpha


def index_add(x: TensorLike, axis: int, index: TensorLike, source: TensorLike, *, alpha: float = 1) -> Tensor:
    """x with alpha · source[i] added to slice index[i] along `axis`, for every i; an index may occur several times.

    Raises: ValueError for shapes that do not fit; TypeError for an index that is not of integers; IndexError for one
    outside 0 … n - 1
    """
    x, source = tensors(x=x, source=source)
    places = array_of(index)
    if x.ndim == 0 or places.ndim != 1 or source.shape != _with_size(x.shape, axis, len(places)):
        raise ValueError(
            f"index_add along axis {axis} of shape {x.shape} needs an index [m] and a source of m slices; "
            f"found index {places.shape} and source {source.shape}"
        )
    check_indices(places, x.shape[axis], "index_add index")
    return apply(IndexAdd, x, index, source, axis=axis, alpha=alpha)


def _with_size(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    axis %= len(shape)
    return *shape[:axis], size, *shape[axis + 1 :]


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
    positions = np.diagonal(np.arange(x.size).reshape(x.shape), offset, axis1, axis2)
    return take(x, positions)


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


attach(__getitem__=getitem, argmax=argmax, argmin=argmin, diagonal=diagonal, repeat=repeat)
