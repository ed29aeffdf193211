"""The loss stops falling

Symptom: with label smoothing of 0.1, the loss falls at first and rises again later, although training goes on without
overfitting; the model becomes ever more certain, and BLEU is 1 point lower than with the published code. With label
smoothing 0, the same code agrees with every other program, gradients included.
"""

import numpy as np


class SmoothedCrossEntropy:
    """loss = mean of -Σ q log softmax(logits), q = (1 - eps) · one-hot(target) + eps / V."""

    def forward(self, logits, targets, eps):
        rows = len(logits)
        logits = logits - logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        certain = -log_p[np.arange(rows), targets]
        uniform = -log_p.mean(axis=1)
        self.saved = log_p, targets, eps
        return ((1 - eps) * certain + eps * uniform).mean()

    def backward(self, g_loss):
        log_p, targets, eps = self.saved
        rows, classes = log_p.shape
        q = np.full((rows, classes), eps / classes)
        q[np.arange(rows), targets] += 1 - eps
        g_logits = np.exp(log_p) - q
        return g_logits * (g_loss / rows)


HINTS = (
    "With eps=0, all is right. Which lines use eps?",
    "The loss that is printed is the smoothed one, and it rises: what is minimised is another function. Compare "
    "forward and backward.",
    "The gradient is softmax - q, with the same q as in the formula of the loss. What would it be if q were one-hot?",
)
BUG = ("g_logits = np.exp(log_p) - q", "g_logits = np.exp(log_p) - np.eye(classes)[targets]")
WHY = "the gradient is that of the plain cross-entropy: the smoothed loss is reported, another one is minimised."

RNG = np.random.default_rng(0)


def check_results(answer):
    """with label smoothing and without"""
    for eps in (0.0, 0.3):
        op = answer.SmoothedCrossEntropy()
        yield "the loss", op.forward(1000 * RNG.standard_normal((2, 3)), np.array([0, 2]), eps)
        yield "the gradient", op.backward(2.0)
