"""The loss is too good

Symptom: the loss is finite and falls, and it is lower than that of everybody else's model, but BLEU is 1 point lower.
Batches with many short sentences have a particularly low loss, and hardly change the weights. The perplexity computed
from this loss is below what is possible.
"""

import numpy as np


class CrossEntropy:
    """loss = mean of -log softmax(logits)[target] over the rows whose target is not `pad`."""

    def forward(self, logits, targets, pad):
        counted = targets != pad
        logits = logits - logits.max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        losses = -log_p[np.arange(len(targets)), targets]
        count = counted.sum()
        self.saved = log_p, targets, counted, count
        return losses[counted].sum() / count

    def backward(self, g_loss):
        log_p, targets, counted, count = self.saved
        g_logits = np.exp(log_p)
        g_logits[np.arange(len(targets)), targets] -= 1
        g_logits[~counted] = 0
        return g_logits * (g_loss / count)


HINTS = (
    "A batch with many short sentences is full of padding. Where does padding enter the loss?",
    "The loss is a sum over rows, divided by a number of rows. Do both leave out padding?",
    "Loss and gradient are divided by the same number. Where is it computed?",
)
BUG = ("count = counted.sum()", "count = len(targets)")
WHY = "the sum is over the real tokens, the divisor counts padding too: half of padding halves loss and gradient."

RNG = np.random.default_rng(0)


def check_results(answer):
    """batches with padding and without"""
    for targets in ([1, 0, 0, 2], [1, 2, 2, 1]):
        op = answer.CrossEntropy()
        yield "the loss", op.forward(1000 * RNG.standard_normal((4, 3)), np.array(targets), 0)
        yield "the gradient", op.backward(2.0)
