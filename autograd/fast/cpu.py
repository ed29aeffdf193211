"""The kernels of kernels.py for the CPU: the same formulas over blocks of rows that stay in cache.

A chain of NumPy calls over whole arrays reads and writes main memory in each call.  Over a block of at most 1 MiB
(blocks.py) it stays in the second- or third-level cache and costs little more than one pass; and NumPy releases the
interpreter lock inside a call, so blocks run on all cores.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd import random
from autograd.fast import blocks, top_k
from autograd.fast.cpu_products import CpuProducts, in_order
from autograd.fast.kernels import Kernels
from autograd.fast.shared import NO_PLACES, Places, blocks_of, gradients_of_heads, heads_last_empty

Array = Any

SERIAL_SEARCH = 2 * 1024 * 1024  # logits of fewer bytes are searched by one thread: the calls are many and short
BITS = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}  # of equal size


def available_cores() -> int:
    """Return the processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> bool:
    """Make the C library keep freed memory instead of returning it to the system; return whether it does.

    A training step allocates and frees the same arrays every time.  Memory fresh from the system costs a page fault
    every 4 KiB, more than the arithmetic on it.  The setting is global, so only programs call this, never an import.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # not the GNU C library: its allocator is left as it is
        return False
    m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
    settings = ((m_mmap_threshold, 1 << 30), (m_trim_threshold, 2**31 - 1), (m_top_pad, 64 << 20))
    accepted = [libc.mallopt(name, value) == 1 for name, value in settings]  # all of them, whatever the first says
    return all(accepted)


class CpuKernels(CpuProducts):
    """NumPy on the host.

    At first it uses one thread, and the BLAS library its own: an import changes nothing in the process.  After
    `set_threads`, all kernels, matrix products included, are divided into blocks that all threads share.
    """

    xp = np
    kernels = "numpy"

    # ---- Selecting and summing ----

    def keep_where(self, x: Array, keep: Array) -> Array:
        if x.dtype not in BITS or keep.shape != x.shape or not (x.flags.c_contiguous and keep.flags.c_contiguous):
            return super().keep_where(x, keep)
        y = np.empty(x.shape, x.dtype)
        self._over_elements(_keep_block, x, keep, y)
        return y

    def sum_rows(self, x: Array) -> Array:
        if x.dtype.kind not in "fc" or x.dtype == np.float16 or not x.size:
            return super().sum_rows(x)
        partial: dict[int, Array] = {}

        def work(s: slice) -> None:
            partial[s.start] = _sum_rows(x[s])

        self._spread(work, len(x), x.shape[1] * x.itemsize)
        return in_order(partial)

    # ---- Dropout ----

    def draw(self, mask: random.Mask, shape: tuple[int, ...]) -> Array:
        keep = np.empty(math.prod(mask.shape), bool)

        def work(s: slice) -> None:
            keep[s] = mask.elements(s.start, s.stop)

        self._spread(work, len(keep), 2)  # bytes of random bits
        return keep.reshape(shape)

    def dropout(self, x: Array, keep: Array, scale: float) -> Array:
        if not (x.flags.c_contiguous and x.ndim) or x.dtype.kind in "iub":
            return super().dropout(x, keep, scale)
        result = np.empty(x.shape, x.dtype)

        def work(x: Array, keep: Array, y: Array) -> None:
            np.multiply(keep, x.dtype.type(scale), out=y)
            y *= x

        self._over_elements(work, x, keep, result)
        return result

    # ---- Activations ----

    def relu(self, x: Array) -> Array:
        if not x.flags.c_contiguous:
            return super().relu(x)
        y = np.empty(x.shape, x.dtype)
        self._over_elements(lambda x, y: np.maximum(x, 0, out=y), x, y)
        return y

    def relu_backward(self, g_y: Array, y: Array) -> Array:
        if g_y.dtype != np.float32 or not (g_y.flags.c_contiguous and y.flags.c_contiguous):
            return super().relu_backward(g_y, y)
        g_x = np.empty(y.shape, g_y.dtype)
        self._over_elements(lambda g, y, out: _keep_block(g, y > 0, out), g_y, y, g_x)
        return g_x

    def relu_backward_sum(self, g_y: Array, y: Array) -> tuple[Array, Array]:
        if g_y.dtype != np.float32 or not g_y.size:
            return super().relu_backward_sum(g_y, y)
        g_x = np.empty(y.shape, g_y.dtype)
        g_biases: dict[int, Array] = {}  # of each block, by its first row

        def work(s: slice) -> None:
            _keep_block(g_y[s], y[s] > 0, g_x[s])
            g_biases[s.start] = _sum_rows(g_x[s])

        self._spread(work, len(y), y[0].nbytes)
        return g_x, in_order(g_biases)

    def normal_distribution(self, x: Array) -> tuple[Array, Array]:
        results = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)

        def work(x: Array, density: Array, distribution: Array) -> None:
            density[:], distribution[:] = Kernels.normal_distribution(self, x)

        self._over_elements(work, x, *results)  # some sixty operations on a block in the cache
        return results

    # ---- Layer normalisation ----

    def layer_norm(self, x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
        return self.dropout_add_layer_norm(x, None, None, 1.0, weight, bias, eps)

    def dropout_add_layer_norm(
        self, x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float
    ) -> tuple[Array, Array, Array]:
        dtype = np.result_type(x, weight, bias) if residual is None else np.result_type(x, residual, weight, bias)
        if _computes_wider(dtype) or x.dtype != dtype or not x.size:
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
        np.subtract(x, _row_means(x), out=normalised)
        variance = np.einsum("nd,nd->n", normalised, normalised)[:, None] / width
        np.sqrt(variance + eps, out=inverse_std)
        np.reciprocal(inverse_std, out=inverse_std)
        normalised *= inverse_std

    def scale_and_shift(self, normalised: Array, weight: Array, bias: Array) -> Array:
        if not normalised.size:
            return super().scale_and_shift(normalised, weight, bias)
        y = np.empty(normalised.shape, np.result_type(normalised, weight, bias))

        def work(s: slice) -> None:
            np.multiply(normalised[s], weight, out=y[s])
            y[s] += bias

        self._spread(work, len(y), y[0].nbytes)
        return y

    def layer_norm_backward(
        self, g_y: Array, normalised: Array, inverse_std: Array, weight: Array
    ) -> tuple[Array, Array, Array]:
        if g_y.dtype == np.float16 or not g_y.size:
            return super().layer_norm_backward(g_y, normalised, inverse_std, weight)
        g_x = np.empty(g_y.shape, np.result_type(g_y, weight))
        g_weights: dict[int, Array] = {}  # of each block, by its first row
        g_biases: dict[int, Array] = {}

        def work(s: slice) -> None:
            g, x_hat, out = g_y[s], normalised[s], g_x[s]
            along = g * x_hat
            g_weights[s.start], g_biases[s.start] = _sum_rows(along), _sum_rows(g)
            along_x = _row_sums(along, weight) / width
            np.multiply(g, weight, out=out)
            out -= _row_means(out)
            out -= np.multiply(x_hat, along_x, out=along)
            out *= inverse_std[s]

        width = g_y.shape[1]
        self._spread(work, len(g_y), g_y[0].nbytes)
        return g_x, in_order(g_weights), in_order(g_biases)

    # ---- Embedding ----

    def embedding_backward(self, g_y: Array, indices: Array, rows: int) -> Array:
        # element by element, in the order of the rows: `np.add.at` is fast for one axis, and takes a quarter of the
        # time of sorting and `np.add.reduceat`
        width = g_y.shape[1]
        g_weight = np.zeros((rows, width), g_y.dtype)
        flat, columns = g_weight.reshape(-1), np.arange(width)
        indices = indices.astype(np.intp, copy=False)  # narrower integers could not hold a position
        block = max(1, blocks.BLOCK_BYTES // max(8 * width, 1))
        for start in range(0, len(indices), block):
            positions = indices[start : start + block, None] * width + columns
            np.add.at(flat, positions.reshape(-1), g_y[start : start + block].reshape(-1))
        return g_weight

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

    def attention_output(self, p: Array, v: Array, keep: Any, keep_scale: float) -> Array:
        if (
            not p.ndim == v.ndim == 4
            or v.shape[:2] != p.shape[:2]
            or not p.dtype == v.dtype != np.float16
            or not p.size
        ):
            return super().attention_output(p, v, keep, keep_scale)
        y = heads_last_empty(np, (*p.shape[:3], v.shape[3]), p.dtype)

        def work(some: slice) -> None:
            factor = None if keep is None else np.multiply(keep[some], p.dtype.type(keep_scale))
            np.matmul(p[some] if factor is None else p[some] * factor, v[some], out=y[some])

        self._spread(work, len(p), p[0].nbytes)
        return y

    def attention_backward(
        self, g_y: Array, q: Array, k: Array, v: Array, kept: tuple[Any, ...], keep: Any, keep_scale: float,
        scale: float, places: Places = NO_PLACES,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        (p,) = kept
        if not are_heads(q, k, v):
            return super().attention_backward(g_y, q, k, v, kept, keep, keep_scale, scale, places)
        g_q, g_k, g_v = gradients_of_heads(np, [a.shape for a in (q, k, v)], p.dtype, places)

        def work(some: slice) -> None:
            block, g, keeps = p[some], g_y[some], None if keep is None else keep[some]
            dropped = block if keeps is None else self._dropped(block, keeps, keep_scale)
            np.matmul(dropped.swapaxes(-1, -2), g, out=g_v[some])
            g_p = np.matmul(g, v[some].swapaxes(-1, -2), out=np.empty(block.shape, p.dtype))
            self._of_weights_to_scores_(g_p, block, keeps, keep_scale, scale)
            np.matmul(g_p, k[some], out=g_q[some])
            np.matmul(g_p.swapaxes(-1, -2), q[some], out=g_k[some])

        self._spread(work, len(p), p[0].nbytes)
        return g_q, g_k, g_v

    def _of_weights_to_scores_(self, g: Array, p: Array, keep: Array | None, keep_scale: float, scale: float) -> None:
        """Turn the gradient of attention weights into that of q kᵀ, by the thread that computes the block."""
        if keep is not None:
            g *= np.multiply(keep, p.dtype.type(keep_scale))
        g -= np.einsum("...s,...s->...", g, p)[..., None]
        g *= p
        g *= scale

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

    def softmax_backward_(self, g_p: Array, p: Array) -> Array:
        if g_p.ndim < 3 or not g_p.size:
            return super().softmax_backward_(g_p, p)

        def work(s: slice) -> None:
            g, q = g_p[s], p[s]
            g -= np.einsum("...s,...s->...", g, q)[..., None]
            g *= q

        self._spread(work, len(g_p), g_p[0].nbytes)
        return g_p

    # ---- Cross-entropy ----

    def cross_entropy(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        return self._loss_of_blocks(Kernels.cross_entropy, logits, targets, label_smoothing)

    def cross_entropy_(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        return self._loss_of_blocks(Kernels.cross_entropy_, logits, targets, label_smoothing)

    def _loss_of_blocks(
        self, kernel: Callable[..., Any], logits: Array, targets: Array, label_smoothing: float
    ) -> tuple[Array, Array]:
        if _computes_wider(logits.dtype) or not logits.size:
            return kernel(self, logits, targets, label_smoothing)
        loss, nll = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)

        def work(s: slice) -> None:
            loss[s], nll[s] = kernel(self, logits[s], targets[s], label_smoothing)

        self._spread(work, len(logits), logits[0].nbytes)
        return loss, nll

    def scale_rows_(self, rows: Array, factors: Array) -> Array:
        changed = np.flatnonzero(factors != 1)  # for a summed loss, only the rows of padding
        if 2 * len(changed) < len(rows):
            rows[changed] *= factors[changed, None]
            return rows

        def work(s: slice) -> None:
            rows[s] *= factors[s, None]

        self._spread(work, len(rows), rows.shape[1] * rows.itemsize)
        return rows

    # ---- Optimizer ----

    def adam_(self, parameter: Array, gradient: Array, m: Array, v: Array, **settings: float) -> None:
        if not all(a.flags.c_contiguous for a in (parameter, gradient, m, v)):
            super().adam_(parameter, gradient, m, v, **settings)
        else:
            self._over_elements(functools.partial(Kernels.adam_, self, **settings), parameter, gradient, m, v)

    def adam_all_(self, updates: Sequence[tuple[Array, Array, Array, Array, Array | None]], **settings: float) -> None:
        parts = [part for update in updates for part in _parts_of_update(update)]
        worth_waking = sum(part[0].nbytes for part in parts) >= blocks.SERIAL_BYTES
        self._run_blocks(lambda s: Kernels.adam_all_(self, parts[s], **settings), len(parts), 4, worth_waking)

    # ---- Search ----

    def top_tokens(self, logits: Array, barred: Array, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if _computes_wider(logits.dtype) or not logits.size:
            return super().top_tokens(logits, barred, count)
        rows, classes = logits.shape
        largest, log_total = np.empty((rows, top_k.group_count(classes)), logits.dtype), np.empty(rows)
        block = rows if logits.nbytes < SERIAL_SEARCH else max(1, blocks.BLOCK_BYTES // (classes * logits.itemsize))
        self._run_blocks(lambda s: top_k.look_over(logits[s], barred, largest[s], log_total[s]), rows, block)
        return *top_k.largest_of_groups(logits, barred, largest, count), log_total


def _parts_of_update(update: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Parts of the arrays of `adam_all_`, each too small to divide: those of all parameters wake the threads once."""
    if update[0].nbytes < blocks.SERIAL_BYTES or not all(a is None or a.flags.c_contiguous for a in update):
        return [update]
    some = blocks_of(update[0].size, max(1, (blocks.SERIAL_BYTES - 1) // update[0].itemsize))
    return [tuple([None if a is None else a.reshape(-1)[s] for a in update]) for s in some]


# NumPy sums along an axis at 0.1 to 0.4 ns an element; a BLAS product with a vector of ones takes 0.07 ns.


def _row_means(x: Array) -> Array:
    """Shapes: x [N, D] -> [N, 1]"""
    return _row_sums(x, _constant(x.shape[1], 1 / x.shape[1], x.dtype))


def _row_sums(x: Array, weights: Array) -> Array:
    """Return the weighted sum of each row.  Shapes: x [N, D], weights [D] -> [N, 1]"""
    # OpenBLAS for AVX-512 takes rows of 5 float32 with a register that holds what was there before: sums are right, but
    # a signalling NaN in its unused part raises the flag for an invalid operation
    with np.errstate(invalid="ignore"):
        return (x @ weights)[:, None]


@functools.cache
def _constant(size: int, value: float, dtype: Any) -> Array:
    return np.full(size, value, dtype)


def _sum_rows(x: Array) -> Array:
    """Shapes: x [N, D] -> [D]"""
    return np.ones(len(x), x.dtype) @ x


def _keep_block(x: Array, keep: Array, out: Array) -> None:
    """x where `keep`, else 0: NumPy's `where` takes 1.3 to 4 ns an element, bits AND all ones or zeros 0.2 to 0.5."""
    bits = out.view(BITS[x.dtype])
    np.negative(keep, out=bits, dtype=bits.dtype, casting="unsafe")
    bits &= x.view(bits.dtype)


def _computes_wider(dtype: Any) -> bool:
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
