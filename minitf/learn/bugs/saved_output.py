"""Right at the first step, wrong at the second

Symptom: the gradient check passes on a new model, and fails after one update of the weights. The loss falls, but the
gradient of the scale of each normalisation is wrong by more and more: at last, some are twice too large.
"""

import numpy as np

from minitf.learn.expect import gradients


class LayerNorm:
    """y = x̂ · weight + bias, with x̂ = (x - mean) / √(variance + eps) along the last axis."""

    def forward(self, x, weight, bias, eps=1e-6):
        centred = x - x.mean(axis=-1, keepdims=True)
        inverse_std = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
        normalised = centred * inverse_std
        y = normalised * weight + bias
        self.saved = normalised, inverse_std, weight
        return y

    def backward(self, g_y):
        normalised, inverse_std, weight = self.saved
        rows = tuple(range(g_y.ndim - 1))
        g_weight = (g_y * normalised).sum(axis=rows)
        g_bias = g_y.sum(axis=rows)
        g = g_y * weight
        along = (g * normalised).mean(axis=-1, keepdims=True)
        g_x = (g - g.mean(axis=-1, keepdims=True) - normalised * along) * inverse_std
        return g_x, g_weight, g_bias


HINTS = (
    "What is special about a new model? Its scales (weight) are all 1, its biases all 0.",
    "With weight = 1 and bias = 0, two of the arrays of the forward pass are equal. Which?",
    "The backward pass needs x̂; what does it get?",
)
BUG = ("self.saved = normalised, inverse_std, weight", "self.saved = y, inverse_std, weight")
MUTANT = ("autograd.fast.ops:LayerNorm.forward", "saves y in the place of x̂")
WHY = "y is saved where x̂ is needed; the two are equal while weight is 1 and bias 0, as at the start of a training."
RIGHT_LINES = {
    "centred = x": "the mean along the last axis is subtracted",
    "inverse_std = 1 /": "this is 1/√(variance + eps)",
    "normalised = centred * inverse_std": "this is x̂",
    "y = normalised * weight + bias": "this is the formula",
    "g_weight = (g_y * normalised)": "Σ g · x̂, if `normalised` is x̂",
    "g_bias = g_y.sum": "the bias is shared by all rows",
    "g = g_y * weight": "this is the gradient of x̂",
    "along = ": "the mean of ĝ · x̂, if `normalised` is x̂",
    "g_x = (g - g.mean": "this is the formula of exercise 9, if `normalised` is x̂",
    "rows = tuple": "all axes but the last",
}


def check_gradient(answer):
    """the gradient with weight 2 and bias 1"""

    def function(x, weight, bias):
        return answer.LayerNorm().forward(x, weight, bias)

    def vjp(g, x, weight, bias):
        op = answer.LayerNorm()
        op.forward(x, weight, bias)
        return op.backward(g)

    gradients(function, vjp, np.random.default_rng(0).standard_normal((3, 4)), np.full(4, 2.0), np.ones(4))
