"""Sums of products in vectors of the processor, for functions that `compiled_exactly` compiles.

The order of a sum depends on its length alone, and products are fused with sums where the processor can, so a result
does not depend on what is computed beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from autograd.fast.compiling import compiled_inside
from autograd.fast.int8 import OUTPUTS

Array = Any

FEATURES = (get_host_cpu_features() if config.CPU_FEATURES is None else config.CPU_FEATURES).split(",")
"""The features of the processor that Numba compiles for, as LLVM names them."""
LANES = 16 if "+avx512f" in FEATURES else 8  # numbers in a vector of float32

f4 = np.float32

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()


def number(value: int) -> Any:
    """Return a constant of 64 bits."""
    return ir.Constant(I64, value)


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


def fused(builder: Any, kind: Any) -> Any:
    """Return the function x · y + z, rounded once where the processor can."""
    return function_named(
        builder, f"llvm.fmuladd.{f'v{kind.count}f32' if isinstance(kind, ir.VectorType) else 'f32'}", kind
    )


def function_named(builder: Any, name: str, kind: Any) -> Any:
    """LLVM's function of three values of a kind."""
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(kind, [kind] * 3), name)


def loop_over(builder: Any, count: Any, begun: list[Any], step: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
    """Let `step` compute new values of each i < count from those before; return the last ones."""
    values = [cgutils.alloca_once_value(builder, each) for each in begun]
    with cgutils.for_range(builder, count) as loop:
        for value, new in zip(values, step(loop.index, [builder.load(each) for each in values]), strict=True):
            builder.store(new, value)
    return [builder.load(each) for each in values]


def width_of_tile(rows: int, lanes: int) -> int:
    """Outputs of a tile: 4 vectors of 16 of its 32 registers; 8 sums in vectors of 8, so few wait for each other."""
    return OUTPUTS if lanes == 16 else OUTPUTS // rows


def sums_of_tile(
    builder: Any, x: Any, row: Any, weights: Any, steps: Any, start: list[Any], output: Any, rows: int, vector: Any,
    add_product: Any, parts: int = 1,
) -> list[Any]:  # fmt: skip
    """start[o] + Σ x[row + r] · weights[output + o]: the vectors of a row, of one row after the other.

    vector: of elements of x and of weights
    add_product: (builder, sum, numbers of x in all lanes, weights) -> sum
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

    def step(i: Any, sums: list[Any]) -> list[Any]:
        here = builder.gep(of_tile, [builder.mul(i, number(OUTPUTS))])
        w = [load(builder, builder.gep(here, [number(lanes * v)]), vector) for v in range(vectors)]
        new: list[Any] = []
        for parts_of_row in inputs:
            numbers = [in_all_lanes(builder, builder.load(builder.gep(part, [i])), vector) for part in parts_of_row]
            new += [add_product(builder, sums[len(new) + v], *numbers, each) for v, each in enumerate(w)]
        return new

    return loop_over(builder, steps, start * rows, step)


def vectors_from(builder: Any, array: Any, first: Any, rows: int, vector: Any) -> list[Any]:
    """The vectors of a tile of array[first:].  Shapes: array [N]"""
    places = [builder.add(first, number(v)) for v in range(0, width_of_tile(rows, vector.count), vector.count)]
    return [load(builder, builder.gep(array.data, [place]), vector) for place in places]


def of_tiles(
    vector: Any, add_product: Callable[..., Any], finish: Callable[..., list[Any]], parts: int = 1
) -> Callable[..., None]:
    """Return a function that computes the outputs of rows of x, tile by tile, from sums of products.

    vector: of elements of x and of weights
    add_product: see `sums_of_tile`
    finish: (builder, rows, row, output, sums of a tile, others) -> its outputs, in vectors of float32
    """
    lanes = vector.count

    def tile(rows: int) -> Callable[..., None]:
        @intrinsic
        def product(
            typing_context: Any, x: Any, row: Any, weights: Any, steps: Any, start: Any, output: Any, y: Any,
            y_row: Any, others: Any,
        ) -> Any:  # fmt: skip
            """y[y_row + r, output + o] = finished(start[output + o] + Σ x[row + r] · weights[output + o])"""

            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                def opened(kind: Any, value: Any) -> Any:
                    return make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value

                x, row, weights, steps, start, output, y, y_row = map(opened, signature.args[:8], arguments[:8])
                given = enumerate(signature.args[8].types)
                others = [opened(kind, builder.extract_value(arguments[8], i)) for i, kind in given]
                begun = vectors_from(builder, start, output, rows, vector)
                sums = sums_of_tile(builder, x, row, weights, steps, begun, output, rows, vector, add_product, parts)
                for place, total in enumerate(finish(builder, rows, row, output, sums, *others)):
                    r, v = divmod(place, len(begun))
                    y_place = builder.add(y_row, number(r)), builder.add(output, number(lanes * v))
                    store(builder, total, element(builder, y, *y_place))
                return context.get_dummy_value()

            index = types.intp
            return types.void(x, index, weights, index, start, index, y, index, others), generate

        return product

    of_one, of_two, of_four = (tile(rows) for rows in (1, 2, 4))
    two, four = (width_of_tile(rows, lanes) for rows in (2, 4))

    @compiled_inside
    def outputs(
        x: Array, rows: int, weights: Array, steps: int, start: Array, first: int, end: int, y: Array, y_row: int,
        others: Any,
    ) -> None:  # fmt: skip
        whole = rows // 4 * 4
        for group in range(first, end, OUTPUTS):
            for output in range(group, group + OUTPUTS, four):
                for row in range(0, whole, 4):
                    of_four(x, row, weights, steps, start, output, y, y_row + row, others)
            if rows - whole >= 2:
                for output in range(group, group + OUTPUTS, two):
                    of_two(x, whole, weights, steps, start, output, y, y_row + whole, others)
            if rows % 2:
                of_one(x, rows - 1, weights, steps, start, group, y, y_row + rows - 1, others)

    return outputs


def at_least(builder: Any, vector: Any, least: Any) -> Any:
    """max(vector, least); NaN stays."""
    return builder.select(builder.fcmp_ordered("<", vector, least), least, vector)


def _add_product(builder: Any, total: Any, x: Any, w: Any) -> Any:
    return builder.call(fused(builder, total.type), [x, w, total])


def _finish(builder: Any, rows: int, row: Any, output: Any, sums: list[Any], least: Any) -> list[Any]:
    return [at_least(builder, each, in_all_lanes(builder, least, each.type)) for each in sums]


_outputs = of_tiles(ir.VectorType(F32, LANES), _add_product, _finish)


@compiled_inside
def linear_of_tiles(
    x: Array, rows: int, weights: Array, n_in: int, bias: Array, relu: bool, y: Array, first: int
) -> None:
    """y[first + r] = x[r] Wᵀ + bias, or max(x[r] Wᵀ + bias, 0), r < rows.

    Shapes: x [≥ R, ≥ in], weights [≥ out / 64 · in · 64], bias [out], y [≥ first + R, out] (written), out being a
    multiple of 64
    """
    least = f4(0) if relu else f4(-np.inf)
    _outputs(x, rows, weights, n_in, bias, np.int64(0), bias.size, y, first, (least,))


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
            return [builder.call(fused(builder, vector), [x, y, sums[0]])]

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
            return [builder.call(fused(builder, F32), [x, y, sums[0]])]

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

        def columns(kind: Any, offset: Any) -> None:
            """The columns of one vector, from an offset on."""

            def step(s: Any, sums: list[Any]) -> list[Any]:
                place = builder.load(builder.gep(places.data, [s]))
                value = load(builder, element(builder, values, place, builder.add(column, offset)), kind)
                weight = in_all_lanes(builder, builder.load(builder.gep(weights.data, [s])), kind)
                return [builder.call(fused(builder, kind), [weight, value, sums[0]])]

            zero = ir.Constant(kind, [ir.Constant(F32, 0.0)] * kind.count)
            (total,) = loop_over(builder, count, [zero], step)
            store(builder, total, element(builder, y, row, builder.add(y_column, offset)))

        whole = builder.sdiv(size, number(16))
        done = builder.mul(whole, number(16))

        def vectors(i: Any, none: list[Any]) -> list[Any]:
            columns(ir.VectorType(F32, 16), builder.mul(i, number(16)))
            return []

        def singles(i: Any, none: list[Any]) -> list[Any]:
            columns(ir.VectorType(F32, 1), builder.add(i, done))
            return []

        loop_over(builder, whole, [], vectors)
        loop_over(builder, builder.sub(size, done), [], singles)
        return context.get_dummy_value()

    index = types.intp
    return types.void(weights, places, values, index, index, y, index, index), generate
