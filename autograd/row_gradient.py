"""The gradient of a few rows of a large matrix, which is added to a sum without an array of the matrix's size."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


class RowGradient:
    """Σ_i of scale · values[i] in row indices[i], and 0 in all other rows of [rows, D].

    The backward pass of an op may return one in place of an array.  Where it is the first gradient of its input, or a
    watcher needs arrays, the engine makes one of it.

    Shapes: values [N, D], indices int [N]
    """

    def __init__(self, backend: Any, values: Array, indices: Array, rows: int, scale: float = 1.0):
        self.backend, self.values, self.indices, self.scale = backend, values, indices, scale
        self.shape, self.dtype = (rows, values.shape[1]), values.dtype

    def dense(self) -> Array:
        """The gradient as an array [rows, D]."""
        return self._sum(self.indices, self.shape[0])

    def add_to(self, total: Array) -> None:
        """total += self.dense(), of which only the rows that are not 0 are computed."""
        present = np.zeros(self.shape[0], bool)
        present[self.indices] = True
        (rows,) = present.nonzero()
        place = np.empty(self.shape[0], np.intp)  # of a row among those present
        place[rows] = np.arange(len(rows))
        total[rows] += self._sum(place[self.indices], len(rows))

    def _sum(self, indices: Array, rows: int) -> Array:
        summed = self.backend.embedding_backward(self.values, indices, rows)
        if self.scale != 1:
            summed *= self.scale
        return summed
