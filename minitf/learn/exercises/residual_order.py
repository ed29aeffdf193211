"""Residual connections: where the normalisation and the dropout stand

The paper's order, post-norm, normalises the sum; the order of later models, pre-norm, normalises the sub-layer's input
and leaves the path from input to output untouched:

    post-norm:  norm(x + dropout(sublayer(x)))
    pre-norm:   x + dropout(sublayer(norm(x)))

Dropout is applied to the output of the sub-layer, before it is added.

Shapes: x [..., n]; sublayer, norm and dropout map [..., n] to [..., n] -> [..., n]
Source: sections 3.1 and 5.4
"""

import numpy as np

from minitf.learn.expect import equal


def residual(x, sublayer, norm, dropout, norm_first=False):
    """A residual connection; pre-norm if `norm_first`."""
    # solution
    if norm_first:
        return x + dropout(sublayer(norm(x)))
    return norm(x + dropout(sublayer(x)))
    # end


HINTS = (
    "Read each formula from the inside out: what goes into the sub-layer, and what is added to x?",
    "Each of the two formulas uses norm once and dropout once.",
    "In pre-norm, the x that is added is the one that came in, not norm(x).",
)

X = np.array([[1.0, 2.0, 4.0], [-1.0, 0.0, 3.0]])


def _norm(x):
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


def _sublayer(x):
    return 0.5 * x**2 + x[:, ::-1]


def _dropout(x):
    return x * np.array([2.0, 0.0, 2.0])


def check_post_norm(answer):
    """post-norm"""
    right = _norm(X + _dropout(_sublayer(X)))
    mistakes = {
        "the direct path is normalised, and the sum is not": _norm(X) + _dropout(_sublayer(_norm(X))),
        "pre-norm: the paper normalises the sum": X + _dropout(_sublayer(_norm(X))),
        "the direct path is missing: x is added to the sub-layer's output": _norm(_dropout(_sublayer(X))),
        "the norm is before the addition, so the sum is not normalised": X + _norm(_dropout(_sublayer(X))),
        "dropout is applied to the sum: it would drop elements of x, too": _norm(_dropout(X + _sublayer(X))),
        "dropout is applied to the sub-layer's input; it belongs to its output": _norm(X + _sublayer(_dropout(X))),
        "dropout is missing": _norm(X + _sublayer(X)),
        "the norm is missing": X + _dropout(_sublayer(X)),
        "dropout comes after the norm": _dropout(_norm(X + _sublayer(X))),
    }
    equal("the output", answer.residual(X, _sublayer, _norm, _dropout), right, mistakes)


def check_pre_norm(answer):
    """pre-norm"""
    right = X + _dropout(_sublayer(_norm(X)))
    mistakes = {
        "`norm_first` is not used": _norm(X + _dropout(_sublayer(X))),
        "the direct path is normalised: x itself is added, so that gradients pass unchanged": (
            _norm(X) + _dropout(_sublayer(_norm(X)))
        ),
        "the sum is normalised as well": _norm(X + _dropout(_sublayer(_norm(X)))),
        "the direct path is missing: x is added to the sub-layer's output": _dropout(_sublayer(_norm(X))),
        "dropout is applied to the sum: it would drop elements of x, too": _dropout(X + _sublayer(_norm(X))),
        "the norm is applied to the sub-layer's output; it belongs to its input": X + _dropout(_norm(_sublayer(X))),
        "dropout is missing": X + _sublayer(_norm(X)),
    }
    equal("the output", answer.residual(X, _sublayer, _norm, _dropout, norm_first=True), right, mistakes)
