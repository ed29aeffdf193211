"""Cases of studies/ops/local.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd as ag
from studies.ops import local_attention
from studies.tests.ops.cases.register import register
from tests.cases import draw
from tests.cases.checks import Example, torch
from tests.cases.masks import same_masks


def band(length: int, neighbourhood: int, is_causal: bool) -> np.ndarray:
    """Which keys a query may attend to, from the definition.  Shapes: -> bool [T, T]"""
    before = neighbourhood - 1 if is_causal else neighbourhood // 2
    after = neighbourhood - 1 - before
    i, j = np.ogrid[:length, :length]
    return (i - before <= j) & (j <= i + after)


def _example(arrays: list[np.ndarray], neighbourhood: int, is_causal: bool = False, mask: Any = None) -> Example:
    allowed = band(arrays[0].shape[-2], neighbourhood, is_causal)
    if mask is not None:
        allowed = allowed & mask[..., None, :]
    return Example(
        lambda q, k, v: local_attention(q, k, v, mask, neighbourhood=neighbourhood, is_causal=is_causal), arrays,
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, allowed),
        lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, torch.tensor(allowed)),
    )  # fmt: skip


def _qkv(rng: draw.Rng, longest: int = 7) -> list[np.ndarray]:
    leading = draw.shape(rng, max_ndim=2, max_side=2)
    t = int(rng.integers(1, longest + 1))
    return [draw.uniform(rng, (*leading, t, width)) for width in (2, 2, int(rng.integers(1, 4)))]


@register("LocalAttention", "an odd neighbourhood")
def _(rng):
    return _example(_qkv(rng), 3)


@register("LocalAttention", "an even neighbourhood, or a long one")
def _(rng):
    return _example(_qkv(rng), int(rng.choice([2, 4, 6, 12])))


@register("LocalAttention", "causal")
def _(rng):
    return _example(_qkv(rng), int(rng.integers(1, 10)), True)


@register("LocalAttention", "padded keys")
def _(rng):
    q, k, v = _qkv(rng)
    mask = rng.random((*q.shape[:-2], q.shape[-2])) < 0.7
    return _example([q, k, v], int(rng.integers(1, 6)), bool(rng.integers(2)), mask)


@register("LocalAttention", "keys and values shared by a batch, a scale")
def _(rng):
    arrays = [draw.uniform(rng, (2, 2, 5, 2)), draw.uniform(rng, (1, 5, 2)), draw.uniform(rng, (2, 1, 5, 3))]
    return Example(
        lambda q, k, v: local_attention(q, k, v, neighbourhood=3, scale=0.7), arrays,
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, band(5, 3, False), scale=0.7),
    )  # fmt: skip


@register("LocalAttention", "dropout with a fixed mask")
def _(rng):
    function, _ = same_masks(
        rng, lambda q, k, v: local_attention(q, k, v, neighbourhood=3, dropout=0.4), lambda q, k, v: v
    )
    return Example(function, _qkv(rng))
