"""Ops that select elements by position: the gradient is added to these positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.backend import Backend, backend_of
from autograd.engine import Op, apply
from autograd.ops.arguments import array_of, tensors
from autograd.ops.flops import per_output
from autograd.ops.nn import check_indices
from autograd.tensor import Tensor, TensorLike

_ARRAY = object()  # placeholder in an index for an array, which is an input of the op


class GetItem(Op):
    """y = x[index]

    Shapes: x [...] -> y as NumPy's indexing gives it
    Saves:  the arrays of the index; nothing of x
    """

    flops = per_output(0, 1)

    def forward(self, x, *arrays, index):
        self.shape, self.index = x.shape, index
        self.save(*arrays)
        return x[_with_arrays(index, arrays)]

    def backward(self, g_y):
        arrays = self.saved
        return self._g_x(g_y, arrays, _with_arrays(self.index, arrays)), *[None] * len(arrays)

    def _g_x(self, g_y, arrays, index):
        if not arrays or (len(arrays) == 1 and arrays[0].dtype.kind == "b"):  # no element is selected twice
            g_x = self.xp.zeros(self.shape, g_y.dtype)
            g_x[index] = g_y
            return g_x
        if len(index) == 1:
            return add_rows(self.backend, g_y, arrays[0], self.shape)
        size = math.prod(self.shape)
        positions = self.xp.arange(size).reshape(self.shape)[index]  # of each element in x
        return self.backend.add_at(positions.reshape(-1), g_y.reshape(-1), size).reshape(self.shape)


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
    Saves:  indices; nothing of x
    """

    flops = per_output(0, 1)

    def forward(self, x, indices, *, axis):
        self.shape, self.axis = x.shape, axis
        indices = self.xp.asarray(indices)
        self.save(indices)
        return self.xp.take(x, indices, axis=axis)

    def backward(self, g_y):
        (indices,) = self.saved
        return self._g_x(g_y, indices), None

    def _g_x(self, g_y, indices):
        if self.axis is None:
            return add_rows(self.backend, g_y, indices, (math.prod(self.shape),)).reshape(self.shape)
        axis = self.axis % len(self.shape)
        first = range(indices.ndim)
        g_rows = self.xp.moveaxis(g_y, [axis + i for i in first], list(first))  # [*indices.shape, ...]
        rows = self.shape[axis], *self.shape[:axis], *self.shape[axis + 1 :]
        return self.xp.moveaxis(add_rows(self.backend, g_rows, indices, rows), 0, axis)


def take(x: TensorLike, indices: TensorLike, axis: int | None = None) -> Tensor:
    """The elements (axis=None) or slices along `axis` at `indices`, which may repeat and count from the end."""
    return apply(Take, x, indices, axis=axis)


class TakeAlongAxis(Op):
    """y[…, i, …] = x[…, indices[…, i, …], …] along `axis`; of the flattened x for axis=None

    Shapes: x [..., n, ...], indices [..., m, ...], with the other axes equal or 1 -> y [..., m, ...]
    Saves:  indices; nothing of x
    """

    flops = per_output(0, 1)

    def forward(self, x, indices, *, axis):
        self.shape, self.axis = x.shape, axis
        self.save(indices)
        return self.xp.take_along_axis(x, indices, axis)

    def backward(self, g_y):
        (indices,) = self.saved
        size = math.prod(self.shape)
        positions = self.xp.take_along_axis(self.xp.arange(size).reshape(self.shape), indices, self.axis)
        return self.backend.add_at(positions.reshape(-1), g_y.reshape(-1), size).reshape(self.shape), None


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int | None = -1) -> Tensor:
    """The element of x at each of `indices` along `axis`.

    `gather` in PyTorch, where the indices may also be shorter than x along the other axes.
    """
    return apply(TakeAlongAxis, x, indices, axis=axis)


class IndexAdd(Op):
    """y = x with alpha · source[i] added to slice index[i] along `axis`, for every i

    Shapes: x [..., n, ...], index [m], source [..., m, ...] -> y [..., n, ...]
    Saves:  index
    """

    flops = per_output(1, 1)

    def forward(self, x, index, source, *, axis, alpha):
        xp = self.xp
        self.axis, self.alpha = axis, alpha
        self.save(index)
        rows = xp.moveaxis(source, axis, 0)  # [m, ...]
        total = add_rows(self.backend, rows, index, (x.shape[axis], *rows.shape[1:]))
        return x + xp.moveaxis(total if alpha == 1 else total * alpha, 0, axis)

    def backward(self, g_y):
        (index,) = self.saved
        needs_x, _, needs_source = self.needs_gradient
        g_source = self.xp.take(g_y, index, axis=self.axis) * self.alpha if needs_source else None
        return g_y if needs_x else None, None, g_source


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


def add_rows(backend: Backend, g_y: Any, indices: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of `shape` with g_y[i] added to row indices[i] for every i; negative indices count from the end.

    Shapes: g_y [*indices.shape, ...], indices [...] -> [rows, ...]
    """
    rows, width = shape[0], math.prod(shape[1:])
    indices = indices.reshape(-1).astype(backend.xp.intp, copy=False)  # wide enough for the sum below
    indices = backend.xp.where(indices < 0, indices + rows, indices)
    if width == 1:
        return backend.add_at(indices, g_y.reshape(-1), rows).reshape(shape)
    return backend.embedding_backward(g_y.reshape(indices.size, width), indices, rows).reshape(shape)
