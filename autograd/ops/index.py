"""Ops that select elements by position: the gradient is added to these positions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autograd.backend import backend_of
from autograd.engine import Op, apply
from autograd.ops.nn import add_rows
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


def rows(x: Tensor) -> Iterator[Tensor]:
    """x[0], x[1], …  Raises: TypeError for a Tensor of no axis"""
    if x.ndim == 0:
        raise TypeError("cannot iterate over a 0-d Tensor")
    return (x[i] for i in range(len(x)))


attach(__getitem__=getitem, __iter__=rows)
