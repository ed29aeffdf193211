"""Softmax: stable forward, and its backward pass

    y_i = exp(x_i) / Σ_j exp(x_j)

along one axis. exp(1000) overflows; softmax does not change when a constant is subtracted from x, and with the largest
element subtracted no exponent is above 0.

Shapes: x of any shape, axis -> y like x; g like x -> g_x like x
Source: section 3.2.1 (the weights of attention)
"""

import numpy as np

from additions.course.expect import gradients, true


def softmax(x, axis=-1):
    """y, which adds up to 1 along `axis`."""
    # solution
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
    # end


def softmax_vjp(g, x, axis=-1):
    """The gradient of x."""
    # solution
    y = softmax(x, axis)
    return y * (g - (g * y).sum(axis=axis, keepdims=True))
    # end


HINTS = (
    "All reductions are along `axis` with keepdims=True, so that their results broadcast against x.",
    "Every y_i depends on every x_j through the sum: d y_i / d x_j = y_i (δ_ij - y_j). Multiply by g_i and add up "
    "over i.",
    "g_x = y * (g - (g * y).sum(axis=axis, keepdims=True)): the second term makes g_x add up to 0.",
)

MISTAKES = (
    ("normalised along the other axis", "    e = np", "    axis = 0\n    e = np"),
    ("normalised over the whole array, not along the axis",
     "x.max(axis=axis, keepdims=True)", "x.max()", "e / e.sum(axis=axis, keepdims=True)", "e / e.sum()"),
    ("`axis` is not used", "    e = np", "    axis = -1\n    e = np"),
)  # fmt: skip

RNG = np.random.default_rng(0)


def check_values(answer):
    """the values"""
    x = RNG.standard_normal((3, 4))
    yield "y", answer.softmax(x)
    yield "y along axis 0", answer.softmax(x, 0)


def check_large(answer):
    """large numbers: x = [1000, 1001]"""
    y = np.asarray(answer.softmax(np.array([1000.0, 1001.0])))
    true(np.isfinite(y).all(), "exp overflows: [1000, 1001] gives NaN; subtract the largest element first")
    yield "y", y
    rows = np.array([[1000.0, 1001.0], [-1000.0, -1001.0]])
    message = (
        "the largest element of the whole array is subtracted: a row far below it becomes 0 / 0; use that of the row"
    )
    true(np.isfinite(answer.softmax(rows)).all(), message)


def check_gradient(answer):
    """the gradient"""
    gradients(softmax, answer.softmax_vjp, RNG.standard_normal((3, 4)))


def check_axis(answer):
    """the gradient along axis 0"""
    x = RNG.standard_normal((3, 4))
    gradients(lambda x: softmax(x, 0), lambda g, x: answer.softmax_vjp(g, x, 0), x)
