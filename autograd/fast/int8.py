"""Weights in 8 bits: each row of a matrix is a float32 factor times integers from -127 to 127.

Products are of integers: the rows of x are quantised as the weights are, when they are multiplied, and the sum of their
products is exact.  So the result of a row depends on that row alone, and is the same to the bit on every machine, with
Numba and without.

    x Wᵀ + bias ≈ (q_x q_Wᵀ) · factor_x · factor_W + bias
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.fast.table import entry
from autograd.fast.threads import blocks_of

__all__ = ["quantise"]

Array = Any
f4 = np.float32

LARGEST = 127  # so that -x is a number where x is
LEAST = f4(1e-30)  # a row of x without a larger element counts as zeros: 127 / x is finite from there
ZERO = 128  # what is added to the integers of x, as the instruction multiplies unsigned with signed ones
OUTPUTS = 64  # rows of a group of weights, which are multiplied together
INPUTS = 4  # elements of a row that stand side by side in a group
ROWS = 512  # of a matrix that are quantised at a time, for temporary arrays that are small beside it
EXACT = 1024  # products of such integers whose sum is exact in float32


def quantise(matrix: Array) -> tuple[Array, Array]:
    """Return the nearest multiples of a factor for each row, such that its largest element is ±127.

    A factor has 16 binary digits, so that its multiples are exact in float32, and quantising them gives the same
    integers and factors again.  The factor of a row with NaN or ∞ is NaN.

    Shapes: float32 [out, in] -> int8 [out, in], float32 [out]
    """
    integers, factors = np.empty(matrix.shape, np.int8), np.empty(len(matrix), f4)
    for some in blocks_of(len(matrix), ROWS):
        factor = np.abs(matrix[some]).max(axis=1, initial=0).astype(f4) / f4(LARGEST)
        factor = ((factor.view(np.uint32) + np.uint32(0x80)) & np.uint32(0xFFFFFF00)).view(f4)
        factor[factor < LEAST] = 1
        factor[~np.isfinite(factor)] = np.nan
        with np.errstate(invalid="ignore"):
            integers[some] = np.nan_to_num(np.rint(matrix[some] / factor[:, None]))
        factors[some] = factor
    return integers, factors


class Int8Weights:
    """The weights and the bias of a linear layer in 8 bits, in groups of outputs, as compiled kernels read them.

    groups: int8 [out / 64, in / 4, 64, 4], with zeros up to whole groups
    bias: float32 [out, up to whole groups]
    start: int32 [out, up to whole groups], -128 · Σ of the row, which undoes what is added to the integers of x
    factors: float32 [out, up to whole groups]
    """

    def __init__(self, integers: Array, factors: Array, bias: Array | None = None):
        """Shapes: int8 [out, in], float32 [out], float32 [out]"""
        self.shape = out, n_in = integers.shape
        whole = np.zeros((-(-out // OUTPUTS) * OUTPUTS, -(-n_in // INPUTS) * INPUTS), np.int8)
        whole[:out, :n_in] = integers
        self.groups = np.ascontiguousarray(whole.reshape(len(whole) // OUTPUTS, OUTPUTS, -1, INPUTS).swapaxes(1, 2))
        self.bias, self.factors, self.start = (np.zeros(len(whole), kind) for kind in (f4, f4, np.int32))
        if bias is not None:
            self.bias[:out] = bias
        self.factors[:out], self.start[:out] = factors, -ZERO * integers.sum(axis=1, dtype=np.int32)

    @classmethod
    def of(cls, matrix: Array, bias: Array | None = None) -> Int8Weights:
        """Round a matrix.  Shapes: float32 [out, in]"""
        return cls(*quantise(matrix), bias)

    @property
    def size(self) -> int:
        """The number of weights."""
        return self.shape[0] * self.shape[1]

    @property
    def words(self) -> Array:
        """The groups as compiled kernels read them.  Shapes: int32 [out / 64, in / 4, 64]"""
        return self.groups.view(np.int32)[..., 0]

    def numbers(self, rows: Array) -> Array:
        """Some rows of the matrix, as they are kept.  Shapes: int [R] -> int8 [R, in]"""
        rows = np.asarray(rows)
        return self.groups[rows // OUTPUTS, :, rows % OUTPUTS].reshape(len(rows), -1)[:, : self.shape[1]]

    def rows(self, rows: Array) -> Array:
        """Some rows of the matrix.  Shapes: int [R] -> float32 [R, in]"""
        return self.numbers(rows) * self.factors[rows][:, None]


def quantise_inputs(x: Array) -> tuple[Array, Array]:
    """Return the integers of the rows of x, with `ZERO` added, and their factors; NaN for a row with NaN or ∞.

    Shapes: float32 [R, in] -> uint8 [R, in, up to a multiple of 4], float32 [R]
    """
    largest = np.abs(x).max(axis=1, initial=0)
    usable = (largest >= LEAST) & np.isfinite(largest)
    inverse = np.where(usable, f4(LARGEST) / np.where(usable, largest, f4(1)), f4(0))
    q = np.full((len(x), -(-x.shape[1] // INPUTS) * INPUTS), ZERO, np.uint8)
    q[:, : x.shape[1]] = np.rint(np.where(usable[:, None], x, f4(0)) * inverse[:, None]) + f4(ZERO)
    factors = np.where(usable, largest / f4(LARGEST), f4(0))
    return q, np.where(np.isfinite(largest), factors, f4(np.nan)).astype(f4)


@entry("numpy", name="linear_packed")
def linear_int8(x: Array, weights: Int8Weights, relu: bool = False) -> Array:
    """x Wᵀ + bias, or max(x Wᵀ + bias, 0).

    By a BLAS in float32, which adds up integers exactly, and without rounding, as long as there are not too many.

    Shapes: float32 [R, in] -> float32 [R, out]
    """
    q, factors = quantise_inputs(x)
    y = np.empty((len(x), weights.shape[0]), f4)
    signed = q[:, : x.shape[1]].astype(f4) - f4(ZERO)
    for start in range(0, weights.shape[0], EXACT):  # few at a time, which are widened in the cache
        some = slice(start, min(start + EXACT, weights.shape[0]))
        w = weights.numbers(np.arange(some.start, some.stop)).astype(f4)
        total = np.zeros((len(x), len(w)), np.int32)
        for i in range(0, x.shape[1], EXACT):
            total += (signed[:, i : i + EXACT] @ w[:, i : i + EXACT].T).astype(np.int32)
        y[:, some] = total.astype(f4) * (factors[:, None] * weights.factors[some]) + weights.bias[some]
    return np.maximum(y, 0, out=y) if relu else y
