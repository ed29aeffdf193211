"""Cases of autograd/ops/nn.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd as ag
from autograd.testing import draw, register
from tests.cases.example import Example, torch
from tests.cases.masks import plain_dropout, same_masks

# ---- Lookups ----


def _torch_embedding(weight: Any, indices: np.ndarray, scale: float, positions: Any = 0) -> Any:
    return torch.nn.functional.embedding(torch.tensor(indices, dtype=torch.int64), weight) * scale + positions


@register("ScaledEmbedding", "indices that repeat")
def _(rng):
    rows = int(rng.integers(1, 5))
    where = draw.indices(rng, draw.shape(rng, max_ndim=2), rows)
    scale = float(rng.choice([1.0, 2.5]))
    return Example(
        lambda weight: ag.fast.scaled_embedding(where, weight, scale=scale),
        [draw.uniform(rng, (rows, int(rng.integers(1, 4))))],
        lambda weight: ag.matmul(np.eye(rows)[where], weight) * scale,
        lambda weight: _torch_embedding(weight, where, scale),
    )  # fmt: skip


@register("ScaledEmbedding", "no index")
def _(rng):
    nothing = np.zeros((2, 0), int)
    return Example(
        lambda weight: ag.fast.scaled_embedding(nothing, weight, scale=2.0), [draw.uniform(rng, (3, 2))],
        torch=lambda weight: _torch_embedding(weight, nothing, 2.0),
    )  # fmt: skip


@register("ScaledEmbedding", "with positions, any batch")
def _(rng):
    t, width = (int(n) for n in rng.integers(1, 4, 2))
    where = draw.indices(rng, (*draw.shape(rng, max_ndim=2), t), 3)
    return Example(
        lambda weight, positions: ag.fast.scaled_embedding(where, weight, scale=1.5, positions=positions),
        [draw.uniform(rng, (3, width)), draw.uniform(rng, (t, width))],
        lambda weight, positions: ag.matmul(np.eye(3)[where], weight) * 1.5 + positions,
        lambda weight, positions: _torch_embedding(weight, where, 1.5, positions),
    )


@register("ScaledEmbedding", "with positions and a fixed dropout mask")
def _(rng):
    where, p = draw.indices(rng, (2, 3), 4), float(rng.uniform(0.2, 0.6))
    function, plain = same_masks(
        rng,
        lambda weight, positions: ag.fast.scaled_embedding(where, weight, scale=0.5, positions=positions, p=p),
        lambda weight, positions: plain_dropout(ag.matmul(np.eye(4)[where], weight) * 0.5 + positions, p),
    )
    return Example(function, [draw.uniform(rng, (4, 2)), draw.uniform(rng, (3, 2))], plain)


@register("ScaledEmbedding", "matrix used again as a projection")
def _(rng):
    where = draw.indices(rng, (2, 3), 4)
    return Example(
        lambda w: ag.linear(ag.fast.scaled_embedding(where, w, scale=1.5), w), [draw.uniform(rng, (4, 3))],
        torch=lambda w: _torch_embedding(w, where, 1.5) @ w.T,
    )  # fmt: skip


def _embedding_with_positions(name: str, p: float) -> None:
    @register("ScaledEmbedding", name)
    def embedding_with_positions(rng):
        where = draw.indices(rng, (2, 3), 4)
        function, plain = same_masks(
            rng,
            lambda w, rows: ag.fast.scaled_embedding(where, w, scale=1.5, positions=rows, p=p),
            lambda w, rows: plain_dropout(ag.matmul(np.eye(4)[where], w) * 1.5 + rows, p),
        )
        peer = None if p else lambda w, rows: _torch_embedding(w, where, 1.5, rows)
        return Example(function, [draw.uniform(rng, (4, 5)), draw.uniform(rng, (3, 5))], plain, peer)


_embedding_with_positions("positions", 0.0)
_embedding_with_positions("positions and dropout", 0.4)


@register("Embedding", "rows at indices that repeat")
def _(rng):
    rows = int(rng.integers(1, 5))
    where = draw.indices(rng, draw.shape(rng, max_ndim=2), rows)
    return Example(
        lambda weight: ag.embedding(where, weight), [draw.uniform(rng, (rows, int(rng.integers(1, 4))))],
        lambda weight: ag.matmul(np.eye(rows)[where], weight),
        lambda weight: _torch_embedding(weight, where, 1.0),
    )  # fmt: skip


# ---- Dropout and normalisation ----


@register("Dropout", "a fixed mask")
def _(rng):
    p = float(rng.uniform(0.1, 0.8))
    function, plain = same_masks(rng, lambda x: ag.dropout(x, p), lambda x: plain_dropout(x, p))
    return Example(function, [draw.uniform(rng, draw.shape(rng))], plain)


@register("Dropout", "two masks in a row")
def _(rng):
    (function,) = same_masks(rng, lambda x: ag.dropout(ag.dropout(x, 0.3) * x, 0.5))
    return Example(function, [draw.uniform(rng, (3, 4))])


def _plain_layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-6) -> Any:
    centred = x - ag.mean(x, -1, keepdims=True)
    variance = ag.mean(centred * centred, -1, keepdims=True)
    return centred / ag.sqrt(variance + eps) * weight + bias


def _torch_layer_norm(x: Any, weight: Any, bias: Any, eps: float = 1e-6) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _spread(rng: draw.Rng, shape: draw.Shape) -> np.ndarray:
    """Rows whose numbers are at least 0.4 apart: with nearly no variance, layer norm is nearly a step."""
    rows = draw.distinct(rng, (shape[-1],))[0] * (0.6 / draw.GAP)
    return draw.relayout(rng, rows + rng.uniform(-0.1, 0.1, shape))


@register("LayerNorm", "any shape")
def _(rng):
    shape = draw.shape(rng, min_ndim=1, min_side=2)
    arrays = [_spread(rng, shape), draw.uniform(rng, shape[-1:]), draw.uniform(rng, shape[-1:])]
    return Example(ag.layer_norm, arrays, _plain_layer_norm, _torch_layer_norm)


@register("LayerNorm", "a large eps")
def _(rng):
    arrays = [draw.uniform(rng, (3, 4)), draw.uniform(rng, (4,)), draw.uniform(rng, (4,))]
    return Example(
        lambda x, w, b: ag.layer_norm(x, w, b, eps=0.5), arrays,
        lambda x, w, b: _plain_layer_norm(x, w, b, 0.5), lambda x, w, b: _torch_layer_norm(x, w, b, 0.5),
    )  # fmt: skip


@register("LayerNorm", "no rows")
def _(rng):
    arrays = [draw.uniform(rng, (0, 3)), draw.uniform(rng, (3,)), draw.uniform(rng, (3,))]
    return Example(ag.layer_norm, arrays, torch=_torch_layer_norm)


def _dropout_add_layer_norm(name: str, largest_p: float) -> None:
    @register("DropoutAddLayerNorm", name)
    def dropout_add_layer_norm(rng):
        p = largest_p * float(rng.uniform(0.3, 1))
        function, plain = same_masks(
            rng,
            lambda *tensors: ag.fast.dropout_add_layer_norm(*tensors, p=p),
            lambda x, r, w, b: _plain_layer_norm(r + plain_dropout(x, p), w, b),
        )
        shape = draw.shape(rng, min_ndim=1, min_side=2)
        x = draw.uniform(rng, shape, -0.05, 0.05)  # small beside the residual, so that the sum keeps its variance
        arrays = [x, _spread(rng, shape), *[draw.uniform(rng, shape[-1:]) for _ in "wb"]]
        peer = None if p else lambda x, residual, w, b: _torch_layer_norm(x + residual, w, b)
        return Example(function, arrays, plain, peer)


_dropout_add_layer_norm("a fixed mask", 0.6)
_dropout_add_layer_norm("no dropout", 0.0)
