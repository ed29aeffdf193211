"""The gradient check fails at every second try

Symptom: the loss falls, but slowly. The gradient check fails whenever dropout is on, each time at other elements, even
with the same seed at its start. On average over many batches, the gradients look right.
"""

import numpy as np


class Dropout:
    """y = x · keep / (1 - p)."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def keep_mask(self, shape, p):
        return self.rng.random(shape) >= p

    def forward(self, x, p):
        keep = self.keep_mask(x.shape, p)
        self.saved = keep, p
        return x * keep / (1 - p)

    def backward(self, g_y):
        keep, p = self.saved
        keep = keep.astype(g_y.dtype)
        return g_y * keep / (1 - p)


HINTS = (
    "An element that was dropped must have gradient 0. Compare x * keep with what comes back for a gradient of ones.",
    "How often is a mask drawn in one training step?",
    "The backward pass must use the mask of the forward pass.",
)
BUG = ("keep = keep.astype(g_y.dtype)", "keep = self.keep_mask(g_y.shape, p)")
WHY = (
    "the backward pass draws another mask: elements that were dropped get gradients, and some that were kept get none."
)

RNG = np.random.default_rng(0)


def check_results(answer):
    """three steps"""
    op = answer.Dropout(0)
    for step in (1, 2, 3):
        yield f"y of step {step}", op.forward(RNG.standard_normal((5, 5)), 0.25)
        yield f"the gradient of step {step}", op.backward(RNG.standard_normal((5, 5)))
