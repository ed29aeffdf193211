"""Sums of products in vectors of the processor, for functions that `compiled_exactly` compiles.

The order of a sum depends on its length alone, and products are fused with sums where the processor can, so a result
does not depend on what is computed beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from autograd.fast.compiling import compiled_inside
from autograd.fast.int8 import OUTPUTS

Array = Any

FEATURES = (get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES).split(",")
"""The features of the processor that Numba compiles for, as LLVM names them."""
LANES = 16 if "+avx512f" in FEATURES else 8  # numbers in a vector of float32

AHEAD = 2048  # numbers from what is read to what is asked for: processors do not look into the next page themselves
LARGE = 1 << 19  # numbers in the memory of the weights from which on they are asked for: fewer stay in the cache
f4 = np.float32

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
number = I64  # the constructor of constants of 64 bits


def in_all_lanes(builder: Any, value: Any, vector: Any) -> Any:
    """Return a vector with one value in all lanes."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    lanes = ir.VectorType(I32, vector.count)
    return builder.shuffle_vector(first, undefined, ir.Constant(lanes, [ir.Constant(I32, 0)] * vector.count))


def load(builder: Any, place: Any, vector: Any) -> Any:
    """Load a vector from an address."""
    return builder.load(builder.bitcast(place, vector.as_pointer()), align=4)


def store(builder: Any, vector: Any, place: Any) -> None:
    """Store a vector at an address."""
    builder.store(vector, builder.bitcast(place, vector.type.as_pointer()), align=4)


def element(builder: Any, array: Any, row: Any, column: Any) -> Any:
    """Return the address of array[row, column]."""
    return builder.gep(array.data, [builder.add(builder.mul(row, builder.extract_value(array.shape, 1)), column)])


def fused(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """x · y + z, rounded once where the processor can."""
    name = f"fmuladd.{f'v{z.type.count}f32' if isinstance(z.type, ir.VectorType) else 'f32'}"
    return called(builder, name, z.type, x, y, z)


def called(builder: Any, name: str, kind: Any, *values: Any) -> Any:
    """Call a function of LLVM; the result is of `kind`."""
    module, name, of = builder.module, f"llvm.{name}", ir.FunctionType(kind, [each.type for each in values])
    return builder.call(module.globals.get(name) or ir.Function(module, of, name), values)


def loop_over(builder: Any, count: Any, begun: list[Any], step: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """Let `step` compute new values of each i < count from those before; return the last ones."""
    before = builder.block
    head, body, after = (builder.append_basic_block() for _ in range(3))
    builder.branch(head)
    builder.position_at_end(head)
    i = builder.phi(I64)
    i.add_incoming(number(0), before)
    values = [builder.phi(each.type) for each in begun]
    for value, each in zip(values, begun, strict=True):
        value.add_incoming(each, before)
    builder.cbranch(builder.icmp_signed("<", i, count), body, after)
    builder.position_at_end(body)
    new = step(i, values)
    i.add_incoming(builder.add(i, number(1)), builder.block)
    for value, each in zip(values, new, strict=True):
        value.add_incoming(each, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return values


def width_of_tile(rows: int, lanes: int) -> int:
    """Outputs of a tile: 4 vectors of 16 of its 32 registers; 8 sums in vectors of 8, so few wait for each other."""
    return OUTPUTS if lanes == 16 else OUTPUTS // rows


def sums_of_tile(
    builder: Any, x: Any, row: Any, weights: Any, steps: Any, start: list[Any], output: Any, rows: int, vector: Any,
    add_product: Any, parts: int = 1,
) -> list[Any]:  # fmt: skip
    """start[o] + Σ x[row + r] · weights[output + o]: the vectors of a row, of one row after the other.

    vector: of elements of x and of weights
    add_product: (sum, numbers of x in all lanes, weights) -> sum
    parts: numbers of x that weights are multiplied with; row r of x has the first ones of all steps, then the others

    Shapes: x [R, ≥ parts · steps], weights [out / 64 · steps · 64]
    """
    vectors, lanes = len(start), vector.count
    group, within = builder.udiv(output, number(OUTPUTS)), builder.urem(output, number(OUTPUTS))
    first = builder.add(builder.mul(builder.mul(group, steps), number(OUTPUTS)), within)
    of_tile = builder.gep(weights.data, [first])
    inputs = [
        [element(builder, x, builder.add(row, number(r)), builder.mul(steps, number(part))) for part in range(parts)]
        for r in range(rows)
    ]

    def step(i: Any, sums: list[Any], ahead: bool) -> list[Any]:
        here = builder.gep(of_tile, [builder.mul(i, number(OUTPUTS))])
        w = [load(builder, builder.gep(here, [number(lanes * v)]), vector) for v in range(vectors)]
        for line in range(0, OUTPUTS if ahead else 0, 16):
            place = builder.bitcast(builder.gep(here, [number(AHEAD + line)]), ir.IntType(8).as_pointer())
            called(builder, "prefetch.p0i8", ir.VoidType(), place, I32(0), I32(3), I32(1))  # to be read, often, as data
        new: list[Any] = []
        for parts_of_row in inputs:
            numbers = [in_all_lanes(builder, builder.load(builder.gep(part, [i])), vector) for part in parts_of_row]
            new += [add_product(sums[len(new) + v], *numbers, each) for v, each in enumerate(w)]
        return new

    def all_steps(ahead: bool) -> list[Any]:
        return loop_over(builder, steps, start * rows, partial(step, ahead=ahead))

    if lanes == 16:  # asking ahead costs a tenth where the weights are in the cache
        return all_steps(False)
    is_first = builder.icmp_unsigned("==", builder.or_(row, within), number(0))  # tile that reads the group
    is_large = builder.icmp_unsigned(">=", weights.nitems, number(LARGE))
    found = []
    with builder.if_else(builder.and_(is_first, is_large)) as branches:
        for branch, ahead in zip(branches, (True, False), strict=True):
            with branch:
                found.append((all_steps(ahead), builder.block))
    sums = [builder.phi(each.type) for each in found[0][0]]
    for of_branch, block in found:
        for phi, total in zip(sums, of_branch, strict=True):
            phi.add_incoming(total, block)
    return sums


def vectors_from(builder: Any, array: Any, first: Any, rows: int, vector: Any) -> list[Any]:
    """The vectors of a tile of array[first:].  Shapes: array [N]"""
    places = [builder.add(first, number(v)) for v in range(0, width_of_tile(rows, vector.count), vector.count)]
    return [load(builder, builder.gep(array.data, [place]), vector) for place in places]


def product_of_tile(rows: int, lanes: int) -> Callable[..., None]:
    """A function for the outputs of a tile, of `rows` rows."""
    vector = ir.VectorType(F32, lanes)

    @intrinsic
    def product(
        typing_context: Any, x: Any, row: Any, weights: Any, steps: Any, bias: Any, output: Any, y: Any, y_row: Any,
        least: Any,
    ) -> Any:  # fmt: skip
        """y[y_row + r, output + o] = max(bias[output + o] + Σ x[row + r] · weights[output + o], least)

        Shapes: as `linear_of_tiles`
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, weights, bias, y = (make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 4, 6))
            row, steps, output, y_row = (arguments[i] for i in (1, 3, 5, 7))
            least = in_all_lanes(builder, arguments[8], vector)

            def add_product(total: Any, x: Any, w: Any) -> Any:
                return fused(builder, x, w, total)

            start = vectors_from(builder, bias, output, rows, vector)
            sums = sums_of_tile(builder, x, row, weights, steps, start, output, rows, vector, add_product)
            for place, total in enumerate(sums):
                r, v = divmod(place, len(start))
                column = builder.add(output, number(lanes * v))
                total = builder.select(builder.fcmp_ordered("<", total, least), least, total)  # NaN stays
                store(builder, total, element(builder, y, builder.add(y_row, number(r)), column))
            return context.get_dummy_value()

        index = types.intp
        return types.void(x, index, weights, index, bias, index, y, index, types.float32), generate

    return product


OF_TWO, OF_FOUR = (width_of_tile(rows, LANES) for rows in (2, 4))
of_one, of_two, of_four = (product_of_tile(rows, LANES) for rows in (1, 2, 4))


@compiled_inside
def linear_of_tiles(
    x: Array, rows: int, weights: Array, n_in: int, bias: Array, relu: bool, y: Array, first: int
) -> None:
    """y[first + r] = x[r] Wᵀ + bias, or max(x[r] Wᵀ + bias, 0), r < rows.

    Shapes: x [≥ R, ≥ in], weights [≥ out / 64 · in · 64], bias [out], y [≥ first + R, out] (written), out being a
    multiple of 64
    """
    whole, least = rows // 4 * 4, f4(0) if relu else f4(-np.inf)
    for group in range(0, bias.size, OUTPUTS):
        for output in range(group, group + OUTPUTS, OF_FOUR):
            for row in range(0, whole, 4):
                of_four(x, row, weights, n_in, bias, output, y, first + row, least)
        if rows - whole >= 2:
            for output in range(group, group + OUTPUTS, OF_TWO):
                of_two(x, whole, weights, n_in, bias, output, y, first + whole, least)
        if rows % 2:
            of_one(x, rows - 1, weights, n_in, bias, group, y, first + rows - 1, least)


@intrinsic
def dot(typing_context: Any, x: Any, row: Any, column: Any, y: Any, y_row: Any, y_column: Any, size: Any) -> Any:
    """Σ x[row, column + i] · y[y_row, y_column + i], i < size, a multiple of 16 and a rest.  Shapes: x, y [R, …]"""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(F32, 16)
        x, y = (make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 3))
        size = arguments[6]
        a, b = element(builder, x, *arguments[1:3]), element(builder, y, *arguments[4:6])
        whole = builder.sdiv(size, number(16))

        def step(i: Any, sums: list[Any]) -> list[Any]:
            at = builder.mul(i, number(16))
            x, y = (load(builder, builder.gep(each, [at]), vector) for each in (a, b))
            return [fused(builder, x, y, sums[0])]

        zero = ir.Constant(vector, [ir.Constant(F32, 0.0)] * 16)
        (total,) = loop_over(builder, whole, [zero], step)
        for half in (8, 4, 2, 1):
            kind = ir.VectorType(I32, half)
            low, high = (
                builder.shuffle_vector(total, total, ir.Constant(kind, [ir.Constant(I32, i + j) for i in range(half)]))
                for j in (0, half)
            )
            total = builder.fadd(low, high)
        done = builder.mul(whole, number(16))

        def rest(i: Any, sums: list[Any]) -> list[Any]:
            x, y = (builder.load(builder.gep(each, [builder.add(i, done)])) for each in (a, b))
            return [fused(builder, x, y, sums[0])]

        begun = builder.extract_element(total, ir.Constant(I32, 0))
        return loop_over(builder, builder.sub(size, done), [begun], rest)[0]

    index = types.intp
    return types.float32(x, index, index, y, index, index, index), generate


@intrinsic
def weighted_sum(
    typing_context: Any, weights: Any, places: Any, values: Any, column: Any, size: Any, y: Any, row: Any, y_column: Any
) -> Any:
    """y[row, y_column + i] = Σ weights[s] · values[places[s], column + i], i < size

    Shapes: weights [≥ S], places int64 [S], values [N, …], y [R, …]
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights, places, values, y = (
            make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 1, 2, 5)
        )
        column, size, row, y_column = (arguments[i] for i in (3, 4, 6, 7))
        count = builder.extract_value(places.shape, 0)

        def columns(width: int, begin: Any, vectors: Any) -> None:
            """Columns from `begin` on, in vectors of a width."""
            kind = ir.VectorType(F32, width)

            def of_vector(i: Any, none: list[Any]) -> list[Any]:
                offset = builder.add(begin, builder.mul(i, number(width)))

                def step(s: Any, sums: list[Any]) -> list[Any]:
                    place = builder.load(builder.gep(places.data, [s]))
                    value = load(builder, element(builder, values, place, builder.add(column, offset)), kind)
                    weight = in_all_lanes(builder, builder.load(builder.gep(weights.data, [s])), kind)
                    return [fused(builder, weight, value, sums[0])]

                (total,) = loop_over(builder, count, [ir.Constant(kind, [ir.Constant(F32, 0.0)] * width)], step)
                store(builder, total, element(builder, y, row, builder.add(y_column, offset)))
                return []

            loop_over(builder, vectors, [], of_vector)

        whole = builder.sdiv(size, number(16))
        done = builder.mul(whole, number(16))
        columns(16, number(0), whole)
        columns(1, done, builder.sub(size, done))
        return context.get_dummy_value()

    index = types.intp
    return types.void(weights, places, values, index, index, y, index, index), generate
