"""The kernels of kernels.py and training.py that training calls, on a CPU: gradients, the loss, and Adam.

They divide their work into blocks as those of cpu_forward.py do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd.fast import blocks
from autograd.fast.cpu_forward import CpuForward, are_heads, computes_wider, row_means, weighted_sums
from autograd.fast.cpu_products import in_order
from autograd.fast.kernels import Kernels
from autograd.fast.shared import NO_PLACES, Places, blocks_of, gradients_of_heads

Array = Any

BITS = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}  # of equal size


class CpuTraining(CpuForward):
    """The kernels of a training step, over blocks of rows that stay in cache."""

    # ---- Sums of rows ----

    def sum_rows(self, x: Array) -> Array:
        if x.dtype.kind not in "fc" or x.dtype == np.float16 or not x.size:
            return super().sum_rows(x)
        partial: dict[int, Array] = {}

        def work(s: slice) -> None:
            partial[s.start] = _sum_rows(x[s])

        self._spread(work, len(x), x.shape[1] * x.itemsize)
        return in_order(partial)

    # ---- ReLU ----

    def relu_backward_sum(self, g_y: Array, y: Array) -> tuple[Array, Array]:
        if g_y.dtype != np.float32 or not g_y.size:
            return super().relu_backward_sum(g_y, y)
        g_x = np.empty(y.shape, g_y.dtype)
        g_biases: dict[int, Array] = {}  # of each block, by its first row

        def work(s: slice) -> None:
            keep_block(g_y[s], y[s] > 0, g_x[s])
            g_biases[s.start] = _sum_rows(g_x[s])

        self._spread(work, len(y), y[0].nbytes)
        return g_x, in_order(g_biases)

    # ---- Layer normalisation ----

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
            along_x = weighted_sums(along, weight) / width
            np.multiply(g, weight, out=out)
            out -= row_means(out)
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

    # ---- Cross-entropy ----

    def cross_entropy(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        return self._loss_of_blocks(Kernels.cross_entropy, logits, targets, label_smoothing)

    def cross_entropy_(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        return self._loss_of_blocks(Kernels.cross_entropy_, logits, targets, label_smoothing)

    def _loss_of_blocks(
        self, kernel: Callable[..., Any], logits: Array, targets: Array, label_smoothing: float
    ) -> tuple[Array, Array]:
        if computes_wider(logits.dtype) or not logits.size:
            return kernel(self, logits, targets, label_smoothing)
        loss, nll = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)

        def work(s: slice) -> None:
            loss[s], nll[s] = kernel(self, logits[s], targets[s], label_smoothing)

        self._spread(work, len(logits), logits[0].nbytes)
        return loss, nll

    # ---- Optimizer ----

    def adam_(self, parameter: Array, gradient: Array, m: Array, v: Array, **settings: float) -> None:
        if not all(a.flags.c_contiguous for a in (parameter, gradient, m, v)):
            super().adam_(parameter, gradient, m, v, **settings)
        else:
            self._over_elements(functools.partial(Kernels.adam_, self, **settings), parameter, gradient, m, v)

    def adam_all_(self, updates: Sequence[tuple[Array, Array, Array, Array, Array | None]], **settings: float) -> None:
        parts = [part for update in updates for part in _parts_of_update(update)]
        worth_waking = sum(part[0].nbytes for part in parts) >= blocks.SERIAL_BYTES
        self._run_blocks(lambda s: self.adam_parts_(parts[s], **settings), len(parts), 4, worth_waking)

    def adam_parts_(self, parts: Sequence[tuple[Array, Array, Array, Array, Array | None]], **settings: float) -> None:
        """`adam_all_` in one thread, of parts that are too small to divide."""
        Kernels.adam_all_(self, parts, **settings)


def _parts_of_update(update: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Parts of the arrays of `adam_all_`, each too small to divide: those of all parameters wake the threads once."""
    if update[0].nbytes < blocks.SERIAL_BYTES or not all(a is None or a.flags.c_contiguous for a in update):
        return [update]
    some = blocks_of(update[0].size, max(1, (blocks.SERIAL_BYTES - 1) // update[0].itemsize))
    return [tuple([None if a is None else a.reshape(-1)[s] for a in update]) for s in some]


def _sum_rows(x: Array) -> Array:
    """Shapes: x [N, D] -> [D]"""
    return np.ones(len(x), x.dtype) @ x


def keep_block(x: Array, keep: Array, out: Array) -> None:
    """x where `keep`, else 0: NumPy's `where` takes 1.3 to 4 ns an element, bits AND all ones or zeros 0.2 to 0.5."""
    bits = out.view(BITS[x.dtype])
    np.negative(keep, out=bits, dtype=bits.dtype, casting="unsafe")
    bits &= x.view(bits.dtype)
