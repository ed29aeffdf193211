"""`linear_int8` (int8.py) by the instruction vpdpbusd of x86, which multiplies and adds four pairs of integers at once.

For a processor without it, or where NUMBA_CPU_FEATURES leaves it out, the sums are plain loops.

Every number is computed as in int8.py, to the bit: sums are of integers, and nothing here is compiled with the freedom
to reorder or fuse (`compiled_exactly`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.fast.compiled_tiles import FEATURES, product_of_tile_int8
from autograd.fast.compiling import compiled_exactly
from autograd.fast.low_precision.int8 import LARGEST, LEAST, ZERO
from autograd.fast.low_precision.packed import OUTPUTS

Array = Any
f4 = np.float32

NOT_FINITE = 0x7F800000  # bits of ∞; those of NaN are larger


LANES = 16 if {"+avx512vnni", "+avx512vl"} <= {*FEATURES} else 8 if "+avxvnni" in FEATURES else 0
"""Sums in a vector that the instruction computes; 0: the processor has it for neither AVX-512 nor AVX."""

WIDTH = {16: 64, 8: 16, 0: OUTPUTS}[LANES]  # outputs of a tile


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


if LANES:
    of_one, of_two, of_four = (product_of_tile_int8(rows, LANES) for rows in (1, 2, 4))

    @compiled_exactly
    def tile(
        q: Array, of_inputs: Array, groups: Array, start: Array, of_weights: Array, bias: Array, least: Any,
        output: int, y: Array,
    ) -> None:  # fmt: skip
        """`linear_int8` of `WIDTH` outputs."""
        row, rows = 0, len(q)
        while row + 4 <= rows:
            of_four(q, row, groups, start, output, y, of_inputs, of_weights, bias, least)
            row += 4
        if row + 2 <= rows:
            of_two(q, row, groups, start, output, y, of_inputs, of_weights, bias, least)
            row += 2
        if row < rows:
            of_one(q, row, groups, start, output, y, of_inputs, of_weights, bias, least)

else:

    @compiled_exactly
    def tile(
        q: Array, of_inputs: Array, groups: Array, start: Array, of_weights: Array, bias: Array, least: Any,
        output: int, y: Array,
    ) -> None:  # fmt: skip
        """`linear_int8` of `WIDTH` outputs, in plain loops."""
        group, sums = groups[output // OUTPUTS], np.empty(OUTPUTS, np.int32)
        for row in range(len(q)):
            for o in range(OUTPUTS):
                sums[o] = start[output + o]
            for i in range(len(group)):
                word, four = q[row, i], group[i]
                for byte in range(4):  # each signed byte of weights in the upper part of an int32, and down again
                    x, up = np.int32(word >> np.int32(8 * byte)) & np.int32(255), np.int32(24 - 8 * byte)
                    for o in range(OUTPUTS):
                        sums[o] += np.int32(x * (np.int32(four[o] << up) >> np.int32(24)))
            for o in range(OUTPUTS):
                factor = of_inputs[row] * of_weights[output + o]
                shifted = f4(sums[o]) * factor + bias[output + o]
                y[row, output + o] = least if shifted < least else shifted  # NaN stays


@compiled_exactly
def linear_int8(
    q: Array, of_inputs: Array, groups: Array, start: Array, of_weights: Array, bias: Array, relu: Any, first: int,
    end: int, y: Array,
) -> None:  # fmt: skip
    """Outputs first … end - 1, which are whole groups.

    Shapes: q int32 [R, in / 4], of_inputs float32 [R], groups int32 [out / 64, in / 4, 64], start int32 [out],
    of_weights, bias float32 [out], y float32 [R, out] (written), out being a multiple of 64
    """
    least = f4(0) if relu else f4(-np.inf)
    for output in range(first, end, WIDTH):
        tile(q, of_inputs, groups, start, of_weights, bias, least, output, y)
