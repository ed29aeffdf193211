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

from autograd.fast import compiled_kernels as kernels
from autograd.fast.compiled_tiles import dot
from autograd.fast.compiling import compiled_exactly
from minitf.config.model import BOS, EOS
from minitf.fast.compiled.compiled_layers import (
    PART,
    decode_rows,
    embed_tokens,
    multiply,
    padded_to,
    project_memory,
    work_of_rows,
)

Array = Any
f4 = np.float32


DONE, BROKEN = 0, 1  # the search: it has ended; a number is not finite, or nothing can follow


# ---- Candidates ----


@compiled_exactly
def largest_of_row(row: Array, size: int, barred: Array, ids: Array, values: Array, ones: Array) -> float:
    """Return the largest logits that are not barred, equal ones by id; ln Σ e^x of the whole row, which is overwritten.

    Shapes: row [1, ≥ V], barred bool [V], ids int64 [C], values [C] (written), ones [1, ≥ PART]
    """
    top = kernels.select_largest(row[0, :size], barred, ids, values)
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
    b: int, position: int, history: Array, best: Any, penalties: Array, n_best: int, found: Any
) -> None:
    """Keep the candidates of sentence b that end.

    Shapes: history [rows of the sentence, ≥ position]; found: see `keep_finished`
    """
    best_row, best_token, best_total = best
    for c in range(len(best_token)):
        if best_token[c] == EOS and best_total[c] > -np.inf:
            score = best_total[c] / penalties[position]
            keep_finished(b, history[best_row[c]], position - 1, best_total[c], score, n_best, found)


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
    barred: Array, rule: Any, ones: Array, best: Any, of_rows: Any, chosen: Array, found: Any,
    finished: Array,
) -> int:  # fmt: skip
    """Make `new` hypotheses of the `old` ones; return how many sentences go on, -1 where the search is BROKEN.

    alive: the sentence of each group of `rows_each` rows; those that go on are moved to the front
    best, of_rows: see `best_of_sentence`; chosen: see `extend`; others as in `search`
    """
    beam, _, n_best = rule
    going_on = 0
    for group in range(len(alive)):
        b, start, first = alive[group], group * rows_each, going_on * beam
        if not best_of_sentence(logits, start, rows_each, old[2], barred, ones, best, of_rows):
            return -1
        collect_finished(b, position, old[0][start:], best, penalties, n_best, found)
        finished[b] = found[0][b] > 0
        extend(position, start, first, best, chosen, old, new)
        ended = limits[b] <= position
        if not ended:
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
    barred: the tokens that may not be chosen; rule: beam, candidates, n_best
    found, finished: the results of each sentence: see `keep_finished`; whether they ended

    Shapes: memory [N, D, padded], ends, limits int64 [B], penalties [T + 1], barred bool [V], finished bool [B]
    """
    depth, of_nodes = layers[0][1].shape
    beam, longest, sentences, most = rule[0], len(penalties), len(ends), len(ends) * rule[0]

    # keys and values of the source; nodes: queries, keys and values of every row so far; both of every layer
    sources = project_memory(memory, layers[3])
    nodes = np.empty((depth, 16 * most, of_nodes), f4)
    widths = memory.shape[1], layers[5][1].shape[1], padded_to(shape[0] * shape[2]), layers[2][1].shape[1]
    work = work_of_rows(most, max(longest, len(memory)) + 1, widths)
    x, ones, logits = work[0], work[7], np.empty((most, logits_of[1].shape[1]), f4)

    # hypotheses, a row each: those of a sentence side by side, best first
    alive = np.arange(sentences)  # the sentence of each group of rows
    position, node_count = np.int64(0), np.int64(0)  # for Numba, 0 alone has a type of its own
    rows_each: Any = np.int64(1)
    old, new = hypotheses(most, longest + 1), hypotheses(most, longest + 1)
    newest, at = np.full(most, BOS), np.zeros(most, np.int64)
    # candidates of each row of a sentence, the best of the sentence, and those chosen
    count = rule[1]
    of_rows = (
        np.empty((beam, count), np.int64),
        np.empty((beam, count), f4),
        np.empty((beam, count)),
        np.empty(beam, np.int64),
    )
    best, chosen = (np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)), np.empty(beam, np.int64)

    while len(alive):
        position += 1
        rows = len(alive) * rows_each
        embed_tokens(newest[:rows], at[:rows], embedding, x)
        if node_count + rows > nodes.shape[1]:
            grown = np.empty((depth, 2 * nodes.shape[1], of_nodes), f4)
            grown[:, :node_count] = nodes[:, :node_count]
            nodes = grown
        for row in range(rows):
            old[1][row, position - 1] = node_count + row
        given = decode_rows(
            rows, position, node_count, old[1], alive, rows_each, ends, layers, shape, settings, sources, nodes, work
        )
        multiply(given, rows, logits_of, 0, False, logits, 0)
        node_count += rows

        going_on = advance(
            position, alive, rows_each, logits, old, new, limits, penalties, barred, rule, ones, best, of_rows, chosen,
            found, finished,
        )  # fmt: skip
        if going_on < 0:
            return BROKEN
        alive = alive[:going_on]
        rows_each = beam
        old, new = new, old
        for row in range(going_on * beam):
            newest[row], at[row] = old[0][row, position - 1], position
    return DONE
