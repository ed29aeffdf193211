"""The layers of a small model that Numba compiles: the encoder, and the decoder of rows of hypotheses.

A row is computed alike whatever is computed beside it.  minitf/fast/inference.py has the same in array code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from autograd.fast import compiled_kernels as kernels
from autograd.fast.compiled_tiles import dot, linear_of_tiles, weighted_sum
from autograd.fast.compiling import compiled_exactly
from autograd.fast.low_precision import compiled_bf16, compiled_int8
from autograd.fast.low_precision.packed import OUTPUTS

Array = Any
f4 = np.float32

RELU, SILU = 0, 1
PART = 256  # elements of a row of logits that are summed in float32, before float64 takes over


def multiply(x: Array, rows: int, product: Any, layer: int, relu: bool, y: Array, first: int) -> None:
    """y[first + r] = x[r] Wᵀ + bias, or max(x[r] Wᵀ + bias, 0), r < rows, with the weights and the bias of a layer.

    product: weights of float32, [L, out / 64, in, 64], or of 8 or 16 bits, `packed` of search_weights.py; bias [L, out]

    Shapes: x [R, ≥ in], y [R, out], out being a multiple of 64
    """
    raise NotImplementedError("compiled code alone calls it")


@overload(multiply)
def _multiply(x: Any, rows: Any, product: Any, layer: Any, relu: Any, y: Any, first: Any) -> Any:
    if isinstance(product[0], types.Array):
        return _multiply_float32
    return _multiply_bf16 if len(product[0]) == 2 else _multiply_int8


def _multiply_float32(x: Any, rows: Any, product: Any, layer: Any, relu: Any, y: Any, first: Any) -> Any:
    weights, bias = product
    linear_of_tiles(x, weights[layer], bias[layer], relu, np.int64(0), bias.shape[1], y[first : first + rows])


def _multiply_bf16(x: Any, rows: Any, product: Any, layer: Any, relu: Any, y: Any, first: Any) -> Any:
    (groups, n_in), bias = product
    pairs = np.empty((rows, groups.shape[2]), np.int32)
    compiled_bf16.pack_rows(x[:rows].view(np.uint32), 0, n_in, pairs.view(np.uint16))
    linear_of_tiles(pairs, groups[layer], bias[layer], relu, np.int64(0), bias.shape[1], y[first : first + rows])


def _multiply_int8(x: Any, rows: Any, product: Any, layer: Any, relu: Any, y: Any, first: Any) -> Any:
    (groups, n_in, start, factors), bias = product
    q, of_inputs = np.empty((rows, compiled_int8.PARTS * groups.shape[2]), np.int32), np.empty(rows, f4)
    compiled_int8.quantise_inputs(x[:rows], n_in, q, of_inputs)
    compiled_int8.linear_int8(
        q, of_inputs, groups[layer], start[layer], factors[layer], bias[layer], relu, np.int64(0), bias.shape[1],
        y[first : first + rows],
    )  # fmt: skip


@compiled_exactly
def add_norm(x: Array, y: Array, rows: int, norm: Array, eps: Any, ones: Array, out: Array) -> None:
    """out = LayerNorm(x + y), or, without rows of y, LayerNorm(x).  Shapes: [R, ≥ D], norm [2, D], ones [1, ≥ D]"""
    width = norm.shape[1]
    for r in range(rows):
        to = out[r]
        for i in range(width):
            to[i] = x[r, i] + y[r, i] if len(y) else x[r, i]
        mean = dot(out, r, 0, ones, 0, 0, width) / f4(width)
        for i in range(width):
            to[i] -= mean
        inverse = f4(1) / np.sqrt(dot(out, r, 0, out, r, 0, width) / f4(width) + eps)
        for i in range(width):
            to[i] = to[i] * inverse * norm[0, i] + norm[1, i]


@compiled_exactly
def attend(
    q: Array, row: int, column: int, memory: Array, places: Array, columns: Any, shape: Any, weights: Array, y: Array
) -> None:
    """Attention of one row, to rows of `memory`, whose columns have keys and values of all heads.

    columns: where keys and values begin
    shape: heads, d_k, d_v, factor on dot products

    Shapes: q [R, …], memory [N, …], places int64 [S], weights [≥ S] (overwritten), y [R, ≥ H · d_v]
    """
    heads, d_k, d_v, scale = shape
    count = len(places)
    for h in range(heads):
        top = f4(-np.inf)
        for s in range(count):
            score = dot(q, row, column + h * d_k, memory, places[s], columns[0] + h * d_k, d_k) * scale
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
        weighted_sum(weights, places, memory, columns[1] + h * d_v, d_v, y, row, h * d_v)


@compiled_exactly
def feed_forward(x: Array, rows: int, up: Any, down: Any, layer: int, activation: int, hidden: Array, y: Array) -> None:
    """Shapes: x [R, ≥ D], hidden [R, F, padded] (overwritten), y [R, D, padded] (written)"""
    multiply(x, rows, up, layer, activation != SILU, hidden, 0)
    if activation == SILU:
        for r in range(rows):
            some = hidden[r]
            for i in range(some.size):
                e = kernels.exp(-abs(some[i]))
                some[i] *= (f4(1) if some[i] > 0 else e) / (f4(1) + e)
    multiply(hidden, rows, down, layer, False, y, 0)


@compiled_exactly
def after(x: Array, y: Array, rows: int, norm: Array, eps: Any, norm_first: bool, ones: Array) -> None:
    """x becomes what the residual connection makes of it and y.  Shapes: x, y [R, ≥ D]"""
    if norm_first:
        for r in range(rows):
            for i in range(norm.shape[1]):
                x[r, i] += y[r, i]
    else:
        add_norm(x, y, rows, norm, eps, ones, x)


@compiled_exactly
def encode(x: Array, ends: Array, layers: Any, shape: Any, settings: Any) -> Array:
    """Return the encoder, over the tokens of all sentences, without padding.

    ends: of each sentence, the index after its last token

    Shapes: x [N, D, padded] (overwritten), ends int64 [B] -> [N, D, padded]
    """
    inward, outward, up, down, norms, last = layers
    norm_first, activation, eps = settings
    heads, d_k, d_v, _ = shape
    tokens, longest = len(x), 0
    for b in range(len(ends)):
        longest = max(longest, ends[b] - (ends[b - 1] if b else 0))
    ones, nothing = np.ones((1, x.shape[1]), f4), np.zeros((0, 1), f4)
    weights, places = np.empty(longest, f4), np.arange(tokens)
    qkv, hidden = np.empty((tokens, inward[1].shape[1]), f4), np.empty((tokens, up[1].shape[1]), f4)
    heads_joined, y, before = np.empty((tokens, padded_to(heads * d_v)), f4), np.empty_like(x), np.empty_like(x)
    columns = heads * d_k, 2 * heads * d_k
    for layer in range(len(norms)):
        given = x
        if norm_first:
            add_norm(x, nothing, tokens, norms[layer, 0], eps, ones, before)
            given = before
        multiply(given, tokens, inward, layer, False, qkv, 0)
        start = 0
        for b in range(len(ends)):
            of_sentence = places[start : ends[b]]
            for row in range(start, ends[b]):
                attend(qkv, row, 0, qkv, of_sentence, columns, shape, weights, heads_joined)
            start = ends[b]
        multiply(heads_joined, tokens, outward, layer, False, y, 0)
        after(x, y, tokens, norms[layer, 0], eps, norm_first, ones)
        if norm_first:
            add_norm(x, nothing, tokens, norms[layer, 1], eps, ones, before)
        feed_forward(given, tokens, up, down, layer, activation, hidden, y)
        after(x, y, tokens, norms[layer, 1], eps, norm_first, ones)
    if norm_first:
        add_norm(x, nothing, tokens, last, eps, ones, x)
    return x


@compiled_exactly
def padded_to(width: int) -> int:
    """`padded`, of positive numbers."""
    return (width + OUTPUTS - 1) // OUTPUTS * OUTPUTS


def embed(tokens: Array, positions: Array, table: Any, encodings: Array, scale: Any, x: Array) -> None:
    """x = table[tokens] · scale + encodings[positions]

    table: float32 [V, D]; the groups of `BFloat16Weights`; or groups and factors of `Int8Weights`

    Shapes: tokens, positions int64 [R], encodings [T, D], x [≥ R, ≥ D] (written)
    """
    raise NotImplementedError("compiled code alone calls it")


@overload(embed)
def _embed(tokens: Any, positions: Any, table: Any, encodings: Any, scale: Any, x: Any) -> Any:
    if isinstance(table, types.BaseTuple):
        return _embed_int8
    return _embed_bf16 if table.dtype == types.uint16 else _embed_float32


def _embed_int8(tokens: Any, positions: Any, table: Any, encodings: Any, scale: Any, x: Any) -> Any:
    groups, factors = table
    for r in range(len(tokens)):
        token, of_position = tokens[r], encodings[positions[r]]
        group, place, factor = groups[token // OUTPUTS], token % OUTPUTS, factors[token]
        for i in range(of_position.size):
            x[r, i] = f4(group[i // 4, place, i % 4]) * factor * scale + of_position[i]


def _embed_bf16(tokens: Any, positions: Any, table: Any, encodings: Any, scale: Any, x: Any) -> Any:
    for r in range(len(tokens)):
        group, place, of_position = table[tokens[r] // OUTPUTS], tokens[r] % OUTPUTS, encodings[positions[r]]
        bits = x[r].view(np.uint32)
        for i in range(of_position.size):
            bits[i] = np.uint32(group[i // 2, place, i % 2]) << np.uint32(16)
        for i in range(of_position.size):
            x[r, i] = x[r, i] * scale + of_position[i]


def _embed_float32(tokens: Any, positions: Any, table: Any, encodings: Any, scale: Any, x: Any) -> Any:
    for r in range(len(tokens)):
        of_token, of_position = table[tokens[r]], encodings[positions[r]]
        for i in range(of_token.size):
            x[r, i] = of_token[i] * scale + of_position[i]


@compiled_exactly
def embed_tokens(tokens: Array, positions: Array, embedding: Any, x: Array) -> None:
    """`embed`, with table, encodings and factor as one."""
    table, encodings, scale = embedding
    embed(tokens, positions, table, encodings, scale, x)


# ---- The decoder ----


@compiled_exactly
def project_memory(memory: Array, product: Any) -> Array:
    """Keys and values of the source, of every layer.  Shapes: memory [N, D, padded] -> [L, N, out]"""
    layers, width = product[1].shape
    sources = np.empty((layers, len(memory), width), f4)
    for layer in range(layers):
        multiply(memory, len(memory), product, layer, False, sources[layer], 0)
    return sources


@compiled_exactly
def decode_rows(
    rows: int, position: int, node_count: int, path: Array, alive: Array, rows_each: int, ends: Array, layers: Any,
    shape: Any, settings: Any, sources: Array, nodes: Array, work: Any,
) -> Array:  # fmt: skip
    """Return the decoder's output for the newest token of each hypothesis, which is in the first array of `work`.

    path: the nodes that a row attends to, `position` of them, the last its own; alive, rows_each, ends: as in `search`
    sources, nodes: keys and values of the source, and queries, keys and values of the tokens (written), of every layer

    Shapes: path int64 [≥ rows, ≥ position], sources [layers, N, …], nodes [layers, ≥ node_count + rows, …]
    """
    inward, outward, query, _, cross, up, down, norms, last = layers
    norm_first, activation, eps = settings
    heads, d_k, _, _ = shape
    own_columns, source_columns = (heads * d_k, 2 * heads * d_k), (np.int64(0), heads * d_k)
    source_places = np.arange(ends[-1])
    x, y, before, hidden, joined, q, weights, ones, nothing = work
    given = before if norm_first else x
    for layer in range(len(norms)):
        if norm_first:
            add_norm(x, nothing, rows, norms[layer, 0], eps, ones, before)
        own = nodes[layer]
        multiply(given, rows, inward, layer, False, own, node_count)
        for row in range(rows):
            attend(own[node_count:], row, 0, own, path[row, :position], own_columns, shape, weights, joined)
        multiply(joined, rows, outward, layer, False, y, 0)
        after(x, y, rows, norms[layer, 0], eps, norm_first, ones)
        if norm_first:
            add_norm(x, nothing, rows, norms[layer, 1], eps, ones, before)
        multiply(given, rows, query, layer, False, q, 0)
        for row in range(rows):
            b = alive[row // rows_each]
            of_source = source_places[(ends[b - 1] if b else 0) : ends[b]]
            attend(q, row, 0, sources[layer], of_source, source_columns, shape, weights, joined)
        multiply(joined, rows, cross, layer, False, y, 0)
        after(x, y, rows, norms[layer, 1], eps, norm_first, ones)
        if norm_first:
            add_norm(x, nothing, rows, norms[layer, 2], eps, ones, before)
        feed_forward(given, rows, up, down, layer, activation, hidden, y)
        after(x, y, rows, norms[layer, 2], eps, norm_first, ones)
    if norm_first:
        add_norm(x, nothing, rows, last, eps, ones, before)
    return given


@compiled_exactly
def work_of_rows(rows: int, places: int, widths: Any) -> Any:
    """Return the `work` of `decode_rows`.  widths: of x, of the hidden layer, of joined heads, of queries"""
    width, of_hidden, of_heads, of_queries = widths
    x, y, before = np.empty((rows, width), f4), np.empty((rows, width), f4), np.empty((rows, width), f4)
    hidden, joined, q = (
        np.empty((rows, of_hidden), f4),
        np.empty((rows, of_heads), f4),
        np.empty((rows, of_queries), f4),
    )
    ones, nothing = np.ones((1, max(width, PART)), f4), np.zeros((0, 1), f4)
    return x, y, before, hidden, joined, q, np.empty(places, f4), ones, nothing
