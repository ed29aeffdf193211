"""The least value of a smoothed loss

With label smoothing, q gives the right class 1 - eps + eps / V and each other class eps / V. The experiment minimises
-Σ q log softmax(x) over the logits x of one row, until nothing changes any more, and looks at the loss.

Shapes: eps and the number of classes V -> a number
Source: section 5.4 ("this hurts perplexity")
"""

import numpy as np

from additions.course.expect import predicted


def prediction(eps, classes):
    """The smallest loss, in nats."""
    # solution
    right, other = 1 - eps + eps / classes, eps / classes
    return -right * np.log(right) - (classes - 1) * other * np.log(other)
    # end


HINTS = (
    "Which p = softmax(x) makes -Σ q log p as small as it can be?",
    "It is p = q: put q in the place of p.",
    "There is one class with the probability 1 - eps + eps / V, and there are V - 1 with eps / V.",
)

RETURN = "-right * np.log(right) - (classes - 1) * other * np.log(other)"
MISTAKES = (
    ("0 is the end without smoothing: p would have to be 1 at the target, where the other classes cost without limit",
     RETURN, "0.0 * eps"),
    ("the other classes are left out: each has its share of q, and a logarithm of its own",
     RETURN, "-right * np.log(right)"),
    ("this is the cost of the right class with weight 1", RETURN, "-np.log(right)"),
    ("the smoothing is spread over the V - 1 other classes; the right one has its share, too",
     "1 - eps + eps / classes, eps / classes", "1 - eps, eps / (classes - 1)"),
    ("this is the loss of a model that knows nothing, ln V", RETURN, "np.log(classes)"),
    ("one of the other classes is counted, there are V - 1",
     "(classes - 1) * other * np.log", "other * np.log"),
    ("this is in bits; the loss is in nats, with the natural logarithm", "np.log(right)", "np.log2(right)",
     "np.log(other)", "np.log2(other)"),
)  # fmt: skip


def check_prediction(answer):
    """the experiment, for three pairs of eps and V"""
    for eps, classes in ((0.1, 10), (0.2, 50), (0.5, 4)):
        q = np.full(classes, eps / classes)
        q[0] += 1 - eps
        x = np.zeros(classes)
        for _ in range(3000):
            p = np.exp(x - x.max())
            p /= p.sum()
            x -= 2 * (p - q)
        what = f"the loss with eps = {eps} and {classes} classes"
        predicted(what, answer.prediction(eps, classes), -(q * np.log(p)).sum(), 0.01)
