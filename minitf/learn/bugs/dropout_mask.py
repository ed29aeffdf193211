"""The gradient check fails at every second try

Symptom: the loss falls, but slowly. The gradient check fails whenever dropout is on, each time at other elements, even
with the same seed at its start. On average over many batches, the gradients look right.
"""

import numpy as np

from minitf.learn.expect import equal


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
MUTANT = ("autograd.ops.nn:Dropout.backward", "mask drawn again")
WHY = (
    "the backward pass draws another mask: elements that were dropped get gradients, and some that were kept get none."
)
RIGHT_LINES = {
    "rng.random(shape) >= p": "an element is dropped with probability p",
    "keep = self.keep_mask(x.shape, p)": "the forward pass draws the mask, once a call",
    "self.saved = ": "the mask is kept for the backward pass; is it used there?",
    "return x * keep / (1 - p)": "elements that are kept grow by 1 / (1 - p), so that the mean stays the same",
    "return g_y * keep / (1 - p)": "mask and scale act on the gradient as on x; is it the same mask?",
    "np.random.default_rng(seed)": "one generator for the layer's life gives each step another mask, as it should be",
}


def check_gradient(answer):
    """the gradient passes where the values did"""
    op = answer.Dropout(0)
    for _ in range(3):
        y = op.forward(np.ones((5, 5)), 0.5)
        equal("the gradient", op.backward(np.ones((5, 5))), y)
