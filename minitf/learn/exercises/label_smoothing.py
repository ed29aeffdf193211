"""Label smoothing: targets that are not quite certain

The target distribution of a row gives 1 - eps to the right class and spreads eps evenly over all V classes, the right
one included:

    q = (1 - eps) · one-hot(target) + eps / V
    loss = mean over rows of -Σ_k q_k log softmax(logits)_k        g_logits = (softmax(logits) - q) / N · g

Shapes: logits [N, V], targets int [N] -> loss, a number; g, a number -> g_logits [N, V]
Source: section 5.4 (eps = 0.1); Szegedy et al. 2016
"""

import numpy as np

from minitf.learn.expect import equal, gradients


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

RNG = np.random.default_rng(7)
LOGITS, TARGETS = RNG.standard_normal((3, 5)), np.array([4, 0, 4])


def _q(eps, share=None, target=None):
    q = np.full((3, 5), eps / 5 if share is None else share)
    q[np.arange(3), TARGETS] = 1 - eps + eps / 5 if target is None else target
    return q


def _loss(logits, q):
    return -(q * log_softmax(logits)).sum() / 3


def check_values(answer):
    """the loss"""
    mistakes = {
        "not smoothed: `eps` is not used": _loss(LOGITS, _q(0.0)),
        "eps is spread over the V - 1 other classes; here the right class gets its share, too": (
            _loss(LOGITS, _q(0.2, share=0.2 / 4, target=0.8))
        ),
        "q does not add up to 1: the right class lacks its share eps / V": _loss(LOGITS, _q(0.2, target=0.8)),
        "eps / V is added to the one-hot target, which keeps 1: q adds up to 1 + eps": _loss(
            LOGITS, _q(0.2, target=1.04)
        ),
        "eps and 1 - eps are exchanged": _loss(LOGITS, _q(0.8)),
        "each wrong class gets eps, not eps / V": _loss(LOGITS, _q(0.2, share=0.2, target=1.0)),
        "the sign is wrong: the loss is minus the sum": -_loss(LOGITS, _q(0.2)),
        "a sum where a mean over the rows is meant": 3 * _loss(LOGITS, _q(0.2)),
    }
    equal("the loss with eps=0.2", answer.smoothed_loss(LOGITS, TARGETS, 0.2), _loss(LOGITS, _q(0.2)), mistakes)
    equal("the loss with eps=0", answer.smoothed_loss(LOGITS, TARGETS, 0.0), _loss(LOGITS, _q(0.0)))


def check_gradient(answer):
    """the gradient"""

    def of(eps):
        return (np.exp(log_softmax(LOGITS)) - _q(eps)) / 3

    def found():
        return np.asarray(answer.smoothed_loss_vjp(1.0, LOGITS, TARGETS, 0.2))

    mistakes = {
        "the smoothing is forgotten in the gradient: it is that of the plain cross-entropy": (
            lambda: np.allclose(found(), of(0.0))
        ),
        "the softmax is missing: the gradient is (softmax - q) / N": lambda: np.allclose(found(), -_q(0.2) / 3),
        "the gradient of a row does not add up to 0: q does not add up to 1": (
            lambda: (abs(found().sum(axis=-1)) > 1e-9).any()
        ),
    }
    gradients(
        lambda logits: _loss(logits, _q(0.2)), lambda g, logits: answer.smoothed_loss_vjp(g, logits, TARGETS, 0.2),
        LOGITS, mistakes=mistakes,
    )  # fmt: skip
