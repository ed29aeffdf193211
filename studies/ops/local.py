"""Self-attention restricted to a neighbourhood (section 4) as one op."""

from __future__ import annotations

import math
from typing import Any

from autograd.engine import Op, apply
from autograd.ops.nn import (
    as_attention_inputs,
    draw,
    dropped,
    leading_shape,
    mask_array,
    masked_softmax,
    softmax_gradient,
)
from autograd.tensor import Tensor, TensorLike

Array = Any


class LocalAttention(Op):
    """y_i = Σ_j p_ij v_j with p_i = dropout(softmax(scale · q_i · k_j)), over `before` positions j, i, and `after` more

    Positions are divided into N blocks of C = before + 1 + after, and each block of queries attends to one window of
    W = 2 C - 1 keys: work and memory are proportional to T · C.

    Shapes: q [..., T, K], k [..., T, K], v [..., T, M]; mask bool [..., T] or None -> y [..., T, M]
    Source: section 4, restricted self-attention
    """

    broadcasts = True  # over the leading axes
    reads = "q k v"

    @staticmethod
    def forward(xp, q, k, v, *, mask, before, after, drop, scale):
        p = LocalAttention.weights(xp, q, k, mask, before, after, scale)
        y = dropped(xp, p, drop) @ as_windows(xp, v, before, after)  # [..., N, C, W] @ [..., N, W, M]
        return from_blocks(y, q.shape[-2])

    @staticmethod
    def backward(xp, g, y, q, k, v, *, mask, before, after, drop, scale):
        p, length = LocalAttention.weights(xp, q, k, mask, before, after, scale), q.shape[-2]
        g = as_blocks(xp, g, before + 1 + after)  # [..., N, C, M]
        g_v = dropped(xp, p, drop).swapaxes(-1, -2) @ g  # [..., N, W, C] @ [..., N, C, M]
        g_p = g @ as_windows(xp, v, before, after).swapaxes(-1, -2)  # [..., N, C, M] @ [..., N, M, W]
        g_scores = scale * softmax_gradient(dropped(xp, g_p, drop), p)
        g_q = g_scores @ as_windows(xp, k, before, after)  # [..., N, C, W] @ [..., N, W, K]
        g_k = g_scores.swapaxes(-1, -2) @ as_blocks(xp, q, before + 1 + after)  # [..., N, W, C] @ [..., N, C, K]
        return from_blocks(g_q, length), from_windows(xp, g_k, before, length), from_windows(xp, g_v, before, length)

    @staticmethod
    def weights(xp, q, k, mask, before, after, scale):
        """The probabilities of the keys in its window, for each query.  Shapes: -> [..., N, C, W]"""
        length, reach = q.shape[-2], before + after
        queries, keys = as_blocks(xp, q, reach + 1), as_windows(xp, k, before, after)
        scores = scale * (queries @ keys.swapaxes(-1, -2))  # [..., N, C, K] @ [..., N, K, W]
        inside = xp.ones(length, bool) if mask is None else xp.broadcast_to(mask, (*mask.shape[:-1], length))
        inside = as_windows(xp, inside[..., None], before, after)[..., 0]  # [..., N, W]
        offset = xp.arange(2 * reach + 1) - xp.arange(reach + 1)[:, None]  # [C, W], from the first key that one sees
        return masked_softmax(xp, scores, inside[..., None, :] & (offset >= 0) & (offset <= reach))

    def flops(self, inputs, outputs):
        """Count as for attention over W keys per query, computed in blocks of C queries."""
        k, m = inputs[0][-1], outputs[0][-1]
        reach = self.parameters["before"] + self.parameters["after"]
        n = math.prod(outputs[0][:-2]) * -(-outputs[0][-2] // (reach + 1)) * (reach + 1) * (2 * reach + 1)
        forward, backward = (6, 5) if self.parameters["drop"] is None else (8, 9)
        return n * (2 * (k + m) + forward), n * (4 * (k + m) + backward) if any(self.needs_gradient) else 0


def padded(xp: Any, x: Array, before: int, after: int, axis: int = -2) -> Array:
    """x with zeros around it along `axis`.  Shapes: [..., T, D] -> [..., before + T + after, D]"""
    around = [xp.zeros((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in (before, after)]
    return xp.concatenate([around[0], x, around[1]], axis=axis)


def as_blocks(xp: Any, x: Array, size: int) -> Array:
    """Blocks of C positions, the last one filled up with zeros.  Shapes: [..., T, D] -> [..., N, C, D]"""
    n = -(-x.shape[-2] // size)
    return padded(xp, x, 0, n * size - x.shape[-2]).reshape(*x.shape[:-2], n, size, x.shape[-1])


def from_blocks(x: Array, length: int) -> Array:
    """The transpose of `as_blocks`.  Shapes: [..., N, C, D] -> [..., T, D]"""
    *leading, n, size, features = x.shape
    return x.reshape(*leading, n * size, features)[..., :length, :]


def as_windows(xp: Any, x: Array, before: int, after: int) -> Array:
    """The positions that queries of each block see: a block that begins `before` earlier, and the next but for its end.

    Shapes: [..., T, D] -> [..., N, W, D]
    """
    size, length = before + 1 + after, x.shape[-2]
    n = -(-length // size)
    shifted = as_blocks(xp, padded(xp, x, before, (n + 1) * size - before - length), size)  # [..., N + 1, C, D]
    return xp.concatenate([shifted[..., :-1, :, :], shifted[..., 1:, :-1, :]], axis=-2)


def from_windows(xp: Any, x: Array, before: int, length: int) -> Array:
    """The transpose of `as_windows`: the sum of all windows at each position.  Shapes: [..., N, W, D] -> [..., T, D]"""
    size = (x.shape[-2] + 1) // 2
    own = padded(xp, x[..., :size, :], 0, 1, axis=-3)  # [..., N + 1, C, D]
    following = padded(xp, padded(xp, x[..., size:, :], 0, 1), 1, 0, axis=-3)  # [..., N + 1, C, D]
    return from_blocks(own + following, before + length)[..., before:, :]


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
    leading, length = leading_shape(query, key, value), query.shape[-2]
    mask = mask_array(query, mask, (*leading, length), "[..., T]")
    before = neighbourhood - 1 if is_causal else neighbourhood // 2
    before, after = [min(n, max(length - 1, 0)) for n in (before, neighbourhood - 1 - before)]
    size = before + 1 + after
    drop = draw((*leading, -(-length // size), size, 2 * size - 1), dropout)  # [..., N, C, W]
    return apply(LocalAttention, query, key, value, mask=mask, before=before, after=after, drop=drop, scale=scale)
