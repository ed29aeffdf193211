"""What one step of a search asks of the logits: which tokens are most probable, and how probable they are.

Of R × V logits, a step needs a few tokens a row and one sum of exponentials. The largest logit of each chunk of tokens
leads to both: the few best tokens lie in the chunks with the few largest of these, and the largest of all keeps the
exponentials finite.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograd.backend import backend_of
from minitf.data.vocabulary import BOS, EOS, PAD, UNK
from minitf.errors import UserError

Array = NDArray[Any]

BLOCK_ELEMENTS = 2**17
"""Logits looked at together: half a megabyte stays in a processor's cache through the passes over it."""
CHUNK = 64
"""Tokens of which only the largest logit is looked at first."""


def most_probable(
    logits: Array, count: int, position: int, sentences: Array, forbidden: tuple[int, ...] = ()
) -> tuple[Array, Array]:
    """The `count` most probable tokens of each row, best first, equal ones by id, and their log-probabilities.

    The probabilities are those of the whole vocabulary: what is forbidden (ids below CHUNK) keeps its share, but comes
    with -inf. `position` and `sentences` name the place in error messages.

    Shapes: logits [R, V], sentences [R] -> token [R, C], log-probability [R, C] float64
    """
    if not isinstance(logits, np.ndarray):  # they are on a GPU, and only the few best come over here
        return _most_probable_there(logits, count, position, sentences, forbidden)
    tokens, log_probabilities = [], []
    rows_at_once = max(1, BLOCK_ELEMENTS // logits.shape[1])
    for start in range(0, len(logits), rows_at_once):
        block = logits[start : start + rows_at_once]
        largest = _largest_of_chunks(block)  # [R, chunks]
        log_normaliser = _log_normaliser(block, largest.max(axis=1), position, sentences[start:])  # [R]
        best, values = _top(block, largest, count, forbidden)  # [R, C] each
        tokens.append(best)
        log_probabilities.append(values.astype(np.float64) - log_normaliser[:, None])
    if len(tokens) == 1:
        return tokens[0], log_probabilities[0]
    return np.concatenate(tokens), np.concatenate(log_probabilities)


def log_probabilities_of(logits: Array, tokens: Array, position: int, sentences: Array) -> Array:
    """log P of one given token a row.  Shapes: logits [R, V], tokens [R] -> [R] float64"""
    if not isinstance(logits, np.ndarray):
        logits = logits.get()
    log_normaliser = np.empty(len(logits))
    rows_at_once = max(1, BLOCK_ELEMENTS // logits.shape[1])
    for start in range(0, len(logits), rows_at_once):
        some = slice(start, start + rows_at_once)
        log_normaliser[some] = _log_normaliser(logits[some], logits[some].max(axis=1), position, sentences[some])
    return logits[np.arange(len(logits)), tokens].astype(np.float64) - log_normaliser


def _most_probable_there(
    logits: Any, count: int, position: int, sentences: Array, forbidden: tuple[int, ...]
) -> tuple[Array, Array]:
    """`most_probable` where the logits are."""
    backend = backend_of([logits])
    never = np.zeros(logits.shape[1], dtype=bool)
    never[list(forbidden)] = True
    tokens, best, log_normaliser = backend.top_tokens(logits, backend.asarray(never), min(count, logits.shape[1]))
    _require_numbers(log_normaliser, position, sentences)
    log_probabilities = best.astype(np.float64) - log_normaliser.astype(np.float64)[:, None]
    return tokens.astype(np.int64), np.minimum(log_probabilities, 0)  # not above 0: the stop rule rests on that


def _require_numbers(peak: Array, position: int, sentences: Array) -> None:
    """Raises: UserError where the largest logit of a row, or what all of them come to, is no number."""
    broken = np.flatnonzero(~np.isfinite(peak))
    if len(broken):
        raise UserError(
            f"the model gives logits of {peak[broken[0]]} at output position {position} of sentence "
            f"{sentences[broken[0]]}; its weights have diverged: use an earlier checkpoint"
        )


def never_produced(allow_unknown: bool, may_end: bool) -> tuple[int, ...]:
    """The tokens that a search may not choose: padding and start, UNK unless allowed, EOS where it is too early."""
    return (PAD, *(() if allow_unknown else (UNK,)), BOS, *(() if may_end else (EOS,)))


def top_tokens(logits: Array, count: int) -> Array:
    """The ids of the `count` largest logits of each row, largest first, equal ones by id. [R, V] -> [R, count]"""
    return _top(logits, _largest_of_chunks(logits), count, ())[0]


def _largest_of_chunks(logits: Array) -> Array:
    """Shapes: [R, V] -> [R, ⌈V / CHUNK⌉]"""
    R, V = logits.shape
    whole = V // CHUNK * CHUNK
    largest = logits[:, :whole].reshape(R, whole // CHUNK, CHUNK).max(axis=2)
    if whole == V:
        return largest
    return np.concatenate([largest, logits[:, whole:].max(axis=1, keepdims=True)], axis=1)


def _log_normaliser(logits: Array, peak: Array, position: int, sentences: Array) -> Array:
    """log Σ_v exp(logits[:, v]), so that log P(v) = logits[:, v] - this. [R, V], peak [R] -> [R] float64

    It is never below the largest logit, also in floating point, so no log-probability is above 0: the stop rule
    rests on that.
    """
    _require_numbers(peak, position, sentences)  # NaN if any is
    shifted = logits - peak[:, None]
    np.exp(shifted, out=shifted)
    # pairwise, as NumPy adds along a row: the error grows with the logarithm of V
    return peak.astype(np.float64) + np.log(shifted.sum(axis=1).astype(np.float64))


def _top(logits: Array, largest: Array, count: int, forbidden: tuple[int, ...]) -> tuple[Array, Array]:
    """The `count` largest logits of each row: their ids and themselves, -inf for the forbidden.

    Were one of them outside the `count` chunks with the largest maxima, these maxima would all be larger.
    """
    R, V = logits.shape
    if forbidden:
        first = logits[:, :CHUNK].copy()
        first[:, list(forbidden)] = -np.inf
        largest[:, 0] = first.max(axis=1)
    if count >= largest.shape[1]:  # every chunk
        ids, values, uncertain = np.broadcast_to(np.arange(V), (R, V)), logits, np.zeros(R, bool)
    else:
        chunks = np.argpartition(largest, -count, axis=1)[:, -count:]  # [R, count]
        chunks.sort(axis=1)
        smallest = np.take_along_axis(largest, chunks, axis=1).min(axis=1)  # [R]
        uncertain = np.count_nonzero(largest >= smallest[:, None], axis=1) > count  # a chunk left out is as good
        ids = (chunks[:, :, None] * CHUNK + np.arange(CHUNK)).reshape(R, -1)  # [R, count × CHUNK], ascending
        values = np.take_along_axis(logits, np.minimum(ids, V - 1), axis=1)
        values[ids >= V] = -np.inf
    if forbidden:
        values = np.where(np.isin(ids, forbidden), np.array(-np.inf, values.dtype), values)
    order = _order(values, count)
    ids, values = np.take_along_axis(ids, order, axis=1), np.take_along_axis(values, order, axis=1)
    for row in np.flatnonzero(uncertain):
        whole = np.array(logits[row])
        whole[list(forbidden)] = -np.inf
        ids[row] = np.argsort(-whole, kind="stable")[:count]
        values[row] = whole[ids[row]]
    return ids, values


def _order(values: Array, count: int) -> Array:
    """The places of the `count` largest of each row, largest first, equal ones by place. [R, W] -> [R, count]"""
    W = values.shape[1]
    if count >= W:
        return np.argsort(-values, axis=1, kind="stable")
    places = np.sort(np.argpartition(values, W - count, axis=1)[:, W - count :], axis=1)
    taken = np.take_along_axis(values, places, axis=1)
    places = np.take_along_axis(places, np.argsort(-taken, axis=1, kind="stable"), axis=1)
    # A partition takes any of several equal values at its boundary; such rows are sorted whole.
    tied = np.flatnonzero(np.count_nonzero(values >= taken.min(axis=1, keepdims=True), axis=1) > count)
    places[tied] = np.argsort(-values[tied], axis=1, kind="stable")[:, :count]
    return places
