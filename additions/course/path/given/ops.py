"""My ops: the formula forward, and its gradient beside it."""

import math

import numpy as np
from engine import Tensor, apply

# ---- add: The sum and the difference of two arrays (chapter 1) ----
# An op has no state: both functions compute from their arguments, and write into none of them. `backward` returns a
# tuple with one gradient for each input, in the shape of the result where the op broadcasts: your engine undoes that.
# From this step on, a training step of a Transformer runs on your engine, and on each op that you have finished instead
# of ours.


class Add:
    """y = a + b"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, a, b):
        raise NotImplementedError


class Subtract:
    """y = a - b"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, a, b):
        raise NotImplementedError


# ---- multiply: The product (chapter 1) ----
# y = a · b, element by element.


class Multiply:
    """y = a · b"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, a, b):
        raise NotImplementedError


# ---- divide: The quotient (chapter 1) ----
# y = a / b. The gradient by b can be had from y, which is there already.


class Divide:
    """y = a / b"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, a, b):
        raise NotImplementedError


# ---- sum: The sum over axes (chapter 1) ----
# y = x.sum(axis, keepdims), where axis is None (all), a number or a tuple, maybe counted from the end. The gradient has
# the shape of x; g lacks the axes that were summed over unless keepdims is true.


class Sum:
    """y = Σ x over `axis`"""

    broadcasts = False

    @staticmethod
    def forward(xp, x, *, axis, keepdims):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, x, *, axis, keepdims):
        raise NotImplementedError


# ---- shape: Other shapes of the same elements (chapter 1) ----
# Reshape keeps the order of the elements, SwapAxes exchanges two axes. Both gradients have the elements of g.


class Reshape:
    """y = the elements of x, in the same order, in another shape"""

    broadcasts = False

    @staticmethod
    def forward(xp, x, *, shape):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, x, *, shape):
        raise NotImplementedError


class SwapAxes:
    """y = x with two axes exchanged"""

    broadcasts = False

    @staticmethod
    def forward(xp, x, *, axis1, axis2):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, x, *, axis1, axis2):
        raise NotImplementedError


# ---- matmul: The matrix product (chapter 1) ----
# y = a b for matrices in the last two axes: a [..., M, K], b [..., K, N] -> y [..., M, N]. The axes before them are
# broadcast: one of the two may be a single matrix for a whole batch. Derive the gradients from y_mn = Σ_k a_mk b_kn.


class Matmul:
    """y = a b"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, a, b):
        raise NotImplementedError


# ---- operators: x + y, and what else a Tensor does (chapter 1) ----
# Give Tensor its operators, each by `apply` of your ops: +, -, *, / with a Tensor, a number or an array on either side
# (3 - x is x.__rsub__(3)), @, -x, and the methods reshape(*shape), which also takes one tuple, swapaxes(axis1, axis2),
# sum(axis=None, keepdims=False) and mean(axis=None, keepdims=False), which needs no op of its own. A NumPy array on the
# left asks x only if `__array_ufunc__` is None.

Tensor.__array_ufunc__ = None
Tensor.__add__ = lambda a, b: apply(Add, a, b)


# ---- relu: The activation (chapter 1) ----
# y = max(x, 0). At x = 0 the gradient is 0.


class Relu:
    """y = max(x, 0)"""

    broadcasts = False

    @staticmethod
    def forward(xp, x):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, x):
        raise NotImplementedError


# ---- softmax: Probabilities along the last axis (chapter 4) ----
# y_i = exp(x_i) / Σ_j exp(x_j). exp overflows above 709 (in float32 above 88), so subtract what does not change y. For
# the gradient: each x_j changes every y_i of its row.


class Softmax:
    """y = softmax(x) along the last axis"""

    broadcasts = False

    @staticmethod
    def forward(xp, x):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, x):
        raise NotImplementedError


# ---- linear: A fully connected layer (chapter 4) ----
# y = x Wᵀ + b, with the weight stored [out, in], and b None for a layer without. x [..., in] may have any number of
# axes; the weight and b serve all its rows. Return a gradient for each of the three; for b = None, None.


class Linear:
    """y = x Wᵀ + b"""

    broadcasts = False

    @staticmethod
    def forward(xp, x, weight, bias):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, x, weight, bias):
        raise NotImplementedError


# ---- embedding: Rows of a matrix (chapter 4) ----
# y = weight[indices], with indices int [..., T]: y [..., T, D]. A sentence may use one row several times. The indices
# have no gradient: None.


class Embedding:
    """y = weight[indices]"""

    broadcasts = False

    @staticmethod
    def forward(xp, weight, indices):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, weight, indices):
        raise NotImplementedError


# ---- dropout: Zeros at random (chapter 6) ----
# `drop` is an object that says what is dropped: drop.array() is True where an element is kept, and the same each time;
# drop.scale is 1 / P(kept). y is x where it is kept, times the scale, so that the mean stays; and 0 elsewhere.
# Mask(shape, p, rng) makes such an object of a NumPy generator: each element is dropped with probability p.


class Mask:
    """The arrays that a call of dropout keeps."""

    def __init__(self, shape, p, rng):
        raise NotImplementedError

    def array(self):
        raise NotImplementedError


class Dropout:
    """y = x · kept / P(kept)"""

    broadcasts = False

    @staticmethod
    def forward(xp, x, *, drop):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, x, *, drop):
        raise NotImplementedError


# ---- layer_norm: Mean 0 and variance 1 (chapter 4) ----
# y = n · weight + bias with n = (x - mean) / √(variance + eps) along the last axis; the variance is the mean of the
# squares. Mean and variance depend on x. x [..., D], weight and bias [D]. This is the gradient that most people get
# wrong: check it with your numerical_gradient.


class LayerNorm:
    """y = (x - mean) / √(variance + eps) · weight + bias"""

    broadcasts = False

    @staticmethod
    def forward(xp, x, weight, bias, *, eps):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, x, weight, bias, *, eps):
        raise NotImplementedError


# ---- attention: Scaled dot products (chapter 6) ----
# y = softmax(scale · q kᵀ) v, equation 1 of the paper, where scale is usually 1/√K: q [..., T, K], k [..., S, K], v
# [..., S, M] -> y [..., T, M], each query t with a probability for each key s. `mask` is None in this step.


class ScaledDotProductAttention:
    """y = softmax(scale · q kᵀ + mask) v"""

    broadcasts = True

    @staticmethod
    def forward(xp, q, k, v, *, mask, scale):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, q, k, v, *, mask, scale):
        raise NotImplementedError


# ---- mask: What a query may attend to (chapter 6) ----
# Change ScaledDotProductAttention: `mask` may be boolean, broadcastable to [..., T, S], and True where query t may
# attend to key s. Elsewhere the probability is exactly 0, whatever stands in k and v there; a query that may attend to
# nothing gives 0, not NaN, and so are its gradients.


# ---- cross_entropy: The loss (chapter 7) ----
# logits [N, V], targets int [N], counted bool [N]: the sum over the counted rows of -log softmax(logits)[target],
# without overflow for large logits. Rows that do not count (padding) add 0, and have gradients of 0. label_smoothing is
# 0 here.


class CrossEntropy:
    """y = -Σ q log softmax(logits)"""

    broadcasts = False

    @staticmethod
    def forward(xp, logits, *, targets, counted, label_smoothing):
        raise NotImplementedError

    @staticmethod
    def backward(xp, g, y, logits, *, targets, counted, label_smoothing):
        raise NotImplementedError


# ---- label_smoothing: Less sure of the target (chapter 7) ----
# Change CrossEntropy: with label_smoothing ε, the loss of a row is -Σ_k q_k log softmax(logits)_k, where q gives 1 - ε
# to the target and spreads ε evenly over all V classes, the target among them.
