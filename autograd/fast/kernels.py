"""Kernels that fast implementations of ops call: several steps at once, here in array code for NumPy and CuPy.

`CpuKernels` (cpu.py), `CompiledKernels` (compiled.py) and `CudaKernels` (cuda.py) override them with faster ones; those
in shared.py and training.py are also the CPU's.

Kernels take 2-D arrays (rows × columns) where the op treats every row alike; the ops reshape.  A kernel whose name ends
in an underscore overwrites its first argument.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograd import random
from autograd.fast.shared import NO_PLACES, Places, gradients_of_heads, heads_last_empty
from autograd.fast.training import TrainingKernels
from autograd.ops import special

Array = Any


class Kernels(TrainingKernels):
    """The kernels of a device."""

    # ---- Selecting and summing ----

    def keep_where(self, x: Array, keep: Array) -> Array:
        """x where `keep`, else 0, also where x is infinite or NaN.  Shapes: x [...], keep bool broadcastable to it"""
        return self.xp.where(keep, x, 0)

    def sum_rows(self, x: Array) -> Array:
        """Σ over the rows.  Shapes: x [N, D] -> [D]"""
        return x.sum(axis=0)

    # ---- Dropout ----

    def draw(self, mask: random.Mask, shape: tuple[int, ...]) -> Any:
        """The form of a dropout mask that this backend's kernels take as `keep`: here a bool array of `shape`."""
        return self.asarray(mask.array().reshape(shape))

    def dropout(self, x: Array, keep: Array, scale: float) -> Array:
        """x · scale where `keep`, else 0.  Shapes: x [...], keep bool [...] -> [...]"""
        return x * keep * scale

    # ---- Activations ----

    def relu(self, x: Array) -> Array:
        """max(x, 0).  Shapes: x [...] -> [...]"""
        return self.xp.maximum(x, 0)

    def relu_backward(self, g_y: Array, y: Array) -> Array:
        """g_y where y > 0, else 0.  Shapes: g_y [...], y [...] -> [...]"""
        return self.keep_where(g_y, y > 0)

    def relu_backward_sum(self, g_y: Array, y: Array) -> tuple[Array, Array]:
        """`relu_backward`, and the sum of its rows.  Shapes: g_y [N, D], y [N, D] -> [N, D], [D]"""
        g_x = self.relu_backward(g_y, y)
        return g_x, self.sum_rows(g_x)

    def normal_distribution(self, x: Array) -> tuple[Array, Array]:
        """Density φ(x) and distribution Φ(x) of the normal distribution.

        Shapes: x [...], float32 or float64 -> [...], [...]
        """
        return special.normal_distribution(self.xp, x)

    # ---- Layer normalisation ----

    def layer_norm(self, x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
        """y = (x - mean) / sqrt(variance + eps) · weight + bias, row by row.

        Shapes: x [N, D], weight [D], bias [D] -> y [N, D], x̂ [N, D] (normalised x), 1/σ [N, 1]
        """
        xp = self.xp
        centred = x - x.mean(axis=1, keepdims=True)
        inverse_std = 1 / xp.sqrt((centred * centred).mean(axis=1, keepdims=True) + eps)
        normalised = centred * inverse_std
        return normalised * weight + bias, normalised, inverse_std

    def dropout_add_layer_norm(
        self, x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float
    ) -> tuple[Array, Array, Array]:
        """layer_norm(residual + dropout(x)), or without a residual layer_norm(x).

        Shapes: x [N, D], residual [N, D], keep bool [N, D] or None -> as layer_norm
        """
        if residual is not None:
            x = residual + (x if keep is None else self.dropout(x, keep, scale))
        return Kernels.layer_norm(self, x, weight, bias, eps)

    def scale_and_shift(self, normalised: Array, weight: Array, bias: Array) -> Array:
        """Return the y of `layer_norm` from its x̂.  Shapes: x̂ [N, D], weight [D], bias [D] -> [N, D]"""
        return normalised * weight + bias

    def layer_norm_backward(
        self, g_y: Array, normalised: Array, inverse_std: Array, weight: Array
    ) -> tuple[Array, Array, Array]:
        """Shapes: g_y [N, D], x̂ [N, D], 1/σ [N, 1], weight [D] -> g_x [N, D], g_weight [D], g_bias [D]

        Derived in docs/fused-ops.md.
        """
        g_normalised = g_y * weight
        along_x = (g_normalised * normalised).mean(axis=1, keepdims=True)
        g_x = (g_normalised - g_normalised.mean(axis=1, keepdims=True) - normalised * along_x) * inverse_std
        return g_x, (g_y * normalised).sum(axis=0), g_y.sum(axis=0)

    # ---- Embedding ----

    def embedding_backward(self, g_y: Array, indices: Array, rows: int) -> Array:
        """Sum the gradients of equal indices: a sorted segment sum, whose fixed order makes it deterministic.

        Shapes: g_y [N, D], indices [N] -> [rows, D]
        """
        xp = self.xp
        g_weight = xp.zeros((rows, g_y.shape[1]), g_y.dtype)
        if len(indices):
            order = xp.argsort(indices, kind="stable")
            ordered = indices[order]
            starts = xp.flatnonzero(xp.concatenate([xp.ones(1, bool), ordered[1:] != ordered[:-1]]))
            g_weight[ordered[starts]] = xp.add.reduceat(g_y[order], starts, axis=0)
        return g_weight

    # ---- Products ----

    def product(self, a: Array, b: Array, dtype: Any = None) -> Array:
        """a b for two matrices, in `dtype` (None: theirs).  Shapes: a [M, K], b [K, N] -> [M, N]"""
        y = self.xp.matmul(a, b)
        return y if dtype is None else y.astype(dtype, copy=False)

    def products(self, *factors: tuple[Array, Array]) -> tuple[Array, ...]:
        """a b for each of several pairs (a, b), which threads compute side by side."""
        return tuple([self.product(a, b) for a, b in factors])

    def add_product_(self, total: Array, a: Array, b: Array) -> Array:
        """total += a b.  Shapes: total [M, N] (overwritten), a [M, K], b [K, N]"""
        total += self.product(a, b)
        return total

    def masked_product(self, a: Array, b: Array, mask: Array) -> tuple[Array | None, Array | None]:
        """a b where `mask`, else 0, and the sum of its rows; None where no kernel computes them.

        mask: of `linear_relu`, or its y, also as bits of bfloat16
        """
        return None, None

    def linear(self, x: Array, weight: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
        """x Wᵀ + b, or max(x Wᵀ + b, 0) with `relu`, in `dtype` (None: that of x).

        Shapes: x [N, in], weight [out, in], bias [out] or None -> [N, out]
        """
        y = self.product(x, weight.T, dtype)
        y = y if bias is None else y + bias
        return self.xp.maximum(y, 0) if relu else y

    contiguous_from: float = math.inf
    """Rows of x from which `linear_of_few` is faster with w contiguous as [in, out], and not a view of [out, in]."""
    contiguous_below: int = 0
    """Inputs below which it is from two rows on."""
    rows_alike: tuple[int, ...] = (128, 64, 8, 4, 2)
    """Values of `rows_at_a_time` to try, the fastest first."""

    def linear_of_few(
        self, x: Array, w: Array, bias: Array | None, relu: bool = False, rows_at_a_time: int | None = None,
        dtype: Any = None,
    ) -> Array:  # fmt: skip
        """`linear` for few rows and many weights, as in decoding, with the weights as [in, out].

        rows_at_a_time: rows of x in each product, R being a multiple.  A BLAS adds up in an order that depends on the
            number of rows; with products of equal shape, the result of a row does not depend on the number of rows.

        Shapes: x [R, in], w [in, out], bias [out] or None -> [R, out]
        """
        if rows_at_a_time in (None, len(x)):
            return self.linear(x, w.T, bias, relu, dtype)
        y = self.xp.empty((len(x), w.shape[1]), dtype or x.dtype)
        for start in range(0, len(x), rows_at_a_time):
            some = slice(start, start + rows_at_a_time)
            y[some] = self.linear(x[some], w.T, bias, relu, dtype)
        return y

    # ---- Attention ----

    def attention(
        self, q: Array, k: Array, v: Array, mask: Array | None, keep: Any, keep_scale: float, scale: float
    ) -> tuple[Array, tuple[Any, ...]]:
        """y = dropout(p) v with p = softmax(scale · q kᵀ + mask); for y in memory, see `heads_last_empty`.

        Shapes: q [..., T, K], k [..., S, K], v [..., S, M], mask and keep bool [..., T, S] or None
                -> y [..., T, M], and a tuple for the backward pass: here (p [..., T, S],)
        """
        p = self.attention_weights(q, k, mask, scale)
        return self.attention_output(p, v, keep, keep_scale), (p,)

    def attention_weights(self, q: Array, k: Array, mask: Array | None, scale: float) -> Array:
        """softmax(scale · q kᵀ + mask), which `attention` multiplies by v.  Shapes: as there -> [..., T, S]"""
        scores = self.xp.matmul(q, k.swapaxes(-1, -2))  # [..., T, K] @ [..., K, S] -> [..., T, S]
        scores *= scale
        return self.masked_softmax_(scores, mask)

    def attention_output(self, p: Array, v: Array, keep: Any, keep_scale: float) -> Array:
        """The y of `attention` from p.  Shapes: p [..., T, S], v [..., S, M], keep bool [..., T, S] -> y [..., T, M]"""
        dropped = p if keep is None else self.dropout(p, keep, keep_scale)
        y = heads_last_empty(self.xp, (*p.shape[:-1], v.shape[-1]), p.dtype)
        return self.xp.matmul(dropped, v, out=y)

    def attention_backward(
        self, g_y: Array, q: Array, k: Array, v: Array, kept: tuple[Any, ...], keep: Any, keep_scale: float,
        scale: float, places: Places = NO_PLACES,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """Return the gradients of q, k and v, each in the memory of `places` where there is any of its shape and type.

        Shapes: g_y [..., T, M], others as in `attention` -> g_q [..., T, K], g_k [..., S, K], g_v [..., S, M]

        Derived in docs/fused-ops.md.
        """
        xp, (p,) = self.xp, kept
        shapes = [(*p.shape[:-2], *a.shape[-2:]) for a in (q, k, v)]
        g_q, g_k, g_v = gradients_of_heads(xp, shapes, p.dtype, places)
        dropped = p if keep is None else self.dropout(p, keep, keep_scale)
        xp.matmul(dropped.swapaxes(-1, -2), g_y, out=g_v)  # [..., S, T] @ [..., T, M] -> [..., S, M]
        g_p = xp.matmul(g_y, v.swapaxes(-1, -2))  # [..., T, M] @ [..., M, S] -> [..., T, S]
        if keep is not None:
            g_p = self.dropout(g_p, keep, keep_scale)
        g_scores = self.softmax_backward_(g_p, p)
        g_scores *= scale
        xp.matmul(g_scores, k, out=g_q)  # [..., T, S] @ [..., S, K] -> [..., T, K]
        xp.matmul(g_scores.swapaxes(-1, -2), q, out=g_k)  # [..., S, T] @ [..., T, K] -> [..., S, K]
        return g_q, g_k, g_v

    def masked_softmax_(self, scores: Array, mask: Array | None) -> Array:
        """Turn scores into probabilities along the last axis, 0 where `mask` is False; all-masked rows become 0.

        Shapes: scores [..., T, S] (overwritten), mask bool broadcastable to it -> [..., T, S]
        """
        xp = self.xp
        if scores.shape[-1] == 0:
            return scores
        if mask is not None:
            xp.copyto(scores, -math.inf, where=~mask)
        top = scores.max(axis=-1, keepdims=True)
        if mask is not None:
            top = xp.where(xp.isneginf(top.real), 0, top)  # -inf - (-inf) would be NaN
        scores -= top
        xp.exp(scores, out=scores)
        total = scores.sum(axis=-1, keepdims=True)
        if mask is not None:
            total += total == 0
        scores /= total
        return scores

    def softmax_backward_(self, g_p: Array, p: Array) -> Array:
        """g_scores = p · (g_p - Σ g_p · p), along the last axis.  Shapes: g_p [..., S] (overwritten), p [..., S]"""
        g_p -= (g_p * p).sum(axis=-1, keepdims=True)
        g_p *= p
        return g_p

    # ---- Search ----

    def top_tokens(self, logits: Array, barred: Array, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Find the `count` largest logits of each row that are not barred, equal ones by id, and ln Σ exp of the row.

        Barred ids, with -inf, follow if there are too few others.  If the largest logit is not finite, the sum is NaN.

        Shapes: logits [R, V], barred bool [V] -> ids int [R, count], values [R, count], [R]; all three on the host
        """
        xp = self.xp
        allowed = xp.where(barred, logits.dtype.type(-math.inf), logits)
        ids = xp.argsort(-allowed, axis=1, kind="stable")[:, :count]
        top = logits.max(axis=1)
        with np.errstate(invalid="ignore"):
            total = xp.exp(logits - top[:, None]).sum(axis=1)
        log_total = top.astype(xp.float64) + xp.log(total.astype(xp.float64))
        return tuple([self.to_host(a) for a in (ids, xp.take_along_axis(allowed, ids, axis=1), log_total)])  # type: ignore[return-value]
