"""Kernels of decoding and training in NumPy: blocks of rows that stay in cache, on all threads.

A chain of NumPy calls over whole arrays reads and writes main memory in each call.  Over a block of at most 1 MiB it
stays in the second- or third-level cache and costs little more than one pass; and NumPy releases the interpreter lock
inside a call, so blocks run on all cores.

Kernels take 2-D arrays (rows × columns) where the op treats every row alike; the ops reshape.  All floating-point
arrays of a call have one dtype, float32 or float64.  A kernel whose name ends in an underscore overwrites its first
argument; one that ends in `_block` writes its last ones, for a block of rows, and may be compiled (compiled.py).
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import random
from autograd.fast.table import cpu, entry
from autograd.fast.threads import BLOCK_BYTES, blocks_of, run_blocks, spread

Array = Any

SERIAL_PRODUCT = 2_000_000  # multiplications below which waking another thread costs more than it saves
MATMUL_SHARES = 512  # elements of a result below which NumPy's matmul keeps the interpreter lock; its dot never does
FEW_ROWS = 16  # rows of `linear_of_few` from which large blocks of weights are faster
TURNED_ROWS = {True: 96, False: 32}  # of `linear_of_few`, with AVX-512 or not, up to which w.T is the first factor
CONTIGUOUS_ROWS = 48  # from which a contiguous copy of w is the faster second factor, with AVX-512
FEW_INPUTS = 512  # weights of a row of w.T below which OpenBLAS packs products of a few rows after all
FEW_PRODUCTS = 2**19  # multiplications of a block with few rows, where the BLAS has kernels for small products
NO_BYTES: Any = ctypes.c_char * 0
DEPTH = 16  # tokens of a group of logits
SERIAL_SEARCH = 2 * 1024 * 1024  # logits of fewer bytes are searched by one thread: the calls are many and short

# ---- Products of few rows and many weights, as in decoding ----


@entry("numpy")
def linear_of_few(x: Array, w: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
    """`linear` for few rows and many weights, as in decoding, with the weights as [in, out].

    Shapes: x [R, in], w [in, out], bias [out] or None -> [R, out]
    """
    (rows, n_in), n_out = x.shape, w.shape[1]
    weights = n_in * n_out
    if weights <= 2**17 and rows * weights <= FEW_PRODUCTS:  # one block
        y = np.dot(x, w) if rows * n_out < MATMUL_SHARES else np.matmul(x, w)
        if bias is not None:
            y += bias
        return np.maximum(y, 0, out=y) if relu else y
    y = np.empty((rows, n_out), x.dtype)
    # OpenBLAS is up to 1.9 times as fast with w.T as the first factor
    is_turned = w.T.flags.c_contiguous and FEW_ROWS <= rows <= TURNED_ROWS[_has_small_kernels()]

    def work(columns: slice) -> None:
        out = y[:, columns]
        if is_turned:
            out[...] = np.matmul(w.T[columns], x.T).T
        elif out.size < MATMUL_SHARES:
            out[...] = np.dot(x, w[:, columns])
        else:
            np.matmul(x, w[:, columns], out=out)

    block = 16 * max(1, _weights_at_a_time(rows, weights) // (16 * max(n_in, 1)))
    run_blocks(work, n_out, block, worth_waking=x.size * n_out >= SERIAL_PRODUCT)
    cpu.add_bias_(y, bias, relu)
    return y


@entry("numpy")
def add_bias_(y: Array, bias: Array | None, relu: bool) -> None:
    """y + bias, or max(y + bias, 0), by the thread that has y in its cache.  Shapes: y [N, D], bias [D]"""
    for some in blocks_of(len(y), max(1, BLOCK_BYTES // max(1, y.shape[1] * y.itemsize))):
        if bias is not None:
            y[some] += bias
        if relu:
            np.maximum(y[some], 0, out=y[some])


@entry("numpy")
def prefers_contiguous(rows: int, n_in: int) -> bool:
    """Whether `linear_of_few` is faster with w contiguous as [in, out], and not a view of [out, in]."""
    return rows >= (CONTIGUOUS_ROWS if _has_small_kernels() else 0) or (rows > 1 and n_in < FEW_INPUTS)


@functools.cache
def _has_small_kernels() -> bool:
    """Is this OpenBLAS with AVX-512? It computes products of up to a million multiplications without repacking."""
    from threadpoolctl import threadpool_info

    return any(each.get("architecture") in ("SkylakeX", "Cooperlake", "SapphireRapids") for each in threadpool_info())


def _weights_at_a_time(rows: int, weights: int) -> int:
    """Weights of a block of `linear_of_few`: as many as fit a core's cache, or suit the kernels for small products."""
    if rows < FEW_ROWS:
        return min(2**17, FEW_PRODUCTS // (1 << (max(rows, 1) - 1).bit_length())) if _has_small_kernels() else 2**17
    return min(2**19, max(2**17, weights // 4))


# ---- Arrays side by side in memory ----


@entry("numpy")
def are_side_by_side(arrays: Sequence[Array]) -> bool:
    """Whether arrays follow each other in one block of memory: `stacked` returns a view of them, and no copy."""
    for a in arrays:
        if not (isinstance(a.base, np.ndarray) and a.base.flags.c_contiguous and a.flags.c_contiguous):
            return False
    return all(
        a.base is b.base and a.dtype == b.dtype and _address(a) + a.nbytes == _address(b)
        for a, b in itertools.pairwise(arrays)
    )


@entry("numpy")
def stacked(arrays: Sequence[Array]) -> Array:
    """Return the rows of all arrays, one after the other.  Shapes: [N_i, ...] -> [Σ N_i, ...]"""
    first = arrays[0]
    if len(arrays) == 1:
        return first
    if are_side_by_side(arrays):
        shape = sum(map(len, arrays)), *first.shape[1:]
        return np.ndarray(shape, first.dtype, first.base, _address(first) - _address(first.base))
    return np.concatenate(arrays)


def _address(a: Array) -> int:
    """Return the address of the first element of a contiguous array."""
    if not a.flags.writeable:
        return int(a.ctypes.data)
    # in a seventh of the time, and without new strings, which the interpreter keeps for a while as names of attributes
    return ctypes.addressof(NO_BYTES.from_buffer(a))


# ---- Dropout ----


@entry("numpy")
def draw(mask: random.Mask, shape: tuple[int, ...]) -> Array:
    """A dropout mask in the form that kernels take as `keep`: a bool array of `shape`."""
    keep = np.empty(math.prod(mask.shape), bool)

    def work(s: slice) -> None:
        keep[s] = mask.elements(s.start, s.stop)

    spread(work, len(keep), 2)  # bytes of random bits
    return keep.reshape(shape)


@entry("numpy")
def dropout(x: Array, keep: Array, scale: float) -> Array:
    """x · scale where `keep`, else 0.  Shapes: x [...], keep bool [...] -> [...]"""
    y = np.empty(x.shape, x.dtype)
    flat = x, keep, y
    if x.flags.c_contiguous and keep.flags.c_contiguous:
        flat = x.reshape(-1), keep.reshape(-1), y.reshape(-1)

    def work(s: slice) -> None:
        x, keep, y = (a[s] for a in flat)
        np.multiply(keep, x.dtype.type(scale), out=y)
        y *= x

    spread(work, len(flat[0]), x.nbytes // max(1, len(flat[0])))
    return y


# ---- Layer normalisation ----


@entry("numpy")
def dropout_add_layer_norm(
    x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float
) -> tuple[Array, Array, Array]:
    """y = (z - mean) / sqrt(variance + eps) · weight + bias, row by row: z = residual + dropout(x), or without one, x.

    Shapes: x [N, D], residual [N, D] or None, keep bool [N, D] or None, weight [D], bias [D]
            -> y [N, D], x̂ [N, D] (normalised z), 1/σ [N, 1]
    """
    y, normalised, inverse_std = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype), np.empty((len(x), 1), x.dtype)

    def work(s: slice) -> None:
        parts = [None if a is None else a[s] for a in (x, residual, keep)]
        cpu.layer_norm_block(*parts, scale, weight, bias, eps, y[s], normalised[s], inverse_std[s])

    spread(work, len(x), x.shape[1] * x.itemsize)
    return y, normalised, inverse_std


@entry("numpy")
def layer_norm_block(
    x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float, y: Array,
    normalised: Array, inverse_std: Array,
) -> None:  # fmt: skip
    """A block of `dropout_add_layer_norm`."""
    total = y  # the memory of the result is also that of the sum
    if residual is None:
        total = x
    elif keep is None:
        np.add(x, residual, out=total)
    else:
        np.multiply(keep, x.dtype.type(scale), out=total)
        total *= x
        total += residual
    np.subtract(total, row_means(total), out=normalised)
    variance = np.einsum("nd,nd->n", normalised, normalised)[:, None] / x.shape[1]
    if not np.isfinite(variance).all():  # squares of numbers from 1e19 on are beyond float32
        variance = np.square(normalised, dtype=np.float64).mean(axis=1, keepdims=True)
    np.sqrt(variance + eps, out=inverse_std)
    np.reciprocal(inverse_std, out=inverse_std)
    normalised *= inverse_std
    scale_and_shift_block(normalised, weight, bias, y)


@entry("numpy")
def scale_and_shift(normalised: Array, weight: Array, bias: Array) -> Array:
    """Return the y of a layer norm from its x̂.  Shapes: x̂ [N, D], weight [D], bias [D] -> [N, D]"""
    y = np.empty(normalised.shape, normalised.dtype)
    spread(lambda s: cpu.scale_and_shift_block(normalised[s], weight, bias, y[s]), len(y), y.shape[1] * y.itemsize)
    return y


@entry("numpy")
def scale_and_shift_block(normalised: Array, weight: Array, bias: Array, y: Array) -> None:
    """A block of `scale_and_shift`."""
    np.multiply(normalised, weight, out=y)
    y += bias


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


# ---- Embedding ----


@entry("numpy")
def embedding(
    weight: Array, indices: Array, positions: Array | None, scale: float, keep: Any, keep_scale: float,
    dtype: Any = None,
) -> Array:  # fmt: skip
    """dropout(scale · weight[indices] + positions), in `dtype` (None: that of the weight).

    Shapes: weight [V, D], indices int [..., T], positions [T, D] or None, keep [..., T, D] or None -> [..., T, D]
    """
    y = weight[indices]
    if scale != 1:
        y *= scale
    if positions is not None:
        y = np.add(y, positions, out=y if positions.dtype == y.dtype else None)
    if keep is not None:
        y = cpu.dropout(y, keep, keep_scale)
    return y if dtype is None else y.astype(dtype, copy=False)


# ---- Attention ----


@entry("numpy")
def attention(
    q: Array, k: Array, v: Array, mask: Array | None, keep: Any, keep_scale: float, scale: float,
    known: Array | None = None,
) -> tuple[Array, tuple[Any, ...]]:  # fmt: skip
    """y = dropout(p) v with p = softmax(scale · q kᵀ + mask); for y in memory, see `heads_last_empty`.

    known: p, where it is

    Shapes: q [B, H, T, K], k [B, H, S, K], v [B, H, S, M], mask and keep bool broadcastable to [B, H, T, S] or None
            -> y [B, H, T, M], and a tuple for the backward pass: here (p [B, H, T, S],)
    """
    (b, h, t, _), s, m = q.shape, k.shape[2], v.shape[3]
    p, y = np.empty((b, h, t, s), q.dtype) if known is None else known, heads_last_empty(np, (b, h, t, m), q.dtype)
    mask = None if mask is None else mask.reshape((1,) * (4 - mask.ndim) + mask.shape)

    def work(some: slice) -> None:
        block = p[some]
        if known is None:
            np.matmul(q[some], k[some].swapaxes(-1, -2), out=block)
            cpu.softmax_(block, mask if mask is None or len(mask) == 1 else mask[some], scale)
        dropped = block if keep is None else block * np.multiply(keep[some], block.dtype.type(keep_scale))
        np.matmul(dropped, v[some], out=y[some])

    spread(work, b, h * t * s * q.itemsize)
    return y, (p,)


@entry("numpy")
def softmax_(scores: Array, mask: Array | None, scale: float) -> None:
    """softmax(scale · scores) along the last axis where the mask is True, else 0; rows without a True become 0."""
    if scale != 1:
        scores *= scale
    if mask is None:
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
    else:
        number, limits = scores.dtype.type, np.finfo(scores.dtype)
        scores += np.where(mask, number(0), number(-np.inf))  # in the mask's own shape: a tenth of the time of a copy
        top = scores.max(axis=-1, keepdims=True)
        peak = top.max()
        if peak != peak:  # NaN: a masked score was ∞ or NaN, and so is its sum with -∞
            np.copyto(scores, -np.inf, where=~mask)
            top = scores.max(axis=-1, keepdims=True)
        scores -= np.maximum(top, limits.min, out=top)  # -inf - (-inf) would be NaN
        np.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
        np.maximum(total, limits.tiny, out=total)
    scores *= 1 / total


def heads_last_empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an empty array of shape [B, H, T, K], in memory [B, T, H, K].

    Products write into it at full speed, and joining the heads, by transpose and reshape to [B, T, H · K], copies
    nothing.
    """
    *leading, h, t, k = shape
    return xp.empty((*leading, t, h, k), dtype).swapaxes(-2, -3)


# ---- Search: the few largest of many logits, without sorting them ----
#
# Tokens form groups of up to DEPTH. The k largest logits of a row are in the k groups with the largest maxima, and the
# largest of all keeps the exponentials finite. Group j of n has the ids j, j + n, j + 2 n, …: NumPy takes maxima over
# an axis that is not the last seven times as fast as over the last.


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
