"""Scaled dot-product attention as one op (section 3.2.1, equation 1)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from autograd.backend import backend_of
from autograd.engine import Op, apply
from autograd.ops.nn import draw_mask
from autograd.tensor import Tensor


class ScaledDotProductAttention(Op):
    """y = dropout(softmax(scale · q kᵀ + mask)) v

    Shapes: q [..., T, K], k [..., S, K], v [..., S, M]; mask bool [..., T, S] -> y [..., T, M]
    Saves:  q, k, v, the dropout mask, and on a CPU the probabilities [..., T, S]; a GPU recomputes them from y
    """

    broadcasts = True  # over the leading axes

    def forward(self, q, k, v, *, mask, dropout, scale):
        self.scale = scale
        dtype = self.xp.result_type(q, k, v)
        q, k, v = [a.astype(dtype, copy=False) for a in (q, k, v)]
        leading = _leading_shape(q, k, v)
        if leading != _leading_shape(q, k):  # the values have more leading axes than the weights
            q = self.xp.broadcast_to(q, (*leading, *q.shape[-2:]))
        keep, self.keep_scale = draw_mask(self.backend, (*leading, q.shape[-2], k.shape[-2]), dropout)
        y, kept = self.backend.attention(q, k, v, mask, keep, self.keep_scale, scale)
        self.save(q, k, v, keep, *kept)
        return y

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
        return self.backend.attention_backward(g_y, q, k, v, tuple(kept), keep, self.keep_scale, self.scale)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
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
    Raises: TypeError for a mask that is not boolean, ValueError for shapes that do not fit or for a dropout outside
    [0, 1).
    Source: section 3.2.1, equation 1
    """
    query, key, value = [x if isinstance(x, Tensor) else Tensor(x) for x in (query, key, value)]
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError("query, key and value need at least two axes: positions and features")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query has {query.shape[-1]} features, key has {key.shape[-1]}; they must be equal")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"key has {key.shape[-2]} positions, value has {value.shape[-2]}; they must be equal")
    scores = *_leading_shape(query, key, value), query.shape[-2], key.shape[-2]
    allowed = _allowed(query, scores, mask, is_causal)
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    return apply(ScaledDotProductAttention, query, key, value, mask=allowed, dropout=dropout, scale=float(scale))


def _leading_shape(*arrays: Any) -> tuple[int, ...]:
    """The common shape of all axes but the last two."""
    shapes = [a.shape[:-2] for a in arrays]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"the leading axes of query, key and value, {shapes}, do not broadcast together") from None


def _allowed(query: Tensor, scores: tuple[int, ...], mask: Any, is_causal: bool) -> Any:
    """The mask combined with the causal one, as an array.  Shapes: -> bool broadcastable to [..., T, S], or None"""
    xp = backend_of([query.data]).xp
    mask = mask.data if isinstance(mask, Tensor) else mask
    if mask is not None:
        mask = xp.asarray(mask)
        if mask.dtype != bool:
            raise TypeError(f"mask must be boolean (True = may attend), found {mask.dtype}; use mask != 0 or mask == 0")
        if not _broadcasts_to(mask.shape, scores):
            raise ValueError(f"a mask of shape {mask.shape} does not broadcast to [..., T, S] = {scores}")
    if is_causal:
        causal = xp.tri(*scores[-2:], dtype=bool)
        mask = causal if mask is None else mask & causal
    return mask


def _broadcasts_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return len(shape) <= len(target) and all(
        n in (1, t) for n, t in zip(reversed(shape), reversed(target), strict=False)
    )
