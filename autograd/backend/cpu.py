"""The CPU's overrides of the kernels in reference.py: the same formulas over blocks of rows that stay in cache.

A chain of NumPy calls over whole arrays reads and writes main memory at each link.  Over a block of some 100 KB it
stays in the second-level cache and costs little more than one pass; and NumPy releases the interpreter lock inside a
call, so blocks run on all cores.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from autograd.backend.reference import Backend

Array = Any

BLOCK_BYTES = 128 * 1024  # of one operand: a few of them fit the second-level cache of any recent core
SERIAL_BYTES = 512 * 1024  # below this, waking another thread costs more than it brings


def available_cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> bool:
    """Ask the C library to keep what is freed instead of giving it back to the system; returns whether it could.

    A training step frees and takes the same arrays again and again.  Memory fresh from the system costs a page fault
    every 4 KiB, more than the arithmetic on it.  Affects the whole process, so only programs call it, never an import.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # not the GNU C library: its allocator is left as it is
        return False
    m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
    settings = ((m_mmap_threshold, 1 << 30), (m_trim_threshold, 2**31 - 1), (m_top_pad, 64 << 20))
    return all([libc.mallopt(name, value) == 1 for name, value in settings])


class CpuBackend(Backend):
    """NumPy on the host, over `threads` threads (by default all cores)."""

    xp = np

    def __init__(self, threads: int | None = None):
        self.set_threads(threads or available_cores())

    def set_threads(self, threads: int) -> None:
        """Spread the kernels here over `threads` threads; the matrix products have their own setting."""
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1, "autograd") if threads > 1 else None

    def _spread(self, work: Callable[[slice], None], rows: int, row_bytes: int) -> None:
        """Call `work` on slices that cover 0 … rows, each a block that fits the cache, on all threads.

        Which rows a block holds depends on the shape alone, so the result does not depend on the number of threads.
        """
        block = max(1, BLOCK_BYTES // max(row_bytes, 1))
        starts = range(0, rows, block)

        def run(some: range) -> None:
            for start in some:
                work(slice(start, min(start + block, rows)))

        if self._pool is None or rows * row_bytes < SERIAL_BYTES or len(starts) < 2:
            run(starts)
            return
        share = -(-len(starts) // self.threads)
        others = [self._pool.submit(run, starts[i : i + share]) for i in range(share, len(starts), share)]
        run(starts[:share])
        for other in others:
            other.result()

    # ---- Choosing elements ----

    def keep_where(self, x: Array, keep: Array) -> Array:
        if x.dtype != np.float32 or keep.shape != x.shape or not (x.flags.c_contiguous and keep.flags.c_contiguous):
            return super().keep_where(x, keep)
        # NumPy's `where` takes 2.3 ns an element, the bits of x AND (all ones or zeros) 0.6 ns
        y = np.empty(x.shape, x.dtype)
        x_bits, y_bits = x.reshape(-1).view(np.int32), y.reshape(-1).view(np.int32)
        keep_flat = keep.reshape(-1)

        def work(s: slice) -> None:
            np.negative(keep_flat[s], out=y_bits[s], dtype=np.int32, casting="unsafe")
            y_bits[s] &= x_bits[s]

        self._spread(work, x.size, x.itemsize)
        return y

    # ---- Dropout ----

    def dropout(self, x: Array, keep: Array, scale: float) -> Array:
        y = np.empty(x.shape, x.dtype)
        if not (x.flags.c_contiguous and x.ndim):
            return super().dropout(x, keep, scale)
        x_flat, keep_flat, y_flat = x.reshape(-1), keep.reshape(-1), y.reshape(-1)

        def work(s: slice) -> None:
            np.multiply(keep_flat[s], x.dtype.type(scale), out=y_flat[s])
            y_flat[s] *= x_flat[s]

        self._spread(work, x.size, x.itemsize)
        return y

    # ---- Layer normalisation ----

    def layer_norm(self, x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
        if x.dtype == np.float16 or not x.size:
            return super().layer_norm(x, weight, bias, eps)
        y = np.empty(x.shape, np.result_type(x, weight, bias))
        normalised = np.empty(x.shape, x.dtype)
        inverse_std = np.empty((len(x), 1), x.dtype)

        def work(s: slice) -> None:
            self._normalise_block(x[s], normalised[s], inverse_std[s], eps)
            np.multiply(normalised[s], weight, out=y[s])
            y[s] += bias

        self._spread(work, len(x), x[0].nbytes)
        return y, normalised, inverse_std

    def dropout_add_layer_norm(
        self, x: Array, residual: Array, keep: Array | None, scale: float, weight: Array, bias: Array, eps: float
    ) -> tuple[Array, Array, Array]:
        dtype = np.result_type(x, residual, weight, bias)
        if dtype == np.float16 or x.dtype != dtype or not x.size:
            return super().dropout_add_layer_norm(x, residual, keep, scale, weight, bias, eps)
        y, normalised = np.empty(x.shape, dtype), np.empty(x.shape, dtype)
        inverse_std = np.empty((len(x), 1), dtype)

        def work(s: slice) -> None:
            total = y[s]  # the place of the result serves as scratch
            if keep is None:
                np.add(x[s], residual[s], out=total)
            else:
                np.multiply(keep[s], dtype.type(scale), out=total)
                total *= x[s]
                total += residual[s]
            self._normalise_block(total, normalised[s], inverse_std[s], eps)
            np.multiply(normalised[s], weight, out=total)
            total += bias

        self._spread(work, len(x), x[0].nbytes)
        return y, normalised, inverse_std

    @staticmethod
    def _normalise_block(x: Array, normalised: Array, inverse_std: Array, eps: float) -> None:
        width = x.shape[1]
        np.subtract(x, x.sum(axis=1, keepdims=True) / width, out=normalised)
        variance = np.einsum("nd,nd->n", normalised, normalised)[:, None] / width
        np.sqrt(variance + eps, out=inverse_std)
        np.reciprocal(inverse_std, out=inverse_std)
        normalised *= inverse_std

    def layer_norm_backward(
        self, g_y: Array, normalised: Array, inverse_std: Array, weight: Array
    ) -> tuple[Array, Array, Array]:
        if g_y.dtype == np.float16 or not g_y.size:
            return super().layer_norm_backward(g_y, normalised, inverse_std, weight)
        width = g_y.shape[1]
        g_x = np.empty(g_y.shape, np.result_type(g_y, weight))
        partial: dict[int, tuple[Array, Array]] = {}  # sums of each block, by its first row

        def work(s: slice) -> None:
            g, x_hat, out = g_y[s], normalised[s], g_x[s]
            partial[s.start] = np.einsum("nd,nd->d", g, x_hat), g.sum(axis=0)
            np.multiply(g, weight, out=out)
            along_x = np.einsum("nd,nd->n", out, x_hat)[:, None] / width
            out -= out.sum(axis=1, keepdims=True) / width
            out -= x_hat * along_x
            out *= inverse_std[s]

        self._spread(work, len(g_y), g_y[0].nbytes)
        # add up in the order of the rows: the bits must not depend on which thread was first
        sums = [partial[start] for start in sorted(partial)]
        return g_x, sum(s[0] for s in sums), sum(s[1] for s in sums)

    # ---- Embedding ----

    def embedding_backward(self, g_y: Array, indices: Array, rows: int) -> Array:
        # element by element, in the order of the rows: `np.add.at` has a fast path for one axis, and takes a quarter
        # of the time of sorting and `np.add.reduceat`
        width = g_y.shape[1]
        g_weight = np.zeros((rows, width), g_y.dtype)
        flat, columns = g_weight.reshape(-1), np.arange(width)
        indices = indices.astype(np.intp, copy=False)  # narrower integers could not hold a position
        block = max(1, BLOCK_BYTES // max(8 * width, 1))
        for start in range(0, len(indices), block):
            positions = indices[start : start + block, None] * width + columns
            np.add.at(flat, positions.reshape(-1), g_y[start : start + block].reshape(-1))
        return g_weight

    # ---- Attention ----

    def masked_softmax_(self, scores: Array, mask: Array | None) -> Array:
        if scores.ndim < 3 or scores.dtype == np.float16 or not scores.size:
            return super().masked_softmax_(scores, mask)
        bias = None
        if mask is not None:
            # Adding 0 or -inf costs a tenth of NumPy's masked copy, and is made for the mask's own, small shape
            bias = np.where(mask, scores.dtype.type(0), scores.dtype.type(-np.inf))
            bias = np.broadcast_to(bias, scores.shape)

        def work(s: slice) -> None:
            block = scores[s]
            if bias is not None:
                block += bias[s]
            top = block.max(axis=-1, keepdims=True)
            if bias is not None:
                np.copyto(top, 0, where=np.isneginf(top))  # -inf - (-inf) would be NaN
            block -= top
            np.exp(block, out=block)
            total = block.sum(axis=-1, keepdims=True)
            if bias is not None:
                total += total == 0
            block *= 1 / total

        self._spread(work, len(scores), scores[0].nbytes)
        return scores

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
        if logits.dtype == np.float16 or not logits.size:
            return super().cross_entropy(logits, targets, label_smoothing)
        loss, nll = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)

        def work(s: slice) -> None:
            loss[s], nll[s] = Backend.cross_entropy(self, logits[s], targets[s], label_smoothing)

        self._spread(work, len(logits), logits[0].nbytes)
        return loss, nll

    def cross_entropy_(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        if logits.dtype == np.float16 or not logits.size:
            return super().cross_entropy_(logits, targets, label_smoothing)
        classes = logits.shape[1]
        loss, nll = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)

        def work(s: slice) -> None:
            x, target = logits[s], targets[s]
            row = np.arange(len(x))
            x -= x.max(axis=1, keepdims=True)
            at_target = x[row, target]
            mean = x.mean(axis=1) if label_smoothing else 0
            np.exp(x, out=x)
            total = x.sum(axis=1)
            log_total = np.log(total)
            nll[s] = log_total - at_target
            loss[s] = (1 - label_smoothing) * nll[s] + label_smoothing * (log_total - mean)
            x *= (1 / total)[:, None]
            if label_smoothing:
                x -= label_smoothing / classes
            x[row, target] -= 1 - label_smoothing

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

    def adam_(
        self,
        parameter: Array,
        gradient: Array,
        m: Array,
        v: Array,
        *,
        step_size: float,
        beta1: float,
        beta2: float,
        eps: float,
        gradient_scale: float,
    ) -> None:
        if not all(a.flags.c_contiguous for a in (parameter, gradient, m, v)):
            super().adam_(
                parameter, gradient, m, v, step_size=step_size, beta1=beta1, beta2=beta2, eps=eps,
                gradient_scale=gradient_scale,
            )  # fmt: skip
            return
        p_flat, g_flat, m_flat, v_flat = (a.reshape(-1) for a in (parameter, gradient, m, v))

        def work(s: slice) -> None:
            g = g_flat[s] * gradient_scale
            step = g - m_flat[s]
            step *= 1 - beta1
            m_flat[s] += step
            g *= g
            g -= v_flat[s]
            g *= 1 - beta2
            v_flat[s] += g
            np.sqrt(v_flat[s], out=step)
            step += eps
            np.divide(m_flat[s], step, out=step)
            step *= step_size
            p_flat[s] -= step

        self._spread(work, parameter.size, parameter.itemsize)
