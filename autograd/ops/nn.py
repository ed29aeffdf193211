"""Embedding, dropout and layer normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from autograd import random
from autograd.backend import CPU, Backend
from autograd.engine import Op, apply, unbroadcast
from autograd.ops.arguments import array_of, number, tensors
from autograd.ops.flops import per_input, per_output
from autograd.row_gradient import RowGradient
from autograd.tensor import Tensor, TensorLike, TensorOrArray


def draw_mask(backend: Backend, shape: tuple[int, ...], p: float, drawn: tuple[int, ...] | None = None) -> Any:
    """The next dropout mask of `shape`, True where elements are kept, and its scale 1 / P(keep); for p = 0, None and 1.

    `drawn` is the shape of the array that is returned, by default that of the mask.
    """
    if not p:
        return None, 1.0
    mask = random.next_mask(shape, p)
    return backend.draw(mask, drawn or shape), mask.scale


PACKED_BYTES = 1 << 20  # masks from this size on are kept as bits: packing them takes 0.02 ns an element


def packed(keep: Any) -> Any:
    """A large mask as bits, to be kept for the backward pass; others, and those of GPUs, as they are."""
    if isinstance(keep, np.ndarray) and keep.nbytes >= PACKED_BYTES:
        return np.packbits(keep)
    return keep


def unpacked(keep: Any, shape: tuple[int, ...]) -> Any:
    """The mask of `shape` of which `packed` returned `keep`."""
    if isinstance(keep, np.ndarray) and keep.dtype == np.uint8:
        return np.unpackbits(keep, count=math.prod(shape)).view(bool).reshape(shape)
    return keep


class Embedding(Op):
    """y = dropout(scale · weight[indices] + positions)

    Shapes: weight [V, D], positions [T, D] or absent; indices int [..., T] -> y [..., T, D]
    Saves:  indices and the dropout mask
    """

    flops = per_output(1, 1)  # times √d_model; backward, one addition an element

    def forward(self, weight, indices, positions=None, *, scale, p, dtype):
        indices = self.xp.asarray(indices)
        self.rows, self.scale = len(weight), scale
        keep, self.keep_scale = draw_mask(self.backend, (*indices.shape, weight.shape[1]), p)
        self.save(indices, keep)
        return self.backend.embedding(weight, indices, positions, scale, keep, self.keep_scale, dtype)

    def backward(self, g_y):
        indices, keep = self.saved
        if keep is not None:
            g_y = self.backend.dropout(g_y, keep, self.keep_scale)
        g_weight = self._g_weight(g_y, indices) if self.needs_gradient[0] else None
        if len(self.needs_gradient) == 2:
            return g_weight, None
        return g_weight, None, self._g_positions(g_y) if self.needs_gradient[2] else None

    def _g_positions(self, g_y):
        """Σ over the batch; in float32 for bfloat16.  Shapes: g_y [..., T, D] -> [T, D]"""
        if g_y.dtype.kind == "f":
            return unbroadcast(g_y, g_y.shape[-2:])
        t, d = g_y.shape[-2:]
        return self.backend.sum_rows(g_y.reshape(math.prod(g_y.shape[:-2]), t * d)).reshape(t, d)

    def _g_weight(self, g_y, indices):
        g_rows = g_y.reshape(indices.size, g_y.shape[-1])  # [N, D]
        gradient = RowGradient(self.backend, g_rows, indices.reshape(-1), self.rows, self.scale)
        return gradient if self.backend is CPU and indices.size < self.rows else gradient.dense()


def embedding(
    indices: TensorLike,
    weight: Tensor,
    *,
    scale: float = 1.0,
    positions: TensorOrArray | None = None,
    p: float = 0.0,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """dropout(scale · weight[indices] + positions): what a Transformer does to tokens (sections 3.4, 3.5, 5.4).

    `scale` is √d_model in section 3.4.  `dtype` is that of the result: bfloat16 starts a forward pass in mixed
    precision.

    Shapes: indices int [..., T], weight [V, D], positions [T, D] -> [..., T, D]
    Raises: IndexError for an index outside 0 … V - 1 (a negative one would silently wrap around); TypeError for
    indices that are not integers; ValueError for positions of another shape, or p outside [0, 1).  Indices on a GPU
    are not checked, which would wait for the device: there, an index outside gives NaN.
    """
    random.threshold(number("p", p))
    (weight,) = tensors(weight=weight)
    check_indices(array_of(indices), len(weight), "embedding index")
    settings = {"scale": number("scale", scale), "p": p, "dtype": dtype}
    if positions is None:
        return apply(Embedding, weight, indices, **settings)
    (positions,) = tensors(positions=positions)
    if positions.shape != (*array_of(indices).shape[-1:], weight.shape[1]):
        raise ValueError(
            f"positions of shape {positions.shape} do not fit indices of shape {np.shape(indices)} and "
            f"{weight.shape[1]} columns; they must be [T, D]"
        )
    return apply(Embedding, weight, indices, positions, **settings)


def check_indices(indices: Any, size: int, what: str) -> None:
    """Raises: TypeError unless `indices` holds integers, IndexError unless all are in 0 … size - 1.

    On a GPU, their values are not checked.
    """
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{what} must be an integer array, found {indices.dtype}")
    if isinstance(indices, np.ndarray) and indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexError(f"{what} must lie in 0 … {size - 1}, found {indices.min()} … {indices.max()}")


class Dropout(Op):
    """y = x · keep / P(keep)

    Shapes: x [...] -> y [...]
    Saves:  keep, one byte an element
    """

    flops = per_input(2, 2)

    def forward(self, x, *, p):
        keep, self.scale = draw_mask(self.backend, x.shape, p)
        self.save(keep)
        return self.backend.dropout(x, keep, self.scale)

    def backward(self, g_y):
        (keep,) = self.saved
        return self.backend.dropout(g_y, keep, self.scale)


def dropout(x: TensorLike, p: float = 0.5, training: bool = True) -> Tensor:
    """Set each element to 0 with probability `p` and multiply the others by 1 / (1 - p) (section 5.4).

    The mask comes from `autograd.random`.  With p = 0 or `training` false, x itself is returned.

    Raises: ValueError for p outside [0, 1).
    """
    random.threshold(number("p", p))
    if p == 0 or not training:
        return x if isinstance(x, Tensor) else Tensor(x)
    return apply(Dropout, x, p=p)


class LayerNorm(Op):
    """y = (x - mean) / sqrt(variance + eps) · weight + bias, over the last axis

    Shapes: x [..., D], weight [D], bias [D] -> y [..., D]
    Saves:  x̂ = (x - mean) / σ, 1/σ and the weight; not x and its mean
    """

    flops = per_input(7, 11)  # mean 1, difference 1, variance 2, division 1, weight 1, bias 1

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


def layer_norm(x: TensorOrArray, weight: TensorOrArray, bias: TensorOrArray, *, eps: float = 1e-6) -> Tensor:
    """Normalise the last axis to mean 0 and variance 1 (the biased variance, `eps` inside the root), scale, shift.

    Shapes: x [..., D], weight [D], bias [D] -> [..., D]
    Saves:  x̂ = (x - mean) / σ, 1/σ and the weight; not x and its mean
    Raises: ValueError where x has no feature, or weight or bias does not have the size of the last axis.
    Source: Ba et al. 2016; section 3.1
    """
    x, weight, bias = tensors(x=x, weight=weight, bias=bias)
    _check_width(x, weight, bias)
    return apply(LayerNorm, x, weight, bias, eps=eps)


class DropoutAddLayerNorm(Op):
    """y = layer_norm(residual + x · keep / P(keep)): the end of every sub-layer, in one pass over memory

    Shapes: x [..., D], residual [..., D], weight [D], bias [D] -> y [..., D]
    Saves:  keep (a large one as bits), x̂ and 1/σ of the sum, bias and weight; neither the sum nor the dropped x
    """

    flops = per_input(10, 13)
    computes_again = "saved"

    def forward(self, x, residual, weight, bias, *, p, eps):
        width = x.shape[-1]
        keep, self.scale = draw_mask(self.backend, x.shape, p, (math.prod(x.shape[:-1]), width))
        y, normalised, inverse_std = self.backend.dropout_add_layer_norm(
            x.reshape(-1, width), residual.reshape(-1, width), keep, self.scale, weight, bias, eps
        )
        keep = packed(keep)
        self.save(keep, bias, normalised, inverse_std, weight)
        return y.reshape(x.shape)

    def again(self):
        _, bias, normalised, _, weight = self.saved
        return self.backend.scale_and_shift(normalised, weight, bias).reshape(self.output_specs[0][0])

    def backward(self, g_y):
        keep, _, normalised, inverse_std, weight = self.saved
        keep = unpacked(keep, normalised.shape)
        g_rows = g_y.reshape(normalised.shape)  # [N, D]
        g_x, g_residual, g_weight, g_bias = self.backend.dropout_add_layer_norm_backward(
            g_rows, normalised, inverse_std, weight, keep, self.scale
        )
        return g_x.reshape(g_y.shape), g_residual.reshape(g_y.shape), g_weight, g_bias


def dropout_add_layer_norm(
    x: TensorOrArray,
    residual: TensorOrArray,
    weight: TensorOrArray,
    bias: TensorOrArray,
    *,
    p: float = 0.0,
    eps: float = 1e-6,
    training: bool = True,
) -> Tensor:
    """layer_norm(residual + dropout(x, p)) as one op: the residual connection of section 3.1 with 5.4's dropout.

    Shapes: x [..., D], residual [..., D], weight [D], bias [D] -> [..., D]
    Saves:  keep (a large one as bits), x̂ and 1/σ of the sum, bias and weight; neither the sum nor the dropped x
    Raises: ValueError where shapes do not fit or p is outside [0, 1).
    """
    random.threshold(number("p", p))
    x, residual, weight, bias = tensors(x=x, residual=residual, weight=weight, bias=bias)
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
