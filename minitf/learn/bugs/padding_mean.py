"""The loss is too good

Symptom: the loss is finite and falls, and it is lower than that of everybody else's model, but BLEU is 1 point lower.
Batches with many short sentences have a particularly low loss, and hardly change the weights. The perplexity computed
from this loss is below what is possible.
"""

import numpy as np

from minitf.learn.expect import equal


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
MUTANT = ("autograd.ops.nn:divisor", "mean over all rows, the ignored too")
WHY = "the sum is over the real tokens, the divisor counts padding too: half of padding halves loss and gradient."
RIGHT_LINES = {
    "counted = targets != pad": "it is True at real tokens",
    "logits.max(axis=1": "the largest logit is subtracted so that exp does not overflow; the softmax stays the same",
    "log_p = logits": "this is log softmax",
    "losses = -log_p": "it takes the log-probability of the target of each row, padding included, which the next "
    "lines leave out",
    "losses[counted].sum()": "the sum leaves out padding, as it should; look at what it is divided by",
    "g_logits[~counted] = 0": "padding has no gradient",
    "-= 1": "the gradient of -log softmax is softmax minus one-hot",
    "np.exp(log_p)": "this is the softmax",
    "g_loss / count": "it divides by the same number as the forward pass; is that number right?",
}


def check_mean(answer):
    """the loss and the gradient with padding"""
    op = answer.CrossEntropy()
    equal("the loss", op.forward(np.zeros((4, 3)), np.array([1, 0, 0, 2]), 0), np.log(3))
    right = np.array([[1, -2, 1], [0, 0, 0], [0, 0, 0], [1, 1, -2]]) / 6
    equal("the gradient", op.backward(1.0), right)
