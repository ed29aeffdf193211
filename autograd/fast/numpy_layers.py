"""The kernels of a training step in NumPy, but for products: blocks of rows that stay in cache, on all threads.

A chain of NumPy calls over whole arrays reads and writes main memory in each call.  Over a block of at most 1 MiB it
stays in the second- or third-level cache and costs little more than one pass; and NumPy releases the interpreter lock
inside a call, so blocks run on all cores.

Kernels take 2-D arrays (rows × columns) where the op treats every row alike; the ops reshape.  All floating-point
arrays of a call have one dtype, float32 or float64.  A kernel whose name ends in an underscore overwrites its first
argument.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd import random
from autograd.fast.table import cpu, entry
from autograd.fast.threads import BLOCK_BYTES, SERIAL_BYTES, blocks_of, in_order, over_elements, run_blocks, spread

Array = Any
Places = Sequence[Any]  # for each of several arrays, memory or None

NO_PLACES: Places = (None, None, None)
BITS: dict[Any, Any] = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}  # as wide

LOGITS_BYTES = 128 << 20  # that `linear_cross_entropy` holds in memory; half of it where memory is scarce

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

    def work(x: Array, keep: Array, y: Array) -> None:
        np.multiply(keep, x.dtype.type(scale), out=y)
        y *= x

    if x.flags.c_contiguous and keep.flags.c_contiguous:
        over_elements(work, x, keep, y)
    else:
        work(x, keep, y)
    return y


# ---- ReLU, and sums of rows ----


@entry("numpy")
def relu_backward_sum(g_y: Array, y: Array) -> tuple[Array, Array]:
    """g_y where y > 0, else 0, and the sum of its rows.  Shapes: g_y [N, D], y [N, D] -> [N, D], [D]"""
    g_x = np.empty(y.shape, g_y.dtype)
    sums: dict[int, Array] = {}  # of each block, by its first row

    def work(s: slice) -> None:
        bits = g_x[s].view(BITS[g_y.dtype])  # NumPy's `where` takes 1.3 to 4 ns an element, this 0.2 to 0.5
        np.negative(y[s] > 0, out=bits, dtype=bits.dtype, casting="unsafe")
        bits &= np.ascontiguousarray(g_y[s]).view(bits.dtype)
        sums[s.start] = _sum_rows(g_x[s])

    spread(work, len(y), y.shape[1] * y.itemsize)
    return g_x, in_order(sums)


@entry("numpy")
def sum_rows(x: Array) -> Array:
    """Σ over the rows.  Shapes: x [N, D] -> [D]"""
    partial: dict[int, Array] = {}

    def work(s: slice) -> None:
        partial[s.start] = _sum_rows(x[s])

    spread(work, len(x), x.shape[1] * x.itemsize)
    return in_order(partial)


# NumPy sums along an axis at 0.1 to 0.4 ns an element; a BLAS product with a vector of ones takes 0.07 ns.


def _sum_rows(x: Array) -> Array:
    """Shapes: x [N, D] -> [D]"""
    return np.ones(len(x), x.dtype) @ x


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
        total, n = y[s], normalised[s]  # the memory of the result is also that of the sum
        if residual is None:
            total = x[s]
        elif keep is None:
            np.add(x[s], residual[s], out=total)
        else:
            np.multiply(keep[s], x.dtype.type(scale), out=total)
            total *= x[s]
            total += residual[s]
        np.subtract(total, _row_means(total), out=n)
        variance = np.einsum("nd,nd->n", n, n)[:, None] / x.shape[1]
        if not np.isfinite(variance).all():  # squares of numbers from 1e19 on are beyond float32
            variance = np.square(n, dtype=np.float64).mean(axis=1, keepdims=True)
        np.sqrt(variance + eps, out=inverse_std[s])
        np.reciprocal(inverse_std[s], out=inverse_std[s])
        n *= inverse_std[s]
        np.multiply(n, weight, out=y[s])
        y[s] += bias

    spread(work, len(x), x.shape[1] * x.itemsize)
    return y, normalised, inverse_std


@entry("numpy")
def scale_and_shift(normalised: Array, weight: Array, bias: Array) -> Array:
    """Return the y of a layer norm from its x̂.  Shapes: x̂ [N, D], weight [D], bias [D] -> [N, D]"""
    y = np.empty(normalised.shape, normalised.dtype)

    def work(s: slice) -> None:
        np.multiply(normalised[s], weight, out=y[s])
        y[s] += bias

    spread(work, len(y), y.shape[1] * y.itemsize)
    return y


@entry("numpy")
def layer_norm_backward(g_y: Array, normalised: Array, inverse_std: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Shapes: g_y [N, D], x̂ [N, D], 1/σ [N, 1], weight [D] -> g_x [N, D], g_weight [D], g_bias [D]

    Derived in docs/fused-ops.md.
    """
    g_x, width = np.empty(g_y.shape, g_y.dtype), g_y.shape[1]
    g_weights: dict[int, Array] = {}  # of each block, by its first row
    g_biases: dict[int, Array] = {}

    def work(s: slice) -> None:
        g, x_hat, out = g_y[s], normalised[s], g_x[s]
        along = g * x_hat
        g_weights[s.start], g_biases[s.start] = _sum_rows(along), _sum_rows(g)
        along_x = _weighted_sums(along, weight) / width
        np.multiply(g, weight, out=out)
        out -= _row_means(out)
        out -= np.multiply(x_hat, along_x, out=along)
        out *= inverse_std[s]

    spread(work, len(g_y), width * g_y.itemsize)
    return g_x, in_order(g_weights), in_order(g_biases)


@entry("numpy")
def dropout_add_layer_norm_backward(
    g_y: Array, normalised: Array, inverse_std: Array, weight: Array, keep: Any, scale: float
) -> tuple[Array, Array, Array, Array]:
    """Shapes: as layer_norm_backward -> g_x [N, D], g_residual [N, D], g_weight [D], g_bias [D]"""
    g_sum, g_weight, g_bias = cpu.layer_norm_backward(g_y, normalised, inverse_std, weight)
    return g_sum if keep is None else cpu.dropout(g_sum, keep, scale), g_sum, g_weight, g_bias


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
    q: Array, k: Array, v: Array, mask: Array | None, keep: Any, keep_scale: float, scale: float
) -> tuple[Array, tuple[Any, ...]]:
    """y = dropout(p) v with p = softmax(scale · q kᵀ + mask); for y in memory, see `heads_last_empty`.

    Shapes: q [B, H, T, K], k [B, H, S, K], v [B, H, S, M], mask and keep bool broadcastable to [B, H, T, S] or None
            -> y [B, H, T, M], and a tuple for the backward pass: here (p [B, H, T, S],)
    """
    (b, h, t, _), s, m = q.shape, k.shape[2], v.shape[3]
    p, y = np.empty((b, h, t, s), q.dtype), heads_last_empty(np, (b, h, t, m), q.dtype)
    softmax_ = cpu.softmax_of_blocks(p, mask, scale)

    def work(some: slice) -> None:
        np.matmul(q[some], k[some].swapaxes(-1, -2), out=p[some])
        softmax_(some)
        weights = p[some] if keep is None else cpu.dropped_weights(p[some], keep[some], keep_scale)
        np.matmul(weights, v[some], out=y[some])

    spread(work, b, h * t * s * q.itemsize)
    return y, (p,)


@entry("numpy")
def attention_output(p: Array, v: Array, keep: Any, keep_scale: float) -> Array:
    """The y of `attention` from p.  Shapes: p [..., T, S], v [..., S, M], keep bool [..., T, S] -> y [..., T, M]"""
    y = heads_last_empty(np, (*p.shape[:3], v.shape[3]), p.dtype)

    def work(some: slice) -> None:
        np.matmul(p[some] if keep is None else dropped_weights(p[some], keep[some], keep_scale), v[some], out=y[some])

    spread(work, len(p), p[0].nbytes)
    return y


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
        block, g, keeps = p[some], g_y[some], None if keep is None else keep[some]
        dropped = block if keeps is None else cpu.dropped_weights(block, keeps, keep_scale)
        np.matmul(dropped.swapaxes(-1, -2), g, out=g_v[some])
        g_p = np.matmul(g, v[some].swapaxes(-1, -2), out=np.empty(block.shape, p.dtype))
        cpu.weights_to_scores_(g_p, block, keeps, keep_scale, scale)
        np.matmul(g_p, k[some], out=g_q[some])
        np.matmul(g_p.swapaxes(-1, -2), q[some], out=g_k[some])

    spread(work, len(p), p[0].nbytes)
    return g_q, g_k, g_v


@entry("numpy")
def softmax_of_blocks(scores: Array, mask: Array | None, scale: float) -> Callable[[slice], None]:
    """Return a function that turns a block of scores, along the first axis, into softmax(scale · scores + mask)."""
    bias = None
    if mask is not None:  # 0 where it is True, else -inf: adding this, in the mask's own shape, costs a tenth of a copy
        number = scores.dtype.type
        bias = np.where(mask, number(0), number(-np.inf))
        bias = bias.reshape((1,) * (scores.ndim - bias.ndim) + bias.shape)

    def work(some: slice) -> None:
        block = scores[some]
        if scale != 1:
            block *= scale
        _softmax_(block, bias if bias is None or len(bias) == 1 else bias[some])

    return work


def _softmax_(scores: Array, bias: Array | None) -> None:
    """Probabilities along the last axis, 0 where the bias is -inf; rows of -inf alone become 0."""
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


@entry("numpy")
def dropped_weights(block: Array, keep: Array, scale: float) -> Array:
    """Return a block of attention weights after dropout, by the thread that computes the block."""
    return block * np.multiply(keep, block.dtype.type(scale))


@entry("numpy")
def weights_to_scores_(g: Array, p: Array, keep: Array | None, keep_scale: float, scale: float) -> None:
    """Turn the gradient of attention weights into that of q kᵀ, by the thread that computes the block."""
    if keep is not None:
        g *= np.multiply(keep, p.dtype.type(keep_scale))
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
        block, at = logits[s], (np.arange(s.stop - s.start), targets[s])
        block -= block.max(axis=1, keepdims=True)
        at_target = block[at]
        mean = block.mean(axis=1) if label_smoothing else 0
        np.exp(block, out=block)
        total = block.sum(axis=1)
        log_total = np.log(total)
        nll[s] = log_total - at_target
        loss[s] = (1 - label_smoothing) * nll[s] + label_smoothing * (log_total - mean)
        block *= (1 / total)[:, None]
        if label_smoothing:
            block -= label_smoothing / block.shape[1]
        block[at] -= 1 - label_smoothing

    spread(work, len(logits), logits.shape[1] * logits.itemsize)
    return loss, nll


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
