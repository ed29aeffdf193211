"""`linear_int8` (int8.py) by the instruction vpdpbusd of x86, which multiplies and adds four pairs of integers at once.

Every number is computed as in int8.py, to the bit: sums are of integers, and nothing here is compiled with the freedom
to reorder or fuse (`compiled_exactly`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from autograd.fast.compiling import compiled_exactly
from autograd.fast.int8 import LARGEST, LEAST, OUTPUTS, ZERO

Array = Any
f4 = np.float32

ROWS = 4  # of x that are multiplied with a vector of weights once it is read
NOT_FINITE = 0x7F800000  # bits of ∞; those of NaN are larger


def lanes_of(features: str) -> int:
    """Sums in a vector that the instruction computes: 16 with AVX-512 VNNI, 8 with AVX-VNNI, 0 without either.

    features: of the processor, as LLVM names them
    """
    found = features.split(",")
    if "+avx512vnni" in found and "+avx512vl" in found:
        return 16
    return 8 if "+avxvnni" in found else 0


LANES = lanes_of(config.CPU_FEATURES or get_host_cpu_features())


def product_of_tile(rows: int, lanes: int) -> Callable[..., None]:
    """A function for sums of 4 vectors of 16 outputs, or of 2 of 8: as many as registers hold, with `rows` rows."""
    vectors = 4 if lanes == 16 else 2

    @intrinsic
    def product(typing_context: Any, q: Any, row: Any, groups: Any, start: Any, output: Any, y: Any) -> Any:
        """y[r, o] = start[output + o] + Σ q[row + r] · weights[output + o]

        Shapes: q int32 [R, in / 4], groups int32 [out / 64, in / 4, 64], start int32 [out], y int32 [rows, 64]
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            i32, i64 = ir.IntType(32), ir.IntType(64)
            vector = ir.VectorType(i32, lanes)
            kinds = signature.args
            arrays = {i: make_array(kinds[i])(context, builder, arguments[i]) for i in (0, 2, 3, 5)}
            row, output = arguments[1], arguments[4]
            steps = builder.extract_value(arrays[0].shape, 1)  # in / 4
            name = f"llvm.x86.avx512.vpdpbusd.{32 * lanes}"
            add_products = builder.module.globals.get(name) or ir.Function(
                builder.module, ir.FunctionType(vector, [vector] * 3), name
            )

            def number(value: int) -> Any:
                return ir.Constant(i64, value)

            def at(place: Any, kind: Any) -> Any:
                return builder.bitcast(place, kind.as_pointer())

            def load(place: Any) -> Any:
                return builder.load(at(place, vector), align=4)

            group, within = builder.udiv(output, number(OUTPUTS)), builder.urem(output, number(OUTPUTS))
            first = builder.add(builder.mul(builder.mul(group, steps), number(OUTPUTS)), within)
            weights = builder.gep(arrays[2].data, [first])
            inputs = [
                builder.gep(arrays[0].data, [builder.mul(builder.add(row, number(r)), steps)]) for r in range(rows)
            ]
            begun = [
                load(builder.gep(arrays[3].data, [builder.add(output, number(lanes * v))])) for v in range(vectors)
            ]
            before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
            builder.branch(loop)
            builder.position_at_end(loop)
            i = builder.phi(i64)
            i.add_incoming(number(0), before)
            sums = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
            for of_row in sums:
                for total, at_first in zip(of_row, begun, strict=True):
                    total.add_incoming(at_first, before)
            here = builder.gep(weights, [builder.mul(i, number(OUTPUTS))])
            w = [load(builder.gep(here, [number(lanes * v)])) for v in range(vectors)]
            following = builder.add(i, number(1))
            i.add_incoming(following, loop)
            undefined = ir.Constant(vector, ir.Undefined)
            for r, of_row in enumerate(sums):
                four = builder.insert_element(undefined, builder.load(builder.gep(inputs[r], [i])), ir.Constant(i32, 0))
                everywhere = builder.shuffle_vector(four, undefined, ir.Constant(vector, [ir.Constant(i32, 0)] * lanes))
                for v, total in enumerate(of_row):
                    total.add_incoming(builder.call(add_products, [total, everywhere, w[v]]), loop)
            builder.cbranch(builder.icmp_unsigned("<", following, steps), loop, after)
            builder.position_at_end(after)
            for r, of_row in enumerate(sums):
                for v, total in enumerate(of_row):
                    result = total.incomings[1][0]
                    builder.store(
                        result, at(builder.gep(arrays[5].data, [number(OUTPUTS * r + lanes * v)]), vector), align=4
                    )
            return context.get_dummy_value()

        return types.void(q, types.intp, groups, start, types.intp, y), generate

    return product


of_one_row, of_rows = product_of_tile(1, LANES or 16), product_of_tile(ROWS, LANES or 16)
WIDTH = 64 if LANES == 16 else 16  # outputs of a tile


@compiled_exactly
def quantise_inputs(x: Array, q: Array, factors: Array) -> None:
    """Shapes: x float32 [R, in], q uint8 [R, in, up to a multiple of 4] (written), factors float32 [R] (written)"""
    for r in range(len(x)):
        row, integers = x[r], q[r]
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
                of_rows(q, row, groups, start, output, total)
            else:
                of_one_row(q, row, groups, start, output, total)
            for r in range(count):
                sums, written, factor = total[r], y[row + r], of_inputs[row + r]
                for o in range(width):
                    result = f4(sums[o]) * (factor * of_weights[output + o]) + bias[output + o]
                    written[output + o] = least if result < least else result  # NaN stays
            row += count
