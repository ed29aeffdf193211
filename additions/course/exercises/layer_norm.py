"""Layer normalisation: its backward pass

    x̂ = (x - mean) / s,  s = √(variance + eps)        y = x̂ · weight + bias

along the last axis of n elements. Mean and variance depend on x, too; weight and bias are shared by all rows.

Shapes: x and g [..., n], weight and bias [n] -> g_x [..., n], g_weight [n], g_bias [n]
Source: section 3.1; Ba et al. 2016; derived in docs/fused-ops.md
"""

import numpy as np

from additions.course.expect import gradients


def normalised(x, eps=1e-5):
    """x̂ and s."""
    centred = x - x.mean(axis=-1, keepdims=True)
    s = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return centred / s, s


def layer_norm(x, weight, bias):
    """y = x̂ · weight + bias."""
    return normalised(x)[0] * weight + bias


def layer_norm_vjp(g, x, weight, bias):
    """(g_x, g_weight, g_bias)."""
    # solution
    x_hat, s = normalised(x)
    rows = tuple(range(x.ndim - 1))
    g_hat = g * weight
    along_x_hat = (g_hat * x_hat).mean(axis=-1, keepdims=True)
    g_x = (g_hat - g_hat.mean(axis=-1, keepdims=True) - x_hat * along_x_hat) / s
    return g_x, (g * x_hat).sum(axis=rows), g.sum(axis=rows)
    # end


HINTS = (
    "Begin with the bias and the weight: they are shared by all rows, so their gradients are summed over all axes "
    "but the last.",
    "First the gradient of x̂, which is ĝ = g * weight. If mean and s were constants, g_x would be ĝ / s.",
    "They are not: subtract from ĝ its mean, and x̂ times the mean of ĝ * x̂, each along the last axis with "
    "keepdims=True.",
)

MISTAKES = (
    ("the gradient of weight is made of x; it is of x̂", "(g * x_hat).sum", "(g * x).sum"),
    ("g_x is multiplied by weight at the end; weight belongs to ĝ, of which the means are taken",
     "g_hat = g * weight", "g_hat = g", "along_x_hat) / s", "along_x_hat) / s * weight"),
    ("the last term of g_x has x where x̂ is meant", "x_hat * along_x_hat)", "x * along_x_hat)"),
    ("the means are over the whole array; they are along the last axis, with keepdims=True",
     "(g_hat * x_hat).mean(axis=-1, keepdims=True)", "(g_hat * x_hat).mean()",
     "g_hat.mean(axis=-1, keepdims=True)", "g_hat.mean()"),
)  # fmt: skip

RNG = np.random.default_rng(0)


def _check(answer, *shape):
    inputs = [RNG.standard_normal(each) for each in (shape, shape[-1:], shape[-1:])]
    gradients(layer_norm, answer.layer_norm_vjp, *inputs)


def check_row(answer):
    """gradients of one row [5]"""
    _check(answer, 5)


def check_rows(answer):
    """gradients of three rows [3, 4]"""
    _check(answer, 3, 4)


def check_batch(answer):
    """gradients of a batch [2, 3, 4]"""
    _check(answer, 2, 3, 4)
