"""Several ops of a Transformer as one node of the graph: what each computes is defined here in plain ops.

The implementations in `autograd/fast` keep less for the backward pass, and pass over memory once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from autograd.backend import backend_of
from autograd.engine import Op, apply, unbroadcast
from autograd.ops import nn
from autograd.ops.nn import Reduction, Relu, add_rows, draw, dropped
from autograd.ops.shape import linear_inputs, norm_inputs
from autograd.tensor import Tensor, TensorLike, TensorOrArray, array_of, number, tensors

# ---- Embedding: scale, positions, dropout (sections 3.4, 3.5, 5.4) ----


class ScaledEmbedding(Op):
    """y = dropout(scale · weight[indices] + positions)"""

    reads = "indices"

    @staticmethod
    def forward(xp, weight, indices, positions, *, scale, drop, dtype):
        y = weight[indices] * scale
        y = dropped(xp, y if positions is None else y + positions, drop)
        return y if dtype is None else y.astype(dtype)

    @staticmethod
    def backward(xp, g, y, weight, indices, positions, *, scale, drop, dtype):
        g = dropped(xp, g, drop)
        return lambda: scale * add_rows(xp, g, indices, weight.shape), None, lambda: unbroadcast(g, positions.shape)


def scaled_embedding(
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
    Raises: as `autograd.embedding`; ValueError for positions of another shape, or p outside [0, 1).  Indices on a GPU
    are not checked: there, an index outside gives NaN.
    """
    (weight,) = tensors(weight=weight)
    shape = array_of(indices).shape
    nn.check_indices(array_of(indices), len(weight), "embedding index")
    if positions is not None:
        (positions,) = tensors(positions=positions)
        if positions.shape != (*shape[-1:], weight.shape[1]):
            raise ValueError(
                f"positions of shape {positions.shape} do not fit indices of shape {shape} and "
                f"{weight.shape[1]} columns; they must be [T, D]"
            )
    drop = draw((*shape, weight.shape[1]), p)
    settings = {"scale": number("scale", scale), "drop": drop, "dtype": dtype}
    return apply(ScaledEmbedding, weight, indices, positions, **settings)


# ---- The end of a sub-layer (sections 3.1, 5.4) ----


class DropoutAddLayerNorm(Op):
    """y = layer_norm(residual + dropout(x))"""

    reads = "x residual weight"

    @staticmethod
    def forward(xp, x, residual, weight, bias, *, drop, eps):
        return nn.LayerNorm.forward(xp, residual + dropped(xp, x, drop), weight, bias, eps=eps)

    @staticmethod
    def backward(xp, g, y, x, residual, weight, bias, *, drop, eps):
        total = residual + dropped(xp, x, drop)
        g_total, g_weight, g_bias = nn.LayerNorm.backward(xp, g, y, total, weight, bias, eps=eps)
        return lambda: dropped(xp, g_total, drop), g_total, g_weight, g_bias


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
    Raises: ValueError if shapes do not fit or p is outside [0, 1).
    """
    (residual,), (x, weight, bias) = tensors(residual=residual), norm_inputs(x, weight, bias)
    if x.shape != residual.shape:
        raise ValueError(f"x has shape {x.shape}, residual has shape {residual.shape}; they must be equal")
    return apply(DropoutAddLayerNorm, x, residual, weight, bias, drop=draw(x.shape, p, training), eps=eps)


# ---- Linear layers ----


class LinearRelu(Op):
    """y = max(x Wᵀ + b, 0)"""

    reads = ("weight y", "x y", "y")

    @staticmethod
    def forward(xp, x, weight, bias):
        return Relu.forward(xp, nn.Linear.forward(xp, x, weight, bias, dtype=None))

    @staticmethod
    def backward(xp, g, y, x, weight, bias):
        return nn.Linear.backward(xp, Relu.backward(xp, g, y, None), None, x, weight, bias, dtype=None)


def linear_relu(x: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """max(x Wᵀ + b, 0) as one op: the first layer of a feed-forward network (section 3.3).

    Shapes: x [..., in], weight [out, in], bias [out] -> [..., out]
    Raises: ValueError for shapes that do not fit
    """
    return apply(LinearRelu, *linear_inputs(x, weight, bias))


class LinearHeads(Op):
    """y_i = x W_iᵀ + b_i for several i, as one product, each divided into heads"""

    reads = "x parameters"

    @staticmethod
    def forward(xp, x, *parameters, heads, count):
        weights, biases = parameters[:count], parameters[count:] or [None] * count
        ys = [nn.Linear.forward(xp, x, w, b, dtype=None) for w, b in zip(weights, biases, strict=True)]
        return tuple([y.reshape(*y.shape[:-1], heads, y.shape[-1] // heads).swapaxes(-2, -3) for y in ys])

    @staticmethod
    def backward(xp, g, y, x, *parameters, heads, count):
        weights, biases = parameters[:count], parameters[count:] or [None] * count
        rows = [each.swapaxes(-2, -3).reshape(*x.shape[:-1], w.shape[0]) for each, w in zip(g, weights, strict=True)]
        found = [
            nn.Linear.backward(xp, g_y, None, x, w, b, dtype=None)
            for g_y, w, b in zip(rows, weights, biases, strict=True)
        ]
        g_xs, g_weights, g_biases = zip(*found, strict=True)
        return lambda: sum(g_x() for g_x in g_xs), *g_weights, *(g_biases if parameters[count:] else ())


def linear_heads(
    x: TensorLike, weights: Sequence[Tensor], biases: Sequence[Tensor] = (), *, heads: int
) -> tuple[Tensor, ...]:
    """x W_iᵀ + b_i for several weights, as one product, each divided into heads (section 3.2.2).

    Weights that lie side by side in memory are one matrix without a copy.

    Shapes: x [..., T, D], weight_i [H K_i, D], bias_i [H K_i] -> y_i [..., H, T, K_i]
    Raises: ValueError for shapes that do not fit
    """
    (x,) = tensors(x=x)
    if x.ndim < 2 or not weights or len(biases) not in (0, len(weights)):
        raise ValueError(
            f"linear_heads needs x [..., T, D], and a bias for each weight or none; found x of shape {x.shape}, "
            f"{len(weights)} weights and {len(biases)} biases"
        )
    for i, weight in enumerate(weights):
        linear_inputs(x, weight, biases[i] if biases else None)
        if weight.shape[0] % heads:
            raise ValueError(f"a weight of shape {weight.shape} cannot be divided into {heads} heads")
    ys: Any = apply(LinearHeads, x, *weights, *biases, heads=heads, count=len(weights))
    return ys


# ---- The last product and the loss, without the logits in memory ----


class LinearCrossEntropy(Op):
    """loss = cross_entropy(x Wᵀ + b), over the classes that are allowed; and the loss for ε = 0

    Shapes: x [N, D], weight [V, D], bias [V] or None; targets int [N], counted bool [N], allowed int [V'] or None
            -> loss [] or [N], negative log-likelihood likewise
    """

    reads = "x weight bias"

    @staticmethod
    def forward(xp, x, weight, bias, *, targets, counted, allowed, rows, **settings):
        weight, bias, targets = allowed_rows(xp, weight, bias, targets, counted, allowed)
        logits = nn.Linear.forward(xp, x, weight, bias, dtype=weight.dtype)  # [N, V']
        return nn.CrossEntropy.forward(xp, logits, targets=targets, counted=counted, **settings)

    @staticmethod
    def backward(xp, g, y, x, weight, bias, *, targets, counted, allowed, rows, **settings):
        shapes = weight.shape, None if bias is None else bias.shape
        weight, bias, targets = allowed_rows(xp, weight, bias, targets, counted, allowed)
        logits = nn.Linear.forward(xp, x, weight, bias, dtype=weight.dtype)
        g_logits = nn.CrossEntropy.backward(xp, g, None, logits, targets=targets, counted=counted, **settings)
        g_x, g_weight, g_bias = nn.Linear.backward(xp, g_logits, None, x, weight, bias, dtype=None)

        def of_all(gradient, shape):  # 0 for the others
            return gradient if allowed is None else add_rows(xp, gradient, allowed, shape)

        return g_x, lambda: of_all(g_weight(), shapes[0]), lambda: of_all(g_bias(), shapes[1])


def allowed_rows(xp: Any, weight: Any, bias: Any, targets: Any, counted: Any, allowed: Any) -> tuple[Any, Any, Any]:
    """Weight and bias of the classes that are allowed, and the targets among these."""
    if allowed is None:
        return weight, bias, targets
    place = xp.full(len(weight), -1)
    place[allowed] = xp.arange(len(allowed))
    return weight[allowed], None if bias is None else bias[allowed], place[xp.where(counted, targets, 0)]


def linear_cross_entropy(
    x: TensorLike,
    weight: TensorLike,
    targets: TensorLike,
    bias: TensorLike | None = None,
    *,
    masked: TensorLike | None = None,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    with_nll: bool = False,
    rows: int | None = None,
) -> Any:
    """cross_entropy(linear(x, weight, bias), targets), without the logits in memory: the last product and the loss.

    Logits, loss and the gradients of all inputs are computed for `rows` rows at a time (None: as many as have logits of
    64 MiB on a CPU, of a thirty-second of its memory on a GPU).  A weight that is used elsewhere, too, as a tied
    embedding is, gets the sum of its gradients.
    With `with_nll`, the result is the pair of the loss and, as a constant, the negative log-likelihood.
    `masked`, bool [V], is True for classes that have probability 0 and no share in the label smoothing. In mixed
    precision, x is bfloat16 and weight and bias float32: products use a bfloat16 copy of the weight, and the loss is
    float32. So are logits, but for those of training on a GPU, which are bfloat16. The other parameters are those of
    `cross_entropy`.

    Shapes: x [..., D], weight [V, D], targets int [...], bias [V] -> [] ("mean", "sum") or [...] ("none")
    Raises: as `linear` and `cross_entropy`; ValueError for a mask of another shape or dtype, and for rows < 1;
    IndexError for a target that is masked, except on a GPU, where its loss is NaN.
    """
    x, weight, bias = linear_inputs(x, weight, bias)
    if rows is not None and rows < 1:
        raise ValueError(f"rows={rows} computes nothing; choose 1 or more, or None")
    classes = weight.shape[0]
    settings = nn.labels_of_rows(x, targets, classes, ignore_index, label_smoothing, reduction)
    allowed = _allowed(masked, classes, settings["targets"], settings["counted"])
    return nn.loss_of_rows(
        LinearCrossEntropy, x, weight, bias, with_nll=with_nll, allowed=allowed, rows=rows, **settings
    )


def _allowed(masked: Any, classes: int, targets: Any, counted: Any) -> Any:
    """The classes that are not masked, on the device of the targets.  Shapes: masked bool [V] -> int [V'], or None"""
    if masked is None:
        return None
    masked, backend = array_of(masked), backend_of([targets])
    masked = np.asarray(backend_of([masked]).to_host(masked))  # of a constant: a model's configuration
    if masked.dtype != bool or masked.shape != (classes,):
        raise ValueError(f"masked must be bool [{classes}], one for each class, found {masked.dtype} {masked.shape}")
    if isinstance(targets, np.ndarray) and masked[targets[counted]].any():
        raise IndexError("cross_entropy target must not be a masked class")
    return backend.asarray(np.flatnonzero(~masked))
