"""Scaled dot-product attention: its backward pass

    scores = q kᵀ / √K        p = softmax(scores) where the mask allows, else 0        y = p v

A weight that the mask forbids is 0. Go backwards, from y to p, to the scores, to q and k.

Shapes: q [..., T, K], k [..., S, K], v [..., S, M], mask bool [T, S], True where a query may attend; g [..., T, M]
    -> g_q, g_k, g_v
Source: section 3.2.1, equation 1
"""

import math

import numpy as np

from additions.course.expect import gradients


def weights(q, k, mask):
    """p, softmax(q kᵀ / √K) where the mask allows."""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    scores = np.where(mask, scores, -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def attention(q, k, v, mask):
    """y = p v."""
    return weights(q, k, mask) @ v


def attention_vjp(g, q, k, v, mask):
    """(g_q, g_k, g_v)."""
    # solution
    p = weights(q, k, mask)
    g_v = p.swapaxes(-1, -2) @ g
    g_p = g @ v.swapaxes(-1, -2)
    g_scores = p * (g_p - (g_p * p).sum(axis=-1, keepdims=True)) / math.sqrt(q.shape[-1])
    return g_scores @ k, g_scores.swapaxes(-1, -2) @ q, g_v
    # end


HINTS = (
    "Three matrix products and a softmax, which you have done before: compute p with weights(q, k, mask), then go "
    "backwards from y through each of them.",
    "g_scores has the shape [T, S] of the scores: q's gradient is g_scores times k, k's is its transpose times q.",
    "Both g_q and g_k carry the factor 1/√K of the scores; g_v does not.",
)

MISTAKES = (
    ("the mask is not used: weights that it forbids are 0", "p = weights(q, k, mask)",
     "p = weights(q, k, np.ones_like(mask))"),
)  # fmt: skip

RNG = np.random.default_rng(0)


def _check(answer, q, k, v, mask):
    gradients(
        lambda q, k, v: attention(q, k, v, mask), lambda g, q, k, v: answer.attention_vjp(g, q, k, v, mask),
        *map(RNG.standard_normal, (q, k, v)),
        note="in a batch of heads, .T reverses all axes; .swapaxes(-1, -2) exchanges the last two",
    )  # fmt: skip


def check_no_mask(answer):
    """gradients without a mask: 2 queries, 3 keys of 5 elements, values of 4"""
    _check(answer, (2, 5), (3, 5), (3, 4), np.ones((2, 3), bool))


def check_causal(answer):
    """gradients with a causal mask, where queries, keys and values have one shape"""
    _check(answer, (3, 4), (3, 4), (3, 4), np.tri(3, dtype=bool))


def check_heads(answer):
    """gradients of a batch of heads [2, 2, 3, 4]"""
    _check(answer, (2, 2, 3, 4), (2, 2, 2, 4), (2, 2, 2, 3), np.array([[1, 0], [1, 1], [0, 1]], bool))
