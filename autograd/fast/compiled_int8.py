"""`linear_packed` (int8.py) by the instructions of the processor that Numba compiles for.

`multiply_add` is written for all of them.  vpdpbusd, where there is AVX-512 VNNI or AVX-VNNI, multiplies four pairs of
bytes and adds them up.  vpmaddubsw of AVX2 does so with two, but its sums end at ±32767: they stay below if the
unsigned numbers are those of x without their signs, which the weights get instead.  Elsewhere bytes are widened to 16
bits, and LLVM finds the instruction for pairs of those: vpmaddwd with AVX-512, pmaddwd with SSE2, smull with NEON.

Every number is computed as in int8.py, to the bit: sums are of integers, and nothing here is compiled with the freedom
to reorder or fuse (`compiled_exactly`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from autograd.fast import compiled_tiles as tiles
from autograd.fast.compiled import plain
from autograd.fast.compiling import bits_of, compiled_exactly
from autograd.fast.int8 import LARGEST, LEAST, OUTPUTS, ZERO, Int8Weights
from autograd.fast.numpy_layers import SERIAL_PRODUCT
from autograd.fast.table import entry
from autograd.fast.threads import run_blocks, thread_count

Array = Any
f4 = np.float32

NOT_FINITE = 0x7F800000  # bits of ∞; those of NaN are larger
VNNI = next((each for each in ("avx512vnni", "avxvnni") if f"+{each}" in tiles.FEATURES), None)
"""The feature whose vpdpbusd multiplies, for vectors of 512 or of 256 bits; None where the processor has neither."""
LANES = 16 if VNNI == "avx512vnni" or (VNNI is None and "+avx512bw" in tiles.FEATURES) else 8  # sums in a vector
SIGNS = VNNI is None and LANES == 8 and "+avx2" in tiles.FEATURES  # whether vpmaddubsw multiplies
PARTS = 1 if VNNI else 2  # int32 for four elements of x
ADDED = 0 if SIGNS else ZERO  # to the integers of x

VECTOR, PAIRS, BYTES = (ir.VectorType(ir.IntType(32 // n), n * LANES) for n in (1, 2, 4))


@compiled_exactly
def quantise_inputs(x: Array, rows: int, n_in: int, q: Array, factors: Array) -> None:
    """The integers of the first rows of x, four to a group, as `multiply_add` takes them, and their factors.

    PARTS = 1: the bytes of a group in the order of x
    SIGNS: the bytes without their signs, of all groups, then with them
    neither: first and third elements in 16 bits each, of all groups, then second and fourth ones

    Shapes: x float32 [≥ R, ≥ in], q int32 [≥ R, ≥ PARTS · in / 4] (written), factors float32 [≥ R] (written)
    """
    groups = (n_in + 3) // 4
    for r in range(rows):
        row, integers, most = x[r][:n_in], q[r][:groups].view(np.uint8), np.int32(0)
        for i in range(row.size):
            size = np.int32(bits_of(row[i]) & np.int32(0x7FFFFFFF))  # as floats without signs are ordered
            most = size if size > most else most
        largest = bits_of(most)
        factors[r] = np.nan if most >= NOT_FINITE else largest / f4(LARGEST) if largest >= LEAST else f4(0)
        inverse = f4(LARGEST) / largest
        integers[:] = ADDED
        for i in range(row.size if most < NOT_FINITE and largest >= LEAST else 0):
            integers[i] = np.uint8(np.int32(np.rint(row[i] * inverse)) + np.int32(ADDED))
        low, high = q[r][:groups], q[r][groups : PARTS * groups]
        for i in range(groups if PARTS == 2 else 0):
            high[i] = low[i] if SIGNS else (low[i] >> np.int32(8)) & np.int32(0xFF00FF)
            low[i] &= np.int32(-1 if SIGNS else 0xFF00FF)
        for i in range(integers.size if SIGNS else 0):
            integers[i] = np.uint8(abs(np.int32(np.int8(integers[i]))))


def multiply_add(builder: Any, total: Any, x: Sequence[Any], w: Any) -> Any:
    """total + Σ x · w, four products of an unsigned and a signed byte in each lane.

    x: PARTS vectors of `quantise_inputs`
    """
    if VNNI:
        name = f"x86.avx512.vpdpbusd.{32 * LANES}"  # with AVX-VNNI, too
        return tiles.called(builder, name, VECTOR, total, x[0], w)
    if SIGNS:
        sizes, signed, w = (builder.bitcast(each, BYTES) for each in (*x, w))
        w = tiles.called(builder, "x86.avx2.psign.b", BYTES, w, signed)
        pairs = tiles.called(builder, "x86.avx2.pmadd.ub.sw", PAIRS, sizes, w)  # at most 2 · 127²
        ones = ir.Constant(PAIRS, [ir.Constant(PAIRS.element, 1)] * PAIRS.count)
        return builder.add(total, tiles.called(builder, "x86.avx2.pmadd.wd", VECTOR, pairs, ones))
    byte = ir.Constant(PAIRS, [ir.Constant(PAIRS.element, 8)] * PAIRS.count)  # in bits
    w = builder.bitcast(w, PAIRS)
    for pairs, of_weights in zip(x, (builder.ashr(builder.shl(w, byte), byte), builder.ashr(w, byte)), strict=True):
        wide = ir.VectorType(tiles.I32, PAIRS.count)
        products = builder.mul(*(builder.sext(each, wide) for each in (builder.bitcast(pairs, PAIRS), of_weights)))
        first, second = (
            builder.shuffle_vector(
                products, products, ir.Constant(VECTOR, [ir.Constant(tiles.I32, i) for i in range(k, PAIRS.count, 2)])
            )
            for k in (0, 1)
        )
        total = builder.add(total, builder.add(first, second))
    return total


def product_of_tile(rows: int) -> Callable[..., None]:
    """A function for the outputs of a tile, of `rows` rows."""
    of_float = ir.VectorType(tiles.F32, LANES)

    @intrinsic
    def product(
        typing_context: Any, x: Any, row: Any, words: Any, steps: Any, start: Any, output: Any, y: Any, y_row: Any,
        of_inputs: Any, of_weights: Any, bias: Any, least: Any,
    ) -> Any:  # fmt: skip
        """y[y_row + r, output + o] = max(sum · (of_inputs[row + r] · of_weights[output + o]) + bias[output + o], least)

        sum = start[output + o] + Σ x[row + r] · weights[output + o]

        Shapes: as `linear_int8`
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, words, start, y, of_inputs, of_weights, bias = (
                make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 4, 6, 8, 9, 10)
            )
            row, steps, output, y_row = (arguments[i] for i in (1, 3, 5, 7))
            least = tiles.in_all_lanes(builder, arguments[11], of_float)

            def add_product(total: Any, *x_and_w: Any) -> Any:
                return multiply_add(builder, total, x_and_w[:-1], x_and_w[-1])

            begun = tiles.vectors_from(builder, start, output, rows, VECTOR)
            begun = [ir.Constant(VECTOR, None)] * len(begun) if SIGNS else begun  # as nothing was added to x
            sums = tiles.sums_of_tile(builder, x, row, words, steps, begun, output, rows, VECTOR, add_product, PARTS)
            factors = tiles.vectors_from(builder, of_weights, output, rows, of_float)
            shifts = tiles.vectors_from(builder, bias, output, rows, of_float)
            for index, total in enumerate(sums):
                r, v = divmod(index, len(begun))
                of_row = builder.add(row, tiles.number(r))
                of_input = tiles.in_all_lanes(builder, builder.load(builder.gep(of_inputs.data, [of_row])), of_float)
                scaled = builder.fmul(builder.sitofp(total, of_float), builder.fmul(of_input, factors[v]))
                shifted = builder.fadd(scaled, shifts[v])
                result = builder.select(builder.fcmp_ordered("<", shifted, least), least, shifted)  # NaN stays
                place = builder.add(y_row, tiles.number(r)), builder.add(output, tiles.number(LANES * v))
                tiles.store(builder, result, tiles.element(builder, y, *place))
            return context.get_dummy_value()

        index, arrays = types.intp, (of_inputs, of_weights, bias)
        return types.void(x, index, words, index, start, index, y, index, *arrays, types.float32), generate

    return product


OF_TWO, OF_FOUR = (tiles.width_of_tile(rows, LANES) for rows in (2, 4))
of_one, of_two, of_four = (product_of_tile(rows) for rows in (1, 2, 4))


@compiled_exactly
def linear_int8(
    q: Array, rows: int, steps: int, of_inputs: Array, words: Array, start: Array, of_weights: Array, bias: Array,
    relu: bool, first: int, end: int, y: Array, y_row: int,
) -> None:  # fmt: skip
    """Outputs first … end - 1, which are whole groups, of rows y_row … of y.

    Shapes: steps = in / 4, q int32 [≥ R, ≥ PARTS · steps], of_inputs float32 [≥ R], words int32 [≥ out / 64 · steps
    · 64], start int32 and of_weights float32 [≥ out], bias float32 [≥ out], y float32 [≥ y_row + R, out] (written),
    out being a multiple of 64
    """
    least = f4(0) if relu else f4(-np.inf)
    whole = rows // 4 * 4
    for group in range(first, end, OUTPUTS):
        for output in range(group, group + OUTPUTS, OF_FOUR):
            for row in range(0, whole, 4):
                of_four(q, row, words, steps, start, output, y, y_row + row, of_inputs, of_weights, bias, least)
        if rows - whole >= 2:
            for output in range(group, group + OUTPUTS, OF_TWO):
                of_two(q, whole, words, steps, start, output, y, y_row + whole, of_inputs, of_weights, bias, least)
        if rows % 2:
            at = rows - 1
            of_one(q, at, words, steps, start, group, y, y_row + at, of_inputs, of_weights, bias, least)


@entry("numba", lambda x, weights, relu=False: plain(x))
def linear_packed(x: Array, weights: Int8Weights, relu: bool = False) -> Array:
    words = weights.words
    rows, out = len(x), OUTPUTS * len(words)
    y, q, of_inputs = np.empty((rows, out), f4), np.empty((rows, PARTS * words.shape[1]), np.int32), np.empty(rows, f4)
    quantise_inputs(x, rows, x.shape[1], q, of_inputs)
    of_weights = words.reshape(-1), weights.start, weights.factors, weights.bias

    def work(some: slice) -> None:
        linear_int8(
            q, rows, words.shape[1], of_inputs, *of_weights, relu, OUTPUTS * some.start, OUTPUTS * some.stop, y, 0
        )

    serial = rows * words.size < SERIAL_PRODUCT  # faster than float32 by as many as stand in its place
    run_blocks(work, len(words), len(words) if serial else -(-len(words) // (4 * (thread_count() or 1))))
    return np.ascontiguousarray(y[:, : weights.shape[0]])
