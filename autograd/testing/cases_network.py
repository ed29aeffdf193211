"""Cases of the ops that networks are made of: products, attention, normalisation, dropout, lookups, the loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import autograd as ag
from autograd import random
from autograd.testing import draw
from autograd.testing.case import Example, register

# ---- Products ----

MATMUL_SHAPES = {
    "matrices": ("MK", "KN"),
    "batch and matrix": ("BMK", "KN"),
    "matrix and batch": ("MK", "BKN"),
    "batches": ("BMK", "BKN"),
    "batches, broadcast": ("B1MK", "CKN"),
    "batches of size 1": ("1MK", "BKN"),
    "vectors": ("K", "K"),
    "vector and matrix": ("K", "KN"),
    "matrix and vector": ("MK", "K"),
    "batch and vector": ("BMK", "K"),
    "vector and batch": ("K", "BKN"),
}


def _sizes(rng: draw.Rng) -> dict[str, int]:
    return {"1": 1, **{letter: int(rng.integers(1, 5)) for letter in "BCMKNTSVDHQ"}}


def _register_matmul(name: str, left: str, right: str) -> None:
    @register("Matmul", name)
    def matmul(rng):
        sizes = _sizes(rng)
        return Example(ag.matmul, [draw.uniform(rng, tuple([sizes[x] for x in term])) for term in (left, right)])


for _name, (_left, _right) in MATMUL_SHAPES.items():
    _register_matmul(_name, _left, _right)


@register("Matmul", "a matrix with itself")
def _(rng):
    return Example(lambda x: x @ x + x.T @ x, [draw.uniform(rng, (3, 3))])


@register("Matmul", "over no element")
def _(rng):
    return Example(ag.matmul, [draw.uniform(rng, (2, 0)), draw.uniform(rng, (0, 3))])


@register("Matmul", "oracle: einsum")
def _(rng):
    return Example(
        ag.matmul, [draw.uniform(rng, (2, 3, 4)), draw.uniform(rng, (2, 4, 2))],
        lambda a, b: ag.sum(a[:, :, :, None] * b[:, None, :, :], 2),
    )  # fmt: skip


@register("Linear", "with bias")
def _(rng):
    x = draw.shape(rng, min_ndim=1)
    out = int(rng.integers(1, 5))
    arrays = [draw.uniform(rng, x), draw.uniform(rng, (out, x[-1])), draw.uniform(rng, (out,))]
    return Example(ag.linear, arrays, lambda x, weight, bias: x @ weight.T + bias)


@register("Linear", "without bias")
def _(rng):
    x = draw.shape(rng, min_ndim=1)
    arrays = [draw.uniform(rng, x), draw.uniform(rng, (int(rng.integers(1, 5)), x[-1]))]
    return Example(ag.linear, arrays, lambda x, weight: x @ weight.T)


@register("Linear", "weight used twice")
def _(rng):
    arrays = [draw.uniform(rng, (2, 3)), draw.uniform(rng, (3, 3)), draw.uniform(rng, (3,))]
    return Example(lambda x, w, b: ag.linear(ag.tanh(ag.linear(x, w, b)), w, b), arrays)


@register("Linear", "no rows")
def _(rng):
    return Example(ag.linear, [draw.uniform(rng, (0, 3)), draw.uniform(rng, (2, 3)), draw.uniform(rng, (2,))])


EINSUMS = [
    "MK,KN->MN",
    "BMK,BNK->BMN",
    "BHTK,BHSK->BHTS",
    "MK,NK",
    "K,K->",
    "MN->NM",
    "MN->M",
    "MN->",
    "MM->M",
    "MM",
    "MMK,K->MK",
    "MK,KN,NT->MT",
    "MK,MK->MK",
    "...MK,...KN->...MN",
]


@register("Einsum", "many subscripts")
def _(rng):
    subscripts = EINSUMS[rng.integers(len(EINSUMS))]
    sizes = _sizes(rng)
    terms = subscripts.split("->")[0].split(",")
    leading = [(2, 1), (3,)]
    shapes = [
        (*(leading[i] if "..." in term else ()), *[sizes[x] for x in term.replace("...", "")])
        for i, term in enumerate(terms)
    ]
    return Example(lambda *arrays: ag.einsum(subscripts, *arrays), [draw.uniform(rng, shape) for shape in shapes])


@register("Einsum", "axes of size 1 against others")
def _(rng):
    return Example(
        lambda a, b: ag.einsum("ij,ij->i", a, b), [draw.uniform(rng, (3, 1)), draw.uniform(rng, (3, 4))],
        lambda a, b: ag.sum(a * b, 1),
    )  # fmt: skip


@register("Einsum", "oracle: attention scores")
def _(rng):
    return Example(
        lambda q, k: ag.einsum("bqd,bkd->bqk", q, k), [draw.uniform(rng, (2, 3, 4)), draw.uniform(rng, (2, 2, 4))],
        lambda q, k: q @ k.swapaxes(-1, -2),
    )  # fmt: skip


# ---- Lookups and normalisation ----


@register("Embedding", "indices that repeat")
def _(rng):
    rows = int(rng.integers(1, 5))
    where = draw.indices(rng, draw.shape(rng, max_ndim=2), rows)
    scale = float(rng.choice([1.0, 2.5]))
    return Example(
        lambda weight: ag.embedding(where, weight, scale=scale), [draw.uniform(rng, (rows, int(rng.integers(1, 4))))],
        lambda weight: ag.matmul(np.eye(rows)[where], weight) * scale,
    )  # fmt: skip


@register("Embedding", "no index")
def _(rng):
    return Example(lambda weight: ag.embedding(np.zeros((2, 0), int), weight, scale=2.0), [draw.uniform(rng, (3, 2))])


@register("Embedding", "with positions, any batch")
def _(rng):
    t, width = (int(n) for n in rng.integers(1, 4, 2))
    where = draw.indices(rng, (*draw.shape(rng, max_ndim=2), t), 3)
    return Example(
        lambda weight, positions: ag.embedding(where, weight, scale=1.5, positions=positions),
        [draw.uniform(rng, (3, width)), draw.uniform(rng, (t, width))],
        lambda weight, positions: ag.matmul(np.eye(3)[where], weight) * 1.5 + positions,
    )


@register("Embedding", "with positions and a fixed dropout mask")
def _(rng):
    where, p = draw.indices(rng, (2, 3), 4), float(rng.uniform(0.2, 0.6))
    state = rng.bit_generator.state
    function = _same_masks(
        rng, lambda weight, positions: ag.embedding(where, weight, scale=0.5, positions=positions, p=p)
    )
    rng.bit_generator.state = state
    plain = _same_masks(
        rng, lambda weight, positions: _plain_dropout(ag.matmul(np.eye(4)[where], weight) * 0.5 + positions, p)
    )
    return Example(function, [draw.uniform(rng, (4, 2)), draw.uniform(rng, (3, 2))], plain)


@register("Embedding", "matrix used again as a projection")
def _(rng):
    where = draw.indices(rng, (2, 3), 4)
    return Example(lambda w: ag.linear(ag.embedding(where, w, scale=1.5), w), [draw.uniform(rng, (4, 3))])


def _register_embedding_with_positions(name: str, p: float) -> None:
    @register("Embedding", name)
    def embedding_with_positions(rng):
        where = draw.indices(rng, (2, 3), 4)
        state = rng.bit_generator.state
        function = _same_masks(rng, lambda w, rows: ag.embedding(where, w, scale=1.5, positions=rows, p=p))
        rng.bit_generator.state = state

        def composed(weight, rows):
            y = ag.matmul(np.eye(4)[where], weight) * 1.5 + rows
            return _plain_dropout(y, p) if p else y

        plain = _same_masks(rng, composed)
        return Example(function, [draw.uniform(rng, (4, 5)), draw.uniform(rng, (3, 5))], plain)


_register_embedding_with_positions("positions", 0.0)
_register_embedding_with_positions("positions and dropout", 0.4)


def _plain_layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-6) -> Any:
    centred = x - ag.mean(x, -1, keepdims=True)
    variance = ag.mean(centred * centred, -1, keepdims=True)
    return centred / ag.sqrt(variance + eps) * weight + bias


def _spread(rng: draw.Rng, shape: draw.Shape) -> np.ndarray:
    """Rows whose numbers are at least 0.4 apart: with nearly no variance, layer norm is nearly a step."""
    rows = draw.distinct(rng, (shape[-1],))[0] * (0.6 / draw.GAP)
    return draw.relayout(rng, rows + rng.uniform(-0.1, 0.1, shape))


@register("LayerNorm", "any shape")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, min_side=2)
    arrays = [_spread(rng, shape), draw.uniform(rng, shape[-1:]), draw.uniform(rng, shape[-1:])]
    return Example(ag.layer_norm, arrays, _plain_layer_norm)


@register("LayerNorm", "a large eps")
def _(rng):
    arrays = [draw.uniform(rng, (3, 4)), draw.uniform(rng, (4,)), draw.uniform(rng, (4,))]
    return Example(
        lambda x, w, b: ag.layer_norm(x, w, b, eps=0.5), arrays, lambda x, w, b: _plain_layer_norm(x, w, b, 0.5)
    )


@register("LayerNorm", "no rows")
def _(rng):
    return Example(ag.layer_norm, [draw.uniform(rng, (0, 3)), draw.uniform(rng, (3,)), draw.uniform(rng, (3,))])


def _same_masks(rng: draw.Rng, function: Callable) -> Callable:
    """The function with the random numbers of one fixed state at every call."""
    state = int(rng.integers(2**32)), int(rng.integers(100)), int(rng.integers(10))

    def fixed(*tensors: Any) -> Any:
        random.set_state(state)
        return function(*tensors)

    return fixed


def _plain_dropout(x: Any, p: float) -> Any:
    keep, scale = random.keep_mask(x.shape, p)
    return x * (keep * scale)


@register("Dropout", "a fixed mask")
def _(rng):
    p = float(rng.uniform(0.1, 0.8))
    state = rng.bit_generator.state
    function = _same_masks(rng, lambda x: ag.dropout(x, p))
    rng.bit_generator.state = state
    plain = _same_masks(rng, lambda x: _plain_dropout(x, p))
    return Example(function, [draw.uniform(rng, draw.shape(rng))], plain)


@register("Dropout", "two masks in a row")
def _(rng):
    function = _same_masks(rng, lambda x: ag.dropout(ag.dropout(x, 0.3) * x, 0.5))
    return Example(function, [draw.uniform(rng, (3, 4))])


def _register_dropout_add_layer_norm(name: str, largest_p: float) -> None:
    @register("DropoutAddLayerNorm", name)
    def dropout_add_layer_norm(rng):
        p = largest_p * float(rng.uniform(0.3, 1))
        state = rng.bit_generator.state
        function = _same_masks(rng, lambda *tensors: ag.dropout_add_layer_norm(*tensors, p=p))
        rng.bit_generator.state = state
        plain = _same_masks(rng, lambda x, r, w, b: _plain_layer_norm(r + (_plain_dropout(x, p) if p else x), w, b))
        shape = draw.shape(rng, min_ndim=1, min_side=2)
        x = draw.uniform(rng, shape, -0.05, 0.05)  # small beside the residual, so that the sum keeps its variance
        return Example(function, [x, _spread(rng, shape), *[draw.uniform(rng, shape[-1:]) for _ in "wb"]], plain)


_register_dropout_add_layer_norm("a fixed mask", 0.6)
_register_dropout_add_layer_norm("no dropout", 0.0)


# ---- Attention ----


def _plain_attention(q: Any, k: Any, v: Any, mask: Any = None, dropout: float = 0.0, scale: Any = None) -> Any:
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is None:
        weights = ag.exp(scores)
    else:
        weights = ag.exp(scores) * mask
    total = ag.sum(weights, -1, keepdims=True)
    p = weights / ag.where(total.data == 0, 1, total)
    return (_plain_dropout(p, dropout) if dropout else p) @ v


def _qkv(rng: draw.Rng, leading: draw.Shape | None = None) -> list[np.ndarray]:
    """Query [..., T, K], key [..., S, K], value [..., S, M]."""
    if leading is None:
        leading = draw.shape(rng, max_ndim=2, max_side=2)
    t, s, k, m = rng.integers(1, 4, 4).tolist()
    return [draw.uniform(rng, (*leading, *rest)) for rest in ((t, k), (s, k), (s, m))]


@register("ScaledDotProductAttention", "no mask")
def _(rng):
    return Example(ag.scaled_dot_product_attention, _qkv(rng), _plain_attention)


@register("ScaledDotProductAttention", "a mask, with rows that see nothing")
def _(rng):
    arrays = _qkv(rng)
    q, k, _ = arrays
    mask = draw.attention_mask(rng, (*draw.shrunk(rng, q.shape[:-2]), q.shape[-2], k.shape[-2]))
    return Example(
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, mask), arrays,
        lambda q, k, v: _plain_attention(q, k, v, mask),
    )  # fmt: skip


@register("ScaledDotProductAttention", "causal, with padded keys")
def _(rng):
    t = int(rng.integers(2, 5))
    arrays = [draw.uniform(rng, (2, 1, t, width)) for width in (3, 3, 2)]
    padding = np.arange(t) < rng.integers(0, t, (2, 1, 1, 1), endpoint=True)
    causal = padding & np.tri(t, dtype=bool)
    return Example(
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, padding, is_causal=True), arrays,
        lambda q, k, v: _plain_attention(q, k, v, causal),
    )  # fmt: skip


@register("ScaledDotProductAttention", "dropout with a fixed mask")
def _(rng):
    state = rng.bit_generator.state
    function = _same_masks(rng, lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, dropout=0.4))
    rng.bit_generator.state = state
    plain = _same_masks(rng, lambda q, k, v: _plain_attention(q, k, v, dropout=0.4))
    return Example(function, _qkv(rng), plain)


@register("ScaledDotProductAttention", "a scale, self-attention")
def _(rng):
    return Example(
        lambda x: ag.scaled_dot_product_attention(x, x, x, scale=0.7), [draw.uniform(rng, (2, 3, 2))],
        lambda x: _plain_attention(x, x, x, scale=0.7),
    )  # fmt: skip


@register("ScaledDotProductAttention", "keys and values shared by a batch")
def _(rng):
    arrays = [draw.uniform(rng, (2, 3, 2)), draw.uniform(rng, (1, 2, 2)), draw.uniform(rng, (2, 3))]
    return Example(ag.scaled_dot_product_attention, arrays, _plain_attention)


@register("ScaledDotProductAttention", "no query, no key")
def _(rng):
    q, k, v = (int(n) for n in rng.permutation([0, 2, 2]))
    return Example(
        ag.scaled_dot_product_attention,
        [draw.uniform(rng, (2, q, 3)), draw.uniform(rng, (2, k, 3)), draw.uniform(rng, (2, k, v))],
    )


# ---- The loss ----


def _plain_cross_entropy(logits: Any, targets: Any, label_smoothing: float, ignored: Any, reduction: str) -> Any:
    classes = logits.shape[-1]
    wanted = np.eye(classes)[np.where(ignored, 0, targets)] * (1 - label_smoothing) + label_smoothing / classes
    losses = -ag.sum(ag.log_softmax(logits) * (wanted * ~ignored[..., None]), -1)
    if reduction == "none":
        return losses
    return ag.sum(losses) / (max(int((~ignored).sum()), 1) if reduction == "mean" else 1)


def _register_cross_entropy(
    name: str, reduction: str, smoothing: float, ignore: float, overwrite: bool = False
) -> None:
    @register("CrossEntropy", name)
    def cross_entropy(rng):
        shape = (*draw.shape(rng, max_ndim=2), int(rng.integers(1, 6)))
        targets = draw.indices(rng, shape[:-1], shape[-1])
        ignored = np.asarray(rng.random(shape[:-1]) < ignore)
        targets = np.where(ignored, -100, targets)

        def function(logits):
            logits = logits * 1 if overwrite else logits  # what is overwritten must not be the input itself
            return ag.cross_entropy(
                logits, targets, label_smoothing=smoothing, reduction=reduction, overwrite_logits=overwrite
            )

        def plain(logits):
            return _plain_cross_entropy(logits, targets, smoothing, ignored, reduction)

        return Example(function, [draw.uniform(rng, shape)], plain)


_register_cross_entropy("mean", "mean", 0.0, 0.0)
_register_cross_entropy("sum, smoothed", "sum", 0.1, 0.0)
_register_cross_entropy("each, smoothed, some ignored", "none", 0.2, 0.4)
_register_cross_entropy("mean, smoothed, some ignored", "mean", 0.1, 0.4)
_register_cross_entropy("mean, all ignored", "mean", 0.1, 1.1)
_register_cross_entropy("sum, logits overwritten", "sum", 0.1, 0.3, overwrite=True)


@register("CrossEntropy", "no rows")
def _(rng):
    return Example(lambda x: ag.cross_entropy(x, np.zeros(0, int)), [draw.uniform(rng, (0, 3))])


@register("CrossEntropy", "large logits")
def _(rng):
    targets = draw.indices(rng, (3,), 4)
    return Example(
        lambda x: ag.cross_entropy(x, targets), [draw.uniform(rng, (3, 4)) + 1000],
        lambda x: _plain_cross_entropy(x - 1000, targets, 0.0, np.zeros(3, bool), "mean"),
    )  # fmt: skip
