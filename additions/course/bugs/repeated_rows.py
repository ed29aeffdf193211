"""The frequent words learn too little

Symptom: rare words are learned as they should be. Words that occur several times in a batch learn too slowly, and the
more often they occur, the more is missing: the gradient of a row that is used 5 times is about a fifth of the right
one. With batches of a single short sentence, everything is right.
"""

import numpy as np


class Embedding:
    """y = scale · weight[ids]"""

    def forward(self, ids, weight, scale):
        self.saved = ids, weight.shape, scale
        return weight[ids] * scale

    def backward(self, g_y):
        ids, shape, scale = self.saved
        rows = g_y.reshape(-1, shape[1]) * scale
        g_weight = np.zeros(shape)
        np.add.at(g_weight, ids.reshape(-1), rows)
        return g_weight


HINTS = (
    "What differs between a word that occurs once and one that occurs five times? Look at the backward pass.",
    "Each occurrence contributes a row to the gradient. Which line brings the rows to their places?",
    "a[indices] += b reads a[indices], adds b, and writes back: an index that occurs twice is written twice, not "
    "added twice.",
)
BUG = ("np.add.at(g_weight, ids.reshape(-1), rows)", "g_weight[ids.reshape(-1)] += rows")
WHY = "`a[indices] += b` keeps one of several additions to the same row; np.add.at(a, indices, b) keeps all."

RNG = np.random.default_rng(0)


def check_results(answer):
    """rows that are used three times, twice, once and never"""
    op = answer.Embedding()
    yield "y", op.forward(np.array([[1, 0, 1], [1, 2, 0]]), RNG.standard_normal((4, 2)), 2.0)
    yield "the gradient", op.backward(RNG.standard_normal((2, 3, 2)))
