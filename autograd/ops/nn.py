"""The layers of a Transformer: linear, ReLU, embedding, dropout, layer norm, attention, and the loss."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from autograd import random
from autograd.backend import backend_of, constant, keep_bfloat16, keep_where, silent, widened
from autograd.engine import Op, apply, evaluate
from autograd.ops.shape import as_attention_inputs, leading_shape, linear_inputs, mask_array, norm_inputs
from autograd.random import Mask
from autograd.tensor import Tensor, TensorLike, TensorOrArray, array_of, number, tensors

Array = Any


def rows_of(x: Array) -> Array:
    """All rows of x as one matrix; -1 would not be inferred for arrays of size 0.  Shapes: [..., D] -> [N, D]"""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


# ---- Linear (sections 3.2.2, 3.3) ----


class Linear(Op):
    """y = x Wᵀ + b

    Shapes: x [..., in], weight [out, in], bias [out] or None -> y [..., out]
    """

    reads = ("weight", "x", "")

    @staticmethod
    def forward(xp, x, weight, bias, *, dtype):
        y = rows_of(x) @ in_precision_of(x, weight).T  # [N, in] @ [in, out]
        y = y if bias is None else keep_bfloat16(y + bias, y)
        y = y.reshape(*x.shape[:-1], weight.shape[0])
        return y if dtype is None else y.astype(dtype)

    @staticmethod
    def backward(xp, g, y, x, weight, bias, *, dtype):
        g_rows = rows_of(g)  # [N, out]

        def g_x():
            w = in_precision_of(x, weight)
            return (g_rows.astype(w.dtype, copy=False) @ w).reshape(x.shape)  # [N, out] @ [out, in]

        def g_weight():
            return g_rows.astype(x.dtype, copy=False).T @ rows_of(x)  # [out, N] @ [N, in]

        return g_x, g_weight, lambda: g_rows.sum(axis=0)


def in_precision_of(x: Array, weight: Array) -> Array:
    """The weight as bfloat16 if x is: the factors of a product in mixed precision."""
    return weight.astype(x.dtype) if x.dtype.name == "bfloat16" else weight


def linear(
    x: TensorLike, weight: TensorLike, bias: TensorLike | None = None, *, dtype: DTypeLike | None = None
) -> Tensor:
    """x Wᵀ + b: a fully connected layer, with the weight stored [out, in] as PyTorch does.

    In mixed precision, x is bfloat16 and the weight float32: the product uses a bfloat16 copy of the weight, whose
    gradient is float32.  `dtype` is that of the result, by default that of x.

    Shapes: x [..., in], weight [out, in], bias [out] -> [..., out]
    Raises: ValueError for shapes that do not fit
    """
    return apply(Linear, *linear_inputs(x, weight, bias), dtype=None if dtype is None else np.dtype(dtype))


# ---- ReLU (section 3.3) ----


class Relu(Op):
    """y = max(x, 0), so that x > 0 exactly where y > 0"""

    reads = "y"  # the next layer keeps y anyway

    @staticmethod
    def forward(xp, x):
        return xp.maximum(x, 0)

    @staticmethod
    def backward(xp, g, y, x):
        return keep_where(xp, g, y > 0)


def relu(x: TensorLike) -> Tensor:
    """max(x, 0), element by element; the gradient at 0 is 0.

    NaN stays NaN, with gradient 0 (PyTorch passes the incoming gradient on): backward reads the result alone, and NaN
    is not above 0.
    """
    return apply(Relu, x)


# ---- Embedding (section 3.4) ----


class Embedding(Op):
    """y = weight[indices]

    Shapes: weight [V, D], indices int [..., T] -> y [..., T, D]
    """

    reads = "indices"

    @staticmethod
    def forward(xp, weight, indices):
        return weight[indices]

    @staticmethod
    def backward(xp, g, y, weight, indices):
        return lambda: add_rows(xp, g, indices, weight.shape), None


def embedding(indices: TensorLike, weight: TensorLike) -> Tensor:
    """The rows of `weight` at `indices`; the gradients of equal indices are added up in the order of the rows.

    Shapes: indices int [..., T], weight [V, D] -> [..., T, D]
    Raises: IndexError for an index outside 0 … V - 1 (a negative one would silently wrap around); TypeError for
    indices that are not integers.  Indices on a GPU are not checked, which would wait for the device.
    """
    (weight,) = tensors(weight=weight)
    check_indices(array_of(indices), len(weight), "embedding index")
    return apply(Embedding, weight, indices)


class AddRows(Op):
    """y[i] = Σ_j rows[j], over all j with indices[j] = i: the gradient of an embedding

    Shapes: rows [*indices.shape, ...], indices int [...] -> y `shape` [V, ...]
    """

    reads = "indices"

    @staticmethod
    def forward(xp, rows, indices, *, shape):
        """Rows of equal index are brought together by sorting, and summed in their order, the same on every run."""
        total = xp.zeros(shape, rows.dtype)
        if rows.size:
            indices = indices.reshape(-1).astype(xp.intp, copy=False) % shape[0]  # as CuPy takes any, unchecked
            order = xp.argsort(indices, kind="stable")
            indices = indices[order]
            starts = xp.flatnonzero(xp.concatenate([xp.ones(1, bool), indices[1:] != indices[:-1]]))
            total[indices[starts]] = xp.add.reduceat(rows.reshape(-1, *shape[1:])[order], starts, axis=0)
        return total

    @staticmethod
    def backward(xp, g, y, rows, indices, *, shape):
        return lambda: g[indices], None


def add_rows(xp: Any, rows: Any, indices: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of `shape` with rows[j] added to row indices[j] for every j; negative indices count from the end."""
    return evaluate(AddRows, xp, rows, indices, shape=shape)


def check_indices(indices: Any, size: int, what: str) -> None:
    """Raises: TypeError unless `indices` holds integers, IndexError unless all are in 0 … size - 1.

    On a GPU, their values are not checked.
    """
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{what} must be an integer array, found {indices.dtype}")
    if isinstance(indices, np.ndarray) and indices.size and (indices.min() < 0 or indices.max() >= size):
        raise IndexError(f"{what} must lie in 0 … {size - 1}, found {indices.min()} … {indices.max()}")


# ---- Dropout (section 5.4) ----
#
# A mask is a function of seed, step and site alone: nothing is kept for the backward pass, which draws it again.


class Dropout(Op):
    """y = x · keep / P(keep)"""

    @staticmethod
    def forward(xp, x, *, drop):
        return dropped(xp, x, drop)

    @staticmethod
    def backward(xp, g, y, x, *, drop):
        return dropped(xp, g, drop)


def dropped(xp: Any, x: Array, drop: Mask | None) -> Array:
    """x · keep / P(keep); x itself without a mask.  Shapes: x [...], the mask's -> [...]"""
    if drop is None:
        return x
    keep = xp.asarray(drop.array())
    return keep_bfloat16(x * keep * drop.scale, x)


def draw(shape: tuple[int, ...], p: float, training: bool = True) -> Mask | None:
    """The next dropout mask of `shape`; None for p = 0 or without training.  Raises: ValueError for p outside [0, 1)"""
    p = number("p", p)
    random.threshold(p)
    return random.next_mask(shape, p) if p and training else None


def dropout(x: TensorLike, p: float = 0.5, training: bool = True) -> Tensor:
    """Set each element to 0 with probability `p` and multiply the others by 1 / (1 - p) (section 5.4).

    The mask comes from `autograd.random`.  With p = 0 or `training` false, x itself is returned.

    Raises: ValueError for p outside [0, 1).
    """
    (x,) = tensors(x=x)
    drop = draw(x.shape, p, training)
    return x if drop is None else apply(Dropout, x, drop=drop)


# ---- Layer normalisation (section 3.1) ----


class LayerNorm(Op):
    """y = n · weight + bias with n = (x - mean) / √(variance + eps), over the last axis

    Shapes: x [..., D], weight [D], bias [D] -> y [..., D]
    """

    reads = "x weight"

    @staticmethod
    def forward(xp, x, weight, bias, *, eps):
        wide, dtype = widened(x)  # squares may be beyond float16
        return (normalised(xp, wide, eps)[0] * weight + bias).astype(dtype, copy=False)

    @staticmethod
    def backward(xp, g, y, x, weight, bias, *, eps):
        n, inverse_std = normalised(xp, widened(x)[0], eps)
        g_n = g * weight  # [..., D]
        g_x = inverse_std * (g_n - mean_of_rows(g_n) - n * mean_of_rows(g_n * n))
        return g_x, lambda: rows_of(g * n).sum(axis=0), lambda: rows_of(g).sum(axis=0)


def mean_of_rows(x: Array) -> Array:
    """The mean of each row.  Shapes: [..., D] -> [..., 1]"""
    return x.mean(axis=-1, keepdims=True)


@silent()
def normalised(xp: Any, x: Array, eps: float) -> tuple[Array, Array]:
    """(x - mean) / √(variance + eps) of each row, and the factor.  Shapes: x [..., D] -> [..., D], [..., 1]"""
    centred = x - mean_of_rows(x)
    variance = mean_of_rows(centred * centred)
    if x.dtype == np.float32 and not xp.isfinite(variance).all():  # squares of numbers from 1e19 on are beyond float32
        n, inverse_std = normalised(xp, x.astype(np.float64), eps)
        return n.astype(x.dtype), inverse_std.astype(x.dtype)
    inverse_std = 1 / xp.sqrt(variance + eps)
    return centred * inverse_std, inverse_std


def layer_norm(x: TensorOrArray, weight: TensorOrArray, bias: TensorOrArray, *, eps: float = 1e-6) -> Tensor:
    """Normalise the last axis to mean 0 and variance 1 (the biased variance, `eps` inside the root), scale, shift.

    Shapes: x [..., D], weight [D], bias [D] -> [..., D]
    Raises: ValueError where x has no feature, or weight or bias does not have the size of the last axis.
    Source: Ba et al. 2016; section 3.1
    """
    return apply(LayerNorm, *norm_inputs(x, weight, bias), eps=eps)


# ---- Scaled dot-product attention (section 3.2.1, equation 1) ----


class ScaledDotProductAttention(Op):
    """y = dropout(p) v with p = softmax(scale · q kᵀ + mask)

    Shapes: q [..., T, K], k [..., S, K], v [..., S, M]; mask bool [..., T, S] -> y [..., T, M]
    """

    broadcasts = True  # over the leading axes
    reads = "q k v"

    @staticmethod
    def forward(xp, q, k, v, *, mask, drop, scale):
        (q, dtype), (k, _), (v, _) = widened(q), widened(k), widened(v)  # scores may be beyond float16
        p = attention_weights(xp, q, k, mask, scale)  # [..., T, S]
        return (dropped(xp, p, drop) @ v).astype(dtype, copy=False)  # [..., T, S] @ [..., S, M] -> [..., T, M]

    @staticmethod
    def backward(xp, g, y, q, k, v, *, mask, drop, scale):
        dtypes = q.dtype, k.dtype, v.dtype
        (q, _), (k, _), (v, _), (g, _) = widened(q), widened(k), widened(v), widened(g)
        p = attention_weights(xp, q, k, mask, scale)
        g_v = dropped(xp, p, drop).swapaxes(-1, -2) @ g  # [..., S, T] @ [..., T, M] -> [..., S, M]
        g_p = dropped(xp, g @ v.swapaxes(-1, -2), drop)  # [..., T, M] @ [..., M, S] -> [..., T, S]
        g_scores = scale * softmax_gradient(g_p, p)  # of q kᵀ
        gradients = g_scores @ k, g_scores.swapaxes(-1, -2) @ q, g_v  # [..., T, K], [..., S, K], [..., S, M]
        return tuple([g.astype(dtype, copy=False) for g, dtype in zip(gradients, dtypes, strict=True)])


def attention_weights(xp: Any, q: Array, k: Array, mask: Array | None, scale: float) -> Array:
    """softmax(scale · q kᵀ + mask).  Shapes: q [..., T, K], k [..., S, K], mask bool [..., T, S] -> [..., T, S]"""
    return masked_softmax(xp, scale * (q @ k.swapaxes(-1, -2)), mask)  # [..., T, K] @ [..., K, S]


def masked_softmax(xp: Any, scores: Array, mask: Array | None) -> Array:
    """Probabilities along the last axis, 0 where `mask` is False; rows without any True become 0.

    Shapes: scores [..., T, S], mask bool broadcastable to it -> [..., T, S]
    """
    if scores.shape[-1] == 0:
        return scores
    if mask is not None:
        scores = xp.where(mask, scores, keep_bfloat16(xp.full((), -math.inf, scores.dtype), scores))
    top = constant(scores).max(axis=-1, keepdims=True)  # cancels out
    e = xp.exp(scores - xp.where(xp.isneginf(top.real), 0, top))  # -inf - (-inf) would be NaN
    total = e.sum(axis=-1, keepdims=True)
    return e / xp.where(total == 0, 1, total)


def softmax_gradient(g_p: Array, p: Array) -> Array:
    """g_scores = p · (g_p - Σ g_p · p), along the last axis.  Shapes: g_p [..., S], p [..., S] -> [..., S]"""
    return p * (g_p - (g_p * p).sum(axis=-1, keepdims=True))


def scaled_dot_product_attention(
    query: TensorLike, key: TensorLike, value: TensorLike, mask: TensorLike | None = None, *,
    is_causal: bool = False, dropout: float = 0.0, scale: float | None = None,
) -> Tensor:  # fmt: skip
    """softmax(scale · query keyᵀ) value, over the keys that `mask` allows.

    `mask` is boolean, True means *may attend*; `is_causal` allows key j for query i where j ≤ i, and can be combined
    with a mask.  The result of a query that may attend to nothing is 0, and so are its gradients.  `scale` is 1/√K by
    default; `dropout` is the probability of dropping an attention weight.

    Shapes: query [..., T, K], key [..., S, K], value [..., S, M], mask bool broadcastable to [..., T, S] -> [..., T, M]
    Raises: TypeError for a mask that is not boolean, ValueError for shapes that do not fit or for a dropout outside
    [0, 1).
    Source: section 3.2.1, equation 1
    """
    query, key, value, scale = as_attention_inputs(query, key, value, scale)
    if not query.dtype == key.dtype == value.dtype:
        dtype = np.result_type(query.dtype, key.dtype, value.dtype)
        query, key, value = (x.astype(dtype) for x in (query, key, value))
    scores = *leading_shape(query, key, value), query.shape[-2], key.shape[-2]
    mask = allowed(query, scores, mask, is_causal)
    return apply(ScaledDotProductAttention, query, key, value, mask=mask, drop=draw(scores, dropout), scale=scale)


def allowed(query: Tensor, scores: tuple[int, ...], mask: Any, is_causal: bool) -> Any:
    """The mask combined with the causal one, as an array.  Shapes: -> bool broadcastable to [..., T, S], or None"""
    mask = mask_array(query, mask, scores, "[..., T, S]")
    if is_causal:
        causal = backend_of([query.data]).causal_mask(*scores[-2:])
        mask = causal if mask is None else mask & causal
    return mask


# ---- Cross-entropy with label smoothing (section 5.4) ----


class CrossEntropy(Op):
    """loss = -Σ_k q_k log softmax(logits)_k, with q = (1 - ε) · one-hot + ε / V; and the loss for ε = 0

    Shapes: logits [N, V]; targets int [N], counted bool [N] -> loss [] or [N], negative log-likelihood likewise
    """

    reads = "logits"

    @staticmethod
    def forward(xp, logits, *, targets, counted, label_smoothing, reduction):
        top = logits.max(axis=1)
        log_total = top + xp.log(xp.exp(logits - top[:, None]).sum(axis=1))  # ln Σ exp(logits)
        nll = log_total - logits[xp.arange(len(targets)), xp.where(counted, targets, 0)]
        loss = nll
        if label_smoothing:
            loss = (1 - label_smoothing) * nll + label_smoothing * (log_total - logits.mean(axis=1))
        losses = xp.where(counted, loss, 0), xp.where(counted, nll, 0)
        return losses if reduction == "none" else tuple([reduced(each, counted, reduction) for each in losses])

    @staticmethod
    def backward(xp, g, y, logits, *, targets, counted, label_smoothing, reduction):
        g_loss, _ = g  # the negative log-likelihood is given without a gradient
        logits = xp.where(counted[:, None], logits, 0)  # ignored rows may be infinite or NaN
        e = xp.exp(logits - constant(logits).max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)  # [N, V]
        one_hot = targets[:, None] == xp.arange(logits.shape[1])
        g_logits = p - (1 - label_smoothing) * one_hot.astype(p.dtype) - label_smoothing / logits.shape[1]
        g_rows = g_loss[:, None] if reduction == "none" else of_each(g_loss, counted, reduction)
        return xp.where(counted[:, None], g_rows * g_logits, 0)


def reduced(losses: Array, counted: Array, reduction: str) -> Array:
    """The sum of the losses of rows, or their mean.  Shapes: losses [..., N] -> [...]"""
    wide, dtype = widened(losses)  # the sum, and the number of rows, may be beyond float16
    total = wide.sum(axis=-1) if reduction == "sum" else wide.sum(axis=-1) / divisor(counted)
    # Each call of a NumPy scalar's astype looks it up by a new string, of which CPython keeps hundreds
    return total if total.dtype == dtype else total.astype(dtype)


def of_each(g_loss: Array, counted: Array, reduction: str) -> Array:
    """The gradient of each row's loss, given that of their sum or mean."""
    wide, dtype = widened(g_loss)
    g_each = wide if reduction == "sum" else wide / divisor(counted)
    return g_each if g_each.dtype == dtype else g_each.astype(dtype)


def divisor(counted: Array) -> int:
    """The number of rows that a mean is over: at least 1, as a mean over no row is 0, and not NaN."""
    return max(int(counted.sum()), 1)


Reduction = Literal["mean", "sum", "none"]


def cross_entropy(
    logits: TensorLike, targets: TensorLike, *, label_smoothing: float = 0.0, ignore_index: int = -100,
    reduction: Reduction = "mean", with_nll: bool = False,
) -> Tensor:  # fmt: skip
    """Cross-entropy of integer targets under softmax(logits), with label smoothing (section 5.4).

    The target distribution gives 1 - ε to the target and spreads ε over all V classes, the target included
    (Szegedy et al. 2016, which the paper cites; PyTorch's definition, too).  Rows whose target is `ignore_index` are
    left out; a "mean" over no row is 0.

    With `with_nll`, returns (loss, nll): nll is the negative log-likelihood without smoothing, from which perplexity is
    computed; it carries no gradient.

    Shapes: logits [..., V], targets int [...] -> [] ("mean", "sum") or [...] ("none")
    Raises: ValueError for shapes that do not match, an unknown reduction or ε outside [0, 1]; IndexError for a target
    outside 0 … V - 1, TypeError for targets that are not integers.
    """
    (logits,) = tensors(logits=logits)
    if not logits.ndim:
        raise ValueError("logits need a last axis, the classes; found a single number")
    settings = labels_of_rows(logits, targets, logits.shape[-1], ignore_index, label_smoothing, reduction)
    return loss_of_rows(CrossEntropy, logits, with_nll=with_nll, **settings)


def loss_of_rows(op_class: type[Op], x: Tensor, *others: Any, with_nll: bool, **settings: Any) -> Any:
    """The loss of an op that takes rows, of x [..., D], with the shape that `reduction` asks for."""
    losses: Any = apply(op_class, x if x.ndim == 2 else rows_of(x), *others, **settings)
    if settings["reduction"] == "none" and x.ndim != 2:
        losses = [each.reshape(x.shape[:-1]) for each in losses]
    loss, nll = losses
    return (loss, nll.detach()) if with_nll else loss


def labels_of_rows(
    x: Any, targets: Any, classes: int, ignore_index: int, label_smoothing: float, reduction: str
) -> dict[str, Any]:
    """The parameters of the loss of the rows of x: targets, and which of them count, on the device of x.

    Shapes: -> int [N], bool [N]
    """
    targets, label_smoothing = array_of(targets), number("label_smoothing", label_smoothing)
    if targets.shape != tuple(x.shape[:-1]):
        raise ValueError(f"targets of shape {targets.shape} do not match logits of shape {(*x.shape[:-1], classes)}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction={reduction!r} is not one of 'mean', 'sum', 'none'")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing={label_smoothing} is outside [0, 1]")
    targets = targets.reshape(-1)
    counted = targets != ignore_index
    # on a GPU, the check would wait for the device; there, a target outside gives NaN
    if isinstance(targets, np.ndarray):
        check_indices(targets[counted], classes, "cross_entropy target")
    backend = backend_of([x.data])
    rows = {"targets": backend.asarray(targets), "counted": backend.asarray(counted)}
    return {**rows, "label_smoothing": label_smoothing, "reduction": reduction}
