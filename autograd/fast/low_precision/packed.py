"""Weights of linear layers in 8 or 16 bits, in the order in which compiled kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

Array = Any
f4 = np.float32

OUTPUTS = 64  # rows of a group of weights, which are multiplied together


class PackedWeights:
    """The weights and the bias of a linear layer, in groups of outputs.

    groups: [out / 64, in / n, 64, n], the n numbers of an output in 4 bytes, with zeros up to whole groups
    bias: float32 [out, up to whole groups]
    """

    def __init__(self, numbers: Array, bias: Array | None = None):
        """Shapes: int8 or uint16 [out, in], float32 [out]"""
        self.shape = out, n_in = numbers.shape
        n = 4 // numbers.itemsize
        whole = np.zeros((-(-out // OUTPUTS) * OUTPUTS, -(-n_in // n) * n), numbers.dtype)
        whole[:out, :n_in] = numbers
        self.groups = np.ascontiguousarray(whole.reshape(len(whole) // OUTPUTS, OUTPUTS, -1, n).swapaxes(1, 2))
        self.bias = np.zeros(len(whole), f4)
        if bias is not None:
            self.bias[:out] = bias

    @classmethod
    def of(cls, matrix: Array, bias: Array | None = None) -> Self:
        """Round a matrix.  Shapes: float32 [out, in]"""
        raise NotImplementedError

    @property
    def size(self) -> int:
        """The number of weights."""
        return self.shape[0] * self.shape[1]

    @property
    def words(self) -> Array:
        """The groups as the kernels read them.  Shapes: int32 [out / 64, in / n, 64]"""
        return self.groups.view(np.int32)[..., 0]

    def numbers(self, rows: Array) -> Array:
        """Some rows of the matrix, as they are kept.  Shapes: int [R] -> [R, in]"""
        rows = np.asarray(rows)
        return self.groups[rows // OUTPUTS, :, rows % OUTPUTS].reshape(len(rows), -1)[:, : self.shape[1]]

    def rows(self, rows: Array) -> Array:
        """Some rows of the matrix.  Shapes: int [R] -> float32 [R, in]"""
        raise NotImplementedError


def words_of(layers: Sequence[PackedWeights]) -> Array:
    """The words of layers of one shape in one array, from which the layers read them, too.

    Shapes: -> int32 [L, out / 64, in / n, 64]
    """
    groups = np.stack([each.groups for each in layers])
    for own, each in zip(groups, layers, strict=True):
        each.groups = own
    return groups.view(np.int32)[..., 0]
