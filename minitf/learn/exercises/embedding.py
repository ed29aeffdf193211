"""Embedding: rows that are used several times

    y = √n · weight[ids]

takes row ids[k] of a matrix with rows of n elements for each token k. The gradient of a row is the sum over all tokens
that used it, times √n; rows that no token used have gradient 0.

Shapes: ids int [...], weight [V, n], g [..., n] -> g_weight [V, n]
Source: section 3.4 ("we multiply those weights by √d_model")
"""

import math

import numpy as np

from minitf.learn.expect import gradients


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

RNG = np.random.default_rng(4)


def _check(answer, ids, mistakes=None):
    weight = RNG.standard_normal((6, 4))
    gradients(lambda w: embedding(ids, w), lambda g, w: answer.embedding_vjp(g, ids, w), weight, mistakes=mistakes)


def check_once(answer):
    """the gradient where each row is used at most once"""
    _check(answer, np.array([2, 0, 5]))


def check_shared(answer):
    """the gradient where rows are used several times: [3, 1, 3, 3]"""
    ids, g = np.array([3, 1, 3, 3]), np.array([[1.0] * 4, [2.0] * 4, [4.0] * 4, [8.0] * 4])

    def overwritten():
        row = np.asarray(answer.embedding_vjp(g, ids, np.zeros((6, 4))))[3] / 2
        return row[0] in (1, 4, 8)

    message = (
        "the gradient is right for rows used once and wrong where rows share an index: values are overwritten, not "
        "added (g_weight[ids] += g adds once a row); np.add.at adds all"
    )
    _check(answer, ids, {message: overwritten})


def check_batch(answer):
    """the gradient for a batch of sentences [2, 3]"""
    _check(answer, np.array([[3, 1, 3], [0, 3, 1]]))
