"""Dropout kills deep models

Symptom: without dropout, the model trains as it should, and the gradient check passes. With dropout 0.3, a model of 2
layers trains slowly, and one of 12 layers not at all: nearly all gradients of its first layers are 0, and few others
far too large.
"""

import numpy as np


class DropoutAdd:
    """y = x · keep / (1 - p) + residual, the end of a sub-layer."""

    def forward(self, x, residual, p, rng):
        keep = rng.random(x.shape) >= p
        scale = 1 / (1 - p)
        self.saved = keep, scale
        return x * keep * scale + residual

    def backward(self, g_y):
        keep, scale = self.saved
        g_x = g_y * keep * scale
        g_residual = g_y
        return g_x, g_residual


HINTS = (
    "With p = 0, keep is True everywhere and the scale is 1. Which of the lines are then the same as without dropout?",
    "From layer to layer, more elements of the gradient are 0. By which path does it get past a sub-layer?",
    "y = dropout(x) + residual: the derivative by the residual is 1, whatever was dropped.",
)
BUG = ("g_residual = g_y", "g_residual = g_x")
WHY = "dropout acts on x alone; the residual path passes the incoming gradient on unchanged."

RNG = np.random.default_rng(0)


def check_results(answer):
    """with dropout and without"""
    for p in (0.0, 0.5):
        op = answer.DropoutAdd()
        yield "y", op.forward(*RNG.standard_normal((2, 4, 4)), p, np.random.default_rng(0))
        yield from zip(("g_x", "g_residual"), op.backward(RNG.standard_normal((4, 4))), strict=True)
