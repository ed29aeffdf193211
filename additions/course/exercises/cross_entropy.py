"""Cross-entropy: the loss of one target a row, with padding

    loss = mean over the counted rows of  -log softmax(logits)[target]

A row whose target is `pad` does not count: neither in the sum, nor in the number it is divided by, nor in the gradient.
g is the gradient of the loss, one number.

Shapes: logits [N, V], targets int [N] -> loss, a number; g, a number -> g_logits [N, V]
Source: section 5.4, without label smoothing
"""

import numpy as np

from additions.course.expect import gradients, true


def log_softmax(x):
    """log softmax along the last axis."""
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def cross_entropy(logits, targets, pad=0):
    """The mean of -log p[target] over the rows whose target is not `pad`."""
    # solution
    counted = targets != pad
    chosen = log_softmax(logits)[np.arange(len(targets)), targets]
    return -chosen[counted].sum() / max(counted.sum(), 1)
    # end


def cross_entropy_vjp(g, logits, targets, pad=0):
    """The gradient of the logits."""
    # solution
    counted = targets != pad
    g_logits = np.exp(log_softmax(logits))
    g_logits[np.arange(len(targets)), targets] -= 1
    g_logits[~counted] = 0
    return g_logits * (g / max(counted.sum(), 1))
    # end


HINTS = (
    "log_softmax(logits)[np.arange(N), targets] picks one element of each row.",
    "`counted = targets != pad` is a mask of rows: it restricts the sum, it gives the divisor counted.sum(), and "
    "rows outside it have gradient 0. If no row counts, divide by 1.",
    "The gradient of -log softmax(x)[t] is softmax(x) with 1 subtracted at t.",
)

MISTAKES = (
    ("the mean is over all rows, padding included", "sum() / max(counted.sum(), 1)\n", "sum() / len(targets)\n"),
    ("padding counts in the loss", "-chosen[counted].sum() / max(counted.sum(), 1)", "-chosen.mean()"),
    ("padding counts in the sum, though not in the number it is divided by", "-chosen[counted].sum()", "-chosen.sum()"),
    ("divided by all rows; padding does not count", "(g / max(counted.sum(), 1))", "(g / len(targets))"),
)  # fmt: skip

LOGITS = np.random.default_rng(3).standard_normal((4, 5))
TARGETS = np.array([1, 0, 4, 1])


def check_values(answer):
    """the loss, with one row of padding"""
    yield "the loss", answer.cross_entropy(LOGITS, TARGETS)
    yield "the loss with pad=1", answer.cross_entropy(LOGITS, TARGETS, 1)


def check_gradient(answer):
    """the gradient, with one row of padding"""
    g = np.asarray(answer.cross_entropy_vjp(1.0, LOGITS, TARGETS))
    mistakes = {
        "the rows of padding have a gradient: they do not count in the loss": lambda: g[1].any(),
        "the gradient of a row does not add up to 0: is 1 subtracted at the target?": (
            lambda: (abs(g.sum(axis=-1)) > 1e-9).any()
        ),
    }
    gradients(
        lambda logits: cross_entropy(logits, TARGETS), lambda g, logits: answer.cross_entropy_vjp(g, logits, TARGETS),
        LOGITS, mistakes=mistakes,
    )  # fmt: skip
    other = np.asarray(answer.cross_entropy_vjp(1.0, LOGITS, TARGETS, 1))
    true(
        np.array_equal(other.any(axis=-1), TARGETS != 1),
        "the gradient with pad=1 is not 0 in just the rows whose target is 1: is `pad` used?",
    )


def check_only_padding(answer):
    """a batch of padding alone"""
    targets = np.zeros(4, int)
    true(answer.cross_entropy(LOGITS, targets) == 0, "the loss of padding alone is 0, not NaN: divide by at least 1")
    g = np.asarray(answer.cross_entropy_vjp(1.0, LOGITS, targets))
    true(g.shape == LOGITS.shape and not g.any(), "the gradient of a batch of padding alone is 0")


def check_large(answer):
    """large logits"""
    logits = np.array([[1000.0, 0.0, -1000.0]])
    true(np.isfinite(answer.cross_entropy(logits, np.array([2]))), "the loss of large logits is not finite")
