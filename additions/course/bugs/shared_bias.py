"""The bias hardly moves

Symptom: the loss falls, but the biases of all linear layers stay close to their initial zeros. With a batch of one
sentence they move a little; the larger the batch, the less they move. The weights are learned as they should be.
"""

import numpy as np


class Linear:
    """y = x weightᵀ + bias.  Shapes: x [B, T, n], weight [m, n], bias [m] -> [B, T, m]"""

    def forward(self, x, weight, bias):
        self.saved = x, weight
        return x @ weight.T + bias

    def backward(self, g_y):
        x, weight = self.saved
        g_rows = g_y.reshape(-1, g_y.shape[-1])  # [B · T, m]
        g_x = (g_rows @ weight).reshape(x.shape)
        g_weight = g_rows.T @ x.reshape(-1, x.shape[-1])
        g_bias = g_rows.sum(axis=0)
        return g_x, g_weight, g_bias


HINTS = (
    "The gradient of the bias depends on the size of the batch in the wrong way. Which line computes it?",
    "The bias is added to every row; the gradients of all rows meet in it.",
    "Gradients of a value that is used several times are added up. Is there a line where they are averaged?",
)
BUG = ("g_rows.sum(axis=0)", "g_rows.mean(axis=0)")
WHY = "the bias is used in every row, so its gradient is the sum over the rows; the mean is B · T times too small."

RNG = np.random.default_rng(0)


def check_results(answer):
    """a batch of 6 rows"""
    op = answer.Linear()
    yield "y", op.forward(*map(RNG.standard_normal, ((2, 3, 4), (5, 4), 5)))
    yield from zip(("g_x", "g_weight", "g_bias"), op.backward(RNG.standard_normal((2, 3, 5))), strict=True)
