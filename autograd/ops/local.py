"""Self-attention restricted to a neighbourhood (section 4) as one op."""

from __future__ import annotations

import math
from typing import Any

from autograd.engine import Op, apply
from autograd.ops.attention import as_attention_inputs, leading_shape, mask_array
from autograd.ops.nn import draw_mask
from autograd.tensor import Tensor, TensorLike

Array = Any


class LocalAttention(Op):
    """y_i = Σ_j p_ij v_j with p_i = dropout(softmax(scale · q_i · k_j)), over the r positions j around i

    Positions are divided into blocks of r, and each block of queries attends to one window of 2 r - 1 keys: work and
    memory are proportional to T · r.

    Shapes: q [..., T, K], k [..., T, K], v [..., T, M]; mask bool [..., T] -> y [..., T, M]
    Saves:  q, k, v, the probabilities [..., T / r, r, 2 r - 1] and the dropout mask
    Source: section 4, restricted self-attention
    """

    broadcasts = True  # over the leading axes

    def forward(self, q, k, v, *, mask, neighbourhood, is_causal, dropout, scale):
        xp, leading, length = self.xp, leading_shape(q, k, v), q.shape[-2]
        before = neighbourhood - 1 if is_causal else neighbourhood // 2
        self.before, self.after = [min(n, max(length - 1, 0)) for n in (before, neighbourhood - 1 - before)]
        self.block, self.scale = self.before + 1 + self.after, scale  # windows overlap with the next one only
        q = xp.broadcast_to(q, (*leading, *q.shape[-2:]))
        scores = xp.matmul(self._blocks(q), self._windows(k).swapaxes(-1, -2))  # [..., N, C, K] @ [..., N, K, W]
        scores *= scale
        p = self.backend.masked_softmax_(scores, self._allowed(length, mask))
        keep, self.keep_scale = draw_mask(self.backend, p.shape, dropout)
        self.save(q, k, v, p, keep)
        dropped = p if keep is None else self.backend.dropout(p, keep, self.keep_scale)
        return self._rows(xp.matmul(dropped, self._windows(v)), length)  # [..., N, C, W] @ [..., N, W, M]

    def flops(self, inputs, outputs):
        """As attention over W = C + before + after keys a query, in which those of a block of C are computed."""
        k, m = inputs[0][-1], outputs[0][-1]
        blocks = -(-outputs[0][-2] // self.block) if outputs[0][-2] else 0
        n = math.prod(outputs[0][:-2]) * blocks * self.block * (self.block + self.before + self.after)
        forward, backward = (8, 9) if self.keep_scale != 1.0 else (6, 5)
        return n * (2 * (k + m) + forward), n * (4 * (k + m) + backward) if any(self.needs_gradient) else 0

    def backward(self, g_y):
        xp, (q, k, v, p, keep) = self.xp, self.saved
        length = q.shape[-2]
        g_rows, keys, values = self._blocks(g_y), self._windows(k), self._windows(v)
        dropped = p if keep is None else self.backend.dropout(p, keep, self.keep_scale)
        g_v = self._unwindowed(xp.matmul(dropped.swapaxes(-1, -2), g_rows), length)  # [..., N, W, C] @ [..., N, C, M]
        g_p = xp.matmul(g_rows, values.swapaxes(-1, -2))  # [..., N, C, M] @ [..., N, M, W] -> [..., N, C, W]
        if keep is not None:
            g_p = self.backend.dropout(g_p, keep, self.keep_scale)
        g_scores = self.backend.softmax_backward_(g_p, p)
        g_scores *= self.scale
        g_q = self._rows(xp.matmul(g_scores, keys), length)  # [..., N, C, W] @ [..., N, W, K]
        g_k = self._unwindowed(xp.matmul(g_scores.swapaxes(-1, -2), self._blocks(q)), length)
        return g_q, g_k, g_v

    def _padded(self, x: Array, before: int, after: int) -> Array:
        """`x` with zeros around its positions.  Shapes: [..., T, D] -> [..., before + T + after, D]"""
        padded = self.xp.zeros((*x.shape[:-2], before + x.shape[-2] + after, x.shape[-1]), x.dtype)
        padded[..., before : before + x.shape[-2], :] = x
        return padded

    def _blocks(self, x: Array) -> Array:
        """Shapes: [..., T, D] -> [..., N, C, D], padded with zeros"""
        padded = self._padded(x, 0, -x.shape[-2] % self.block)
        return padded.reshape(*x.shape[:-2], padded.shape[-2] // self.block, self.block, x.shape[-1])

    def _rows(self, blocks: Array, length: int) -> Array:
        """Shapes: [..., N, C, D] -> [..., T, D]"""
        rows = blocks.reshape(*blocks.shape[:-3], blocks.shape[-3] * blocks.shape[-2], blocks.shape[-1])
        return rows[..., :length, :]

    def _windows(self, x: Array) -> Array:
        """What the queries of each block may see, as overlapping views.  Shapes: [..., T, D] -> [..., N, W, D]"""
        blocks = -(-x.shape[-2] // self.block)
        padded = self._padded(x, self.before, self.after + blocks * self.block - x.shape[-2])
        shape = (*x.shape[:-2], blocks, self.block + self.before + self.after, x.shape[-1])
        *outer, step, item = padded.strides
        strides = (*outer, step * self.block, step, item)
        return self.xp.lib.stride_tricks.as_strided(padded, shape, strides)

    def _unwindowed(self, windows: Array, length: int) -> Array:
        """The transpose of `_windows`: the sum of windows at each position.  Shapes: [..., N, W, D] -> [..., T, D]"""
        *leading, blocks, width, features = windows.shape
        total = self.xp.zeros((*leading, blocks + 1, self.block, features), windows.dtype)
        total[..., :-1, :, :] += windows[..., : self.block, :]
        total[..., 1:, : width - self.block, :] += windows[..., self.block :, :]
        return total.reshape(*leading, (blocks + 1) * self.block, features)[..., self.before : self.before + length, :]

    def _allowed(self, length: int, mask: Array | None) -> Array:
        """Which keys of its window a query may attend to.  Shapes: mask [..., T] -> bool [..., N, C, W]"""
        xp, ahead = self.xp, self.before + self.after
        keys = xp.ones(length, bool) if mask is None else xp.broadcast_to(mask, (*mask.shape[:-1], length))
        offset = xp.arange(self.block + ahead) - xp.arange(self.block)[:, None]  # [C, W], from the first key one sees
        return self._windows(keys[..., None])[..., None, :, 0] & (offset >= 0) & (offset <= ahead)


def local_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    mask: TensorLike | None = None,
    *,
    neighbourhood: int,
    is_causal: bool = False,
    dropout: float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """Self-attention of each position to the `neighbourhood` positions around its own.

    Those are as many before as after its own, and one more before if `neighbourhood` is even; with `is_causal`, the
    last `neighbourhood` positions up to its own.  `mask` is boolean, True where a position may be attended to.  Values
    are those of `scaled_dot_product_attention` under a band mask, whose time and memory grow with T²; here they grow
    with T · neighbourhood.

    Shapes: query [..., T, K], key [..., T, K], value [..., T, M], mask bool broadcastable to [..., T] -> [..., T, M]
    Raises: ValueError for a neighbourhood below 1 or shapes that do not fit, TypeError for a mask that is not boolean.
    Source: section 4, "restricted to considering only a neighborhood of size r"
    """
    query, key, value, scale = as_attention_inputs(query, key, value, scale)
    if neighbourhood < 1:
        raise ValueError(f"neighbourhood={neighbourhood} must be at least 1: a position attends to itself")
    if query.shape[-2] != key.shape[-2]:
        raise ValueError(
            f"query has {query.shape[-2]} positions, key has {key.shape[-2]}; local attention is self-attention, "
            "where they are equal"
        )
    positions = *leading_shape(query, key, value), query.shape[-2]
    mask = mask_array(query, mask, positions, "[..., T]")
    return apply(
        LocalAttention, query, key, value, mask=mask, neighbourhood=neighbourhood, is_causal=is_causal,
        dropout=dropout, scale=scale,
    )  # fmt: skip
