"""What a network adds to plain mathematics: lookups, normalisation, dropout."""

from __future__ import annotations

from typing import Any

from autograd import random
from autograd.backend import as_operand
from autograd.engine import Op, apply
from autograd.tensor import Tensor


class Embedding(Op):
    """y = scale · weight[indices]

    Shapes: weight [V, D]; indices int [...] -> y [..., D]
    Saves:  indices only
    """

    def forward(self, weight, *, indices, scale):
        self.rows, self.scale = len(weight), scale
        self.save(indices)
        y = weight[indices]
        if scale != 1:
            y *= scale
        return y

    def backward(self, g_y):
        (indices,) = self.saved
        g_rows = g_y.reshape(indices.size, g_y.shape[-1])  # [N, D]
        g_weight = self.backend.embedding_backward(g_rows, indices.reshape(-1), self.rows)
        if self.scale != 1:
            g_weight *= self.scale
        return g_weight


def embedding(indices: Any, weight: Tensor, *, scale: float = 1.0) -> Tensor:
    """Rows of `weight`, times `scale` (√d_model in section 3.4).

    Shapes: indices int [...], weight [V, D] -> [..., D]
    Raises: IndexError for an index outside 0 … V - 1 (a negative one would silently wrap around); TypeError for
    indices that are not integers.
    """
    indices = indices.data if isinstance(indices, Tensor) else as_operand(indices)
    check_indices(indices, len(weight), "embedding index")
    return apply(Embedding, weight, indices=indices, scale=float(scale))


def check_indices(indices: Any, size: int, what: str) -> None:
    """Raises: TypeError unless `indices` holds integers, IndexError unless all are in 0 … size - 1."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{what} must be an integer array, found {indices.dtype}")
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexError(f"{what} must lie in 0 … {size - 1}, found {indices.min()} … {indices.max()}")


class Dropout(Op):
    """y = x · keep / P(keep)

    Shapes: x [...] -> y [...]
    Saves:  keep, one byte an element
    """

    def forward(self, x, *, p):
        keep, self.scale = random.keep_mask(x.shape, p)
        keep = self.backend.asarray(keep)
        self.save(keep)
        return self.backend.dropout(x, keep, self.scale)

    def backward(self, g_y):
        (keep,) = self.saved
        return self.backend.dropout(g_y, keep, self.scale)


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Zero each element with probability `p` and scale the others up, so that the mean stays (section 5.4).

    The mask comes from `autograd.random`.  With p = 0 or `training` false, x itself is returned.

    Raises: ValueError for p outside [0, 1).
    """
    random.threshold(p)
    if p == 0 or not training:
        return x if isinstance(x, Tensor) else Tensor(x)
    return apply(Dropout, x, p=p)


class LayerNorm(Op):
    """y = (x - mean) / sqrt(variance + eps) · weight + bias, over the last axis

    Shapes: x [..., D], weight [D], bias [D] -> y [..., D]
    Saves:  x̂ = (x - mean) / σ and 1/σ: with them x and the mean are not needed
    """

    def forward(self, x, weight, bias, *, eps):
        rows = x.reshape(-1, x.shape[-1])  # [N, D]
        y, normalised, inverse_std = self.backend.layer_norm(rows, weight, bias, eps)
        self.save(normalised, inverse_std, weight)
        return y.reshape(x.shape)

    def backward(self, g_y):
        normalised, inverse_std, weight = self.saved
        g_rows = g_y.reshape(normalised.shape)  # [N, D]
        g_x, g_weight, g_bias = self.backend.layer_norm_backward(g_rows, normalised, inverse_std, weight)
        return g_x.reshape(g_y.shape), g_weight, g_bias


def layer_norm(x: Any, weight: Any, bias: Any, *, eps: float = 1e-6) -> Tensor:
    """Normalise the last axis to mean 0 and variance 1 (the biased variance, `eps` inside the root), scale, shift.

    Shapes: x [..., D], weight [D], bias [D] -> [..., D]
    Raises: ValueError where x has no feature, or weight or bias does not have the size of the last axis.
    Source: Ba et al. 2016; section 3.1
    """
    _check_width(x, weight, bias)
    return apply(LayerNorm, x, weight, bias, eps=eps)


class DropoutAddLayerNorm(Op):
    """y = layer_norm(residual + x · keep / P(keep)): what stands around every sub-layer, in one pass over memory

    Shapes: x [..., D], residual [..., D], weight [D], bias [D] -> y [..., D]
    Saves:  keep (one byte an element), x̂ and 1/σ of the sum; neither the sum nor the dropped x
    """

    def forward(self, x, residual, weight, bias, *, p, eps):
        width = x.shape[-1]
        keep, self.scale = None, 1.0
        if p:
            keep, self.scale = random.keep_mask(x.shape, p)
            keep = self.backend.asarray(keep).reshape(-1, width)
        y, normalised, inverse_std = self.backend.dropout_add_layer_norm(
            x.reshape(-1, width), residual.reshape(-1, width), keep, self.scale, weight, bias, eps
        )
        self.save(keep, normalised, inverse_std, weight)
        return y.reshape(x.shape)

    def backward(self, g_y):
        keep, normalised, inverse_std, weight = self.saved
        g_rows = g_y.reshape(normalised.shape)  # [N, D]
        g_sum, g_weight, g_bias = self.backend.layer_norm_backward(g_rows, normalised, inverse_std, weight)
        g_x = g_sum if keep is None else self.backend.dropout(g_sum, keep, self.scale)
        return g_x.reshape(g_y.shape), g_sum.reshape(g_y.shape), g_weight, g_bias


def dropout_add_layer_norm(
    x: Any, residual: Any, weight: Any, bias: Any, *, p: float = 0.0, eps: float = 1e-6, training: bool = True
) -> Tensor:
    """layer_norm(residual + dropout(x, p)) as one op: the residual connection of section 3.1 with 5.4's dropout.

    Shapes: x [..., D], residual [..., D], weight [D], bias [D] -> [..., D]
    Raises: ValueError where shapes do not fit or p is outside [0, 1).
    """
    random.threshold(p)
    if x.shape != residual.shape:
        raise ValueError(f"x has shape {x.shape}, residual has shape {residual.shape}; they must be equal")
    _check_width(x, weight, bias)
    return apply(DropoutAddLayerNorm, x, residual, weight, bias, p=p if training else 0.0, eps=eps)


def _check_width(x: Any, weight: Any, bias: Any) -> None:
    width = x.shape[-1:]
    if width in ((), (0,)):
        raise ValueError(f"layer norm needs a last axis with at least one feature, found x of shape {x.shape}")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter.shape != width:
            raise ValueError(f"layer norm's {name} has shape {parameter.shape}, the last axis of x asks for {width}")
