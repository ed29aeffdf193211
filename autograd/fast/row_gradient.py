"""The gradient of a few rows of a large matrix, which is added to a sum without an array of the matrix's size."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


class RowGradient:
    """Σ_i of scale · values[i] in row indices[i], and 0 in all other rows of [rows, D].

    The engine sums gradients with NumPy's additions: `array += row_gradient` changes the rows that are not 0 alone.

    Shapes: values [N, D], indices int [N]
    """

    base = None  # as of an array that owns its memory

    def __init__(self, kernels: Any, values: Array, indices: Array, rows: int, scale: float = 1.0):
        self.kernels, self.values, self.indices, self.scale = kernels, values, indices, scale
        self.shape, self.dtype = (rows, values.shape[1]), values.dtype

    def dense(self) -> Array:
        """Return the gradient as an array [rows, D]."""
        return self._sum(self.indices, self.shape[0])

    def add_to(self, total: Array) -> None:
        """total += self.dense(), of which only the rows that are not 0 are computed."""
        present = np.zeros(self.shape[0], bool)
        present[self.indices] = True
        (rows,) = present.nonzero()
        place = np.empty(self.shape[0], np.intp)  # of a row among those present
        place[rows] = np.arange(len(rows))
        total[rows] += self._sum(place[self.indices], len(rows))

    def astype(self, dtype: Any) -> RowGradient:
        return RowGradient(self.kernels, self.values.astype(dtype), self.indices, self.shape[0], self.scale)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.dense()

    def __iadd__(self, other: Any) -> Array:
        total = self.dense()
        total += other
        return total

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        if ufunc is not np.add or method != "__call__" or inputs[1] is not self or kwargs:
            return NotImplemented
        if out is None:
            return inputs[0] + self.dense()
        self.add_to(out[0])
        return out[0]

    def _sum(self, indices: Array, rows: int) -> Array:
        summed = self.kernels.embedding_backward(self.values, indices, rows)
        if self.scale != 1:
            summed *= self.scale
        return summed
