"""`linear_packed` (int8.py) by the instructions of the processor that Numba compiles for.

`_multiply_add` is written for all of them: vpdpbusd, where there is AVX-512 VNNI or AVX-VNNI, multiplies four pairs of
bytes and adds them up; elsewhere bytes are widened to 16 bits, and LLVM finds the instruction for pairs of those:
vpmaddwd with AVX2 or AVX-512, pmaddwd with SSE2, smull with NEON.

Every number is computed as in int8.py, to the bit: sums are of integers, and nothing here is compiled with the freedom
to reorder or fuse (`compiled_exactly`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from autograd.fast.compiled import plain
from autograd.fast.compiled_tiles import (
    F32,
    FEATURES,
    I32,
    at_least,
    function_named,
    in_all_lanes,
    number,
    of_tiles,
    vectors_from,
)
from autograd.fast.compiling import compiled_exactly
from autograd.fast.int8 import LARGEST, LEAST, OUTPUTS, ZERO, Int8Weights
from autograd.fast.numpy_products import SERIAL_PRODUCT
from autograd.fast.table import entry
from autograd.fast.threads import run_blocks, thread_count

Array = Any
f4 = np.float32

NOT_FINITE = 0x7F800000  # bits of ∞; those of NaN are larger
VNNI = next((each for each in ("avx512vnni", "avxvnni") if f"+{each}" in FEATURES), None)
"""The feature whose vpdpbusd multiplies, for vectors of 512 or of 256 bits; None where 16 bits are multiplied."""
LANES = 16 if VNNI == "avx512vnni" or (VNNI is None and "+avx512bw" in FEATURES) else 8  # sums in a vector
PARTS = 1 if VNNI else 2  # int32 of four elements of x, in 8 bits or in 16

VECTOR, PAIRS, BYTE = ir.VectorType(I32, LANES), ir.VectorType(ir.IntType(16), 2 * LANES), 8


@compiled_exactly
def quantise_inputs(x: Array, n_in: int, q: Array, factors: Array) -> None:
    """The integers of the rows of x, four to a group, as `_multiply_add` takes them, and their factors.

    PARTS = 1: the bytes of a group in the order of x
    PARTS = 2: first and third elements in 16 bits each, of all groups, then second and fourth ones

    Shapes: x float32 [R, ≥ in], q int32 [R, PARTS · in / 4] (written), factors float32 [R] (written)
    """
    groups = q.shape[1] // PARTS
    for r in range(len(x)):
        row, integers = x[r][:n_in], q[r][:groups].view(np.uint8)
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
        else:
            for i in range(row.size):
                integers[i] = np.uint8(np.int32(np.rint(row[i] * inverse)) + np.int32(ZERO))
            integers[row.size :] = ZERO
        if PARTS == 2:
            low, high = q[r][:groups], q[r][groups:]
            for i in range(groups):
                high[i] = (low[i] >> np.int32(8)) & np.int32(0xFF00FF)
                low[i] &= np.int32(0xFF00FF)


def _multiply_add(builder: Any, total: Any, *x_and_w: Any) -> Any:
    """total + Σ x · w, four products of an unsigned and a signed byte in each lane.

    x_and_w: PARTS vectors of `quantise_inputs`, and one of weights
    """
    *x, w = x_and_w
    if VNNI:
        name = f"llvm.x86.avx512.vpdpbusd.{32 * LANES}"  # with AVX-VNNI, too
        return builder.call(function_named(builder, name, VECTOR), [total, x[0], w])
    byte = ir.Constant(PAIRS, [ir.Constant(PAIRS.element, BYTE)] * PAIRS.count)
    w = builder.bitcast(w, PAIRS)
    for pairs, of_weights in zip(x, (builder.ashr(builder.shl(w, byte), byte), builder.ashr(w, byte)), strict=True):
        wide = ir.VectorType(I32, PAIRS.count)
        products = builder.mul(*(builder.sext(each, wide) for each in (builder.bitcast(pairs, PAIRS), of_weights)))
        first, second = (
            builder.shuffle_vector(
                products, products, ir.Constant(VECTOR, [ir.Constant(I32, i) for i in range(k, PAIRS.count, 2)])
            )
            for k in (0, 1)
        )
        total = builder.add(total, builder.add(first, second))
    return total


def _finish(
    builder: Any, rows: int, row: Any, output: Any, sums: list[Any], of_inputs: Any, of_weights: Any, bias: Any,
    least: Any,
) -> list[Any]:  # fmt: skip
    """max(sum · (of_inputs[row] · of_weights[output]) + bias[output], least)"""
    of_float, finished = ir.VectorType(F32, LANES), []
    factors, shifts = (vectors_from(builder, each, output, rows, of_float) for each in (of_weights, bias))
    for index, total in enumerate(sums):
        r, v = divmod(index, len(factors))
        place = builder.gep(of_inputs.data, [builder.add(row, number(r))])
        of_input = in_all_lanes(builder, builder.load(place), of_float)
        scaled = builder.fmul(builder.sitofp(total, of_float), builder.fmul(of_input, factors[v]))
        finished.append(at_least(builder, builder.fadd(scaled, shifts[v]), in_all_lanes(builder, least, of_float)))
    return finished


_outputs = of_tiles(VECTOR, _multiply_add, _finish, PARTS)


@compiled_exactly
def linear_int8(
    q: Array, of_inputs: Array, words: Array, start: Array, of_weights: Array, bias: Array, relu: bool, first: int,
    end: int, y: Array, y_row: int,
) -> None:  # fmt: skip
    """Outputs first … end - 1, which are whole groups, of rows y_row … of y.

    Shapes: q int32 [R, PARTS · in / 4], of_inputs float32 [R], words int32 [≥ out / 64 · in / 4 · 64], start
    int32 and of_weights float32 [≥ out], bias float32 [≥ out], y float32 [≥ y_row + R, out] (written),
    out being a multiple of 64
    """
    least = f4(0) if relu else f4(-np.inf)
    steps, others = q.shape[1] // PARTS, (of_inputs, of_weights, bias, least)
    _outputs(q, len(q), words, steps, start, first, end, y, y_row, others)


@entry("numba", lambda x, weights, relu=False: plain(x))
def linear_packed(x: Array, weights: Int8Weights, relu: bool = False) -> Array:
    words = weights.words
    rows, out = len(x), OUTPUTS * len(words)
    y, q, of_inputs = np.empty((rows, out), f4), np.empty((rows, PARTS * words.shape[1]), np.int32), np.empty(rows, f4)
    quantise_inputs(x, x.shape[1], q, of_inputs)
    of_weights = words.reshape(-1), weights.start, weights.factors, weights.bias

    def work(some: slice) -> None:
        linear_int8(q, of_inputs, *of_weights, relu, OUTPUTS * some.start, OUTPUTS * some.stop, y, 0)

    serial = rows * words.size < SERIAL_PRODUCT  # faster than float32 by as many as stand in its place
    run_blocks(work, len(words), len(words) if serial else -(-len(words) // (4 * (thread_count() or 1))))
    return np.ascontiguousarray(y[:, : weights.shape[0]])
