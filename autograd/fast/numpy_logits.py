"""Logits in NumPy: the loss of a step, a block of them at a time, and the few largest of many, without sorting them.

For the largest, tokens form groups of up to DEPTH. The k largest logits of a row are in the k groups with the largest
maxima, and the largest of all keeps the exponentials finite. Group j of n has the ids j, j + n, j + 2 n, …: NumPy takes
maxima over an axis that is not the last seven times as fast as over the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.fast.table import cpu, entry
from autograd.fast.threads import BLOCK_BYTES, blocks_of, run_blocks, spread

Array = Any

LOGITS_BYTES = 128 << 20  # that `linear_cross_entropy` holds in memory
DEPTH = 16  # tokens of a group of logits
SERIAL_SEARCH = 2 * 1024 * 1024  # logits of fewer bytes are searched by one thread: the calls are many and short

# ---- Cross-entropy ----


@entry("numpy")
def linear_cross_entropy(
    x: Array, weight: Array, bias: Array | None, targets: Array, counted: Array, factors: Array | None,
    wanted: Sequence[bool], *, label_smoothing: float, rows: int | None = None,
) -> tuple[Array, Array | None, Array | None, Array | None]:  # fmt: skip
    """The cross-entropy of the logits x Wᵀ + b, and the gradients of x, weight and bias, `rows` rows at a time.

    Rows that are not `counted` have loss 0 and no gradient; the others' gradients are multiplied by `factors`.

    Shapes: x [N, D], weight [V, D], bias [V] or None, targets int [N], counted bool [N], factors [N] or None
            -> loss and nll [2, N], g_x [N, D], g_weight [V, D], g_bias [V], None where not wanted
    """
    size, dtype = len(x), x.dtype
    losses = np.zeros((2, size), dtype)
    targets = np.where(counted, targets, 0)  # other rows read column 0
    g_x = np.empty(x.shape, dtype) if wanted[0] else None
    g_weight = g_bias = None
    blocks = -(-size // max(1, rows or LOGITS_BYTES // (len(weight) * dtype.itemsize)))  # of equal size
    for some in blocks_of(size, rows or -(-size // blocks)):
        logits = cpu.linear(x[some], weight, bias)
        losses[:, some] = np.where(counted[some], cpu.cross_entropy_(logits, targets[some], label_smoothing), 0)
        if any(wanted):
            logits[~counted[some]] = 0  # now they are gradients
            if factors is not None:
                logits *= np.where(counted[some], factors[some], 1)[:, None]
            if g_x is not None and wanted[1] and not some.start:  # the first block's are the sums' first terms
                g_x[some], g_weight = cpu.products((logits, weight), (logits.T, x[some]))
            else:
                if g_x is not None:
                    g_x[some] = cpu.product(logits, weight)
                if wanted[1]:
                    if some.start:
                        g_weight = cpu.add_product_(g_weight, logits.T, x[some])  # [V, n] @ [n, D] -> [V, D]
                    else:
                        g_weight = cpu.product(logits.T, x[some])
            if wanted[2]:
                part = cpu.sum_rows(logits)
                g_bias = part if g_bias is None else np.add(g_bias, part, out=g_bias)
        del logits  # before the next block's; no view of it may be left
    return losses, g_x, g_weight, g_bias


@entry("numpy")
def cross_entropy_(logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
    """Row losses against (1 - ε) · one-hot + ε / V (section 5.4), and row negative log-likelihoods.

    The logits become the gradient of each row's loss: softmax - (1 - ε) · one-hot - ε / V.  Forward and backward pass
    need the same exponentials, of the largest array of a training step: computed once.  Derived in docs/fused-ops.md.

    Shapes: logits [N, V] (overwritten), targets [N] -> loss [N], nll [N]
    """
    loss, nll = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)

    def work(s: slice) -> None:
        cpu.cross_entropy_block(logits[s], targets[s], label_smoothing, loss[s], nll[s])

    spread(work, len(logits), logits.shape[1] * logits.itemsize)
    return loss, nll


@entry("numpy")
def cross_entropy_block(logits: Array, targets: Array, label_smoothing: float, loss: Array, nll: Array) -> None:
    """A block of `cross_entropy_`."""
    at = np.arange(len(logits)), targets
    logits -= logits.max(axis=1, keepdims=True)
    at_target = logits[at]
    mean = logits.mean(axis=1) if label_smoothing else 0
    np.exp(logits, out=logits)
    total = logits.sum(axis=1)
    log_total = np.log(total)
    nll[:] = log_total - at_target
    loss[:] = (1 - label_smoothing) * nll + label_smoothing * (log_total - mean)
    logits *= (1 / total)[:, None]
    if label_smoothing:
        logits -= label_smoothing / logits.shape[1]
    logits[at] -= 1 - label_smoothing


# ---- Search ----


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

    None of these is smaller than the `count`-th largest maximum of a group; few others are not.

    Shapes: logits [R, V], barred bool [V], largest [R, groups] -> ids [R, count], values [R, count], -inf where barred
    """
    (rows, classes), n, least = logits.shape, largest.shape[1], logits.dtype.type(-np.inf)
    bound = np.partition(largest, n - count, axis=1)[:, n - count] if count <= n else np.full(rows, least)
    row, group = (each[:, None] for each in np.nonzero(largest >= bound[:, None]))
    ids = group + n * np.arange(-(-classes // n))
    inside = np.minimum(ids, classes - 1)
    values = logits[row, inside]
    fits = (values >= bound[row]) & (ids < classes) & ~barred[inside]
    row, ids, values = np.broadcast_to(row, ids.shape)[fits], ids[fits], values[fits]
    order, counts = np.lexsort((ids, -values, row)), np.bincount(row, minlength=rows)
    enough = counts >= count
    taken = order[(np.cumsum(counts) - counts)[enough, None] + np.arange(count)]
    found = np.empty((rows, count), np.intp), np.empty((rows, count), logits.dtype)
    found[0][enough], found[1][enough] = ids[taken], values[taken]
    for place in np.flatnonzero(~enough):  # few tokens are not barred, or there are NaNs
        whole = np.where(barred, least, logits[place])
        found[0][place] = np.argsort(-whole, kind="stable")[:count]
        found[1][place] = whole[found[0][place]]
    return found
