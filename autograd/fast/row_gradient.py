"""Gradients that are computed where they are added: without an array of their own, if there is a sum already."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.fast.training import row_sums

Array = Any


class DeferredGradient:
    """A gradient that the engine sums with NumPy's additions, `np.add(sum, gradient)`, and that is computed then.

    Subclasses have `shape`, `dtype` and the three methods below.
    """

    base = None  # as of an array that owns its memory

    def dense(self) -> Array:
        """Return the gradient as an array."""
        raise NotImplementedError

    def plus(self, total: Array) -> Array:
        """Return total + gradient."""
        return total + self.dense()

    def add_to(self, total: Array) -> None:
        """total += gradient"""
        total += self.dense()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.dense()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if ufunc is not np.add or method != "__call__" or kwargs:
            return NotImplemented
        first, second = inputs
        if isinstance(first, DeferredGradient):  # the first term of a sum
            total = first.dense()
            return np.add(total, second, out=total)
        if out is None:
            return self.plus(first)
        self.add_to(out[0])
        return out[0]


class RowGradient(DeferredGradient):
    """Σ_i of scale · values[i] in row indices[i], and 0 in all other rows of [rows, D].

    drop: the mask and the factor of a dropout of the values, or None

    Shapes: values [N, D], indices int [N]
    """

    def __init__(
        self, kernels: Any, values: Array, indices: Array, rows: int, scale: float = 1.0, dtype: Any = None,
        drop: Any = None,
    ):  # fmt: skip
        self.kernels, self.values, self.indices, self.scale, self.drop = kernels, values, indices, scale, drop
        self.shape, self.dtype = (rows, values.shape[1]), values.dtype if dtype is None else dtype

    def dense(self) -> Array:
        values = self.values if self.drop is None else self.kernels.dropout(self.values, *self.drop)
        return row_sums(self.kernels, values, self.indices, self.shape[0], self.scale)

    def add_to(self, total: Array) -> None:
        self.kernels.add_rows_(total, self.values, self.indices, self.scale, self.drop)

    def astype(self, dtype: Any) -> RowGradient:
        """Return the same in another precision."""
        values = self.values.astype(dtype)
        return RowGradient(self.kernels, values, self.indices, self.shape[0], self.scale, drop=self.drop)


class ProductGradient(DeferredGradient):
    """a b in another shape, as the gradient of an input of a product on a GPU, which adds it to a sum in its launch.

    Shapes: a [M, K], b [K, N] -> shape
    """

    def __init__(self, kernels: Any, a: Array, b: Array, shape: tuple[int, ...]):
        self.kernels, self.factors, self.shape, self.dtype = kernels, (a, b), shape, a.dtype

    def dense(self) -> Array:
        return self.kernels.product(*self.factors).reshape(self.shape)

    def plus(self, total: Array) -> Array:
        return self.kernels.plus_product(total.reshape(-1, self.shape[-1]), *self.factors).reshape(self.shape)

    def astype(self, dtype: Any) -> Array:
        """Return the product in another precision."""
        return self.dense().astype(dtype)
