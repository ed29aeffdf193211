"""`beam_search` of a small model as one function that Numba compiles, from token ids to translations.

It holds no interpreter lock, so that batches run on all threads.  minitf/decoding/search.py defines what is found, and
the model's layers what is computed; a step there is hundreds of calls, which take longer than the arithmetic where a
model is small.  Results differ by rounding.  A row of tokens or hypotheses is computed alike whatever is computed
beside it, so the results for a sentence do not depend on the others in its batch, to the last bit.

There is one function for all layers, of encoder and decoder alike, and no array is made here: that compiles in seconds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from autograd.fast import compiled_int8
from autograd.fast import compiled_kernels as kernels
from autograd.fast.compiled_tiles import dot, linear_of_tiles, weighted_sum
from autograd.fast.compiling import compiled_exactly, compiled_inside, inside_by_types
from autograd.fast.int8 import OUTPUTS
from minitf.config.model import BOS, EOS

Array = Any
f4 = np.float32
exp = compiled_inside(kernels.exp.py_func, forceinline=True)

# Numbers that are arguments have a type of NumPy's: for 0, Numba would compile a function that it has for 1 once more
RELU, SILU = 0, 1
ADD_NORM, NORM, ADD = map(np.int64, range(3))
LINEAR = np.bool_(False)  # whether a product ends in ReLU
PART = 256  # elements of a row of logits that are summed in float32, before float64 takes over
GROUP = 64  # elements of a row of logits that are counted before one is looked at

# Where the numbers of a stack of layers are: places[product or norm, layer] of these kinds
INWARD, OUTWARD, UP, DOWN, QUERY, CROSS, MEMORY, LOGITS, NORMS, LAST = map(np.int64, range(10))
# The first word or number of each, and sizes; a norm has the first alone
WEIGHTS, INPUTS, OUT, BIAS, START, FACTORS = range(6)
ENCODER, DECODER = map(np.int64, range(2))

# Columns of rows of tokens: the token and its position, and from where to where `attend` finds keys and values
TOKEN, POSITION, OWN, SOURCE = map(np.int64, (0, 1, 2, 5))


def _multiply_float32(x: Any, rows: Any, model: Any, at: Any, relu: Any, y: Any, first: Any) -> Any:
    """y[first + r] = x[r] Wᵀ + bias, or max(x[r] Wᵀ + bias, 0), r < rows, with the weights and the bias of a layer.

    model: places int64 [stacks, kinds, L, 6], numbers float32 [N]; with weights in 8 bits, words int32 [N], too, and
        memory for the inputs in 8 bits and their factors
    at: stack, product, layer

    Shapes: x [R, ≥ in], y [R, out], out being a multiple of 64
    """
    places, numbers = model
    here = places[at]
    n_in, out, first_weight, first_bias = here[INPUTS], here[OUT], here[WEIGHTS], here[BIAS]
    bias = numbers[first_bias : first_bias + out]
    linear_of_tiles(x, rows, numbers[first_weight:], n_in, bias, relu, y, first)


def _multiply_int8(x: Any, rows: Any, model: Any, at: Any, relu: Any, y: Any, first: Any) -> Any:
    places, numbers, words, q, of_inputs = model
    here = places[at]
    n_in, out, first_bias = here[INPUTS], here[OUT], here[BIAS]
    compiled_int8.quantise_inputs(x, rows, n_in, q, of_inputs)
    weights, start, factors = words[here[WEIGHTS] :], words[here[START] :], numbers[here[FACTORS] :]
    bias = numbers[first_bias : first_bias + out]
    steps = (n_in + 3) // 4
    compiled_int8.linear_int8(
        q, rows, steps, of_inputs, weights, start, factors, bias, relu, np.int64(0), out, y, first
    )


@inside_by_types
def multiply(x: Any, rows: Any, model: Any, at: Any, relu: Any, y: Any, first: Any) -> Any:
    return _multiply_float32 if len(model) == 2 else _multiply_int8


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
                weights[s] = exp(weights[s] - top)
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
            e = exp(-abs(row[i]))
            row[i] *= (f4(1) if row[i] > 0 else e) / (f4(1) + e)


@compiled_inside
def transform(
    stack: int, rows: int, model: Any, shape: Any, settings: Any, own: Array, first: int, places: Array, spans: Array,
    sources: Array, source_places: Array, work: Any,
) -> None:  # fmt: skip
    """Let the layers of a stack transform the rows of the first array of `work`, or of the third with `norm_first`.

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


def _embed_int8(rows: Any, tokens: Any, x: Any, table: Any, encodings: Any, scale: Any) -> Any:
    """x = table[token] · scale + encodings[position]

    table: float32 [V, D]; or groups and factors of `Int8Weights`

    Shapes: tokens int64 [≥ R, 8], encodings [T, D], x [≥ R, ≥ D] (written)
    """
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


@inside_by_types
def embed(rows: Any, tokens: Any, x: Any, table: Any, encodings: Any, scale: Any) -> Any:
    return _embed_float32 if isinstance(table, types.Array) else _embed_int8


# ---- The search ----

DONE, BROKEN, FULL = 0, 1, 2  # the search: it has ended; a number is not finite, or nothing can follow; no node is left
STEPS, NODES, SENTENCES, SIDE = 0, 1, 2, 3  # how far it is: places of `progress`
TOKENS, PATH = 0, 1  # of a hypothesis, places of `rows`: its tokens, and the node of each


@compiled_inside
def find_candidates(
    logits: Array, log_probability: Array, rows: int, barred: Array, ones: Array, exponentials: Array, best: Array,
    best_total: Array,
) -> bool:  # fmt: skip
    """Find the best candidates of the rows of a sentence, of equal ones the first; False if a number is not finite.

    Shapes: logits [N, ≥ V], barred bool [V], ones and exponentials [1, ≥ PART] (overwritten), best int64 [2, C], the
    row and the token of each, best_total [C] (both written)
    """
    found, last = 0, len(best_total) - 1
    for n in range(rows):
        row, normaliser = logits[n, : len(barred)], 0.0
        top = kernels.largest(row)
        for start in range(0, row.size, PART):
            part = row[start : start + PART]
            for i in range(part.size):
                exponentials[0, i] = exp(part[i] - top)
            normaliser += dot(exponentials, 0, 0, ones, 0, 0, part.size)
        log_total = float(top) + math.log(normaliser)
        if not math.isfinite(log_total):
            return False
        for start in range(0, row.size, GROUP):
            # What exceeds the last of the best exceeds or equals this: rounding keeps the order
            least = f4(best_total[last] - log_probability[n] + log_total) if found > last else f4(-np.inf)
            part, enough = row[start : start + GROUP], np.int32(0)
            for i in range(part.size):
                enough += np.int32(part[i] >= least)
            for i in range(part.size if enough else 0):
                total = log_probability[n] + min(part[i] - log_total, 0.0)
                if part[i] < least or barred[start + i] or (found > last and not total > best_total[last]):
                    continue
                place = min(found, last)
                while place > 0 and total > best_total[place - 1]:
                    best_total[place] = best_total[place - 1]
                    best[0, place], best[1, place] = best[0, place - 1], best[1, place - 1]
                    place -= 1
                best_total[place], best[0, place], best[1, place] = total, n, start + i
                found = min(found + 1, last + 1)
    return True


@compiled_inside
def keep_finished(b: int, tokens: Array, length: int, log_probability: float, score: float, found: Any) -> None:
    """Put a hypothesis among the n best of sentence b, behind equal ones.

    found: number of hypotheses [B], their tokens [B, n, T], lengths [B, n], log-probabilities and scores [B, n, 2]
    """
    counts, outputs, lengths, numbers = found
    n_best, place = outputs.shape[1], counts[b]
    while place > 0 and score > numbers[b, place - 1, 1]:
        place -= 1
    if place >= n_best:
        return
    for i in range(min(counts[b], n_best - 1), place, -1):
        for t in range(lengths[b, i - 1]):
            outputs[b, i, t] = outputs[b, i - 1, t]
        lengths[b, i] = lengths[b, i - 1]
        numbers[b, i, 0], numbers[b, i, 1] = numbers[b, i - 1, 0], numbers[b, i - 1, 1]
    for t in range(length):
        outputs[b, place, t] = tokens[t]
    lengths[b, place] = length
    numbers[b, place, 0], numbers[b, place, 1] = log_probability, score
    counts[b] = min(counts[b] + 1, n_best)


@compiled_inside
def advance(
    b: int, position: int, limits: Array, penalties: Array, best: Any, old: Array, new: Any, found: Any, finished: Array
) -> int:
    """Make the best candidates of sentence b its new hypotheses, and keep those that end.

    Return 1 if it goes on, 0 if it has ended, -1 if it has without a hypothesis.

    old, new: tokens and nodes of the hypotheses, int64 [2, N, T]; of the new ones, log-probabilities [beam], too
    """
    (ids, totals), (rows, log_probability) = best, new
    beam, n_best, limit, count = len(log_probability), found[1].shape[1], limits[b, 0], 0
    for c in range(len(totals)):
        if ids[1, c] == EOS and totals[c] > -np.inf:
            tokens = old[TOKENS, ids[0, c]]
            limits[b, 3] -= c < beam
            keep_finished(b, tokens, position - 1, totals[c], totals[c] / penalties[position], found)
    finished[b] = found[0][b] > 0
    for goes_on in (True, False):  # those that end, and those that cannot be, follow as places are left
        for c in range(len(totals)):
            if count < beam and (ids[1, c] != EOS and totals[c] > -np.inf) == goes_on:
                for t in range(position):
                    rows[TOKENS, count, t], rows[PATH, count, t] = old[TOKENS, ids[0, c], t], old[PATH, ids[0, c], t]
                rows[TOKENS, count, position - 1] = ids[1, c]
                log_probability[count] = totals[c] if ids[1, c] != EOS else -np.inf
                count += 1
    worst = found[3][b, n_best - 1, 1] if found[0][b] == n_best else -np.inf
    if position < limit and limits[b, 3] > 0 and log_probability[0] / penalties[limit] > worst:
        return 1
    for n in range(beam):
        total = log_probability[n]
        if not finished[b] and total > -np.inf and found[0][b] < n_best:
            keep_finished(b, rows[TOKENS, n], position, total, total / penalties[position], found)
    return 0 if found[0][b] > 0 else -1


@compiled_exactly
def search(
    text: Any, places: Array, model: Any, embeddings: Any, shape: Any, settings: Any, limits: Array, penalties: Array,
    barred: Array, progress: Array, sentences: Array, hypotheses: Any, sources: Array, nodes: Array,
    work: Any, exponentials: Array, best: Any, found: Any, finished: Array,
) -> int:  # fmt: skip
    """`beam_search` from where `progress` says to the end, or until there are no nodes left; return how it has ended.

    text: rows of tokens of the source [N, 8], and memory for their queries, keys and values; places: 0 … N - 1, [1, N]
    embeddings: of source and target, table, encodings of positions, and factor; work: see `transform`; and logits
    limits: most output tokens of each sentence, its first place in `text`, that after its last, `max_ended`
    penalties: of each length; barred: the tokens that may not be chosen
    sentences: those that go on; hypotheses: rows of them, those of a sentence side by side, best first, before and
        after a step: tokens and nodes int64 [2, 2, R, T], log-probabilities [2, R]; and the rows of a step [R, 8]
    sources, nodes: keys and values of the source; queries, keys and values of every row so far; both of every layer
    found, finished: the results of each sentence: see `keep_finished`; whether they ended
    """
    paths, log_probability, step = hypotheses
    (tokens, own), (ids, totals), zero = text, best, np.int64(0)
    beam, ones, logits, work = paths.shape[2] // len(limits), work[7], work[8], work[:8]
    given = work[2] if settings[0] else work[0]
    if progress[STEPS] == 0:
        embed(len(tokens), tokens, work[0], *embeddings[0])
        transform(ENCODER, len(tokens), model, shape, settings, own, zero, places, tokens, sources[:0], places, work)
        for layer in range(len(sources)):
            multiply(given, len(tokens), model, (DECODER, MEMORY, layer), LINEAR, sources[layer], zero)
    while progress[SENTENCES] > 0:
        position, old, first_node = progress[STEPS] + 1, progress[SIDE], progress[NODES]
        each = beam if position > 1 else 1
        rows = progress[SENTENCES] * each
        if first_node + rows > nodes.shape[1]:
            return FULL
        for row in range(rows):
            paths[old, PATH, row, position - 1] = first_node + row
            step[row, TOKEN] = paths[old, TOKENS, row, position - 2] if position > 1 else BOS
            step[row, POSITION], step[row, OWN], step[row, OWN + 2] = position - 1, row, position
            for end in range(1, 3):
                step[row, SOURCE + end] = limits[sentences[row // each], end]
        embed(rows, step, work[0], *embeddings[1])
        own_places = paths[old, PATH]
        transform(DECODER, rows, model, shape, settings, nodes, first_node, own_places, step, sources, places, work)
        multiply(given, rows, model, (DECODER, LOGITS, zero), LINEAR, logits, zero)
        going_on = 0
        for group in range(progress[SENTENCES]):
            b, first, to = sentences[group], group * each, going_on * beam
            if not find_candidates(
                logits[first:], log_probability[old, first:], each, barred, ones, exponentials, ids, totals
            ):
                return BROKEN
            new = paths[1 - old, :, to : to + beam], log_probability[1 - old, to : to + beam]
            goes_on = advance(b, position, limits, penalties, best, paths[old, :, first:], new, found, finished)
            if goes_on < 0:
                return BROKEN
            sentences[going_on] = b
            going_on += goes_on
        progress[STEPS], progress[NODES], progress[SENTENCES] = position, first_node + rows, going_on
        progress[SIDE] = 1 - old
    return DONE
