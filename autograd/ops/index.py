"""Ops that pick elements by position: the gradient goes back to the positions it came from, and adds up there."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.engine import Op, apply
from autograd.tensor import Tensor

_HERE = object()  # stands in an index for an array that travels as an input of the op


def _is_basic(index: tuple[Any, ...]) -> bool:
    """Does NumPy answer this index with a view, so that no element is picked twice?"""
    return all(
        part is None or part is Ellipsis or isinstance(part, (slice, np.integer)) or type(part) is int for part in index
    )


class GetItem(Op):
    """y = x[index]

    Shapes: x [...] -> y as NumPy's indexing gives it
    Saves:  the index; nothing of x
    """

    def forward(self, x, *arrays, index):
        parts = iter(arrays)
        index = tuple([next(parts) if part is _HERE else part for part in index])
        if self.needs_gradient[0]:
            self.index = index
            self.save(*arrays)  # the arrays of the index
        return x[index]

    def backward(self, g_y):
        xp = self.xp
        arrays = self.saved
        shape, dtype = self.input_specs[0]
        if len(arrays) == 0 or (len(arrays) == 1 and arrays[0].dtype.kind == "b"):  # nothing is picked twice
            g_x = xp.zeros(shape, dtype)
            g_x[self.index] = g_y
        elif len(self.index) == 1:
            g_x = add_rows(xp, g_y, arrays[0], shape, dtype)
        else:
            g_x = _add_elements(xp, g_y, self.index, shape, dtype)
        return (g_x, *[None] * len(arrays))


def getitem(x: Any, index: Any) -> Tensor:
    """x[index] with every index of NumPy: integers, slices, None, Ellipsis, boolean masks, integer arrays, Tensors."""
    parts = index if isinstance(index, tuple) else (index,)
    arrays = []
    kept: list[Any] = []
    for part in parts:
        if isinstance(part, (list, bool, np.bool_)):
            part = np.asarray(part) if np.size(part) else np.zeros(0, np.intp)
        if isinstance(part, Tensor) or (hasattr(part, "dtype") and not isinstance(part, np.integer)):
            arrays.append(part)
            part = _HERE
        kept.append(part)
    return apply(GetItem, x, *arrays, index=tuple(kept))


class Take(Op):
    """y = x[..., indices, ...] along `axis`; of the flattened x for axis=None

    Shapes: x [..., n, ...], indices [...] -> y [..., *indices.shape, ...]
    Saves:  indices; nothing of x
    """

    def forward(self, x, indices, *, axis):
        self.axis = axis
        self.save(indices)
        return self.xp.take(x, indices, axis=axis)

    def backward(self, g_y):
        xp = self.xp
        (indices,) = self.saved
        indices = xp.asarray(indices)
        shape, dtype = self.input_specs[0]
        if self.axis is None:
            size = 1
            for n in shape:
                size *= n
            return add_rows(xp, g_y, indices, (size,), dtype).reshape(shape), None
        axis = self.axis % len(shape)
        g_rows = xp.moveaxis(g_y, range(axis, axis + indices.ndim), range(indices.ndim))
        rows_shape = (shape[axis], *shape[:axis], *shape[axis + 1 :])
        return xp.moveaxis(add_rows(xp, g_rows, indices, rows_shape, dtype), 0, axis), None


def take(x: Any, indices: Any, axis: int | None = None) -> Tensor:
    """The elements (axis=None) or slices along `axis` at `indices`, which may repeat and count from the end."""
    return apply(Take, x, indices, axis=axis)


# ---- Adding up at positions ----


def add_rows(xp: Any, g_y: Any, indices: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros of `shape` with row g_y[i] added at row indices[i], for every i.

    Sorting brings equal indices together, so that each target row is written once; `np.add.at` visits them one by one.

    Shapes: g_y [*indices.shape, ...], indices [...] -> [n, ...]
    """
    g_x = xp.zeros(shape, dtype)
    if g_y.size == 0:
        return g_x
    indices = indices.reshape(-1)
    indices = xp.where(indices < 0, indices + shape[0], indices)
    rows = g_y.reshape(indices.size, *shape[1:])
    order = xp.argsort(indices, kind="stable")
    ordered = indices[order]
    starts = xp.flatnonzero(xp.concatenate((xp.ones(1, bool), ordered[1:] != ordered[:-1])))
    if starts.size == indices.size:  # no index repeats
        g_x[indices] = rows
    else:
        g_x[ordered[starts]] = xp.add.reduceat(rows[order], starts, axis=0)
    return g_x


def _add_elements(xp: Any, g_y: Any, index: tuple[Any, ...], shape: tuple[int, ...], dtype: Any) -> Any:
    """Zeros of `shape` with each element of g_y added where `index` took it from, whatever the index."""
    size = 1
    for n in shape:
        size *= n
    positions = xp.arange(size).reshape(shape)[index]
    return add_rows(xp, g_y, positions, (size,), dtype).reshape(shape)
