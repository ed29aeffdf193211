"""The kernels of kernels.py that a forward pass calls, on a CPU: layer norm, attention, and the largest of many logits.

A chain of NumPy calls over whole arrays reads and writes main memory in each call.  Over a block of at most 1 MiB
(blocks.py) it stays in the second- or third-level cache and costs little more than one pass; and NumPy releases the
interpreter lock inside a call, so blocks run on all cores.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd.fast import blocks
from autograd.fast.cpu_products import CpuProducts
from autograd.fast.shared import heads_last_empty

Array = Any

DEPTH = 16  # tokens of a group of logits
SERIAL_SEARCH = 2 * 1024 * 1024  # logits of fewer bytes are searched by one thread: the calls are many and short


class CpuForward(CpuProducts):
    """The kernels of a forward pass, over blocks of rows that stay in cache."""

    # ---- Layer normalisation ----

    def layer_norm(self, x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
        return self.dropout_add_layer_norm(x, None, None, 1.0, weight, bias, eps)

    def dropout_add_layer_norm(
        self, x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float
    ) -> tuple[Array, Array, Array]:
        dtype = np.result_type(x, weight, bias) if residual is None else np.result_type(x, residual, weight, bias)
        if computes_wider(dtype) or x.dtype != dtype or not x.size:
            y, *kept = super().dropout_add_layer_norm(x, residual, keep, scale, weight, bias, eps)
            return y if dtype.kind in "iub" else y.astype(dtype, copy=False), *kept
        y, normalised = np.empty(x.shape, dtype), np.empty(x.shape, dtype)
        inverse_std = np.empty((len(x), 1), dtype)

        def work(s: slice) -> None:
            total = out = y[s]  # the memory of the result is also that of the sum
            if residual is None:
                total = x[s]
            elif keep is None:
                np.add(x[s], residual[s], out=total)
            else:
                np.multiply(keep[s], dtype.type(scale), out=total)
                total *= x[s]
                total += residual[s]
            self._normalise_block(total, normalised[s], inverse_std[s], eps)
            np.multiply(normalised[s], weight, out=out)
            out += bias

        self._spread(work, len(x), x[0].nbytes)
        return y, normalised, inverse_std

    @staticmethod
    def _normalise_block(x: Array, normalised: Array, inverse_std: Array, eps: float) -> None:
        width = x.shape[1]
        np.subtract(x, row_means(x), out=normalised)
        variance = np.einsum("nd,nd->n", normalised, normalised)[:, None] / width
        np.sqrt(variance + eps, out=inverse_std)
        np.reciprocal(inverse_std, out=inverse_std)
        normalised *= inverse_std

    # ---- Attention ----

    def attention(
        self, q: Array, k: Array, v: Array, mask: Array | None, keep: Any, keep_scale: float, scale: float
    ) -> tuple[Array, tuple[Any, ...]]:
        if not are_heads(q, k, v):
            return super().attention(q, k, v, mask, keep, keep_scale, scale)
        (b, h, t, _), s, m = q.shape, k.shape[2], v.shape[3]
        dtype = np.result_type(q, k, v)
        p, y = np.empty((b, h, t, s), dtype), heads_last_empty(np, (b, h, t, m), dtype)
        softmax_ = self._softmax_of_blocks_(p, mask, scale)

        def work(some: slice) -> None:
            np.matmul(q[some], k[some].swapaxes(-1, -2), out=p[some])
            softmax_(some)
            np.matmul(p[some] if keep is None else self._dropped(p[some], keep[some], keep_scale), v[some], out=y[some])

        self._spread(work, b, h * t * s * dtype.itemsize)
        return y, (p,)

    def masked_softmax_(self, scores: Array, mask: Array | None) -> Array:
        if scores.ndim < 3 or scores.dtype == np.float16 or not scores.size:
            return super().masked_softmax_(scores, mask)
        self._spread(self._softmax_of_blocks_(scores, mask, 1), len(scores), scores[0].nbytes)
        return scores

    def _softmax_of_blocks_(self, scores: Array, mask: Array | None, scale: float) -> Callable[[slice], None]:
        """Return a function that turns a block of scores, along the first axis, into softmax(scale · scores + mask)."""
        bias = _mask_bias(mask, scores)

        def work(some: slice) -> None:
            block = scores[some]
            if scale != 1:
                block *= scale
            _softmax_block_(block, _of_block(bias, some))

        return work

    def _dropped(self, block: Array, keep: Array, scale: float) -> Array:
        """Return a block of attention weights after dropout, by the thread that computes the block."""
        return block * np.multiply(keep, block.dtype.type(scale))

    # ---- Search ----

    def top_tokens(self, logits: Array, barred: Array, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if computes_wider(logits.dtype) or not logits.size:
            return super().top_tokens(logits, barred, count)
        rows, classes = logits.shape
        largest, log_total = np.empty((rows, -(-classes // DEPTH)), logits.dtype), np.empty(rows)
        block = rows if logits.nbytes < SERIAL_SEARCH else max(1, blocks.BLOCK_BYTES // (classes * logits.itemsize))
        self._run_blocks(lambda s: _look_over(logits[s], barred, largest[s], log_total[s]), rows, block)
        return *_largest_of_groups(logits, barred, largest, count), log_total


# NumPy sums along an axis at 0.1 to 0.4 ns an element; a BLAS product with a vector of ones takes 0.07 ns.


def row_means(x: Array) -> Array:
    """Shapes: x [N, D] -> [N, 1]"""
    return weighted_sums(x, _constant(x.shape[1], 1 / x.shape[1], x.dtype))


def weighted_sums(x: Array, weights: Array) -> Array:
    """Return the weighted sum of each row.  Shapes: x [N, D], weights [D] -> [N, 1]"""
    # OpenBLAS for AVX-512 takes rows of 5 float32 with a register that holds what was there before: sums are right, but
    # a signalling NaN in its unused part raises the flag for an invalid operation
    with np.errstate(invalid="ignore"):
        return (x @ weights)[:, None]


@functools.cache
def _constant(size: int, value: float, dtype: Any) -> Array:
    return np.full(size, value, dtype)


def computes_wider(dtype: Any) -> bool:
    """Do NumPy's formulas compute in a wider dtype than this: half precision, integers and booleans?"""
    return dtype == np.float16 or dtype.kind in "iubV"  # V: bfloat16


def are_heads(q: Array, k: Array, v: Array) -> bool:
    """Are these [B, H, T, K], [B, H, S, K] and [B, H, S, M], with something in each, and no half precision?"""
    if not q.ndim == k.ndim == v.ndim == 4 or np.float16 in (q.dtype, k.dtype, v.dtype):
        return False
    return q.shape[:2] == k.shape[:2] == v.shape[:2] and min(q.size, k.size) > 0


def _mask_bias(mask: Array | None, scores: Array) -> Array | None:
    """0 where the mask is True, else -inf: adding this, in the mask's own shape, costs a tenth of a masked copy."""
    if mask is None:
        return None
    number = scores.dtype.type
    bias = np.where(mask, number(0), number(-np.inf))
    return bias if bias.ndim == scores.ndim else bias.reshape((1,) * (scores.ndim - bias.ndim) + bias.shape)


def _of_block(bias: Array | None, block: slice) -> Array | None:
    """Return the part of a mask's bias for a block of the first axis, along which the mask may repeat."""
    return bias if bias is None or len(bias) == 1 else bias[block]


def _softmax_block_(scores: Array, bias: Array | None) -> None:
    """`masked_softmax_` of one block, the mask given as a bias."""
    if bias is None:
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
    else:
        scores += bias
        limits = np.finfo(scores.dtype)
        top = scores.max(axis=-1, keepdims=True)
        peak = top.max()
        if peak != peak:  # NaN: a masked score was ∞ or NaN, and so is its sum with -∞
            np.copyto(scores, -np.inf, where=np.isneginf(bias))
            top = scores.max(axis=-1, keepdims=True)
        scores -= np.maximum(top, limits.min, out=top)  # -inf - (-inf) would be NaN
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
        np.maximum(total, limits.tiny, out=total)
    scores *= 1 / total


# ---- The few largest of many logits, without sorting them ----
#
# Tokens form groups of up to DEPTH. The k largest logits of a row are in the k groups with the largest maxima, and
# the largest of all keeps the exponentials finite. Group j of n has the ids j, j + n, j + 2 n, …: NumPy takes maxima
# over an axis that is not the last seven times as fast as over the last.


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
