"""A layer of the decoder for a few rows as three loops that Numba compiles, in float32: one for each sub-layer.

`InferenceTransformer._decoder_layer` defines what is computed, in a dozen calls of kernels, which take longer than the
arithmetic where a model is small.  Results differ by rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd as ag
from autograd.fast import compiled_kernels as kernels
from autograd.fast.compiling import compiled

Array = Any
f4 = np.float32

RELU, SILU = 0, 1
ACTIVATIONS = {ag.relu: RELU, ag.silu: SILU}


def decoder_layer(
    x: Array, self_attention: Any, cross_attention: Any, feed_forward: Any, caches: Any, nodes: Any, source: Any,
    norm_first: bool,
) -> Array:  # fmt: skip
    """One position of every hypothesis through a layer; its keys and values are written.

    A product is (weights [out, in], bias [out], or [0] for none); a norm is (weight [D], bias [D], ε).

    self_attention: product of queries, keys and values side by side; product of the output; scale of q · k; norm
    cross_attention: product of queries; product of the output; scale; norm
    feed_forward: both products; the activation between them, of ACTIVATIONS; norm
    caches: keys [B, H, room, K], values [B, H, room, d_v] of the nodes
    nodes: which of them each row sees, bool [R, room]; the first that any row sees and that of the first row of each
        sentence now
    source: keys [B, H, S, K], values [B, H, S, d_v], which of them a sentence sees, bool [1 or B, S]

    Shapes: x [R, D] -> [R, D]
    """
    seen, first, now = nodes
    x = attention_sublayer(x, self_attention, *caches, seen, first, now + len(x) // len(caches[0]), now, norm_first)
    keys, values, seen = source
    x = attention_sublayer(x, cross_attention, keys, values, seen, 0, keys.shape[2], -1, norm_first)
    return feed_forward_sublayer(x, feed_forward, norm_first)


@compiled
def attention_sublayer(
    x: Array, weights: Any, keys: Array, values: Array, seen: Array, first: int, end: int, now: int, norm_first: bool
) -> Array:
    """Attention to the keys first … end - 1, in its residual connection.

    weights: `self_attention` or `cross_attention` of a layer
    now: of self-attention, where keys and values of a sentence's first row are written; of cross-attention, -1

    Shapes: x [R, D] -> [R, D], keys, values, seen as in `attention`
    """
    inward, outward, scale, norm = weights
    projected = linear(layer_norm(x, norm) if norm_first else x, inward, False)  # [R, H · (2 K + d_v)] or [R, H · K]
    if now >= 0:
        beams = len(x) // len(keys)
        for row in range(len(x)):
            b, node, start = row // beams, now + row % beams, keys.shape[1] * keys.shape[3]
            for cache in (keys, values):
                for h in range(cache.shape[1]):
                    for i in range(cache.shape[3]):
                        cache[b, h, node, i] = projected[row, start + i]
                    start += cache.shape[3]
    y = attention(projected, keys, values, seen, first, end, scale)
    return after(x, linear(y, outward, False), norm, norm_first)


@compiled
def feed_forward_sublayer(x: Array, weights: Any, norm_first: bool) -> Array:
    """Return the feed-forward network in its residual connection.  Shapes: x [R, D] -> [R, D]"""
    up, down, activation, norm = weights
    hidden = linear(layer_norm(x, norm) if norm_first else x, up, activation == RELU)  # [R, F]
    if activation == SILU:
        silu_(hidden)
    return after(x, linear(hidden, down, False), norm, norm_first)


@compiled
def linear(x: Array, product: Any, relu: bool) -> Array:
    """Shapes: x [R, in] -> [R, out]"""
    weight, bias = product
    y = np.empty((len(x), len(weight)), np.float32)
    kernels.linear_of_few(x, weight, bias, relu, y)
    return y


@compiled
def after(x: Array, y: Array, norm: Any, norm_first: bool) -> Array:
    """The residual connection around a sub-layer that made y (overwritten) of x.  Shapes: x, y [R, D] -> [R, D]"""
    y += x
    return y if norm_first else layer_norm(y, norm)


@compiled
def layer_norm(x: Array, norm: Any) -> Array:
    """Shapes: x [R, D] -> [R, D]"""
    weight, bias, eps = norm
    y, normalised = np.empty(x.shape, np.float32), np.empty(x.shape, np.float32)
    kernels.layer_norm(x, weight, bias, eps, y, normalised, np.empty((len(x), 1), np.float32))
    return y


@compiled
def attention(q: Array, keys: Array, values: Array, seen: Array, first: int, end: int, scale: Any) -> Array:
    """Attention to the keys first … end - 1 that a row sees, heads joined; NaN for a row that sees none.

    Shapes: q [R, ≥ H · K], keys [B, H, ≥ end, K], values [B, H, ≥ end, d_v], seen bool [1, B or R, ≥ end]
            -> [R, H · d_v]
    """
    rows, d_k, d_v = len(q), keys.shape[3], values.shape[3]
    y = np.zeros((rows, keys.shape[1] * d_v), np.float32)
    weights = np.zeros(end - first, np.float32)
    for row in range(rows):
        b, sees = row * len(keys) // rows, seen[row * len(seen) // rows, first:end]
        for h in range(keys.shape[1]):
            query, k, v = q[row, h * d_k : (h + 1) * d_k], keys[b, h, first:end], values[b, h, first:end]
            for s in range(len(k)):
                if sees[s]:
                    total = f4(0)
                    for i in range(d_k):
                        total += query[i] * k[s, i]
                    weights[s] = total
            kernels.softmax_row_(weights, sees, False, scale)
            of_head = y[row, h * d_v : (h + 1) * d_v]
            for s in range(len(v)):
                if sees[s]:
                    weight = weights[s]
                    for i in range(d_v):
                        of_head[i] += weight * v[s, i]
    return y


@compiled
def silu_(x: Array) -> None:
    """x · sigmoid(x).  Shapes: x [R, F] (overwritten)"""
    for row in range(len(x)):
        for i in range(x.shape[1]):
            e = kernels.exp(-abs(x[row, i]))
            x[row, i] *= (f4(1) if x[row, i] > 0 else e) / (f4(1) + e)
