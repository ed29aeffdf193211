"""Scaled dot-product attention (section 3.2.1, equation 1) and additive attention, as one op each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograd.backend import as_array, backend_of
from autograd.engine import Op, apply
from autograd.ops.arguments import number, tensors
from autograd.ops.nn import draw_mask
from autograd.ops.products import gradient_place
from autograd.tensor import Tensor, TensorLike


class ScaledDotProductAttention(Op):
    """y = dropout(softmax(scale · q kᵀ + mask)) v

    Shapes: q [..., T, K], k [..., S, K], v [..., S, M]; mask bool [..., T, S] -> y [..., T, M]
    Saves:  q, k, v, the dropout mask, and on a CPU the probabilities [..., T, S]; a GPU recomputes them from y
    """

    broadcasts = True  # over the leading axes
    computes_again = "saved"

    def forward(self, q, k, v, *, mask, dropout, scale):
        self.scale = scale
        dtype = self.xp.result_type(q, k, v)
        q, k, v = [a.astype(dtype, copy=False) for a in (q, k, v)]
        leading = leading_shape(q, k, v)
        if leading != leading_shape(q, k):  # the values have more leading axes than the weights
            q = self.xp.broadcast_to(q, (*leading, *q.shape[-2:]))
        keep, self.keep_scale = draw_mask(self.backend, (*leading, q.shape[-2], k.shape[-2]), dropout)
        y, kept = self.backend.attention(q, k, v, mask, keep, self.keep_scale, scale)
        self.save(q, k, v, keep, *kept)
        return y

    def again(self):
        _, _, v, keep, p = self.saved  # on a CPU
        return self.backend.attention_output(p, v, keep, self.keep_scale)

    def flops(self, inputs, outputs):
        """Of n = B · H · T · S scores: 2 n K for q kᵀ and 2 n M for p v forward, twice that for four gradients.

        Scale and softmax take 6 n (scale, maximum, difference, exponential, sum, division), their gradient 4 n
        (product, sum, difference, product) and 1 n for the scale; dropout 2 n and, with what is computed again, 4 n.
        """
        k, m = inputs[0][-1], outputs[0][-1]
        n = math.prod(outputs[0][:-1]) * inputs[1][-2]
        forward, backward = (8, 9) if self.keep_scale != 1.0 else (6, 5)
        return n * (2 * (k + m) + forward), n * (4 * (k + m) + backward) if any(self.needs_gradient) else 0

    def backward(self, g_y):
        q, k, v, keep, *kept = self.saved
        places = [gradient_place(edge) for edge in self._edges]
        return self.backend.attention_backward(g_y, q, k, v, tuple(kept), keep, self.keep_scale, self.scale, places)


def scaled_dot_product_attention(
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    mask: TensorLike | None = None,
    *,
    is_causal: bool = False,
    dropout: float = 0.0,
    scale: float | None = None,
) -> Tensor:
    """softmax(scale · query keyᵀ) value, over the keys that `mask` allows.

    `mask` is boolean, True means *may attend*; `is_causal` allows key j for query i where j ≤ i, and can be combined
    with a mask.  The result of a query that may attend to nothing is 0, and so are its gradients.  `scale` is 1/√K by
    default; `dropout` is the probability of dropping an attention weight.

    Shapes: query [..., T, K], key [..., S, K], value [..., S, M], mask bool broadcastable to [..., T, S] -> [..., T, M]
    Saves:  q, k, v, the dropout mask, and on a CPU the probabilities [..., T, S]; a GPU recomputes them from y
    Raises: TypeError for a mask that is not boolean, ValueError for shapes that do not fit or for a dropout outside
    [0, 1).
    Source: section 3.2.1, equation 1
    """
    query, key, value, scale = as_attention_inputs(query, key, value, scale)
    scores = *leading_shape(query, key, value), query.shape[-2], key.shape[-2]
    mask = _allowed(query, scores, mask, is_causal)
    return apply(ScaledDotProductAttention, query, key, value, mask=mask, dropout=dropout, scale=scale)


def as_attention_inputs(query: Any, key: Any, value: Any, scale: float | None) -> tuple[Tensor, Tensor, Tensor, float]:
    """Query, key and value as Tensors whose shapes fit, and the scale, 1/√K if it is None.

    Raises: ValueError for shapes that do not fit.
    """
    query, key, value = tensors(query=query, key=key, value=value)
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError("query, key and value need at least two axes: positions and features")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query has {query.shape[-1]} features, key has {key.shape[-1]}; they must be equal")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"key has {key.shape[-2]} positions, value has {value.shape[-2]}; they must be equal")
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    return query, key, value, number("scale", scale)


def leading_shape(*arrays: Any) -> tuple[int, ...]:
    """The common shape of all axes but the last two."""
    shapes = [a.shape[:-2] for a in arrays]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"the leading axes of query, key and value, {shapes}, do not broadcast together") from None


def _allowed(query: Tensor, scores: tuple[int, ...], mask: Any, is_causal: bool) -> Any:
    """The mask combined with the causal one, as an array.  Shapes: -> bool broadcastable to [..., T, S], or None"""
    mask = mask_array(query, mask, scores, "[..., T, S]")
    if is_causal:
        causal = backend_of([query.data]).causal_mask(*scores[-2:])
        mask = causal if mask is None else mask & causal
    return mask


def mask_array(query: Tensor, mask: Any, shape: tuple[int, ...], axes: str) -> Any:
    """A mask as an array on the device of `query`, None as None.

    Raises: TypeError for a mask that is not boolean, ValueError if it does not broadcast to `shape`.
    """
    if mask is None:
        return None
    # copied: the backward pass of a GPU reads it again, and a Tensor may have changed by then
    mask = backend_of([query.data]).xp.asarray(mask.data.copy() if isinstance(mask, Tensor) else as_array(mask))
    if mask.dtype != bool:
        raise TypeError(f"mask must be boolean (True = may attend), found {mask.dtype}; use mask != 0 or mask == 0")
    if not _broadcasts_to(mask.shape, shape):
        raise ValueError(f"a mask of shape {mask.shape} does not broadcast to {axes} = {shape}")
    return mask


def _broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return len(shape) <= len(target) and all(
        n in (1, t) for n, t in zip(reversed(shape), reversed(target), strict=False)
    )


class AdditiveAttention(Op):
    """y = dropout(p) v with p = softmax(Σ_d w_d tanh(q_d + k_d) + mask)

    One query position at a time, so that the [..., T, S, K] arguments of tanh never stand in memory at once.

    Shapes: q [..., T, K], k [..., S, K], v [..., S, M], w [..., K]; mask bool [..., T, S] -> y [..., T, M]
    Saves:  q, k, v, w, the probabilities [..., T, S] and the dropout mask; tanh is computed again
    Source: Bahdanau et al. 2015, equation 6 of appendix A.1.2; section 3.2.1 compares it with the dot product
    """

    broadcasts = True  # over the leading axes

    def forward(self, q, k, v, w, *, mask, dropout):
        leading = np.broadcast_shapes(leading_shape(q, k, v), w.shape[:-1])
        scores = self.xp.empty((*leading, q.shape[-2], k.shape[-2]), self.xp.result_type(q, k, w))
        for t in range(q.shape[-2]):
            u = self.xp.tanh(q[..., t, None, :] + k)  # [..., S, K]
            scores[..., t, :] = (u @ w[..., None])[..., 0]
        p = self.backend.masked_softmax_(scores, mask)
        keep, self.keep_scale = draw_mask(self.backend, p.shape, dropout)
        self.save(q, k, v, w, p, keep)
        return self.xp.matmul(p if keep is None else self.backend.dropout(p, keep, self.keep_scale), v)

    def flops(self, inputs, outputs):
        """Of n = B · T · S scores: 4 n K for them and 2 n M for p v; backward 8 n K with tanh again, and 4 n M."""
        k, m = inputs[0][-1], outputs[0][-1]
        n = math.prod(outputs[0][:-1]) * inputs[1][-2]
        forward, backward = (7, 8) if self.keep_scale != 1.0 else (5, 4)
        return n * (4 * k + 2 * m + forward), n * (8 * k + 4 * m + backward) if any(self.needs_gradient) else 0

    def backward(self, g_y):
        xp, (q, k, v, w, p, keep) = self.xp, self.saved
        dropped = p if keep is None else self.backend.dropout(p, keep, self.keep_scale)
        g_v = xp.matmul(dropped.swapaxes(-1, -2), g_y)  # [..., S, T] @ [..., T, M]
        g_p = xp.matmul(g_y, v.swapaxes(-1, -2))  # [..., T, M] @ [..., M, S]
        if keep is not None:
            g_p = self.backend.dropout(g_p, keep, self.keep_scale)
        g_scores = self.backend.softmax_backward_(g_p, p)
        leading, features = p.shape[:-2], q.shape[-1]
        g_q = xp.empty((*leading, q.shape[-2], features), p.dtype)
        g_k = xp.zeros((*leading, k.shape[-2], features), p.dtype)
        g_w = xp.zeros((*leading, features), p.dtype)
        for t in range(q.shape[-2]):
            u = xp.tanh(q[..., t, None, :] + k)  # [..., S, K]
            g_t = g_scores[..., t, :, None]  # [..., S, 1]
            g_w += (u * g_t).sum(axis=-2)
            g_u = g_t * (w[..., None, :] * (1 - u * u))
            g_k += g_u
            g_q[..., t, :] = g_u.sum(axis=-2)
        return g_q, g_k, g_v, g_w


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
    if weight.shape[-1:] != query.shape[-1:] or not _broadcasts_to(weight.shape[:-1], leading):
        raise ValueError(
            f"weight has shape {weight.shape}; expected [..., K] that broadcasts to {(*leading, query.shape[-1])}"
        )
    mask = _allowed(query, (*leading, query.shape[-2], key.shape[-2]), mask, is_causal)
    return apply(AdditiveAttention, query, key, value, weight, mask=mask, dropout=dropout)
