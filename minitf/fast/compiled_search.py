"""`beam_search` of a small model as two functions that Numba compiles, from token ids to translations.

They hold no interpreter lock, so that batches run on all threads.  minitf/decoding/search.py defines what is found; a
step there is hundreds of calls, which take longer than the arithmetic where a model is small.  Results differ by
rounding.  A row is computed alike whatever is computed beside it, so the results for a sentence do not depend on the
others in its batch, to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from autograd.fast import compiled_int8
from autograd.fast import compiled_kernels as kernels
from autograd.fast.compiled_tiles import LANES, dot, product_of_tile, weighted_sum
from autograd.fast.compiling import compiled_exactly
from autograd.fast.int8 import INPUTS, OUTPUTS
from minitf.config.model import BOS, EOS

Array = Any
f4 = np.float32

RELU, SILU = 0, 1
PART = 256  # elements of a row of logits that are summed in float32, before float64 takes over
WIDTH = 64 if LANES == 16 else 16  # outputs of a tile of float32
of_one, of_two, of_four = (product_of_tile(rows, LANES) for rows in (1, 2, 4))

DONE, BROKEN = 0, 1  # the search: it has ended; a number is not finite, or nothing can follow


# ---- Layers ----


def multiply(x: Array, rows: int, weights: Any, bias: Array, layer: int, relu: bool, y: Array, first: int) -> None:
    """y[first + r] = x[r] Wᵀ + bias, or max(x[r] Wᵀ + bias, 0), r < rows, with the weights and the bias of a layer.

    weights: of float32, [L, out / 64, in, 64], or of 8 bits: `in_int8` of fast/search.py

    Shapes: x [R, ≥ in], bias [L, out], y [R, out], out being a multiple of 64
    """
    raise NotImplementedError("compiled code alone calls it")


@overload(multiply)
def _multiply(x: Any, rows: Any, weights: Any, bias: Any, layer: Any, relu: Any, y: Any, first: Any) -> Any:
    return _multiply_int8 if isinstance(weights, types.BaseTuple) else _multiply_float32


def _multiply_int8(x: Any, rows: Any, weights: Any, bias: Any, layer: Any, relu: Any, y: Any, first: Any) -> Any:
    multiply_int8(x, rows, weights, bias[layer], layer, relu, y, first)


def _multiply_float32(x: Any, rows: Any, weights: Any, bias: Any, layer: Any, relu: Any, y: Any, first: Any) -> Any:
    multiply_float32(x, rows, weights[layer], bias[layer], relu, y, first)


@compiled_exactly
def multiply_int8(x: Array, rows: int, weights: Any, bias: Array, layer: int, relu: bool, y: Array, first: int) -> None:
    """See `multiply`."""
    groups, start, factors, n_in = weights
    q, of_inputs = np.empty((rows, 4 * groups.shape[2]), np.uint8), np.empty(rows, f4)
    compiled_int8.quantise_inputs(x[:rows], n_in, q, of_inputs)
    compiled_int8.linear_int8(
        q.view(np.int32), of_inputs, groups[layer], start[layer], factors[layer], bias, relu, np.int64(0), bias.size,
        y[first : first + rows],
    )  # fmt: skip


@compiled_exactly
def multiply_float32(x: Array, rows: int, weights: Array, bias: Array, relu: bool, y: Array, first: int) -> None:
    """See `multiply`.  Shapes: weights [out / 64, in, 64], bias [out]"""
    for output in range(0, OUTPUTS * len(weights), WIDTH):
        row = 0
        while row + 4 <= rows:
            of_four(x, row, weights, bias, output, y, first + row, output)
            row += 4
        if row + 2 <= rows:
            of_two(x, row, weights, bias, output, y, first + row, output)
            row += 2
        if row < rows:
            of_one(x, row, weights, bias, output, y, first + row, output)
    if relu:
        for r in range(first, first + rows):
            some = y[r]
            for i in range(some.size):
                some[i] = f4(0) if some[i] < f4(0) else some[i]  # NaN stays


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
def feed_forward(x: Array, rows: int, products: Any, layer: int, activation: int, hidden: Array, y: Array) -> None:
    """Shapes: x [R, ≥ D], hidden [R, F, padded] (overwritten), y [R, D, padded] (written)"""
    up, up_bias, down, down_bias = products
    multiply(x, rows, up, up_bias, layer, activation != SILU, hidden, 0)
    if activation == SILU:
        for r in range(rows):
            some = hidden[r]
            for i in range(some.size):
                e = kernels.exp(-abs(some[i]))
                some[i] *= (f4(1) if some[i] > 0 else e) / (f4(1) + e)
    multiply(hidden, rows, down, down_bias, layer, False, y, 0)


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
    inward, inward_bias, outward, outward_bias, up, up_bias, down, down_bias, norms, last = layers
    norm_first, activation, eps = settings
    heads, d_k, d_v, _ = shape
    tokens, longest = len(x), 0
    for b in range(len(ends)):
        longest = max(longest, ends[b] - (ends[b - 1] if b else 0))
    ones, nothing = np.ones((1, x.shape[1]), f4), np.zeros((0, 1), f4)
    weights, places = np.empty(longest, f4), np.arange(tokens)
    qkv, hidden = np.empty((tokens, inward_bias.shape[1]), f4), np.empty((tokens, up_bias.shape[1]), f4)
    heads_joined, y, before = np.empty((tokens, padded_to(heads * d_v)), f4), np.empty_like(x), np.empty_like(x)
    columns = heads * d_k, 2 * heads * d_k
    for layer in range(len(inward_bias)):
        given = x
        if norm_first:
            add_norm(x, nothing, tokens, norms[layer, 0], eps, ones, before)
            given = before
        multiply(given, tokens, inward, inward_bias, layer, False, qkv, 0)
        start = 0
        for b in range(len(ends)):
            of_sentence = places[start : ends[b]]
            for row in range(start, ends[b]):
                attend(qkv, row, 0, qkv, of_sentence, columns, shape, weights, heads_joined)
            start = ends[b]
        multiply(heads_joined, tokens, outward, outward_bias, layer, False, y, 0)
        after(x, y, tokens, norms[layer, 0], eps, norm_first, ones)
        if norm_first:
            add_norm(x, nothing, tokens, norms[layer, 1], eps, ones, before)
        feed_forward(given, tokens, (up, up_bias, down, down_bias), layer, activation, hidden, y)
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

    table: float32 [V, D], or of 8 bits: groups and factors of `Int8Weights`

    Shapes: tokens, positions int64 [R], encodings [T, D], x [≥ R, ≥ D] (written)
    """
    raise NotImplementedError("compiled code alone calls it")


@overload(embed)
def _embed(tokens: Any, positions: Any, table: Any, encodings: Any, scale: Any, x: Any) -> Any:
    return _embed_int8 if isinstance(table, types.BaseTuple) else _embed_float32


def _embed_int8(tokens: Any, positions: Any, table: Any, encodings: Any, scale: Any, x: Any) -> Any:
    groups, factors = table
    for r in range(len(tokens)):
        token, of_position = tokens[r], encodings[positions[r]]
        group, place, factor = groups[token // OUTPUTS], token % OUTPUTS, factors[token]
        for i in range(of_position.size):
            x[r, i] = f4(group[i // INPUTS, place, i % INPUTS]) * factor * scale + of_position[i]


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
def decode_rows(
    rows: int, position: int, node_count: int, path: Array, alive: Array, rows_each: int, ends: Array, layers: Any,
    shape: Any, settings: Any, sources: Array, nodes: Array, work: Any,
) -> Array:  # fmt: skip
    """Return the decoder's output for the newest token of each hypothesis, which is in the first array of `work`.

    path: the nodes that a row attends to, `position` of them, the last its own; alive, rows_each, ends: as in `search`
    sources, nodes: keys and values of the source, and queries, keys and values of the tokens (written), of every layer

    Shapes: path int64 [≥ rows, ≥ position], sources [layers, N, …], nodes [layers, ≥ node_count + rows, …]
    """
    (inward, inward_bias, outward, outward_bias, query, query_bias, _, _, cross, cross_bias, up, up_bias, down,
     down_bias, norms, last) = layers  # fmt: skip
    norm_first, activation, eps = settings
    heads, d_k, _, _ = shape
    own_columns, source_columns = (heads * d_k, 2 * heads * d_k), (np.int64(0), heads * d_k)
    source_places = np.arange(ends[-1])
    x, y, before, hidden, joined, q, weights, ones, nothing = work
    given = before if norm_first else x
    for layer in range(len(inward_bias)):
        if norm_first:
            add_norm(x, nothing, rows, norms[layer, 0], eps, ones, before)
        own = nodes[layer]
        multiply(given, rows, inward, inward_bias, layer, False, own, node_count)
        for row in range(rows):
            attend(own[node_count:], row, 0, own, path[row, :position], own_columns, shape, weights, joined)
        multiply(joined, rows, outward, outward_bias, layer, False, y, 0)
        after(x, y, rows, norms[layer, 0], eps, norm_first, ones)
        if norm_first:
            add_norm(x, nothing, rows, norms[layer, 1], eps, ones, before)
        multiply(given, rows, query, query_bias, layer, False, q, 0)
        for row in range(rows):
            b = alive[row // rows_each]
            of_source = source_places[(ends[b - 1] if b else 0) : ends[b]]
            attend(q, row, 0, sources[layer], of_source, source_columns, shape, weights, joined)
        multiply(joined, rows, cross, cross_bias, layer, False, y, 0)
        after(x, y, rows, norms[layer, 1], eps, norm_first, ones)
        if norm_first:
            add_norm(x, nothing, rows, norms[layer, 2], eps, ones, before)
        feed_forward(given, rows, (up, up_bias, down, down_bias), layer, activation, hidden, y)
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


@compiled_exactly
def twice_as_long(nodes: Array, count: int) -> Array:
    """Return the first `count` nodes in an array with room for twice as many.  Shapes: nodes [layers, N, …]"""
    grown = np.empty((nodes.shape[0], 2 * nodes.shape[1], nodes.shape[2]), f4)
    grown[:, :count] = nodes[:, :count]
    return grown


# ---- Candidates ----


@compiled_exactly
def largest_of_row(row: Array, size: int, barred: Array, ids: Array, values: Array, ones: Array) -> float:
    """Return the largest logits that are not barred, equal ones by id; ln Σ e^x of the whole row, which is overwritten.

    Shapes: row [1, ≥ V], barred bool [V], ids int64 [C], values [C] (written), ones [1, ≥ PART]
    """
    count, found, top = len(ids), 0, f4(-np.inf)
    for start in range(0, size, PART):
        part = row[0, start : min(start + PART, size)]
        most = kernels.largest(part)
        top = most if most > top else top
        if found == count and not most > values[count - 1]:
            continue  # nothing here is among the largest
        for i in range(part.size):
            x = part[i]
            if barred[start + i] or (found == count and not x > values[count - 1]):
                continue
            place = found if found < count else count - 1
            while place > 0 and x > values[place - 1]:
                values[place], ids[place] = values[place - 1], ids[place - 1]
                place -= 1
            values[place], ids[place] = x, start + i
            found = min(found + 1, count)
    total: Any = 0.0
    for start in range(0, size, PART):
        part = row[0, start : min(start + PART, size)]
        for i in range(part.size):
            part[i] = kernels.exp(part[i] - top)
        total += dot(row, 0, start, ones, 0, 0, part.size)
    return float(top) + math.log(total)


@compiled_exactly
def keep_finished(
    b: int, tokens: Array, length: int, log_probability: float, score: float, n_best: int, found: Any
) -> None:
    """Put a hypothesis among the n best of sentence b, behind equal ones.

    found: number of hypotheses [B], their tokens [B, n, T], lengths [B, n], log-probabilities and scores [B, n, 2]
    """
    counts, outputs, lengths, numbers = found
    place = counts[b]
    while place > 0 and score > numbers[b, place - 1, 1]:
        place -= 1
    if place >= n_best:
        return
    last = min(counts[b], n_best - 1)
    for i in range(last, place, -1):
        outputs[b, i], lengths[b, i], numbers[b, i] = outputs[b, i - 1], lengths[b, i - 1], numbers[b, i - 1]
    outputs[b, place, :length] = tokens[:length]
    lengths[b, place] = length
    numbers[b, place, 0], numbers[b, place, 1] = log_probability, score
    counts[b] = min(counts[b] + 1, n_best)


@compiled_exactly
def merge_candidates(
    rows: int, totals: Array, ids: Array, heads_of_rows: Array, best_row: Array, best_token: Array, best_total: Array
) -> None:
    """Find the best candidates of the rows of a sentence, each row's being sorted.

    Shapes: totals, ids [≥ rows, C], heads_of_rows int64 [≥ rows] (overwritten), best_… [C] (written)
    """
    heads_of_rows[:] = 0
    for c in range(len(best_row)):  # of equal ones, that of the lower row is the first
        best = -1
        for n in range(rows):
            if heads_of_rows[n] < len(best_row) and (
                best < 0 or totals[n, heads_of_rows[n]] > totals[best, heads_of_rows[best]]
            ):
                best = n
        place = heads_of_rows[best]
        best_row[c], best_token[c], best_total[c] = best, ids[best, place], totals[best, place]
        heads_of_rows[best] += 1


@compiled_exactly
def best_of_sentence(
    logits: Array, first: int, rows: int, log_probability: Array, barred: Array, ones: Array, best: Any, found: Any
) -> bool:
    """Find the best candidates of a sentence, of `rows` rows from `first` on; False if a number is not finite.

    best, found: of the sentence, and of each of its rows: see `merge_candidates`
    """
    ids, values, totals, heads_of_rows = found
    for n in range(rows):
        row = first + n
        log_total = largest_of_row(logits[row : row + 1], len(barred), barred, ids[n], values[n], ones)
        if not math.isfinite(log_total):
            return False
        for c in range(ids.shape[1]):
            totals[n, c] = log_probability[row] + min(values[n, c] - log_total, 0.0)
    merge_candidates(rows, totals, ids, heads_of_rows, *best)
    return True


# ---- The search ----


@compiled_exactly
def collect_finished(
    b: int, position: int, history: Array, best: Any, penalties: Array, n_best: int, beam: int, found: Any
) -> int:
    """Keep the candidates of sentence b that end; return how many of the best `beam` do.

    Shapes: history [rows of the sentence, ≥ position]; found: see `keep_finished`
    """
    best_row, best_token, best_total = best
    count = 0
    for c in range(len(best_token)):
        if best_token[c] == EOS and best_total[c] > -np.inf:
            count += c < beam
            score = best_total[c] / penalties[position]
            keep_finished(b, history[best_row[c]], position - 1, best_total[c], score, n_best, found)
    return count


@compiled_exactly
def extend(position: int, first: int, to: int, best: Any, chosen: Array, rows: Any, new_rows: Any) -> None:
    """Make the best candidates that do not end the hypotheses from row `to` on of `new_rows`.

    Those that end, and those that cannot be, follow as places are left.

    first: row of the sentence's first hypothesis in `rows`; rows: tokens, nodes and log-probability of each
    """
    (history, path, _), (new_history, new_path, new_log_probability) = rows, new_rows
    best_row, best_token, best_total = best
    count = 0
    for go_on in (True, False):
        for c in range(len(best_token)):
            if count < len(chosen) and (best_token[c] != EOS and best_total[c] > -np.inf) == go_on:
                chosen[count] = c
                count += 1
    for n in range(len(chosen)):
        c, of = chosen[n], first + best_row[chosen[n]]
        new_history[to + n, : position - 1] = history[of, : position - 1]
        new_history[to + n, position - 1] = best_token[c]
        new_path[to + n, :position] = path[of, :position]
        new_log_probability[to + n] = best_total[c] if best_token[c] != EOS else -np.inf


@compiled_exactly
def collect_cut(
    b: int, position: int, first: int, rows: Any, beam: int, penalty: float, n_best: int, found: Any
) -> bool:
    """Keep the hypotheses of sentence b, at its limit, none having ended; False if there is none.  rows: as `extend`"""
    history, _, log_probability = rows
    for row in range(first, first + beam):
        total = log_probability[row]
        if total > -np.inf and found[0][b] < n_best:
            keep_finished(b, history[row], position, total, total / penalty, n_best, found)
    return found[0][b] > 0


@compiled_exactly
def advance(
    position: int, alive: Array, rows_each: int, logits: Array, old: Any, new: Any, limits: Array, penalties: Array,
    barred: Array, rule: Any, ones: Array, best: Any, of_rows: Any, chosen: Array, finish_count: Array, found: Any,
    finished: Array,
) -> int:  # fmt: skip
    """Make `new` hypotheses of the `old` ones; return how many sentences go on, -1 where the search is BROKEN.

    alive: the sentence of each group of `rows_each` rows; those that go on are moved to the front
    best, of_rows: see `best_of_sentence`; chosen: see `extend`; others as in `search`
    """
    beam, _, n_best, min_length, patience, stop_early = rule
    going_on = 0
    for group in range(len(alive)):
        b, start, first = alive[group], group * rows_each, going_on * beam
        no_end = 0 if position >= min(min_length, limits[b]) else 1
        if not best_of_sentence(logits, start, rows_each, old[2], barred[no_end], ones, best, of_rows):
            return -1
        finish_count[b] += collect_finished(b, position, old[0][start:], best, penalties, n_best, beam, found)
        finished[b] = found[0][b] > 0
        extend(position, start, first, best, chosen, old, new)
        ended = limits[b] <= position or finish_count[b] >= patience
        if stop_early and not ended:
            worst = found[3][b, n_best - 1, 1] if found[0][b] == n_best else -np.inf
            ended = new[2][first] / penalties[limits[b]] <= worst
        if not ended:
            alive[going_on] = b
            going_on += 1
        elif not finished[b] and not collect_cut(b, position, first, new, beam, penalties[position], n_best, found):
            return -1
    return going_on


@compiled_exactly
def hypotheses(count: int, length: int) -> Any:
    """Return tokens, nodes and log-probability of hypotheses, all 0.  Shapes: [count, length] twice, [count]"""
    return np.zeros((count, length), np.int64), np.zeros((count, length), np.int64), np.zeros(count)


@compiled_exactly
def search(
    memory: Array, ends: Array, layers: Any, logits_of: Any, embedding: Any, shape: Any, settings: Any, limits: Array,
    penalties: Array, barred: Array, rule: Any, found: Any, finished: Array,
) -> int:  # fmt: skip
    """`beam_search` from the encoder's output on; return DONE, or BROKEN for what it would refuse.

    layers: of the decoder; logits_of: weights and bias of the logits; embedding: table, encodings of positions, factor
    limits: most output tokens of each sentence; penalties: of each length
    barred: the tokens that may not be chosen; in its second row, EOS is one of them
    rule: beam, candidates, n_best, min_length, finished hypotheses that end a sentence, stop_early
    found, finished: the results of each sentence: see `keep_finished`; whether they ended

    Shapes: memory [N, D, padded], ends, limits int64 [B], penalties [T + 1], barred bool [2, V], finished bool [B]
    """
    inward_bias, query_bias, key_value, key_value_bias, up_bias = layers[1], layers[5], layers[6], layers[7], layers[11]
    output, output_bias = logits_of
    heads, _, d_v, _ = shape
    beam, candidates = rule[0], rule[1]
    depth, longest, sentences, most = len(inward_bias), len(penalties), len(ends), len(ends) * beam

    # keys and values of the source, of every layer
    sources = np.empty((depth, len(memory), key_value_bias.shape[1]), f4)
    for layer in range(depth):
        multiply(memory, len(memory), key_value, key_value_bias, layer, False, sources[layer], 0)

    # nodes: queries, keys and values of every row so far, of every layer
    nodes = np.empty((depth, 16 * most, inward_bias.shape[1]), f4)
    widths = memory.shape[1], up_bias.shape[1], padded_to(heads * d_v), query_bias.shape[1]
    work = work_of_rows(most, max(longest, len(memory)) + 1, widths)
    x, ones, logits = work[0], work[7], np.empty((most, output_bias.shape[1]), f4)

    # hypotheses, a row each: those of a sentence side by side, best first
    alive = np.arange(sentences)  # the sentence of each group of rows
    position, node_count = np.int64(0), np.int64(0)  # for Numba, 0 alone has a type of its own
    rows_each: Any = np.int64(1)
    old, new = hypotheses(most, longest + 1), hypotheses(most, longest + 1)
    newest, at = np.full(most, BOS), np.zeros(most, np.int64)
    finish_count = np.zeros(sentences, np.int64)
    ids, values = np.empty((beam, candidates), np.int64), np.empty((beam, candidates), f4)
    of_rows = ids, values, np.empty((beam, candidates)), np.empty(beam, np.int64)
    best = np.empty(candidates, np.int64), np.empty(candidates, np.int64), np.empty(candidates)
    chosen = np.empty(beam, np.int64)

    while len(alive):
        position += 1
        rows = len(alive) * rows_each
        embed_tokens(newest[:rows], at[:rows], embedding, x)
        if node_count + rows > nodes.shape[1]:
            nodes = twice_as_long(nodes, node_count)
        for row in range(rows):
            old[1][row, position - 1] = node_count + row
        given = decode_rows(
            rows, position, node_count, old[1], alive, rows_each, ends, layers, shape, settings, sources, nodes, work
        )
        multiply(given, rows, output, output_bias, 0, False, logits, 0)
        node_count += rows

        going_on = advance(
            position, alive, rows_each, logits, old, new, limits, penalties, barred, rule, ones, best, of_rows, chosen,
            finish_count, found, finished,
        )  # fmt: skip
        if going_on < 0:
            return BROKEN
        alive = alive[:going_on]
        rows_each = beam
        old, new = new, old
        for row in range(going_on * beam):
            newest[row], at[row] = old[0][row, position - 1], position
    return DONE
