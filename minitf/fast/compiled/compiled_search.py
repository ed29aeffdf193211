"""`beam_search` of a small model as one function that Numba compiles, from token ids to translations.

It holds no interpreter lock, so that batches run on all threads.  minitf/decoding/search.py defines what is found; a
step there is hundreds of calls, which take longer than the arithmetic where a model is small.  Results differ by
rounding.  A row is computed alike whatever is computed beside it, so the results for a sentence do not depend on the
others in its batch, to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograd.fast import compiled_kernels as kernels
from autograd.fast.compiled_tiles import dot
from autograd.fast.compiling import compiled_exactly, compiled_inside
from minitf.config.model import BOS, EOS
from minitf.fast.compiled.compiled_layers import (
    DECODER,
    ENCODER,
    LINEAR,
    LOGITS,
    MEMORY,
    OWN,
    PART,
    POSITION,
    SOURCE,
    TOKEN,
    embed,
    multiply,
    transform,
)

Array = Any


DONE, BROKEN, FULL = 0, 1, 2  # the search: it has ended; a number is not finite, or nothing can follow; no node is left
STEPS, NODES, SENTENCES, SIDE = 0, 1, 2, 3  # how far it is: places of `progress`
TOKENS, PATH = 0, 1  # of a hypothesis, places of `rows`: its tokens, and the node of each


@compiled_inside
def find_candidates(
    logits: Array, log_probability: Array, rows: int, barred: Array, ones: Array, of_rows: Any, best: Array,
    best_total: Array,
) -> bool:  # fmt: skip
    """Find the best candidates of the rows of a sentence; False if a number is not finite.

    of_rows: the candidates of each row, sorted: ids [N, C], logits [N, C], log-probabilities [N, C] (all overwritten)

    Shapes: logits [N, ≥ V] (overwritten), barred bool [V], ones [1, ≥ PART], best int64 [2, C], the row and the token
    of each, best_total [C] (both written)
    """
    ids, values, totals, used = of_rows
    for n in range(rows):
        top = kernels.select_largest(logits[n, : len(barred)], barred, ids[n], values[n])
        exponentials: Any = 0.0
        for start in range(0, len(barred), PART):
            part = logits[n, start : min(start + PART, len(barred))]
            for i in range(part.size):
                part[i] = kernels.exp(part[i] - top)
            exponentials += dot(logits, n, start, ones, 0, 0, part.size)
        log_total = float(top) + math.log(exponentials)
        if not math.isfinite(log_total):
            return False
        used[n] = 0
        for c in range(ids.shape[1]):
            totals[n, c] = log_probability[n] + min(values[n, c] - log_total, 0.0)
    for c in range(len(best_total)):  # of equal ones, that of the lower row is the first
        at = -1
        for n in range(rows):
            if used[n] < len(best_total) and (at < 0 or totals[n, used[n]] > totals[at, used[at]]):
                at = n
        best[0, c], best[1, c], best_total[c] = at, ids[at, used[at]], totals[at, used[at]]
        used[at] += 1
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
    b: int, position: int, limit: int, penalties: Array, best: Any, old: Array, new: Any, found: Any, finished: Array
) -> int:
    """Make the best candidates of sentence b its new hypotheses, and keep those that end.

    Return 1 if it goes on, 0 if it has ended, -1 if it has without a hypothesis.

    old, new: tokens and nodes of the hypotheses, int64 [2, N, T]; of the new ones, log-probabilities [beam], too
    """
    (ids, totals), (rows, log_probability) = best, new
    beam, n_best, count = len(log_probability), found[1].shape[1], 0
    for c in range(len(totals)):
        if ids[1, c] == EOS and totals[c] > -np.inf:
            tokens = old[TOKENS, ids[0, c]]
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
    if position < limit and log_probability[0] / penalties[limit] > worst:
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
    work: Any, of_rows: Any, best: Any, found: Any, finished: Array,
) -> int:  # fmt: skip
    """`beam_search` from where `progress` says to the end, or until there are no nodes left; return how it has ended.

    text: rows of tokens of the source [N, 8], and memory for their queries, keys and values; places: 0 … N - 1, [1, N]
    embeddings: of source and target, table, encodings of positions, and factor; work: see `transform`; and logits
    limits: most output tokens of each sentence, its first place in `text`, and that after its last
    penalties: of each length; barred: the tokens that may not be chosen
    sentences: those that go on; hypotheses: rows of them, those of a sentence side by side, best first, before and
        after a step: tokens and nodes int64 [2, 2, R, T], log-probabilities [2, R]; and the rows of a step [R, 8]
    sources, nodes: keys and values of the source; queries, keys and values of every row so far; both of every layer
    found, finished: the results of each sentence: see `keep_finished`; whether they ended
    """
    paths, log_probability, step = hypotheses
    (tokens, own), (ids, totals), zero = text, best, np.int64(0)
    beam, ones, logits, work = len(of_rows[0]), work[7], work[8], work[:8]
    if progress[STEPS] == 0:
        embed(len(tokens), tokens, work[0], *embeddings[0])
        given = transform(
            ENCODER, len(tokens), model, shape, settings, own, zero, places, tokens, sources[:0], places, work
        )
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
        given = transform(
            DECODER, rows, model, shape, settings, nodes, first_node, own_places, step, sources, places, work
        )
        multiply(given, rows, model, (DECODER, LOGITS, zero), LINEAR, logits, zero)
        going_on = 0
        for group in range(progress[SENTENCES]):
            b, first, to = sentences[group], group * each, going_on * beam
            if not find_candidates(
                logits[first:], log_probability[old, first:], each, barred, ones, of_rows, ids, totals
            ):
                return BROKEN
            new = paths[1 - old, :, to : to + beam], log_probability[1 - old, to : to + beam]
            goes_on = advance(b, position, limits[b, 0], penalties, best, paths[old, :, first:], new, found, finished)
            if goes_on < 0:
                return BROKEN
            sentences[going_on] = b
            going_on += goes_on
        progress[STEPS], progress[NODES], progress[SENTENCES] = position, first_node + rows, going_on
        progress[SIDE] = 1 - old
    return DONE
