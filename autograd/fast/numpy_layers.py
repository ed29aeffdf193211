"""The kernels of a training step in NumPy, but for products: blocks of rows that stay in cache, on all threads.

A chain of NumPy calls over whole arrays reads and writes main memory in each call.  Over a block of at most 1 MiB it
stays in the second- or third-level cache and costs little more than one pass; and NumPy releases the interpreter lock
inside a call, so blocks run on all cores.

Kernels take 2-D arrays (rows × columns) where the op treats every row alike; the ops reshape.  All floating-point
arrays of a call have one dtype, float32 or float64.  A kernel whose name ends in an underscore overwrites its first
argument; one that ends in `_block` writes its last ones, for a block of rows, and may be compiled (compiled.py).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd import random
from autograd.fast.table import cpu, entry
from autograd.fast.threads import BLOCK_BYTES, SERIAL_BYTES, blocks_of, in_order, run_blocks, spread

Array = Any
Places = Sequence[Any]  # for each of several arrays, memory or None

NO_PLACES: Places = (None, None, None)
BITS: dict[Any, Any] = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}  # as wide

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


# ---- ReLU, and sums of rows ----


@entry("numpy")
def relu_backward_sum(g_y: Array, y: Array) -> tuple[Array, Array]:
    """g_y where y > 0, else 0, and the sum of its rows.  Shapes: g_y [N, D], y [N, D] -> [N, D], [D]"""
    g_x = np.empty(y.shape, g_y.dtype)
    (g_bias,) = _sums_of_blocks(lambda s, total: cpu.relu_backward_block(g_y[s], y[s], g_x[s], total), g_x, 1)
    return g_x, g_bias


@entry("numpy")
def relu_backward_block(g_y: Array, y: Array, g_x: Array, g_bias: Array) -> None:
    """A block of `relu_backward_sum`."""
    bits = g_x.view(BITS[g_y.dtype])  # NumPy's `where` takes 1.3 to 4 ns an element, this 0.2 to 0.5
    np.negative(y > 0, out=bits, dtype=bits.dtype, casting="unsafe")
    bits &= np.ascontiguousarray(g_y).view(bits.dtype)
    _sum_rows(g_x, g_bias)


@entry("numpy")
def sum_rows(x: Array) -> Array:
    """Σ over the rows.  Shapes: x [N, D] -> [D]"""
    return _sums_of_blocks(lambda s, total: _sum_rows(x[s], total), x, 1)[0]


def _sums_of_blocks(work: Callable[..., None], rows: Array, count: int) -> list[Array]:
    """Call `work` with each block of rows and `count` arrays [D] for its sums; return the sums of all blocks."""
    sums: list[dict[int, Array]] = [{} for _ in range(count)]  # of each block, by its first row

    def block(s: slice) -> None:
        own = [np.empty(rows.shape[1], rows.dtype) for _ in range(count)]
        work(s, *own)
        for each, of_block in zip(sums, own, strict=True):
            each[s.start] = of_block

    spread(block, len(rows), rows.shape[1] * rows.itemsize)
    return [in_order(each) for each in sums]


# NumPy sums along an axis at 0.1 to 0.4 ns an element; a BLAS product with a vector of ones takes 0.07 ns.


def _sum_rows(x: Array, total: Array) -> None:
    """Shapes: x [N, D], total [D] (written)"""
    np.matmul(np.ones(len(x), x.dtype), x, out=total)


def _row_means(x: Array) -> Array:
    """Shapes: x [N, D] -> [N, 1]"""
    return _weighted_sums(x, _constant(x.shape[1], 1 / x.shape[1], x.dtype))


def _weighted_sums(x: Array, weights: Array) -> Array:
    """Return the weighted sum of each row.  Shapes: x [N, D], weights [D] -> [N, 1]"""
    # OpenBLAS for AVX-512 takes rows of 5 float32 with a register that holds what was there before: sums are right, but
    # a signalling NaN in its unused part raises the flag for an invalid operation
    with np.errstate(invalid="ignore"):
        return (x @ weights)[:, None]


@functools.cache
def _constant(size: int, value: float, dtype: Any) -> Array:
    return np.full(size, value, dtype)


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
    np.subtract(total, _row_means(total), out=normalised)
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


@entry("numpy")
def dropout_add_layer_norm_backward(
    g_y: Array, normalised: Array, inverse_std: Array, weight: Array, keep: Any, scale: float
) -> tuple[Array, Array, Array, Array]:
    """Shapes: g_y [N, D], x̂ [N, D], 1/σ [N, 1], weight [D] -> g_x [N, D], g_residual [N, D], g_weight [D], g_bias [D]

    Derived in docs/fused-ops.md.
    """
    g_sum = np.empty(g_y.shape, g_y.dtype)

    def work(s: slice, *sums: Array) -> None:
        cpu.layer_norm_backward_block(g_y[s], normalised[s], inverse_std[s], weight, g_sum[s], *sums)

    g_weight, g_bias = _sums_of_blocks(work, g_y, 2)
    return g_sum if keep is None else cpu.dropout(g_sum, keep, scale), g_sum, g_weight, g_bias


@entry("numpy")
def layer_norm_backward_block(
    g_y: Array, normalised: Array, inverse_std: Array, weight: Array, g_sum: Array, g_weight: Array, g_bias: Array
) -> None:
    """A block of `dropout_add_layer_norm_backward`, before dropout."""
    along = g_y * normalised
    _sum_rows(along, g_weight)
    _sum_rows(g_y, g_bias)
    along_x = _weighted_sums(along, weight) / g_y.shape[1]
    np.multiply(g_y, weight, out=g_sum)
    g_sum -= _row_means(g_sum)
    g_sum -= np.multiply(normalised, along_x, out=along)
    g_sum *= inverse_std


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
    if positions is not None and positions.dtype == y.dtype:
        y += positions
    elif positions is not None:
        y = y + positions
    if keep is not None:
        y = cpu.dropout(y, keep, keep_scale)
    return y if dtype is None else y.astype(dtype, copy=False)


@entry("numpy")
def embedding_backward(g_y: Array, indices: Array, rows: int, scale: float = 1.0, drop: None = None) -> Array:
    """scale · Σ of the gradients of equal indices, in the order of the rows.

    drop: a GPU draws the mask of a dropout of g_y here; a CPU has done it before

    Shapes: g_y [N, D], indices [N] -> [rows, D]
    """
    # `np.add.at` is fast for one axis, and takes a quarter of the time of sorting and `np.add.reduceat`
    width = g_y.shape[1]
    g_weight = np.zeros((rows, width), g_y.dtype)
    flat, columns = g_weight.reshape(-1), np.arange(width)
    indices = indices.astype(np.intp, copy=False)  # narrower integers could not hold a position
    block = max(1, BLOCK_BYTES // max(8 * width, 1))
    for start in range(0, len(indices), block):
        positions = indices[start : start + block, None] * width + columns
        np.add.at(flat, positions.reshape(-1), g_y[start : start + block].reshape(-1))
    if scale != 1:
        g_weight *= scale
    return g_weight


# ---- Attention ----


@entry("numpy")
def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    keep: Any,
    keep_scale: float,
    scale: float,
    known: Array | None = None,
) -> tuple[Array, tuple[Any, ...]]:
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
        np.matmul(
            block if keep is None else block * np.multiply(keep[some], block.dtype.type(keep_scale)),
            v[some],
            out=y[some],
        )

    spread(work, b, h * t * s * q.itemsize)
    return y, (p,)


@entry("numpy")
def attention_backward(
    g_y: Array, q: Array, k: Array, v: Array, kept: tuple[Any, ...], keep: Any, keep_scale: float,
    scale: float, places: Places = NO_PLACES,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the gradients of q, k and v, each in the memory of `places` where there is any of its shape and type.

    Shapes: g_y [B, H, T, M], others as in `attention` -> g_q [B, H, T, K], g_k [B, H, S, K], g_v [B, H, S, M]

    Derived in docs/fused-ops.md.
    """
    (p,) = kept
    g_q, g_k, g_v = gradients_of_heads(np, [a.shape for a in (q, k, v)], p.dtype, places)

    def work(some: slice) -> None:
        block, g = p[some], g_y[some]
        factors = None if keep is None else np.multiply(keep[some], p.dtype.type(keep_scale))
        np.matmul((block if factors is None else block * factors).swapaxes(-1, -2), g, out=g_v[some])
        g_p = np.matmul(g, v[some].swapaxes(-1, -2), out=np.empty(block.shape, p.dtype))
        if factors is not None:
            g_p *= factors
        cpu.weights_to_scores_(g_p, block, scale)
        np.matmul(g_p, k[some], out=g_q[some])
        np.matmul(g_p.swapaxes(-1, -2), q[some], out=g_k[some])

    spread(work, len(p), p[0].nbytes)
    return g_q, g_k, g_v


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


@entry("numpy")
def weights_to_scores_(g: Array, p: Array, scale: float) -> None:
    """Turn the gradient of attention weights into that of q kᵀ, by the thread that computes the block."""
    g -= np.einsum("...s,...s->...", g, p)[..., None]
    g *= p
    g *= scale


def heads_last_empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an empty array of shape [B, H, T, K], in memory [B, T, H, K].

    Products write into it at full speed, and joining the heads, by transpose and reshape to [B, T, H · K], copies
    nothing.
    """
    *leading, h, t, k = shape
    return xp.empty((*leading, t, h, k), dtype).swapaxes(-2, -3)


def gradients_of_heads(xp: Any, shapes: Sequence[tuple[int, ...]], dtype: Any, places: Places) -> list[Array]:
    """Memory for gradients of these shapes: what `places` gives, or else as `heads_last_empty`."""
    return [
        heads_last_empty(xp, shape, dtype) if place is None or place.shape != shape or place.dtype != dtype else place
        for shape, place in zip(shapes, places, strict=True)
    ]


# ---- Optimizer ----

Update = tuple[Array, Array, Array, Array, Array | None]


@entry("numpy")
def adam_all_(updates: Sequence[Update], **settings: float) -> None:
    """One Adam update of many arrays (Kingma & Ba 2015, Algorithm 1): (parameter, gradient, m, v, copy or None).

    m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²;  parameter ← parameter - step_size · m / (√v + eps)

    Bias corrections are folded into `step_size` and `eps`.  A copy, of the new parameter, is in lower precision.
    """
    parts = [part for update in updates for part in _parts_of(update)]
    worth_waking = sum(part[0].nbytes for part in parts) >= SERIAL_BYTES
    run_blocks(lambda s: cpu.adam_parts_(parts[s], **settings), len(parts), 4, worth_waking)


def _parts_of(update: Update) -> list[Any]:
    """Parts of the arrays of `adam_all_`, each too small to divide: those of all parameters wake the threads once."""
    if update[0].nbytes < SERIAL_BYTES or not all(a is None or a.flags.c_contiguous for a in update):
        return [update]
    some = blocks_of(update[0].size, max(1, (SERIAL_BYTES - 1) // update[0].itemsize))
    return [tuple([None if a is None else a.reshape(-1)[s] for a in update]) for s in some]


@entry("numpy")
def adam_parts_(
    parts: Sequence[Update], *, step_size: float, beta1: float, beta2: float, eps: float, gradient_scale: float
) -> None:
    """`adam_all_` in one thread, of parts that are too small to divide."""
    for parameter, gradient, m, v, copy in parts:
        g = gradient * gradient_scale
        step = g - m
        step *= 1 - beta1
        m += step
        g *= g
        g -= v
        g *= 1 - beta2
        v += g
        step = np.sqrt(v)
        step += eps
        step = m / step
        step *= step_size
        parameter -= step
        if copy is not None:
            copy[...] = parameter


@entry("numpy")
def gather_(gradients: Sequence[tuple[Array, Array, bool]]) -> None:
    """Write or add many gradients to their places: (place, gradient, whether it is added)."""
    for place, gradient, adds in gradients:
        if adds:
            place += gradient
        else:
            place[...] = gradient


@entry("numpy")
def squared_norm(arrays: Sequence[Array]) -> float:
    """Σ x² over all elements: pieces in the arrays' precision, their sum in float64."""
    total = 0.0
    for array in arrays:
        flat = array.reshape(-1)
        # a float32 dot product in pieces: exact enough, and without a float64 copy of the array
        total += math.fsum(float(piece @ piece) for piece in np.array_split(flat, -(-flat.size // 65536) or 1))
    return total
