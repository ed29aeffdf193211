"""Label smoothing: targets that are not quite certain

The target distribution of a row gives 1 - eps to the right class and spreads eps evenly over all V classes, the right
one included:

    q = (1 - eps) · one-hot(target) + eps / V
    loss = mean over rows of -Σ_k q_k log softmax(logits)_k

Shapes: logits [N, V], targets int [N] -> loss, a number; g, a number -> g_logits [N, V]
Source: section 5.4 (eps = 0.1); Szegedy et al. 2016
"""

import numpy as np

from additions.course.expect import gradients


def log_softmax(x):
    """log softmax along the last axis."""
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def smoothed_loss(logits, targets, eps=0.1):
    """The mean of -Σ q log softmax(logits)."""
    # solution
    n, classes = logits.shape
    q = np.full((n, classes), eps / classes)
    q[np.arange(n), targets] += 1 - eps
    return -(q * log_softmax(logits)).sum() / n
    # end


def smoothed_loss_vjp(g, logits, targets, eps=0.1):
    """The gradient of the logits."""
    # solution
    n, classes = logits.shape
    g_logits = np.exp(log_softmax(logits)) - eps / classes
    g_logits[np.arange(n), targets] -= 1 - eps
    return g_logits * (g / n)
    # end


HINTS = (
    "Build q as an array [N, V]: np.full with eps / V, and 1 - eps added at [np.arange(N), targets].",
    "-(q * log_softmax(logits)).sum() / N. The share eps / V goes to all V classes: the rows of q add up to 1.",
    "Because q adds up to 1, the gradient is softmax - q, whatever q is.",
)

BEGIN = "    q = np.full((n, classes), eps / classes)\n"
MISTAKES = (
    ("not smoothed: `eps` is not used", BEGIN, f"    eps = 0\n{BEGIN}"),
    ("eps is spread over the V - 1 other classes; here the right class gets its share, too",
     "eps / classes)\n", "eps / (classes - 1))\n", "targets] += 1 - eps", "targets] = 1 - eps"),
    ("q does not add up to 1: the right class lacks its share eps / V", "targets] += 1 - eps", "targets] = 1 - eps"),
    ("eps and 1 - eps are exchanged", BEGIN, f"    eps = 1 - eps\n{BEGIN}"),
    ("the smoothing is forgotten in the gradient: it is that of the plain cross-entropy",
     " - eps / classes\n", "\n", "targets] -= 1 - eps", "targets] -= 1"),
    ("the softmax is missing: the gradient is (softmax - q) / N",
     "np.exp(log_softmax(logits)) - eps", "np.zeros_like(logits) - eps"),
)  # fmt: skip

LOGITS, TARGETS = np.random.default_rng(7).standard_normal((3, 5)), np.array([4, 0, 4])


def check_values(answer):
    """the loss"""
    yield "the loss with eps=0.2", answer.smoothed_loss(LOGITS, TARGETS, 0.2)
    yield "the loss with eps=0", answer.smoothed_loss(LOGITS, TARGETS, 0.0)


def check_gradient(answer):
    """the gradient"""
    gradients(
        lambda logits: smoothed_loss(logits, TARGETS, 0.2),
        lambda g, logits: answer.smoothed_loss_vjp(g, logits, TARGETS, 0.2), LOGITS,
    )  # fmt: skip
