"""Kernels that only training calls, of kernels that each device has: sums of gradients, the loss, and Adam."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd.fast.shared import SharedKernels, blocks_of

Array = Any


class TrainingKernels(SharedKernels):
    """The kernels for gradients, the loss and the optimizer, in array code for NumPy and CuPy."""

    product: Callable[..., Array]  # of the device, as are these
    products: Callable[..., tuple[Array, ...]]
    add_product_: Callable[..., Array]
    linear: Callable[..., Array]
    sum_rows: Callable[..., Array]
    layer_norm_backward: Callable[..., tuple[Array, Array, Array]]
    embedding_backward: Callable[..., Array]

    # ---- Gradients ----

    def linear_gradients(
        self, g_y: Array, weight: Array | None, x: Array | None, leading: tuple[int, ...], dtype: Any, with_bias: bool
    ) -> tuple[Any, Array | None, Array | None]:
        """Return the gradients of input, weight and bias of `linear`: `input_gradient` and `weight_gradient`.

        weight, x: None where the gradient of the other is not wanted
        leading: the shape of the input without its last axis

        Shapes: g_y [N, out], weight [out, in], x [N, in] -> [*leading, in], [out, in] in `dtype`, [out]
        """
        g_x = None if weight is None else self.input_gradient(g_y, weight, (*leading, weight.shape[1]))
        if x is not None:
            return g_x, *self.weight_gradient(g_y, x, dtype, with_bias)
        return g_x, None, self.sum_rows(g_y) if with_bias else None

    def input_gradient(self, g_y: Array, weight: Array, shape: tuple[int, ...]) -> Any:
        """Return the gradient of the input of `linear`, an array or a `DeferredGradient`, in the input's shape.

        Shapes: g_y [N, out], weight [out, in] -> shape
        """
        return self.product(g_y, weight).reshape(shape)

    def linear_relu(self, x: Array, weight: Array, bias: Array | None) -> tuple[Array, Array | None]:
        """max(x Wᵀ + b, 0), and where it is above 0, for `masked_product`; None from kernels without such products."""
        return self.linear(x, weight, bias, relu=True), None

    def weight_gradient(
        self, g_y: Array, x: Array, dtype: Any = None, with_bias: bool = False
    ) -> tuple[Array, Array | None]:
        """Return the gradients of weight and bias of `linear`, the latter None unless it is wanted.

        Shapes: g_y [N, out], x [N, in] -> [out, in] in `dtype`, [out]
        """
        return self.product(g_y.T, x, dtype), self.sum_rows(g_y) if with_bias else None

    def dropout_add_layer_norm_backward(
        self, g_y: Array, normalised: Array, inverse_std: Array, weight: Array, keep: Any, scale: float
    ) -> tuple[Array, Array, Array, Array]:
        """Shapes: as layer_norm_backward -> g_x [N, D], g_residual [N, D], g_weight [D], g_bias [D]"""
        g_sum, g_weight, g_bias = self.layer_norm_backward(g_y, normalised, inverse_std, weight)
        return g_sum if keep is None else self.dropout(g_sum, keep, scale), g_sum, g_weight, g_bias

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
        both = g_logits.T, x[some]  # [V, n], [n, D]
        if g_x is not None and weight_wanted and not some.start:
            g_x[some], g_weight = self.products((g_logits, weight), both)
        else:
            if g_x is not None:
                g_x[some] = self.product(g_logits, weight)
            if weight_wanted:
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


def row_sums(kernels: TrainingKernels, values: Array, indices: Array, rows: int, scale: float) -> Array:
    """Σ_i of scale · values[i] in row indices[i].  Shapes: values [N, D], indices int [N] -> [rows, D]"""
    summed = kernels.embedding_backward(values, indices, rows)
    if scale != 1:
        summed *= scale
    return summed


def _equal_rows(size: int, most: int) -> int:
    """Rows of a block for blocks of equal size, as few as have at most `most` rows."""
    blocks = -(-size // max(1, most))
    return max(1, -(-size // max(1, blocks)))
