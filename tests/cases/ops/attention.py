"""Cases of autograd/ops/attention.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch
from tests.cases.masks import plain_dropout, same_masks


def _plain_attention(q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, scale: Any = None) -> Any:
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    weights = ag.exp(scores) if mask is None else ag.exp(scores) * mask
    total = ag.sum(weights, -1, keepdims=True)
    return plain_dropout(weights / ag.where(total.data == 0, 1, total), dropout) @ v


def _torch_attention(q: Any, k: Any, v: Any, mask: Any = None, scale: float | None = None) -> Any:
    allowed = None if mask is None else torch.tensor(mask)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, allowed, scale=scale)


def _qkv(rng: draw.Rng) -> list[np.ndarray]:
    """Query [..., T, K], key [..., S, K], value [..., S, M]."""
    leading = draw.shape(rng, max_ndim=2, max_side=2)
    t, s, k, m = rng.integers(1, 4, 4).tolist()
    return [draw.uniform(rng, (*leading, *rest)) for rest in ((t, k), (s, k), (s, m))]


@register("ScaledDotProductAttention", "no mask")
def _(rng):
    return Example(ag.scaled_dot_product_attention, _qkv(rng), _plain_attention, _torch_attention)


@register("ScaledDotProductAttention", "a mask, with rows that see nothing")
def _(rng):
    arrays = _qkv(rng)
    q, k, _ = arrays
    mask = draw.attention_mask(rng, (*draw.shrunk(rng, q.shape[:-2]), q.shape[-2], k.shape[-2]))
    return Example(
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, mask), arrays,
        lambda q, k, v: _plain_attention(q, k, v, mask), lambda q, k, v: _torch_attention(q, k, v, mask),
    )  # fmt: skip


@register("ScaledDotProductAttention", "causal, with padded keys")
def _(rng):
    t = int(rng.integers(2, 5))
    arrays = [draw.uniform(rng, (2, 1, t, width)) for width in (3, 3, 2)]
    padding = np.arange(t) < rng.integers(0, t, (2, 1, 1, 1), endpoint=True)
    causal = padding & np.tri(t, dtype=bool)
    return Example(
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, padding, is_causal=True), arrays,
        lambda q, k, v: _plain_attention(q, k, v, causal), lambda q, k, v: _torch_attention(q, k, v, causal),
    )  # fmt: skip


@register("ScaledDotProductAttention", "dropout with a fixed mask")
def _(rng):
    function, plain = same_masks(
        rng,
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, dropout=0.4),
        lambda q, k, v: _plain_attention(q, k, v, dropout=0.4),
    )
    return Example(function, _qkv(rng), plain)


@register("ScaledDotProductAttention", "a scale, self-attention")
def _(rng):
    return Example(
        lambda x: ag.scaled_dot_product_attention(x, x, x, scale=0.7), [draw.uniform(rng, (2, 3, 2))],
        lambda x: _plain_attention(x, x, x, scale=0.7), lambda x: _torch_attention(x, x, x, scale=0.7),
    )  # fmt: skip


@register("ScaledDotProductAttention", "keys and values shared by a batch")
def _(rng):
    arrays = [draw.uniform(rng, (2, 3, 2)), draw.uniform(rng, (1, 2, 2)), draw.uniform(rng, (2, 3))]
    return Example(ag.scaled_dot_product_attention, arrays, _plain_attention)


@register("ScaledDotProductAttention", "no query, no key")
def _(rng):
    q, k, v = (int(n) for n in rng.permutation([0, 2, 2]))
    return Example(
        ag.scaled_dot_product_attention,
        [draw.uniform(rng, (2, q, 3)), draw.uniform(rng, (2, k, 3)), draw.uniform(rng, (2, k, v))],
    )
