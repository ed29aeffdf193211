"""The layers of a small model that Numba compiles, of encoder and decoder alike, for rows of tokens or hypotheses.

A row is computed alike whatever is computed beside it.  minitf/fast/inference.py has the same in array code.

Compiling takes about as long as a function and those that it calls have arrays, tuples and calls of NumPy: here is one
function for all layers, and the arrays that it works in are made by its caller.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from autograd.fast import compiled_int8
from autograd.fast import compiled_kernels as kernels
from autograd.fast.compiled_tiles import dot, linear_of_tiles, weighted_sum
from autograd.fast.compiling import compiled_inside
from autograd.fast.int8 import OUTPUTS

Array = Any
f4 = np.float32

# Numbers that are arguments have a type of NumPy's: for 0, Numba would compile a function that it has for 1 once more
RELU, SILU = 0, 1
ADD_NORM, NORM, ADD = map(np.int64, range(3))
LINEAR = np.bool_(False)  # whether a product ends in ReLU
PART = 256  # elements of a row of logits that are summed in float32, before float64 takes over

# Where the numbers of a stack of layers are: places[product or norm, layer] of these kinds
INWARD, OUTWARD, UP, DOWN, QUERY, CROSS, MEMORY, LOGITS, NORMS, LAST = map(np.int64, range(10))
# The first word or number of each, and sizes; a norm has the first alone
WEIGHTS, INPUTS, OUT, BIAS, START, FACTORS = range(6)
ENCODER, DECODER = map(np.int64, range(2))

# Columns of rows of tokens: the token and its position, and from where to where `attend` finds keys and values
TOKEN, POSITION, OWN, SOURCE = map(np.int64, (0, 1, 2, 5))


def multiply(x: Array, rows: int, model: Any, at: Any, relu: Any, y: Array, first: Any) -> None:
    """y[first + r] = x[r] Wᵀ + bias, or max(x[r] Wᵀ + bias, 0), r < rows, with the weights and the bias of a layer.

    model: places int64 [stacks, kinds, L, 6], numbers float32 [N]; with weights in 8 bits, words int32 [N], too
    at: stack, product, layer

    Shapes: x [R, ≥ in], y [R, out], out being a multiple of 64
    """
    raise NotImplementedError("compiled code alone calls it")


@overload(multiply)
def _multiply(x: Any, rows: Any, model: Any, at: Any, relu: Any, y: Any, first: Any) -> Any:
    return _multiply_float32 if len(model) == 2 else _multiply_int8


def _multiply_float32(x: Any, rows: Any, model: Any, at: Any, relu: Any, y: Any, first: Any) -> Any:
    places, numbers = model
    here = places[at]
    n_in, out, first_weight, first_bias = here[INPUTS], here[OUT], here[WEIGHTS], here[BIAS]
    bias = numbers[first_bias : first_bias + out]
    linear_of_tiles(x, rows, numbers[first_weight:], n_in, bias, relu, y, first)


def _multiply_int8(x: Any, rows: Any, model: Any, at: Any, relu: Any, y: Any, first: Any) -> Any:
    places, numbers, words = model
    here = places[at]
    n_in, out, first_bias = here[INPUTS], here[OUT], here[BIAS]
    q, of_inputs = np.empty((rows, compiled_int8.PARTS * ((n_in + 3) // 4)), np.int32), np.empty(rows, f4)
    compiled_int8.quantise_inputs(x[:rows], n_in, q, of_inputs)
    weights, start, factors = words[here[WEIGHTS] :], words[here[START] :], numbers[here[FACTORS] :]
    bias = numbers[first_bias : first_bias + out]
    compiled_int8.linear_int8(q, of_inputs, weights, start, factors, bias, relu, np.int64(0), out, y, first)


@compiled_inside
def add_norm(
    x: Array, y: Array, rows: int, numbers: Array, place: int, width: int, eps: Any, how: int, ones: Array, out: Array
) -> None:
    """out = LayerNorm(x + y), LayerNorm(x) or x + y, as `how` says; weight and bias are numbers[place:].

    Shapes: x, y, out [R, ≥ D], ones [1, ≥ D]
    """
    weight, bias = numbers[place:], numbers[place + width :]
    for r in range(rows):
        to = out[r]
        for i in range(width):
            to[i] = x[r, i] if how == NORM else x[r, i] + y[r, i]
        if how == ADD:
            continue
        mean = dot(out, r, 0, ones, 0, 0, width) / f4(width)
        for i in range(width):
            to[i] -= mean
        inverse = f4(1) / np.sqrt(dot(out, r, 0, out, r, 0, width) / f4(width) + eps)
        for i in range(width):
            to[i] = to[i] * inverse * weight[i] + bias[i]


@compiled_inside
def attend(
    rows: int, q: Array, first: int, memory: Array, places: Array, spans: Array, span: int, columns: Any, shape: Any,
    weights: Array, y: Array,
) -> None:  # fmt: skip
    """Attention of rows first … of q, each to rows of `memory`, whose columns have keys and values of all heads.

    places, spans: row r attends to places[i, start:end], where spans[r, span:] are i, start, end
    columns: where keys and values begin
    shape: heads, d_k, d_v, factor on dot products

    Shapes: q [≥ first + R, …], memory [N, …], places int64 [G, T], spans int64 [≥ R, 8], weights [≥ S] (overwritten),
    y [R, ≥ H · d_v]
    """
    heads, d_k, d_v, scale = shape
    for row in range(rows):
        here = places[spans[row, span], spans[row, span + 1] : spans[row, span + 2]]
        count = len(here)
        for h in range(heads):
            top = f4(-np.inf)
            for s in range(count):
                score = dot(q, first + row, h * d_k, memory, here[s], columns[0] + h * d_k, d_k) * scale
                weights[s] = score
                top = score if not score <= top else top  # NaN stays, or makes the sum NaN
            total = f4(0)
            for s in range(count):
                weights[s] = kernels.exp(weights[s] - top)
            for s in range(count):
                total += weights[s]
            inverse = f4(1) / total
            for s in range(count):
                weights[s] *= inverse
            weighted_sum(weights, here, memory, columns[1] + h * d_v, d_v, y, row, h * d_v)


@compiled_inside
def silu_(x: Array, rows: int) -> None:
    """x / (1 + e^-x).  Shapes: [≥ R, F] (overwritten)"""
    for r in range(rows):
        row = x[r]
        for i in range(row.size):
            e = kernels.exp(-abs(row[i]))
            row[i] *= (f4(1) if row[i] > 0 else e) / (f4(1) + e)


@compiled_inside
def transform(
    stack: int, rows: int, model: Any, shape: Any, settings: Any, own: Array, first: int, places: Array, spans: Array,
    sources: Array, source_places: Array, work: Any,
) -> Array:  # fmt: skip
    """Return what the layers of a stack make of the rows of the first array of `work`, which is overwritten.

    own: queries, keys and values of each row (written from `first` on), of each layer, or of one after the other
    sources: keys and values of the source, of every layer of a decoder; of none for an encoder
    places, source_places, spans: as in `attend`, from columns OWN and SOURCE on

    Shapes: own [L or 1, ≥ first + R, …], sources [L or 0, N, …] -> [≥ R, D, padded]
    """
    norm_first, activation, eps, width, depths = settings
    of_queries, numbers = shape[0] * shape[1], model[1]
    x, y, before, hidden, joined, q, weights, ones = work
    given, zero, norms = (before if norm_first else x), np.int64(0), model[0][stack, NORMS]
    ends = ADD if norm_first else ADD_NORM
    for layer in range(depths[stack]):
        norm, here = norms[layer, 0], own[layer % len(own)]
        if norm_first:
            add_norm(x, y, rows, numbers, norm, width, eps, NORM, ones, before)
        multiply(given, rows, model, (stack, INWARD, layer), LINEAR, here, first)
        attend(rows, here, first, here, places, spans, OWN, (of_queries, 2 * of_queries), shape, weights, joined)
        multiply(joined, rows, model, (stack, OUTWARD, layer), LINEAR, y, zero)
        add_norm(x, y, rows, numbers, norm, width, eps, ends, ones, x)
        if len(sources):
            norm += 2 * width
            if norm_first:
                add_norm(x, y, rows, numbers, norm, width, eps, NORM, ones, before)
            multiply(given, rows, model, (stack, QUERY, layer), LINEAR, q, zero)
            columns = zero, of_queries
            attend(rows, q, zero, sources[layer], source_places, spans, SOURCE, columns, shape, weights, joined)
            multiply(joined, rows, model, (stack, CROSS, layer), LINEAR, y, zero)
            add_norm(x, y, rows, numbers, norm, width, eps, ends, ones, x)
        norm += 2 * width
        if norm_first:
            add_norm(x, y, rows, numbers, norm, width, eps, NORM, ones, before)
        multiply(given, rows, model, (stack, UP, layer), activation != SILU, hidden, zero)
        if activation == SILU:
            silu_(hidden, rows)
        multiply(hidden, rows, model, (stack, DOWN, layer), LINEAR, y, zero)
        add_norm(x, y, rows, numbers, norm, width, eps, ends, ones, x)
    if norm_first:
        add_norm(x, y, rows, numbers, model[0][stack, LAST, 0, 0], width, eps, NORM, ones, before)
    return given


def embed(rows: Any, tokens: Any, x: Any, table: Any, encodings: Any, scale: Any) -> None:
    """x = table[token] · scale + encodings[position]

    table: float32 [V, D]; or groups and factors of `Int8Weights`

    Shapes: tokens int64 [≥ R, 8], encodings [T, D], x [≥ R, ≥ D] (written)
    """
    raise NotImplementedError("compiled code alone calls it")


@overload(embed)
def _embed(rows: Any, tokens: Any, x: Any, table: Any, encodings: Any, scale: Any) -> Any:
    return _embed_int8 if isinstance(table, types.BaseTuple) else _embed_float32


def _embed_int8(rows: Any, tokens: Any, x: Any, table: Any, encodings: Any, scale: Any) -> Any:
    groups, factors = table
    for r in range(rows):
        token, of_position = tokens[r, TOKEN], encodings[tokens[r, POSITION]]
        group, place, factor = groups[token // OUTPUTS], token % OUTPUTS, factors[token]
        for i in range(of_position.size):
            x[r, i] = f4(group[i // 4, place, i % 4]) * factor * scale + of_position[i]


def _embed_float32(rows: Any, tokens: Any, x: Any, table: Any, encodings: Any, scale: Any) -> Any:
    for r in range(rows):
        of_token, of_position = table[tokens[r, TOKEN]], encodings[tokens[r, POSITION]]
        for i in range(of_token.size):
            x[r, i] = of_token[i] * scale + of_position[i]
