"""The kernels of kernels.py for the CPU: the same formulas over blocks of rows that stay in cache.

Those that decoding calls are in cpu_forward.py, those of gradients, loss and optimizer in cpu_training.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograd import random
from autograd.fast.cpu_training import BITS, CpuTraining, keep_block
from autograd.fast.kernels import Kernels
from autograd.fast.shared import heads_last_empty

Array = Any


class CpuKernels(CpuTraining):
    """NumPy on the host.

    At first it uses one thread, and the BLAS library its own: an import changes nothing in the process.  After
    `set_threads`, all kernels, matrix products included, are divided into blocks that all threads share.
    """

    kernels = "numpy"

    # ---- Selection, dropout, activations ----

    def keep_where(self, x: Array, keep: Array) -> Array:
        if x.dtype not in BITS or keep.shape != x.shape or not (x.flags.c_contiguous and keep.flags.c_contiguous):
            return super().keep_where(x, keep)
        y = np.empty(x.shape, x.dtype)
        self._over_elements(keep_block, x, keep, y)
        return y

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
        self._over_elements(lambda g, y, out: keep_block(g, y > 0, out), g_y, y, g_x)
        return g_x

    def normal_distribution(self, x: Array) -> tuple[Array, Array]:
        results = np.empty(x.shape, x.dtype), np.empty(x.shape, x.dtype)

        def work(x: Array, density: Array, distribution: Array) -> None:
            density[:], distribution[:] = Kernels.normal_distribution(self, x)

        self._over_elements(work, x, *results)  # some sixty operations on a block in the cache
        return results

    # ---- Outputs that are computed again, and rows ----

    def scale_and_shift(self, normalised: Array, weight: Array, bias: Array) -> Array:
        if not normalised.size:
            return super().scale_and_shift(normalised, weight, bias)
        y = np.empty(normalised.shape, np.result_type(normalised, weight, bias))

        def work(s: slice) -> None:
            np.multiply(normalised[s], weight, out=y[s])
            y[s] += bias

        self._spread(work, len(y), y[0].nbytes)
        return y

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

    def softmax_backward_(self, g_p: Array, p: Array) -> Array:
        if g_p.ndim < 3 or not g_p.size:
            return super().softmax_backward_(g_p, p)

        def work(s: slice) -> None:
            g, q = g_p[s], p[s]
            g -= np.einsum("...s,...s->...", g, q)[..., None]
            g *= q

        self._spread(work, len(g_p), g_p[0].nbytes)
        return g_p

    def scale_rows_(self, rows: Array, factors: Array) -> Array:
        changed = np.flatnonzero(factors != 1)  # for a summed loss, only the rows of padding
        if 2 * len(changed) < len(rows):
            rows[changed] *= factors[changed, None]
            return rows

        def work(s: slice) -> None:
            rows[s] *= factors[s, None]

        self._spread(work, len(rows), rows.shape[1] * rows.itemsize)
        return rows
