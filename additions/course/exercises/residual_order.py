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

POST, PRE = "return norm(x + dropout(sublayer(x)))", "return x + dropout(sublayer(norm(x)))"
MISTAKES = (
    ("the direct path is normalised, and the sum is not", POST, "return norm(x) + dropout(sublayer(norm(x)))"),
    ("pre-norm: the paper normalises the sum", POST, PRE + "  #"),
    ("dropout comes after the norm", POST, "return dropout(norm(x + sublayer(x)))"),
    ("the direct path is normalised: x itself is added, so that gradients pass unchanged",
     PRE, "return norm(x) + dropout(sublayer(norm(x)))"),
    ("the sum is normalised as well", PRE, "return norm(x + dropout(sublayer(norm(x))))"),
)  # fmt: skip

X = np.array([[1.0, 2.0, 4.0], [-1.0, 0.0, 3.0]])


def _norm(x):
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


def _sublayer(x):
    return 0.5 * x**2 + x[:, ::-1]


def _dropout(x):
    return x * np.array([2.0, 0.0, 2.0])


def check_post_norm(answer):
    """post-norm"""
    yield "the output", answer.residual(X, _sublayer, _norm, _dropout)


def check_pre_norm(answer):
    """pre-norm"""
    yield "the output", answer.residual(X, _sublayer, _norm, _dropout, norm_first=True)
