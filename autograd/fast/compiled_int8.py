"""`linear_int8` (int8.py) by the instruction vpdpbusd of x86, which multiplies and adds four pairs of integers at once.

Every number is computed as in int8.py, to the bit: sums are of integers, and nothing here is compiled with the freedom
to reorder or fuse (`compiled_exactly`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.fast.compiled_tiles import FEATURES, product_of_tile
from autograd.fast.compiling import compiled_exactly
from autograd.fast.int8 import LARGEST, LEAST, ZERO

Array = Any
f4 = np.float32

ROWS = 4  # of x that are multiplied with a vector of weights once it is read
NOT_FINITE = 0x7F800000  # bits of ∞; those of NaN are larger


LANES = 16 if {"+avx512vnni", "+avx512vl"} <= {*FEATURES} else 8 if "+avxvnni" in FEATURES else 0
"""Sums in a vector that the instruction computes; 0: the processor has it for neither AVX-512 nor AVX."""

INSTRUCTION = f"llvm.x86.avx512.vpdpbusd.{32 * LANES}"
of_one_row, of_rows = (product_of_tile(rows, LANES or 16, INSTRUCTION) for rows in (1, ROWS))
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
    end: int, total: Array, y: Array,
) -> None:  # fmt: skip
    """Outputs first … end - 1, of which the first begins a group.

    Shapes: q int32 [R, in / 4], of_inputs float32 [R], groups int32 [out / 64, in / 4, 64], start int32 [out, up to a
    multiple of 64], of_weights, bias float32 [out], total int32 [ROWS, OUTPUTS] (overwritten), y float32 [R, out]
    (written)
    """
    rows, n_out = y.shape
    least = f4(0) if relu else f4(-np.inf)
    for output in range(first, min(end, n_out), WIDTH):
        width = min(WIDTH, n_out - output)
        row = 0
        while row < rows:
            count = ROWS if row + ROWS <= rows else 1
            if count == ROWS:
                of_rows(q, row, groups, start, output, total, 0, 0)
            else:
                of_one_row(q, row, groups, start, output, total, 0, 0)
            for r in range(count):
                sums, written, factor = total[r], y[row + r], of_inputs[row + r]
                for o in range(width):
                    result = f4(sums[o]) * (factor * of_weights[output + o]) + bias[output + o]
                    written[output + o] = least if result < least else result  # NaN stays
            row += count
