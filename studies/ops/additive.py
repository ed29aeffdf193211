"""Additive attention, which section 3.2.1 compares with the dot product."""

from __future__ import annotations

import math

import numpy as np

from autograd.engine import Op, apply
from autograd.ops.nn import (
    allowed,
    as_attention_inputs,
    draw,
    dropped,
    leading_shape,
    masked_softmax,
    softmax_gradient,
)
from autograd.ops.shape import broadcasts_to
from autograd.tensor import Tensor, TensorLike, tensors


class AdditiveAttention(Op):
    """y = dropout(p) v with p = softmax(Σ_d w_d tanh(q_d + k_d) + mask)

    One query position at a time, so that the [..., T, S, K] arguments of tanh never stand in memory at once.

    Shapes: q [..., T, K], k [..., S, K], v [..., S, M], w [..., K]; mask bool [..., T, S] -> y [..., T, M]
    Source: Bahdanau et al. 2015, equation 6 of appendix A.1.2; section 3.2.1 compares it with the dot product
    """

    broadcasts = True  # over the leading axes
    reads = "q k v w"

    @staticmethod
    def forward(xp, q, k, v, w, *, mask, drop):
        return dropped(xp, _weights(xp, q, k, w, mask), drop) @ v  # [..., T, S] @ [..., S, M]

    def flops(self, inputs, outputs):
        """Count 4 n K for the n = B · T · S scores and 2 n M for p v; backward 8 n K with tanh again, and 4 n M."""
        k, m = inputs[0][-1], outputs[0][-1]
        n = math.prod(outputs[0][:-1]) * inputs[1][-2]
        forward, backward = (5, 4) if self.parameters.get("drop") is None else (7, 8)
        return n * (4 * k + 2 * m + forward), n * (8 * k + 4 * m + backward) if any(self.needs_gradient) else 0

    @staticmethod
    def backward(xp, g, y, q, k, v, w, *, mask, drop):
        p = _weights(xp, q, k, w, mask)
        g_v = dropped(xp, p, drop).swapaxes(-1, -2) @ g  # [..., S, T] @ [..., T, M]
        g_p = dropped(xp, g @ v.swapaxes(-1, -2), drop)  # [..., T, M] @ [..., M, S]
        g_scores = softmax_gradient(g_p, p)
        g_q, g_k, g_w = [], 0, 0
        for t in range(q.shape[-2]):
            u = xp.tanh(q[..., t, None, :] + k)  # [..., S, K]
            g_t = g_scores[..., t, :, None]  # [..., S, 1]
            g_u = g_t * (w[..., None, :] * (1 - u * u))
            g_q.append(g_u.sum(axis=-2))
            g_k, g_w = g_k + g_u, g_w + (u * g_t).sum(axis=-2)
        if not g_q:  # no query
            return tuple([xp.zeros(a.shape, a.dtype) for a in (q, k, v, w)])
        return xp.stack(g_q, axis=-2), g_k, g_v, g_w


def _weights(xp, q, k, w, mask):
    """softmax(Σ_d w_d tanh(q_d + k_d) + mask).  Shapes: q [..., T, K], k [..., S, K], w [..., K] -> [..., T, S]"""
    scores = [(xp.tanh(q[..., t, None, :] + k) @ w[..., None])[..., 0] for t in range(q.shape[-2])]  # [..., S] each
    if not scores:
        return xp.zeros((*np.broadcast_shapes(q.shape[:-2], k.shape[:-2], w.shape[:-1]), 0, k.shape[-2]), q.dtype)
    return masked_softmax(xp, xp.stack(scores, axis=-2), mask)


def additive_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    weight: TensorLike,
    mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """softmax(Σ_d weight_d tanh(query_d + key_d)) value, over the keys that `mask` allows.

    `mask`, `is_causal` and `dropout` as for `scaled_dot_product_attention`.

    Shapes: query [..., T, K], key [..., S, K], value [..., S, M], weight [..., K], with the leading axes of the others
    or fewer; mask bool broadcastable to [..., T, S] -> [..., T, M]
    Raises: as `scaled_dot_product_attention`; ValueError for a weight of another width.
    Source: Bahdanau et al. 2015, appendix A.1.2; section 3.2.1
    """
    query, key, value, _ = as_attention_inputs(query, key, value, None)
    (weight,) = tensors(weight=weight)
    leading = leading_shape(query, key, value)
    if weight.shape[-1:] != query.shape[-1:] or not broadcasts_to(weight.shape[:-1], leading):
        raise ValueError(
            f"weight has shape {weight.shape}; expected [..., K] that broadcasts to {(*leading, query.shape[-1])}"
        )
    scores = *leading, query.shape[-2], key.shape[-2]
    mask = allowed(query, scores, mask, is_causal)
    return apply(AdditiveAttention, query, key, value, weight, mask=mask, drop=draw(scores, dropout))
