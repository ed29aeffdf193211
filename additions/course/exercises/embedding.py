"""Embedding: rows that are used several times

    y = √n · weight[ids]

takes row ids[k] of a matrix with rows of n elements for each token k. Some rows are taken several times, some never.

Shapes: ids int [...], weight [V, n], g [..., n] -> g_weight [V, n]
Source: section 3.4 ("we multiply those weights by √d_model")
"""

import math

import numpy as np

from additions.course.expect import gradients


def embedding(ids, weight):
    """y = √n · weight[ids]."""
    return math.sqrt(weight.shape[1]) * weight[ids]


def embedding_vjp(g, ids, weight):
    """The gradient of the weight."""
    # solution
    g_weight = np.zeros_like(weight)
    np.add.at(g_weight, ids, g)
    return math.sqrt(weight.shape[1]) * g_weight
    # end


HINTS = (
    "Start from zeros of the weight's shape; a row that no token uses stays 0.",
    "g_weight[ids] += g keeps one of several additions to the same row: NumPy reads, adds and writes back once a row.",
    "np.add.at(g_weight, ids, g) adds for each index, however often it occurs. Do not forget √n.",
)

OVERWRITTEN = (
    "the gradient is right for rows used once and wrong where rows share an index: values are overwritten, not added "
    "(g_weight[ids] += g adds once a row); np.add.at adds all"
)
MISTAKES = (
    (OVERWRITTEN, "np.add.at(g_weight, ids, g)", "g_weight[ids] = g"),
    (OVERWRITTEN, "np.add.at(g_weight, ids, g)", "g_weight[ids[::-1]] = g[::-1]"),
)  # fmt: skip

RNG = np.random.default_rng(0)


def _check(answer, *ids):
    ids = np.array(ids)
    gradients(
        lambda weight: embedding(ids, weight), lambda g, weight: answer.embedding_vjp(g, ids, weight),
        RNG.standard_normal((6, 5)),
    )  # fmt: skip


def check_once(answer):
    """the gradient where each row is used at most once"""
    _check(answer, 2, 0, 5)


def check_shared(answer):
    """the gradient where rows are used several times: [3, 1, 3, 3]"""
    _check(answer, 3, 1, 3, 3)


def check_batch(answer):
    """the gradient for a batch of sentences [2, 3]"""
    _check(answer, [3, 1, 3], [0, 3, 1])
