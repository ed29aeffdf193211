"""Cases of studies/ops/additive.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd as ag
from studies.ops import additive_attention
from studies.tests.ops.cases.register import register
from tests.cases import draw
from tests.cases.checks import Example, torch
from tests.cases.masks import plain_dropout, same_masks


def _qkv(rng: draw.Rng) -> list[np.ndarray]:
    """Query [..., T, K], key [..., S, K], value [..., S, M]."""
    leading = draw.shape(rng, max_ndim=2, max_side=2)
    t, s, k, m = rng.integers(1, 4, 4).tolist()
    return [draw.uniform(rng, (*leading, *rest)) for rest in ((t, k), (s, k), (s, m))]


def _plain_additive(q: Any, k: Any, v: Any, w: Any, mask: Any = None, dropout: float = 0.0) -> Any:
    u = ag.tanh(ag.expand_dims(q, -2) + ag.expand_dims(k, -3))  # [..., T, S, K]
    scores = ag.sum(u * ag.expand_dims(w, (-2, -3)), -1)
    weights = ag.exp(scores) if mask is None else ag.exp(scores) * mask
    total = ag.sum(weights, -1, keepdims=True)
    return plain_dropout(weights / ag.where(total.data == 0, 1, total), dropout) @ v


def _torch_additive(q: Any, k: Any, v: Any, w: Any) -> Any:
    scores = (torch.tanh(q[..., :, None, :] + k[..., None, :, :]) * w[..., None, None, :]).sum(-1)
    return torch.softmax(scores, -1) @ v


def _qkvw(rng: draw.Rng) -> list[np.ndarray]:
    q, k, v = _qkv(rng)
    leading = q.shape[:-2]
    return [q, k, v, draw.uniform(rng, (*leading[int(rng.integers(len(leading) + 1)) :], q.shape[-1]))]


@register("AdditiveAttention", "no mask")
def _(rng):
    return Example(additive_attention, _qkvw(rng), _plain_additive, _torch_additive)


@register("AdditiveAttention", "a mask, with rows that see nothing")
def _(rng):
    arrays = _qkvw(rng)
    q, k = arrays[:2]
    mask = draw.attention_mask(rng, (*draw.shrunk(rng, q.shape[:-2]), q.shape[-2], k.shape[-2]))
    return Example(
        lambda q, k, v, w: additive_attention(q, k, v, w, mask),
        arrays,
        lambda q, k, v, w: _plain_additive(q, k, v, w, mask),
    )


@register("AdditiveAttention", "causal self-attention")
def _(rng):
    t = int(rng.integers(2, 5))
    return Example(
        lambda x, w: additive_attention(x, x, x, w, is_causal=True),
        [draw.uniform(rng, (2, t, 3)), draw.uniform(rng, (3,))],
        lambda x, w: _plain_additive(x, x, x, w, np.tri(t, dtype=bool)),
    )


@register("AdditiveAttention", "dropout with a fixed mask")
def _(rng):
    function, plain = same_masks(
        rng,
        lambda q, k, v, w: additive_attention(q, k, v, w, dropout=0.4),
        lambda q, k, v, w: _plain_additive(q, k, v, w, dropout=0.4),
    )
    return Example(function, _qkvw(rng), plain)
