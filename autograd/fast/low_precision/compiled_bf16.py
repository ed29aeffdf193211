"""Products of float32 matrices whose elements are rounded to bfloat16, by the instruction vdpbf16ps of x86.

The instruction multiplies two pairs of bfloat16 and adds the products to a float32.  Matrices are packed as pairs, a
pair in the place of an int32, the last one with a 0 if the length is odd.  The order of a sum depends on its length
alone, so results depend neither on threads nor on what is computed beside them.  Numbers below 1.2e-38 count as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from autograd.fast.compiled_tiles import (
    F32,
    FEATURES,
    I32,
    PACKED,
    SUMS,
    in_all_lanes,
    load,
    loop_over,
    number,
    plus_pairs,
    store,
)
from autograd.fast.compiling import compiled_exactly
from autograd.fast.low_precision.packed import PackedWeights
from autograd.fast.threads import blocks_of

Array = Any

IS_AVAILABLE = "+avx512bf16" in FEATURES
ROWS, COLUMNS = 8, 32  # of a tile, whose sums stay in 16 registers
PAIRS = 512  # of a row that are multiplied before the next row: 8 panels of them fit the second-level cache
BLOCK = 256  # rows of a task
PANELS_AT_ONCE = 4  # of `COLUMNS` columns, which a task packs
INNER = 8 * PAIRS  # elements of a row that are packed before the next: a whole number of PAIRS, for the same bits
PACKED_BYTES = 8 << 20  # of the second factor
PADDING = 16  # pairs between rows, so that those of a tile are not in one set of the cache
LANES = 16


@intrinsic
def add_tile(
    typing_context: Any, a: Any, a_first: Any, a_row: Any, a_pair: Any, b: Any, b_first: Any, pairs: Any, c: Any,
    c_first: Any, c_row: Any, begun: Any,
) -> Any:  # fmt: skip
    """c[c_first + r · c_row + n] = Σ a[a_first + r · a_row + p · a_pair] · b[b_first + p · COLUMNS + n], p < pairs

    Added to c if begun, else in its place.  Shapes: a, b int32 [N], c float32 [N]
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, a_first, a_row, a_pair, _, b_first, pairs, _, c_first, c_row, begun = arguments
        a, b, c = (
            builder.gep(make_array(signature.args[i])(context, builder, arguments[i]).data, [first])
            for i, first in ((0, a_first), (4, b_first), (7, c_first))
        )
        rows = [builder.gep(a, [builder.mul(a_row, number(r))]) for r in range(ROWS)]
        places = [
            builder.gep(c, [builder.add(builder.mul(c_row, number(r)), number(n))])
            for r in range(ROWS)
            for n in range(0, COLUMNS, LANES)
        ]
        zero = ir.Constant(SUMS, [ir.Constant(F32, 0.0)] * LANES)
        start = [builder.select(begun, load(builder, place, SUMS), zero) for place in places]

        def step(p: Any, sums: list[Any]) -> list[Any]:
            here, at = builder.gep(b, [builder.mul(p, number(COLUMNS))]), builder.mul(p, a_pair)
            factors = [load(builder, builder.gep(here, [number(n)]), PACKED) for n in range(0, COLUMNS, LANES)]
            new: list[Any] = []
            for row in rows:
                pair = in_all_lanes(builder, builder.load(builder.gep(row, [at])), PACKED)
                new += [plus_pairs(builder, sums[len(new) + n], pair, each) for n, each in enumerate(factors)]
            return new

        for place, total in zip(places, loop_over(builder, pairs, start, step), strict=True):
            store(builder, total, place)
        return context.get_dummy_value()

    index = types.intp
    return types.void(a, index, index, index, b, index, index, c, index, index, types.boolean), generate


@intrinsic
def transpose_block(typing_context: Any, a: Any, a_first: Any, a_row: Any, b: Any, b_first: Any, b_row: Any) -> Any:
    """b[b_first + j · b_row + i] = a[a_first + i · a_row + j], i and j < 16.  Shapes: a, b int32 [N]"""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, a_first, a_row, _, b_first, b_row = arguments
        a, b = (
            builder.gep(make_array(signature.args[i])(context, builder, arguments[i]).data, [first])
            for i, first in ((0, a_first), (3, b_first))
        )
        rows = [load(builder, builder.gep(a, [builder.mul(a_row, number(i))]), PACKED) for i in range(LANES)]
        for distance in (8, 4, 2, 1):  # blocks of this size off the diagonal change places
            for i in range(LANES):
                if not i & distance:
                    low, high = rows[i], rows[i + distance]
                    first = [LANES + j - distance if j & distance else j for j in range(LANES)]
                    second = [LANES + j if j & distance else j + distance for j in range(LANES)]
                    rows[i], rows[i + distance] = (
                        builder.shuffle_vector(low, high, ir.Constant(PACKED, [ir.Constant(I32, j) for j in lanes]))
                        for lanes in (first, second)
                    )
        for j, row in enumerate(rows):
            store(builder, row, builder.gep(b, [builder.mul(b_row, number(j))]))
        return context.get_dummy_value()

    index = types.intp
    return types.void(a, index, index, b, index, index), generate


@compiled_exactly
def rounded(bits: Any) -> Any:
    """The nearest bfloat16, ties to even, in the upper half, of the bits of a float32; NaN stays NaN."""
    nearest = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return bits | np.uint32(0x400000) if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000) else nearest


@compiled_exactly
def pair(first: Any, second: Any, mask: Any) -> Any:
    """The int32 of two bfloat16; mask: 0 for a second one that is 0."""
    return np.int32((rounded(first) >> np.uint32(16)) | (rounded(second) & mask))


@compiled_exactly
def round_(x: Array) -> None:
    """Round in place.  Shapes: uint32 [N], the bits of float32 (overwritten)"""
    for i in range(x.size):
        x[i] = rounded(x[i]) & np.uint32(0xFFFF0000)


@compiled_exactly
def narrow(x: Array, narrowed: Array) -> bool:
    """Round to half the bytes; return whether nothing was lost.

    Shapes: x uint32 [N], the bits of float32; narrowed uint16 [N] (written), the bits of bfloat16
    """
    lost = np.uint32(0)
    for i in range(x.size):
        narrowed[i] = np.uint16(rounded(x[i]) >> np.uint32(16))
        lost |= x[i] & np.uint32(0xFFFF)
    return bool(lost == 0)


@compiled_exactly
def widen(x: Array, widened: Array) -> None:
    """Shapes: x uint16 [N], the bits of bfloat16; widened uint32 [N] (written), the bits of float32"""
    for i in range(x.size):
        widened[i] = np.uint32(x[i]) << np.uint32(16)


@compiled_exactly
def pack_rows(x: Array, first: int, end: int, packed: Array) -> None:
    """Elements first … end - 1 of all rows, with the pairs of a row side by side.

    Shapes: x [R, K], of `bits`; packed uint16 [≥ R, ≥ end - first] (written), the bits of bfloat16
    """
    shift = np.uint32(32 - 8 * x.itemsize)
    for r in range(len(x)):
        row, out = x[r][first:end], packed[r]
        for i in range(row.size):
            out[i] = np.uint16(rounded(np.uint32(row[i]) << shift) >> np.uint32(16))
        out[row.size :] = 0


@compiled_exactly
def pack_columns(x: Array, first: int, end: int, packed: Array) -> None:
    """Panels first … end - 1 of `COLUMNS` columns, in which pairs of a column lie below each other.

    Shapes: x [K, N], of `bits`; packed int32 [end - first, K / 2, COLUMNS] (written)
    """
    pairs, height, width = packed.shape[1], x.shape[0], x.shape[1]
    shift = np.uint32(32 - 8 * x.itemsize)
    for block in range(0, pairs, LANES):  # few rows of x at a time, and long parts of a panel
        for panel in range(first, end):
            start = panel * COLUMNS
            for p in range(block, min(block + LANES, pairs)):
                upper, lower = x[2 * p][start:], x[min(2 * p + 1, height - 1)][start:]
                mask = np.uint32(0xFFFF0000) if 2 * p + 1 < height else np.uint32(0)
                out = packed[panel - first, p]
                if start + COLUMNS <= width:
                    for n in range(COLUMNS):  # in vectors, as the number is known
                        out[n] = pair(np.uint32(upper[n]) << shift, np.uint32(lower[n]) << shift, mask)
                else:
                    for n in range(width - start):
                        out[n] = pair(np.uint32(upper[n]) << shift, np.uint32(lower[n]) << shift, mask)


@compiled_exactly
def pack_rows_as_columns(x: Array, first: int, end: int, packed: Array, block: Array) -> None:
    """`pack_columns` of elements first … end - 1 of all rows, in blocks that are transposed in registers.

    Shapes: x [N, K], of `bits`; packed int32 [N / COLUMNS, (end - first) / 2, COLUMNS] (written);
    block int32 [2, 16, (end - first) / 2, up to a multiple of 16] (overwritten)
    """
    pairs, rows, flat, edge = packed.shape[1], block[0].view(np.uint16), packed.reshape(-1), block[1]
    flat_rows, step = block[0].reshape(-1), block.shape[2]
    for panel in range(len(packed)):
        for column in range(panel * COLUMNS, (panel + 1) * COLUMNS, LANES):
            begin, stop = min(column, len(x)), min(column + LANES, len(x))
            pack_rows(x[begin:stop], first, end, rows)
            for p in range(0, pairs, LANES):
                place = (panel * pairs + p) * COLUMNS + column % COLUMNS
                if p + LANES <= pairs:
                    transpose_block(flat_rows, p, step, flat, place, COLUMNS)
                else:
                    transpose_block(flat_rows, p, step, edge.reshape(-1), 0, step)
                    packed[panel, p:, column % COLUMNS : column % COLUMNS + LANES] = edge[: pairs - p, :LANES]


@compiled_exactly
def multiply(
    a: Array, is_by_columns: bool, b: Array, first: int, bias: Array, relu: bool, begun: bool, c: Array, edge: Array
) -> None:
    """c = a b + bias, or max(a b + bias, 0), in the columns of b, which begin with column `first`; begun: c + a b

    Shapes: a int32, of `pack_columns` of aᵀ if is_by_columns, else of `pack_rows` [≥ M, ≥ K / 2]; b int32, of
    `pack_columns` [panels, K / 2, COLUMNS]; bias [N] or [0]; c float32 [M, N] (written); edge float32 [ROWS, COLUMNS]
    (overwritten)
    """
    pairs, flat_a, flat_b, flat_c = b.shape[1], a.reshape(-1), b.reshape(-1), c.reshape(-1)
    height, width = c.shape
    a_row, a_pair = (1, COLUMNS) if is_by_columns else (a.shape[1], 1)
    for p in range(0, pairs, PAIRS):
        count, adds = min(PAIRS, pairs - p), begun or p > 0
        for panel in range(len(b)):
            column, place = first + panel * COLUMNS, (panel * pairs + p) * COLUMNS
            for row in range(0, height, ROWS):
                at = row * a.shape[1] + p
                if is_by_columns:
                    at = ((row // COLUMNS) * pairs + p) * COLUMNS + row % COLUMNS
                if row + ROWS <= height and column + COLUMNS <= width:
                    to = row * width + column
                    add_tile(flat_a, at, a_row, a_pair, flat_b, place, count, flat_c, to, width, adds)
                    continue
                rows, columns = min(ROWS, height - row), min(COLUMNS, width - column)
                for r in range(rows):
                    for n in range(columns):
                        edge[r, n] = c[row + r, column + n]
                add_tile(flat_a, at, a_row, a_pair, flat_b, place, count, edge.reshape(-1), 0, COLUMNS, adds)
                for r in range(rows):
                    for n in range(columns):
                        c[row + r, column + n] = edge[r, n]
    if bias.size or relu:
        least = np.float32(0) if relu else np.float32(-np.inf)
        for r in range(height):
            for n in range(first, min(first + len(b) * COLUMNS, width)):
                total = c[r, n] + (bias[n] if bias.size else np.float32(0))
                c[r, n] = least if total < least else total  # NaN stays


# ---- Weights ----


class BFloat16Weights(PackedWeights):
    """The weights of a layer in bfloat16; the groups are of their bits."""

    @classmethod
    def of(cls, matrix: Array, bias: Array | None = None) -> BFloat16Weights:
        bits = np.empty(matrix.shape, np.uint16)
        narrow(np.ascontiguousarray(matrix).reshape(-1).view(np.uint32), bits.reshape(-1))
        return cls(bits, bias)

    def rows(self, rows: Array) -> Array:
        return (self.numbers(rows).astype(np.uint32) << np.uint32(16)).view(np.float32)


# ---- The whole product ----

Task = tuple[Any, ...]  # a function and its arguments
NO_BIAS = np.empty(0, np.float32)


def bits(x: Array) -> Array:
    """The bits of float32 as uint32; those of bfloat16, which are uint16, as they are."""
    return x if x.dtype == np.uint16 else x.view(np.uint32)


def call(task: Task) -> None:
    """Call a function with its arguments."""
    function, *arguments = task
    function(*arguments)


def product_(
    run: Callable[[Callable[[Task], None], list[Task]], None], threads: int, c: Array, a: Array, b: Array,
    bias: Array | None = None, relu: bool = False, begun: bool = False,
) -> Array:  # fmt: skip
    """c = a b + bias, or max(a b + bias, 0), with the elements of a and b rounded; begun: c + a b.

    At most `PACKED_BYTES` of b are packed at a time, by all threads; of a the rows of a block, by the thread that
    multiplies them.

    run: calls a function with each of several tasks, on `threads` threads

    Shapes: a [M, K], b [K, N], bias [N], c [M, N] (written), all float32 and none empty; a and b also uint16, the bits
    of bfloat16
    """
    a, bt = (x if x.flags.c_contiguous or x.flags.f_contiguous else np.ascontiguousarray(x) for x in (a, b.T))
    (m, inner), n, block = a.shape, len(bt), BLOCK
    while block > COLUMNS and -(-m // block) < 2 * threads:
        block //= 2
    parts = max(1, 2 * threads // -(-m // block))  # of the panels: several tasks for each thread, if the rows are few
    for k in blocks_of(inner, INNER):
        pairs, whole = -(-(k.stop - k.start) // 2), k.stop == inner
        shifts, ends_in_relu = bias if whole and bias is not None else NO_BIAS, whole and relu
        most = max(1, PACKED_BYTES // (4 * pairs * COLUMNS))
        for panels in blocks_of(-(-n // COLUMNS), most):
            first, count = panels.start, panels.stop - panels.start
            packed = np.empty((count, pairs, COLUMNS), np.int32)
            run(call, [(pack_panels, bt, k, first, some, packed) for some in blocks_of(count, PANELS_AT_ONCE)])
            how = first * COLUMNS, shifts, ends_in_relu, begun or k.start > 0
            run(
                call,
                [
                    (multiply_rows, a, k, rows, packed, some, c, *how)
                    for rows in blocks_of(m, block)
                    for some in blocks_of(count, -(-count // parts))
                ],
            )
    return c


def pack_panels(x: Array, k: slice, first: int, some: slice, packed: Array) -> None:
    """Pack the elements k of some panels, each of `COLUMNS` rows of x, of which the first packed one is `first`.

    Shapes: x [N, K], packed int32 [panels, K' / 2, COLUMNS] (written)
    """
    begin, end, out = first + some.start, first + some.stop, packed[some]
    if x.T.flags.c_contiguous:
        pack_columns(bits(x.T[k]), begin, end, out)
    else:
        memory = np.empty((2, LANES, -(-out.shape[1] // LANES) * LANES), np.int32)
        rows = bits(x[begin * COLUMNS : end * COLUMNS])
        pack_rows_as_columns(rows, k.start, k.stop, out, memory)


def multiply_rows(
    a: Array, k: slice, rows: slice, packed: Array, some: slice, c: Array,
    first: int, bias: Array, relu: bool, begun: bool,
) -> None:  # fmt: skip
    """Compute some rows of `product_` in some panels of b, whose elements k are packed from column `first` on."""
    pairs, by_columns = packed.shape[1], not a.flags.c_contiguous
    if by_columns:
        packed_a = np.empty((-(-(rows.stop - rows.start) // COLUMNS), pairs, COLUMNS), np.int32)
        pack_panels(a, k, rows.start // COLUMNS, slice(0, len(packed_a)), packed_a)
    else:
        packed_a = np.empty((-(-(rows.stop - rows.start) // ROWS) * ROWS, pairs + PADDING), np.int32)
        pack_rows(bits(a[rows]), k.start, k.stop, packed_a.view(np.uint16))
    edge = np.empty((ROWS, COLUMNS), np.float32)
    column = first + some.start * COLUMNS
    multiply(packed_a, by_columns, packed[some], column, bias, relu, begun, c[rows], edge)
