"""The few largest of many logits in NumPy, without sorting them.

Tokens form groups of up to DEPTH. The k largest logits of a row are in the k groups with the largest maxima, and the
largest of all keeps the exponentials finite. Group j of n has the ids j, j + n, j + 2 n, …: NumPy takes maxima over an
axis that is not the last seven times as fast as over the last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.fast.table import entry
from autograd.fast.threads import BLOCK_BYTES, run_blocks

Array = Any

DEPTH = 16  # tokens of a group of logits
SERIAL_SEARCH = 2 * 1024 * 1024  # logits of fewer bytes are searched by one thread: the calls are many and short


@entry("numpy")
def top_tokens(logits: Array, barred: Array, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the `count` largest logits of each row that are not barred, equal ones by id, and ln Σ exp of the row.

    Barred ids, with -inf, follow if there are too few others.  If the largest logit is not finite, the sum is NaN.

    Shapes: logits [R, V], barred bool [V] -> ids int [R, count], values [R, count], [R]; all three on the host
    """
    rows, classes = logits.shape
    largest, log_total = np.empty((rows, -(-classes // DEPTH)), logits.dtype), np.empty(rows)
    block = rows if logits.nbytes < SERIAL_SEARCH else max(1, BLOCK_BYTES // (classes * logits.itemsize))
    run_blocks(lambda s: _look_over(logits[s], barred, largest[s], log_total[s]), rows, block)
    return *_largest_of_groups(logits, barred, largest, count), log_total


def _at_places(array: Array, places: Array) -> Array:
    """`np.take_along_axis` along axis 1, in a third of the time for a few rows.  [R, W, …], [R, C] -> [R, C, …]"""
    return array[np.arange(len(array))[:, None], places]


def _look_over(logits: Array, barred: Array, largest: Array, log_total: Array) -> None:
    """Compute the largest logit of each group that is not barred, and ln Σ exp of the whole row.

    The latter is not below the largest logit, also in floating point.

    Shapes: logits [R, V], barred bool [V]; written: largest [R, groups], log_total [R] float64
    """
    n = largest.shape[1]
    depth, rest = divmod(logits.shape[1], n)
    groups = logits[:, : depth * n].reshape(len(logits), depth, n)
    groups.max(axis=1, out=largest)
    np.maximum(largest[:, :rest], logits[:, depth * n :], out=largest[:, :rest])
    peak = largest.max(axis=1)
    with np.errstate(invalid="ignore"):  # where a logit is +∞ or NaN, or all are -∞, the sum is NaN
        shifted = logits - peak[:, None]
    np.exp(shifted, out=shifted)
    # NumPy sums along a row pairwise: the error grows with the logarithm of V
    log_total[...] = peak.astype(np.float64) + np.log(shifted.sum(axis=1).astype(np.float64))
    for j in {*(np.flatnonzero(barred) % n).tolist()}:
        largest[:, j] = np.where(barred[j::n], -np.inf, logits[:, j::n]).max(axis=1)


def _largest_of_groups(logits: Array, barred: Array, largest: Array, count: int) -> tuple[Array, Array]:
    """Return the ids of the `count` largest logits of each row that are not barred, equal ones by id, and their values.

    If one of them were outside the `count` groups with the largest maxima, these maxima would all be larger.

    Shapes: logits [R, V], barred bool [V], largest [R, groups] -> ids [R, count], values [R, count], -inf where barred
    """
    (rows, classes), n = logits.shape, largest.shape[1]
    if count >= n:  # every group
        ids = np.broadcast_to(np.arange(classes), (rows, classes))
        values, uncertain = np.where(barred, logits.dtype.type(-np.inf), logits), np.zeros(0, int)
    else:
        groups = np.sort(np.argpartition(largest, -count, axis=1)[:, -count:], axis=1)  # [R, count]
        smallest = _at_places(largest, groups).min(axis=1, keepdims=True)
        uncertain = np.flatnonzero(np.count_nonzero(largest >= smallest, axis=1) > count)  # a group left out is equal
        steps = np.arange(-(-classes // n))[:, None]
        ids = (steps * n + groups[:, None]).reshape(rows, -1)  # ascending, as a group's place is below n
        inside = np.minimum(ids, classes - 1)
        values = _at_places(logits, inside)
        values[(ids >= classes) | barred[inside]] = -np.inf
    order = _order(values, count)
    ids, values = _at_places(ids, order), _at_places(values, order)
    for row in uncertain:
        whole = np.where(barred, logits.dtype.type(-np.inf), logits[row])
        ids[row] = np.argsort(-whole, kind="stable")[:count]
        values[row] = whole[ids[row]]
    return ids, values


def _order(values: Array, count: int) -> Array:
    """Positions of the `count` largest of each row, largest first, equal ones by position. [R, W] -> [R, count]"""
    width = values.shape[1]
    if count >= width:
        return np.argsort(-values, axis=1, kind="stable")
    places = np.sort(np.argpartition(values, width - count, axis=1)[:, width - count :], axis=1)
    taken = _at_places(values, places)
    places = _at_places(places, np.argsort(-taken, axis=1, kind="stable"))
    # A partition selects any of several equal values at its boundary; such rows are sorted whole.
    tied = np.flatnonzero(np.count_nonzero(values >= taken.min(axis=1, keepdims=True), axis=1) > count)
    places[tied] = np.argsort(-values[tied], axis=1, kind="stable")[:, :count]
    return places
