# mypy: disable-error-code="override, misc"
"""Fast implementations of ops that a Transformer's step has in fused ones (ops.py), for models that use them alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograd.backend import CPU, widened
from autograd.engine import unbroadcast
from autograd.fast.ops import IMPLEMENTATIONS, FastOp, centred, for_blas
from autograd.ops import activations, choose, nn, products
from autograd.ops.nn import rows_of

# ---- Elements ----


class Relu(FastOp, nn.Relu):
    """Saves: y"""

    def read_by_plain(self, y):
        return y, None

    def forward(self, x):
        y = self.kernels.relu(x if hasattr(x, "dtype") else self.xp.asarray(x))
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return self.kernels.relu_backward(g_y, y)


class Gelu(FastOp, activations.Gelu):
    """Saves: x"""

    def forward(self, x):
        x = self.xp.asarray(x)
        if self.needs_gradient[0]:
            self.save(x)
        wide, dtype = widened(x)
        _, step = self.kernels.normal_distribution(wide)
        step *= self.xp.maximum(wide, -40)
        return step.astype(dtype, copy=False)

    def backward(self, g_y):
        (x,) = self.saved
        wide, dtype = widened(x)
        slope, step = self.kernels.normal_distribution(wide)
        slope *= self.xp.clip(wide, -40, 40)
        slope += step
        slope = slope.astype(dtype, copy=False)
        slope *= g_y
        return slope

    def read_by_plain(self, x):
        return None, x


class Dropout(FastOp, nn.Dropout):
    """Saves: keep, one byte an element"""

    def forward(self, x, *, drop):
        keep, self.scale = self.draw(drop)
        self.save(keep)
        return self.kernels.dropout(x, keep, self.scale)

    def read_by_plain(self, keep):
        return None, None

    def backward(self, g_y):
        (keep,) = self.saved
        return self.kernels.dropout(g_y, keep, self.scale)


class Where(FastOp, choose.Where):
    """Saves: condition"""

    def forward(self, condition, a, b):
        condition = self.xp.asarray(condition)
        self.save(condition)
        # 0 without a sign, for its bytes are 0; on a GPU, the comparison would wait for it
        is_masked = self.backend is CPU and np.shape(b) == () and not any(np.asarray(b).tobytes())
        if is_masked and condition.dtype == bool and isinstance(a, np.ndarray) and np.result_type(a, b) == a.dtype:
            is_all = self.selects_all(condition, a) and np.broadcast_shapes(condition.shape, a.shape) == a.shape
            return a.copy() if is_all else self.kernels.keep_where(a, condition)
        return choose.Where.forward(self.xp, condition, a, b)

    def selects_all(self, condition, a):
        """Whether all of `a` is selected, where that is soon known: by a condition for each row, say, on a CPU."""
        return self.backend is CPU and condition.size < a.size and condition.all()

    def read_by_plain(self, condition):
        return None, condition, None, None

    def backward(self, g_y):
        (condition,) = self.saved
        _, needs_a, needs_b = self.needs_gradient
        if not needs_b and self.selects_all(condition, g_y):
            return None, g_y, None
        keep = self.xp.broadcast_to(condition, g_y.shape)
        g_a = self.kernels.keep_where(g_y, keep != 0) if needs_a else None
        return None, g_a, self.kernels.keep_where(g_y, keep == 0) if needs_b else None


# ---- Products ----


class Matmul(FastOp, products.Matmul):
    """Saves: each factor only if the other one needs a gradient"""

    def forward(self, a, b):
        xp = self.xp
        a, b = xp.asarray(a), xp.asarray(b)
        needs_a, needs_b = self.needs_gradient
        self.save(a if needs_b else None, b if needs_a else None)
        self.shapes = a.shape, b.shape
        self.columns = a.ndim == 2 and a.flags.f_contiguous  # such as xᵀ: its gradient is made in this layout, too
        if a.ndim > 2 and 0 < b.ndim <= 2 and a.shape[-1] == b.shape[0]:  # a batch times one matrix:
            return xp.matmul(rows_of(a), b).reshape(*a.shape[:-1], *b.shape[1:])  # one large product
        return products.Matmul.forward(xp, a, b)

    def read_by_plain(self, a, b):
        return None, a, b

    def backward(self, g_y):
        a, b = self.saved
        needs_a, needs_b = self.needs_gradient
        a_shape, b_shape = self.shapes
        if len(a_shape) == 1:
            g_y = g_y[..., None, :] if len(b_shape) > 1 else g_y[None]
        if len(b_shape) == 1:
            g_y = g_y[..., None]
        g_y = for_blas(self.xp, g_y)  # [..., M, N]
        g_a = g_b = None
        if needs_a:
            g_a = self._g_a(g_y, b[:, None] if b.ndim == 1 else b, a_shape)
        if needs_b:
            g_b = self._g_b(g_y, a[None] if a.ndim == 1 else a, b_shape)
        return g_a, g_b

    def _g_a(self, g_y, b, shape):
        """Σ over the batch axes that a lacks of g_y bᵀ.  Shapes: g_y [..., M, N], b [..., K, N] -> shape"""
        xp = self.xp
        if b.ndim == 2 and self.columns:
            return xp.matmul(b, g_y.T).T
        if b.ndim == 2:
            return xp.matmul(rows_of(g_y), b.T).reshape(shape)
        if len(shape) <= 2:  # a has no batch axis: one product over batch and columns together
            return (_rows_first(xp, g_y) @ _rows_first(xp, b).T).reshape(shape)  # [M, ... N] @ [... N, K]
        return unbroadcast(xp.matmul(g_y, b.swapaxes(-1, -2)), shape)

    def _g_b(self, g_y, a, shape):
        """Σ over the batch axes that b lacks of aᵀ g_y.  Shapes: g_y [..., M, N], a [..., M, K] -> shape"""
        if len(shape) <= 2:  # b has no batch axis: one product over batch and rows together
            return (rows_of(a).T @ rows_of(g_y)).reshape(shape)
        return unbroadcast(self.xp.matmul(a.swapaxes(-1, -2), g_y), shape)


def _rows_first(xp: Any, a: Any) -> Any:
    """Return the matrices of a batch side by side.  Shapes: a [..., M, N] -> [M, ... · N]"""
    rows = a.shape[-2]
    return xp.moveaxis(a, -2, 0).reshape(rows, math.prod(a.shape[:-2]) * a.shape[-1])


# ---- Layers ----


class LayerNorm(FastOp, nn.LayerNorm):
    """Saves: x̂ = (x - mean) / σ, 1/σ and the weight; not x and its mean"""

    def forward(self, x, weight, bias, *, eps):
        y, normalised, inverse_std = self.kernels.layer_norm(rows_of(x), weight, bias, eps)
        self.save(normalised, inverse_std, weight)
        return y.reshape(x.shape)

    def read_by_plain(self, normalised, inverse_std, weight):
        return None, centred(self, normalised, inverse_std), weight, None

    def backward(self, g_y):
        normalised, inverse_std, weight = self.saved
        g_rows = g_y.reshape(normalised.shape)  # [N, D]
        g_x, g_weight, g_bias = self.kernels.layer_norm_backward(g_rows, normalised, inverse_std, weight)
        return g_x.reshape(g_y.shape), g_weight, g_bias


class CrossEntropy(FastOp, nn.CrossEntropy):
    """Saves: d loss / d logits, computed in the forward pass as both need the same exponentials; which rows count"""

    def forward(self, logits, *, targets, counted, label_smoothing, reduction):
        xp = self.xp
        targets = xp.where(counted, targets, 0)  # ignored rows read column 0; their loss is set to 0
        if self.needs_gradient[0]:
            g_logits = logits.copy()
            loss, nll = self.kernels.cross_entropy_(g_logits, targets, label_smoothing)
            # not a factor of 0 in the backward pass: logits of ignored rows may be infinite or NaN
            self.kernels.clear_rows_(g_logits, counted)
            self.save(g_logits, counted, targets)
        else:
            loss, nll = self.kernels.cross_entropy(logits, targets, label_smoothing)
        loss, nll = xp.where(counted, loss, 0), xp.where(counted, nll, 0)
        if reduction == "none":
            return loss, nll
        return nn.reduced(loss, counted, reduction), nn.reduced(nll, counted, reduction)

    def read_by_plain(self, g_logits, counted, targets):
        """Return ln p for the logits, which has their gradients; what was saved is p - q."""
        epsilon = self.parameters["label_smoothing"]
        p = g_logits + epsilon / g_logits.shape[1]
        p[self.xp.arange(len(targets)), targets] += 1 - epsilon
        return None, self.xp.log(self.xp.maximum(p, self.xp.finfo(p.dtype).tiny))

    def backward(self, g_loss, _g_nll):
        g_logits, counted, _ = self.saved
        reduction = self.parameters["reduction"]
        g_rows = g_loss if reduction == "none" else nn.of_each(g_loss, counted, reduction)
        return g_logits * self.xp.where(counted, g_rows, 1)[:, None]  # ignored rows of g_logits are 0 already


IMPLEMENTATIONS |= {
    nn.Relu: Relu,
    activations.Gelu: Gelu,
    choose.Where: Where,
    products.Matmul: Matmul,
    nn.Dropout: Dropout,
    nn.LayerNorm: LayerNorm,
    nn.CrossEntropy: CrossEntropy,
}
