"""Kernels that fast implementations of ops call: several steps at once, here in array code for NumPy and CuPy.

`CpuKernels` (cpu.py), `CompiledKernels` (compiled.py) and `CudaKernels` (cuda.py) override them with faster ones.

Kernels take 2-D arrays (rows × columns) where the op treats every row alike; the ops reshape.  A kernel whose name ends
in an underscore overwrites its first argument.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autograd import random
from autograd.backend import Backend
from autograd.ops import special

Array = Any
Places = Sequence[Any]  # for each of several arrays, memory or None

NO_PLACES: Places = (None, None, None)


class Kernels(Backend):
    """The kernels of a device."""

    uses_epilogues = False
    """True if products add a bias of the type of their result, and apply ReLU, themselves."""

    def set_precision(self, precision: str) -> None:
        """Prepare to compute in "float32", "float64", "tf32" or "bf16".

        Raises: ValueError if the device does not have this precision.
        """
        if precision not in ("float32", "float64"):
            raise ValueError(f"precision={precision} is for GPUs")

    # ---- Activations in bfloat16 ----

    def round_(self, x: Array) -> Array:
        """Round activations to bfloat16, if that is the precision, as it is not here.  Shapes: [...] (overwritten)"""
        return x

    def keep_narrow(self, op: Any) -> None:
        """Have an op on the CPU keep rounded activations in 16 bits, if there are any."""

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

    def dropout_add_layer_norm_backward(
        self, g_y: Array, normalised: Array, inverse_std: Array, weight: Array, keep: Any, scale: float
    ) -> tuple[Array, Array, Array, Array]:
        """Shapes: as layer_norm_backward -> g_x [N, D], g_residual [N, D], g_weight [D], g_bias [D]"""
        g_sum, g_weight, g_bias = self.layer_norm_backward(g_y, normalised, inverse_std, weight)
        return g_sum if keep is None else self.dropout(g_sum, keep, scale), g_sum, g_weight, g_bias

    # ---- Embedding ----

    def embedding(
        self, weight: Array, indices: Array, positions: Array | None, scale: float, keep: Any, keep_scale: float,
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
            y = self.dropout(y, keep, keep_scale)
        return y if dtype is None else y.astype(dtype, copy=False)

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

    def add_rows_(self, total: Array, g_y: Array, indices: Array, scale: float = 1.0, drop: Any = None) -> None:
        """total += scale · embedding_backward(g_y, indices), of which only the rows that are not 0 are computed.

        drop: the mask and the factor of a dropout of g_y, or None
        Shapes: total [rows, D], g_y [N, D], indices int [N]
        """
        xp, g_y = self.xp, g_y if drop is None else self.dropout(g_y, *drop)
        present = xp.zeros(len(total), bool)
        present[indices] = True
        (rows,) = present.nonzero()
        place = xp.empty(len(total), np.intp)  # of a row among those present
        place[rows] = xp.arange(len(rows))
        summed = self.embedding_backward(g_y, place[indices], len(rows))
        if scale != 1:
            summed *= scale
        total[rows] += summed

    # ---- Products ----

    def product(self, a: Array, b: Array, dtype: Any = None) -> Array:
        """a b for two matrices, in `dtype` (None: theirs).  Shapes: a [M, K], b [K, N] -> [M, N]"""
        y = self.xp.matmul(a, b)
        return y if dtype is None else y.astype(dtype, copy=False)

    def add_product_(self, total: Array, a: Array, b: Array) -> Array:
        """total += a b.  Shapes: total [M, N] (overwritten), a [M, K], b [K, N]"""
        total += self.product(a, b)
        return total

    def input_gradient(self, g_y: Array, weight: Array, shape: tuple[int, ...]) -> Any:
        """Return the gradient of the input of `linear`, an array or a `DeferredGradient`, in the input's shape.

        Shapes: g_y [N, out], weight [out, in] -> shape
        """
        return self.product(g_y, weight).reshape(shape)

    def linear_relu(self, x: Array, weight: Array, bias: Array | None) -> tuple[Array, Array | None]:
        """max(x Wᵀ + b, 0), and where it is above 0, for `masked_product`; None from kernels without such products."""
        return self.linear(x, weight, bias, relu=True), None

    def masked_product(self, a: Array, b: Array, mask: Array) -> Array | None:
        """a b where `mask`, which `linear_relu` returned, else 0; None where no kernel computes it."""
        return None

    def linear(self, x: Array, weight: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
        """x Wᵀ + b, or max(x Wᵀ + b, 0) with `relu`, in `dtype` (None: that of x).

        Shapes: x [N, in], weight [out, in], bias [out] or None -> [N, out]
        """
        y = self.product(x, weight.T, dtype)
        y = y if bias is None else y + bias
        return self.xp.maximum(y, 0) if relu else y

    def weight_gradient(
        self, g_y: Array, x: Array, dtype: Any = None, with_bias: bool = False
    ) -> tuple[Array, Array | None]:
        """Return the gradients of weight and bias of `linear`, the latter None unless it is wanted.

        Shapes: g_y [N, out], x [N, in] -> [out, in] in `dtype`, [out]
        """
        return self.product(g_y.T, x, dtype), self.sum_rows(g_y) if with_bias else None

    def side_by_side(self, arrays: Sequence[Array]) -> list[Array]:
        """Copies of arrays, one after the other in a block of memory, so that `stacked` can return a view of it."""
        return self.parted(self.xp.concatenate(arrays), [len(a) for a in arrays])

    def place_of(self, a: Array) -> tuple[Any, int] | None:
        """The block of memory that holds the array and the address of its first element, if others can follow it there.

        None where that is not known, as here, or the array is not contiguous.
        """
        return None

    def are_side_by_side(self, arrays: Sequence[Array]) -> bool:
        """Whether arrays follow each other in one block of memory: `stacked` returns a view of them, and no copy."""
        for a, b in itertools.pairwise(arrays):
            here, there = self.place_of(a), self.place_of(b)
            if here is None or there is None or a.dtype != b.dtype:
                return False
            if here[0] is not there[0] or here[1] + a.nbytes != there[1]:
                return False
        return True

    def rows_from(self, first: Array, count: int) -> Array:
        """A view of `count` rows of memory that begins with those of an array."""
        raise NotImplementedError

    def stacked(self, arrays: Sequence[Array]) -> Array:
        """Return the rows of all arrays, one after the other.  Shapes: [N_i, ...] -> [Σ N_i, ...]"""
        if len(arrays) == 1:
            return arrays[0]
        if self.are_side_by_side(arrays):
            return self.rows_from(arrays[0], sum(map(len, arrays)))
        return self.xp.concatenate(arrays)

    def parted(self, a: Array, sizes: Sequence[int]) -> list[Array]:
        """The rows of a contiguous array as several arrays, in its memory.  Shapes: [Σ N_i, ...] -> [N_i, ...]"""
        return [a[end - size : end] for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]

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

    # ---- Cross-entropy ----

    def cross_entropy(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        """Row losses against (1 - ε) · one-hot + ε / V (section 5.4), and row negative log-likelihoods.

        Shapes: logits [N, V], targets [N] -> loss [N], nll [N]
        """
        xp = self.xp
        top = logits.max(axis=1)
        log_total = top + xp.log(xp.exp(logits - top[:, None]).sum(axis=1))
        nll = log_total - logits[xp.arange(len(targets)), targets]
        if not label_smoothing:
            return nll, nll
        return (1 - label_smoothing) * nll + label_smoothing * (log_total - logits.mean(axis=1)), nll

    def cross_entropy_(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        """`cross_entropy`, and the logits become the gradient of each row's loss: softmax - (1 - ε) · one-hot - ε / V.

        Forward and backward pass need the same exponentials, of the largest array of a training step: computed once.
        Derived in docs/fused-ops.md.

        Shapes: logits [N, V] (overwritten), targets [N] -> loss [N], nll [N]
        """
        xp, row = self.xp, self.xp.arange(len(targets))
        logits -= logits.max(axis=1, keepdims=True)
        at_target = logits[row, targets]
        mean = logits.mean(axis=1) if label_smoothing else 0
        xp.exp(logits, out=logits)
        total = logits.sum(axis=1)
        log_total = xp.log(total)
        nll = log_total - at_target
        loss = (1 - label_smoothing) * nll + label_smoothing * (log_total - mean)
        logits *= (1 / total)[:, None]
        if label_smoothing:
            logits -= label_smoothing / logits.shape[1]
        logits[row, targets] -= 1 - label_smoothing
        return loss, nll

    logits_bytes = 128 << 20
    """Bytes of logits that `linear_cross_entropy` holds in memory, unless it is given `rows`."""

    def linear_cross_entropy(
        self, x: Array, weight: Array, bias: Array | None, targets: Array, counted: Array, factors: Array | None,
        wanted: Sequence[bool], *, label_smoothing: float, rows: int | None = None,
    ) -> tuple[Array, Array | None, Array | None, Array | None]:  # fmt: skip
        """`cross_entropy` of the logits x Wᵀ + b, and the gradients of x, weight and bias, `rows` rows at a time.

        Rows that are not `counted` have loss 0 and no gradient; the others' gradients are multiplied by `factors`.

        Shapes: x [N, D], weight [V, D], bias [V] or None, targets int [N], counted bool [N], factors [N] or None
                -> loss and nll [2, N], g_x [N, D], g_weight [V, D], g_bias [V], None where not wanted
        """
        xp, size = self.xp, len(x)
        dtype = xp.result_type(*[a for a in (x, weight, bias) if a is not None])
        losses = xp.zeros((2, size), dtype)
        targets = xp.where(counted, targets, 0)  # other rows read column 0
        g_x = xp.empty(x.shape, dtype) if wanted[0] else None
        g_weight = xp.zeros(weight.shape, dtype) if wanted[1] and not size else None
        g_bias = xp.zeros(len(weight), dtype) if wanted[2] else None
        for some in blocks_of(
            size, rows or _equal_rows(size, self.logits_bytes // max(1, len(weight) * dtype.itemsize))
        ):
            logits = self.linear(x[some], weight, bias)
            kernel = self.cross_entropy_ if any(wanted) else self.cross_entropy
            for all_rows, found in zip(losses, kernel(logits, targets[some], label_smoothing), strict=True):
                all_rows[some] = xp.where(counted[some], found, 0)
            if any(wanted):
                self.clear_rows_(logits, counted[some])
                if factors is not None:
                    self.scale_rows_(logits, xp.where(counted[some], factors[some], 1))
                g_x, g_weight, g_bias = self._add_gradients(logits, x, weight, some, g_x, g_weight, g_bias, wanted[1])
            del logits  # before the next block's
        return losses, g_x, g_weight, g_bias

    def _add_gradients(
        self, g_logits: Array, x: Array, weight: Array, some: slice, g_x: Array | None, g_weight: Array | None,
        g_bias: Array | None, weight_wanted: bool,
    ) -> tuple[Array | None, Array | None, Array | None]:  # fmt: skip
        """Return the gradients with those of a block of rows; the first block's are the sums' first terms."""
        if g_x is not None:
            g_x[some] = self.product(g_logits, weight)
        if weight_wanted:
            both = g_logits.T, x[some]  # [V, n], [n, D]
            g_weight = self.add_product_(g_weight, *both) if some.start else self.product(*both)
        if g_bias is not None:
            part = self.sum_rows(g_logits)
            g_bias = g_bias.__iadd__(part) if some.start else part
        return g_x, g_weight, g_bias

    def clear_rows_(self, rows: Array, keep: Array) -> None:
        """Set rows[n] to 0 unless keep[n].  Shapes: rows [N, V] (overwritten), keep bool [N]"""
        rows[~keep] = 0

    def scale_rows_(self, rows: Array, factors: Array) -> Array:
        """rows[n] *= factors[n].  Shapes: rows [N, V] (overwritten), factors [N]"""
        rows *= factors.astype(rows.dtype, copy=False)[:, None]
        return rows

    # ---- Optimizer ----

    def adam_(
        self, parameter: Array, gradient: Array, m: Array, v: Array, *,
        step_size: float, beta1: float, beta2: float, eps: float, gradient_scale: float,
    ) -> None:  # fmt: skip
        """One Adam update in place (Kingma & Ba 2015, Algorithm 1), bias corrections folded into `step_size` and `eps`.

        m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²;  parameter ← parameter - step_size · m / (√v + eps)

        Shapes: all [...], of one shape
        """
        g = gradient * gradient_scale
        step = g - m
        step *= 1 - beta1
        m += step
        g *= g
        g -= v
        g *= 1 - beta2
        v += g
        step = self.xp.sqrt(v)
        step += eps
        step = m / step
        step *= step_size
        parameter -= step

    def adam_all_(self, updates: Sequence[tuple[Array, Array, Array, Array, Array | None]], **settings: float) -> None:
        """`adam_` for many arrays: (parameter, gradient, m, v, copy or None), a copy being in lower precision."""
        for parameter, gradient, m, v, copy in updates:
            self.adam_(parameter, gradient, m, v, **settings)
            if copy is not None:
                copy[...] = parameter

    def gather_(self, gradients: Sequence[tuple[Array, Array, bool, Array | None]]) -> None:
        """Write or add many gradients to their places: (place, gradient, whether it is added, copy or None).

        A copy, of the place's new content, is in lower precision.
        """
        for place, gradient, adds, copy in gradients:
            if adds:
                place += gradient
            else:
                place[...] = gradient
            if copy is not None:
                copy[...] = place

    def squared_norm(self, arrays: Sequence[Array]) -> Any:
        """Σ x² over all elements: pieces in the arrays' precision, their sum in float64."""
        total = 0.0
        for array in arrays:
            flat = array.reshape(-1)
            # a float32 dot product in pieces: exact enough, and without a float64 copy of the array
            total += math.fsum(float(piece @ piece) for piece in np.array_split(flat, -(-flat.size // 65536) or 1))
        return total

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


def row_sums(kernels: Kernels, values: Array, indices: Array, rows: int, scale: float) -> Array:
    """Σ_i of scale · values[i] in row indices[i].  Shapes: values [N, D], indices int [N] -> [rows, D]"""
    summed = kernels.embedding_backward(values, indices, rows)
    if scale != 1:
        summed *= scale
    return summed


def blocks_of(size: int, rows: int) -> Iterator[slice]:
    """Slices of `rows` that cover 0 … size."""
    return (slice(start, min(start + rows, size)) for start in range(0, size, rows))


def _equal_rows(size: int, most: int) -> int:
    """Rows of a block for blocks of equal size, as few as have at most `most` rows."""
    blocks = -(-size // max(1, most))
    return max(1, -(-size // max(1, blocks)))


def heads_last_empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an empty array of shape [..., H, T, K], in memory [..., T, H, K].

    Products write into it at full speed, and joining the heads, by transpose and reshape to [..., T, H · K], copies
    nothing.
    """
    if len(shape) < 3:
        return xp.empty(shape, dtype)
    *leading, h, t, k = shape
    return xp.empty((*leading, t, h, k), dtype).swapaxes(-2, -3)


def gradients_of_heads(xp: Any, shapes: Sequence[tuple[int, ...]], dtype: Any, places: Places) -> list[Array]:
    """Memory for gradients of these shapes: what `places` gives, or else as `heads_last_empty`."""
    return [
        heads_last_empty(xp, shape, dtype) if place is None or place.shape != shape or place.dtype != dtype else place
        for shape, place in zip(shapes, places, strict=True)
    ]
