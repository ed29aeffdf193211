"""Ops that select elements by position: the gradient is added to these positions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autograd.backend import backend_of
from autograd.engine import Op, apply
from autograd.ops.nn import AddRows, add_rows, check_indices
from autograd.tensor import Tensor, TensorLike, array_of, attach, tensors

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
    places = array_of(index)
    if x.ndim == 0 or places.ndim != 1 or source.shape != _with_size(x.shape, axis, len(places)):
        raise ValueError(
            f"index_add along axis {axis} of shape {x.shape} needs an index [m] and a source of m slices; "
            f"found index {places.shape} and source {source.shape}"
        )
    check_indices(places, x.shape[axis], "index_add index")
    first = x.swapaxes(0, axis)  # [n, ...]
    total = apply(AddRows, source.swapaxes(0, axis), places, shape=first.shape)
    return x + (total if alpha == 1 else total * alpha).swapaxes(0, axis)


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


def rows(x: Tensor) -> Iterator[Tensor]:
    """x[0], x[1], …  Raises: TypeError for a Tensor of no axis"""
    if x.ndim == 0:
        raise TypeError("cannot iterate over a 0-d Tensor")
    return (x[i] for i in range(len(x)))


attach(__getitem__=getitem, __iter__=rows)
