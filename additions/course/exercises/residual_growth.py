"""The growth of a pre-norm model

The stream of a pre-norm model begins with elements of variance 1. Each sub-layer normalises it for its own use and adds
an output to it, whose elements have variance 1 and know nothing of the stream. The experiment measures the standard
deviation of the stream after a number of sub-layers.

Shapes: layers, a number -> a number
Source: exercise 16; the last norm of a pre-norm model is there for this
"""

import numpy as np

from additions.course.expect import predicted


def prediction(layers):
    """The standard deviation of the stream after this number of sub-layers."""
    # solution
    return (1 + layers) ** 0.5
    # end


HINTS = (
    "Does the norm before a sub-layer change what it is added to?",
    "Variances of independent numbers add up.",
    "After L sub-layers, 1 + L terms of variance 1 have been added up.",
)

MISTAKES = (
    ("the norm acts on the sub-layer's input alone; what goes past it is never normalised",
     "(1 + layers) ** 0.5", "1.0"),
    ("that is the variance; the deviation is its root", "(1 + layers) ** 0.5", "1 + layers"),
    ("the stream has variance 1 before the first sub-layer", "(1 + layers)", "layers"),
    ("the sub-layer's input is normalised, so its output does not grow with the stream: nothing doubles",
     "(1 + layers) ** 0.5", "2**layers"),
    ("the sub-layer's input is normalised, so its output does not grow with the stream: nothing doubles",
     "(1 + layers) ** 0.5", "2 ** (layers / 2)"),
)  # fmt: skip


def check_prediction(answer):
    """the experiment, for 12, 3 and 48 sub-layers"""
    for layers in (12, 3, 48):
        rng = np.random.default_rng(layers)
        x = rng.standard_normal((400, 64))
        for _ in range(layers):
            normalised = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
            x = x + normalised @ (rng.standard_normal((64, 64)) / 8)
        predicted(f"the standard deviation after {layers}", answer.prediction(layers), x.std(), 0.1)
