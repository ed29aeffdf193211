"""Reference answers to the steps of ops.py."""

import numpy as np
from engine import Tensor, apply


# ---- add ----
class Add:
    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a + b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g, g


class Subtract:
    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a - b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g, -g


# ---- multiply ----
class Multiply:
    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a * b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g * b, g * a


# ---- divide ----
class Divide:
    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a / b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g / b, -g * y / b


# ---- sum ----
class Sum:
    broadcasts = False

    @staticmethod
    def forward(xp, x, *, axis, keepdims):
        return xp.asarray(x.sum(axis=axis, keepdims=keepdims))

    @staticmethod
    def backward(xp, g, y, x, *, axis, keepdims):
        kept = x.sum(axis=axis, keepdims=True).shape
        return (xp.broadcast_to(g.reshape(kept), x.shape),)


# ---- shape ----
class Reshape:
    broadcasts = False

    @staticmethod
    def forward(xp, x, *, shape):
        return x.reshape(shape)

    @staticmethod
    def backward(xp, g, y, x, *, shape):
        return (g.reshape(x.shape),)


class SwapAxes:
    broadcasts = False

    @staticmethod
    def forward(xp, x, *, axis1, axis2):
        return x.swapaxes(axis1, axis2)

    @staticmethod
    def backward(xp, g, y, x, *, axis1, axis2):
        return (g.swapaxes(axis1, axis2),)


# ---- matmul ----
class Matmul:
    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a @ b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g @ b.swapaxes(-1, -2), a.swapaxes(-1, -2) @ g


# ---- operators ----
def mean(x, axis=None, keepdims=False):
    total = x.sum(axis, keepdims)
    return total * (total.size / x.size)


Tensor.__array_ufunc__ = None
Tensor.__add__ = lambda a, b: apply(Add, a, b)
Tensor.__radd__ = lambda a, b: apply(Add, b, a)
Tensor.__sub__ = lambda a, b: apply(Subtract, a, b)
Tensor.__rsub__ = lambda a, b: apply(Subtract, b, a)
Tensor.__mul__ = lambda a, b: apply(Multiply, a, b)
Tensor.__rmul__ = lambda a, b: apply(Multiply, b, a)
Tensor.__truediv__ = lambda a, b: apply(Divide, a, b)
Tensor.__rtruediv__ = lambda a, b: apply(Divide, b, a)
Tensor.__matmul__ = lambda a, b: apply(Matmul, a, b)
Tensor.__rmatmul__ = lambda a, b: apply(Matmul, b, a)
Tensor.__neg__ = lambda x: x * -1.0
Tensor.reshape = lambda x, *shape: apply(Reshape, x, shape=shape[0] if isinstance(shape[0], tuple) else shape)
Tensor.swapaxes = lambda x, axis1, axis2: apply(SwapAxes, x, axis1=axis1, axis2=axis2)
Tensor.sum = lambda x, axis=None, keepdims=False: apply(Sum, x, axis=axis, keepdims=keepdims)
Tensor.mean = mean


# ---- relu ----
class Relu:
    broadcasts = False

    @staticmethod
    def forward(xp, x):
        return xp.maximum(x, 0)

    @staticmethod
    def backward(xp, g, y, x):
        return (g * (y > 0),)


# ---- softmax ----
def softmax(xp, x):
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_gradient(g, y):
    return y * (g - (g * y).sum(axis=-1, keepdims=True))


class Softmax:
    broadcasts = False

    @staticmethod
    def forward(xp, x):
        return softmax(xp, x)

    @staticmethod
    def backward(xp, g, y, x):
        return (softmax_gradient(g, y),)


# ---- linear ----
class Linear:
    broadcasts = False

    @staticmethod
    def forward(xp, x, weight, bias):
        y = x @ weight.T
        return y if bias is None else y + bias

    @staticmethod
    def backward(xp, g, y, x, weight, bias):
        rows, g_rows = x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1])
        return g @ weight, g_rows.T @ rows, None if bias is None else g_rows.sum(axis=0)


# ---- embedding ----
class Embedding:
    broadcasts = False

    @staticmethod
    def forward(xp, weight, indices):
        return weight[indices]

    @staticmethod
    def backward(xp, g, y, weight, indices):
        g_weight = xp.zeros_like(weight)
        xp.add.at(g_weight, indices, g)
        return g_weight, None


# ---- dropout ----
class Mask:
    def __init__(self, shape, p, rng):
        self.kept = rng.random(shape) >= p
        self.scale = 1 / (1 - p)

    def array(self):
        return self.kept


class Dropout:
    broadcasts = False

    @staticmethod
    def forward(xp, x, *, drop):
        return x * drop.array() * drop.scale

    @staticmethod
    def backward(xp, g, y, x, *, drop):
        return (g * drop.array() * drop.scale,)


# ---- layer_norm ----
def mean_of_rows(x):
    return x.mean(axis=-1, keepdims=True)


def normalised(xp, x, eps):
    centred = x - mean_of_rows(x)
    root = xp.sqrt(mean_of_rows(centred**2) + eps)
    return centred / root, root


class LayerNorm:
    broadcasts = False

    @staticmethod
    def forward(xp, x, weight, bias, *, eps):
        n, _ = normalised(xp, x, eps)
        return n * weight + bias

    @staticmethod
    def backward(xp, g, y, x, weight, bias, *, eps):
        n, root = normalised(xp, x, eps)
        rows = tuple(range(x.ndim - 1))
        g_n = g * weight
        g_x = (g_n - mean_of_rows(g_n) - n * mean_of_rows(g_n * n)) / root
        return g_x, (g * n).sum(axis=rows), g.sum(axis=rows)


# ---- attention ----
class ScaledDotProductAttention:
    broadcasts = True

    @staticmethod
    def forward(xp, q, k, v, *, mask, scale):
        return softmax(xp, scale * (q @ k.swapaxes(-1, -2))) @ v

    @staticmethod
    def backward(xp, g, y, q, k, v, *, mask, scale):
        p = softmax(xp, scale * (q @ k.swapaxes(-1, -2)))
        g_scores = scale * softmax_gradient(g @ v.swapaxes(-1, -2), p)
        return g_scores @ k, g_scores.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


# ---- mask ----
def probabilities(xp, q, k, mask, scale):
    scores = scale * (q @ k.swapaxes(-1, -2))
    if mask is not None:
        scores = xp.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    e = xp.exp(scores - xp.where(xp.isneginf(top), 0, top))
    total = e.sum(axis=-1, keepdims=True)
    return e / xp.where(total == 0, 1, total)


class ScaledDotProductAttention:
    broadcasts = True

    @staticmethod
    def forward(xp, q, k, v, *, mask, scale):
        return probabilities(xp, q, k, mask, scale) @ v

    @staticmethod
    def backward(xp, g, y, q, k, v, *, mask, scale):
        p = probabilities(xp, q, k, mask, scale)
        g_scores = scale * softmax_gradient(g @ v.swapaxes(-1, -2), p)
        return g_scores @ k, g_scores.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ g


# ---- cross_entropy ----
def log_softmax(xp, x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - xp.log(xp.exp(x).sum(axis=-1, keepdims=True))


class CrossEntropy:
    broadcasts = False

    @staticmethod
    def forward(xp, logits, *, targets, counted, label_smoothing):
        losses = -log_softmax(xp, logits)[xp.arange(len(targets)), targets]
        return xp.asarray(xp.where(counted, losses, 0).sum())

    @staticmethod
    def backward(xp, g, y, logits, *, targets, counted, label_smoothing):
        g_logits = softmax(xp, logits)
        g_logits[xp.arange(len(targets)), targets] -= 1
        return (g * g_logits * counted[:, None],)


# ---- label_smoothing ----
def wanted(xp, logits, targets, label_smoothing):
    classes = logits.shape[1]
    one_hot = xp.eye(classes, dtype=logits.dtype)[targets]
    return (1 - label_smoothing) * one_hot + label_smoothing / classes


class CrossEntropy:
    broadcasts = False

    @staticmethod
    def forward(xp, logits, *, targets, counted, label_smoothing):
        losses = -(wanted(xp, logits, targets, label_smoothing) * log_softmax(xp, logits)).sum(axis=-1)
        return xp.asarray(xp.where(counted, losses, 0).sum())

    @staticmethod
    def backward(xp, g, y, logits, *, targets, counted, label_smoothing):
        g_logits = softmax(xp, logits) - wanted(xp, logits, targets, label_smoothing)
        return (g * g_logits * counted[:, None],)
