"""`linear_int8` (int8.py) by the instruction vpdpbusd of x86, which multiplies and adds four pairs of integers at once.

Every number is computed as in int8.py, to the bit: sums are of integers, and nothing here is compiled with the freedom
to reorder or fuse (`compiled_exactly`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.fast.compiled_tiles import FEATURES, product_of_tile_int8
from autograd.fast.compiling import compiled_exactly
from autograd.fast.int8 import LARGEST, LEAST, ZERO

Array = Any
f4 = np.float32

NOT_FINITE = 0x7F800000  # bits of ∞; those of NaN are larger


LANES = 16 if {"+avx512vnni", "+avx512vl"} <= {*FEATURES} else 8 if "+avxvnni" in FEATURES else 0
"""Sums in a vector that the instruction computes; 0: the processor has it for neither AVX-512 nor AVX."""

of_one, of_two, of_four = (product_of_tile_int8(rows, LANES or 16) for rows in (1, 2, 4))
WIDTH = 64 if LANES == 16 else 16  # outputs of a tile


@compiled_exactly
def quantise_inputs(x: Array, n_in: int, q: Array, factors: Array) -> None:
    """Shapes: x float32 [R, ≥ in], q uint8 [R, in, up to a multiple of 4] (written), factors float32 [R] (written)"""
    for r in range(len(x)):
        row, integers = x[r][:n_in], q[r]
        bits, most = row.view(np.int32), np.int32(0)
        for i in range(row.size):
            most = max(most, bits[i] & np.int32(0x7FFFFFFF))  # as floats without signs are ordered
        largest = np.int32(most).view(np.float32)
        factors[r] = largest / f4(LARGEST) if largest >= LEAST else f4(0)
        inverse = f4(LARGEST) / largest
        if most >= NOT_FINITE:
            factors[r] = np.nan
        if most >= NOT_FINITE or largest < LEAST:
            integers[:] = ZERO
            continue
        for i in range(row.size):
            integers[i] = np.uint8(np.int32(np.rint(row[i] * inverse)) + np.int32(ZERO))
        integers[row.size :] = ZERO


@compiled_exactly
def linear_int8(
    q: Array, of_inputs: Array, groups: Array, start: Array, of_weights: Array, bias: Array, relu: Any, first: int,
    end: int, y: Array,
) -> None:  # fmt: skip
    """Outputs first … end - 1, which are whole groups.

    Shapes: q int32 [R, in / 4], of_inputs float32 [R], groups int32 [out / 64, in / 4, 64], start int32 [out],
    of_weights, bias float32 [out], y float32 [R, out] (written), out being a multiple of 64
    """
    rows, least = len(q), f4(0) if relu else f4(-np.inf)
    for output in range(first, end, WIDTH):
        row = 0
        while row + 4 <= rows:
            of_four(q, row, groups, start, output, y, of_inputs, of_weights, bias, least)
            row += 4
        if row + 2 <= rows:
            of_two(q, row, groups, start, output, y, of_inputs, of_weights, bias, least)
            row += 2
        if row < rows:
            of_one(q, row, groups, start, output, y, of_inputs, of_weights, bias, least)
