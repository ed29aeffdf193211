"""Products of float32 matrices whose elements are rounded to bfloat16, by the instruction vdpbf16ps of x86.

The instruction multiplies two pairs of bfloat16 and adds the products to a float32.  So matrices are packed as pairs, a
pair in the place of an int32, and beyond the edges of a matrix lie zeros.  A sum is in the order of its terms, and takes
no part in another: results do not depend on threads, nor on what is computed beside them.  Numbers below 1.2e-38, which
the instruction does not know, count as 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from autograd.fast.compiled_tiles import F32, FEATURES, I32, I64, in_all_lanes, load, number, store
from autograd.fast.compiling import compiled_exactly

Array = Any

IS_AVAILABLE = "+avx512bf16" in FEATURES
ROWS, COLUMNS = 8, 32  # of a tile, whose sums stay in 16 registers
PAIRS = 256  # pairs of a row that are multiplied before the next row: a panel of them fits the first-level cache
BLOCK = 256  # rows and columns of a task: its packed factors fit the second-level cache
LANES = 16


class BFloat(ir.Type):
    """LLVM's type bfloat, which llvmlite lacks."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash(BFloat)


SUMS, PACKED, FACTORS = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES), ir.VectorType(BFloat(), 2 * LANES)


@intrinsic
def add_tile(
    typing_context: Any, a: Any, a_first: Any, a_row: Any, a_pair: Any, b: Any, b_first: Any, pairs: Any, c: Any,
    c_first: Any, c_row: Any, begun: Any,
) -> Any:  # fmt: skip
    """c[c_first + r · c_row + n] = Σ a[a_first + r · a_row + p · a_pair] · b[b_first + p · COLUMNS + n], p < pairs > 0

    Added to c if begun, else in its place.  Shapes: a, b int32 [N], c float32 [N]
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, a_first, a_row, a_pair, _, b_first, pairs, _, c_first, c_row, begun = arguments
        a, b, c = (
            builder.gep(make_array(signature.args[i])(context, builder, arguments[i]).data, [first])
            for i, first in ((0, a_first), (4, b_first), (7, c_first))
        )
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        kind = ir.FunctionType(SUMS, [SUMS, FACTORS, FACTORS])
        instruction = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        rows = [builder.gep(a, [builder.mul(a_row, number(r))]) for r in range(ROWS)]
        places = [
            builder.gep(c, [builder.add(builder.mul(c_row, number(r)), number(n))])
            for r in range(ROWS)
            for n in range(0, COLUMNS, LANES)
        ]
        zero = ir.Constant(SUMS, [ir.Constant(F32, 0.0)] * LANES)
        before = builder.block
        with builder.if_then(begun):
            added, kept = builder.block, [load(builder, place, SUMS) for place in places]
        start = []
        for each in kept:
            start.append(builder.phi(SUMS))
            start[-1].add_incoming(zero, before)
            start[-1].add_incoming(each, added)
        before, body, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
        builder.branch(body)
        builder.position_at_end(body)
        p = builder.phi(I64)
        sums = [builder.phi(SUMS) for _ in start]
        factors = [
            builder.bitcast(load(builder, builder.gep(b, [builder.add(builder.mul(p, number(COLUMNS)), number(n))]), PACKED), FACTORS)
            for n in range(0, COLUMNS, LANES)
        ]
        at, new = builder.mul(p, a_pair), []
        for row in rows:
            pair = builder.bitcast(in_all_lanes(builder, builder.load(builder.gep(row, [at])), PACKED), FACTORS)
            new += [builder.call(instruction, [sums[len(new) + n], pair, each]) for n, each in enumerate(factors)]
        following = builder.add(p, number(1))
        for phi, first, then in zip([p, *sums], [number(0), *start], [following, *new], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(then, body)
        builder.cbranch(builder.icmp_signed("<", following, pairs), body, after)
        builder.position_at_end(after)
        for place, total in zip(places, new, strict=True):
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
def rounded(bits: int) -> int:
    """The nearest bfloat16, ties to even, in the upper half, of the bits of a float32; NaN stays NaN."""
    nearest = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    return bits | np.uint32(0x400000) if (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000) else nearest


@compiled_exactly
def pack_rows(x: Array, first: int, end: int, packed: Array) -> None:
    """Rows first … end - 1, with the pairs of a row side by side.

    Shapes: x uint32 [R, K], the bits of float32; packed uint16 [≥ R, ≥ K] (written), the bits of bfloat16
    """
    width = x.shape[1]
    for r in range(first, end):
        row, out = x[r], packed[r]
        for i in range(width):
            out[i] = np.uint16(rounded(row[i]) >> np.uint32(16))
        out[width:] = 0


@compiled_exactly
def pack_columns(x: Array, first: int, end: int, packed: Array) -> None:
    """Panels first … end - 1 of `COLUMNS` columns, in which pairs of a column lie below each other.

    Shapes: x uint32 [K, N], the bits of float32; packed int32 [N / COLUMNS, K / 2, COLUMNS] (written)
    """
    pairs, height, width = packed.shape[1], x.shape[0], x.shape[1]
    for p in range(pairs):
        upper = x[2 * p]
        lower = x[min(2 * p + 1, height - 1)]
        mask = np.uint32(0xFFFF0000) if 2 * p + 1 < height else np.uint32(0)
        for panel in range(first, end):
            out, start = packed[panel, p], panel * COLUMNS
            if start + COLUMNS <= width:
                for n in range(COLUMNS):
                    pair = (rounded(upper[start + n]) >> np.uint32(16)) | (rounded(lower[start + n]) & mask)
                    out[n] = np.int32(pair)
            else:
                for n in range(width - start):
                    pair = (rounded(upper[start + n]) >> np.uint32(16)) | (rounded(lower[start + n]) & mask)
                    out[n] = np.int32(pair)
                out[width - start :] = 0


@compiled_exactly
def pack_rows_as_columns(x: Array, first: int, end: int, packed: Array) -> None:
    """As `pack_columns` of xᵀ.

    Shapes: x uint32 [N, K], the bits of float32; packed int32 [N / COLUMNS, K / 2, COLUMNS] (written)
    """
    pairs = packed.shape[1]
    rows = np.zeros((LANES, 2 * LANES * (-(-pairs // LANES))), np.uint16)
    block, flat = rows.view(np.int32), packed.reshape(-1)
    edge = np.empty((LANES, LANES), np.int32)
    for panel in range(first, end):
        for column in range(panel * COLUMNS, (panel + 1) * COLUMNS, LANES):
            begin, stop = min(column, len(x)), min(column + LANES, len(x))
            pack_rows(x[begin:stop], 0, stop - begin, rows)
            rows[stop - begin :] = 0
            for p in range(0, pairs, LANES):
                place = (panel * pairs + p) * COLUMNS + column % COLUMNS
                if p + LANES <= pairs:
                    transpose_block(block.reshape(-1), p, block.shape[1], flat, place, COLUMNS)
                else:
                    transpose_block(block.reshape(-1), p, block.shape[1], edge.reshape(-1), 0, LANES)
                    packed[panel, p:, column % COLUMNS : column % COLUMNS + LANES] = edge[: pairs - p]


@compiled_exactly
def multiply(
    a: Array, is_by_columns: bool, b: Array, bias: Array, relu: bool, begun: bool, first_row: int, end_row: int,
    first_panel: int, end_panel: int, c: Array,
) -> None:  # fmt: skip
    """c = a b + bias, or max(a b + bias, 0), of some rows and panels; begun: c + a b

    Shapes: a int32, of `pack_columns` of aᵀ if is_by_columns, else of `pack_rows` [≥ M, ≥ K / 2]; b int32, of
    `pack_columns` [N / COLUMNS, K / 2, COLUMNS]; bias [N] or [0]; c float32 [M, N] (written)
    """
    pairs, width, flat_a, flat_b, flat_c = b.shape[1], c.shape[1], a.reshape(-1), b.reshape(-1), c.reshape(-1)
    a_row, a_pair = (1, COLUMNS) if is_by_columns else (a.shape[1], 1)
    edge = np.empty((ROWS, COLUMNS), np.float32)
    for p in range(0, pairs, PAIRS):
        count, adds = min(PAIRS, pairs - p), begun or p > 0
        for panel in range(first_panel, end_panel):
            column, place = panel * COLUMNS, (panel * pairs + p) * COLUMNS
            for row in range(first_row, end_row, ROWS):
                at = row * a.shape[1] + p
                if is_by_columns:
                    at = ((row // COLUMNS) * pairs + p) * COLUMNS + row % COLUMNS
                if row + ROWS <= end_row and column + COLUMNS <= width:
                    to = row * width + column
                    add_tile(flat_a, at, a_row, a_pair, flat_b, place, count, flat_c, to, width, adds)
                    continue
                add_tile(flat_a, at, a_row, a_pair, flat_b, place, count, edge.reshape(-1), 0, COLUMNS, False)
                for r in range(row, min(row + ROWS, end_row)):
                    for n in range(column, min(column + COLUMNS, width)):
                        before = c[r, n] if adds else np.float32(0)
                        c[r, n] = before + edge[r - row, n - column]
    if bias.size or relu:
        least = np.float32(0) if relu else np.float32(-np.inf)
        for r in range(first_row, end_row):
            for n in range(first_panel * COLUMNS, min(end_panel * COLUMNS, width)):
                total = c[r, n] + (bias[n] if bias.size else np.float32(0))
                c[r, n] = least if total < least else total  # NaN stays
