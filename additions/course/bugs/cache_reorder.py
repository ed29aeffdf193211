"""Beam search is worse than greedy search

Symptom: greedy search gives 27 BLEU, beam search with 4 hypotheses gives 24. Many of its translations begin with one
sentence and end with another. Scores that are computed again from the whole translation differ from those of the
search.
"""

import numpy as np


class Cache:
    """Keys and values of past positions, a row for each hypothesis.  Shapes: k [R, t, K], v [R, t, M]"""

    def __init__(self, rows, k_width, v_width):
        self.k = np.zeros((rows, 0, k_width))
        self.v = np.zeros((rows, 0, v_width))

    def append(self, k, v):
        """k [R, K], v [R, M]: those of the newest position."""
        self.k = np.concatenate([self.k, k[:, None]], axis=1)
        self.v = np.concatenate([self.v, v[:, None]], axis=1)

    def reorder(self, parents):
        """Let row i continue what was row parents[i], after a step."""
        rows = np.asarray(parents)
        self.k, self.v = self.k[rows], self.v[rows]

    def attend(self, q):
        """q [R, K] -> [R, M]"""
        scores = (self.k @ q[:, :, None])[:, :, 0] / np.sqrt(q.shape[1])
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        return (weights[:, None] @ self.v)[:, 0]


HINTS = (
    "Greedy search is right. What does beam search do with the cache that greedy search does not?",
    "A translation that begins with one sentence and ends with another: the tokens come from one hypothesis, the "
    "past that is attended to from another.",
    "Try reorder([1, 1]) on a cache of two rows: which rows does it have afterwards?",
)
BUG = ("rows = np.asarray(parents)", "rows = np.sort(parents)")
WHY = "sorted parents are the right ones in another order: a row then continues the past of another hypothesis."

RNG = np.random.default_rng(0)


def check_results(answer):
    """three hypotheses that change places"""
    cache = answer.Cache(3, 2, 4)
    for parents in ([2, 0, 0], [1, 2, 0], [0, 0, 0]):
        cache.append(RNG.standard_normal((3, 2)), RNG.standard_normal((3, 4)))
        cache.reorder(parents)
        yield f"y after reorder({parents})", cache.attend(RNG.standard_normal((3, 2)))
