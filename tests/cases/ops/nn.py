"""Cases of autograd/ops/nn.py."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch
from tests.cases.families import one_input
from tests.cases.masks import plain_dropout, same_masks

one_input("Relu", ag.relu, lambda x: torch.relu(x), draw.away_from)

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


# ---- Losses ----


def _plain_cross_entropy(logits: Any, targets: Any, label_smoothing: float, ignored: Any, reduction: str) -> Any:
    classes = logits.shape[-1]
    wanted = np.eye(classes)[np.where(ignored, 0, targets)] * (1 - label_smoothing) + label_smoothing / classes
    losses = -ag.sum(ag.log_softmax(logits) * (wanted * ~ignored[..., None]), -1)
    if reduction == "none":
        return losses
    return ag.sum(losses) / (max(int((~ignored).sum()), 1) if reduction == "mean" else 1)


def _torch_cross_entropy(logits: Any, targets: Any, label_smoothing: float, reduction: str) -> Any:
    losses = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), torch.tensor(targets.reshape(-1), dtype=torch.int64),
        label_smoothing=label_smoothing, reduction="none",
    )  # fmt: skip
    if reduction == "none":
        return losses.reshape(targets.shape)
    # a mean over no target is NaN in PyTorch, 0 here
    return losses.sum() / (max(int((targets != -100).sum()), 1) if reduction == "mean" else 1)


def _cross_entropy(name: str, reduction: str, smoothing: float, ignore: float) -> None:
    @register("CrossEntropy", name)
    def cross_entropy(rng):
        shape = (*draw.shape(rng, max_ndim=2), int(rng.integers(1, 6)))
        targets = draw.indices(rng, shape[:-1], shape[-1])
        ignored = np.asarray(rng.random(shape[:-1]) < ignore)
        targets = np.where(ignored, -100, targets)

        def function(logits):
            return ag.cross_entropy(logits, targets, label_smoothing=smoothing, reduction=cast(Any, reduction))

        return Example(
            function, [draw.uniform(rng, shape)],
            lambda logits: _plain_cross_entropy(logits, targets, smoothing, ignored, reduction),
            lambda logits: _torch_cross_entropy(logits, targets, smoothing, reduction),
        )  # fmt: skip


_cross_entropy("mean", "mean", 0.0, 0.0)
_cross_entropy("sum, smoothed", "sum", 0.1, 0.0)
_cross_entropy("each, smoothed, some ignored", "none", 0.2, 0.4)
_cross_entropy("mean, smoothed, some ignored", "mean", 0.1, 0.4)
_cross_entropy("mean, all ignored", "mean", 0.1, 1.1)


@register("CrossEntropy", "no rows")
def _(rng):
    return Example(lambda x: ag.cross_entropy(x, np.zeros(0, int)), [draw.uniform(rng, (0, 3))])


@register("CrossEntropy", "large logits")
def _(rng):
    targets = draw.indices(rng, (3,), 4)
    return Example(
        lambda x: ag.cross_entropy(x, targets), [draw.uniform(rng, (3, 4)) + 1000],
        lambda x: _plain_cross_entropy(x - 1000, targets, 0.0, np.zeros(3, bool), "mean"),
        lambda x: _torch_cross_entropy(x, targets, 0.0, "mean"),
    )  # fmt: skip


def _linear_cross_entropy(
    name: str, reduction: str, smoothing: float, ignore: float, rows: int | None, with_bias: bool = False, mask: int = 0
) -> None:
    @register("LinearCrossEntropy", name)
    def linear_cross_entropy(rng):
        shape, classes, width = draw.shape(rng, max_ndim=2), int(rng.integers(2, 6)) + mask, int(rng.integers(1, 4))
        masked = np.arange(classes) % 3 == 1 if mask else np.zeros(classes, bool)
        ignored = np.asarray(rng.random(shape) < ignore)
        allowed = np.flatnonzero(~masked)
        targets = np.where(ignored, -100, allowed[draw.indices(rng, shape, len(allowed))])
        settings: dict[str, Any] = {"label_smoothing": smoothing, "reduction": reduction}
        arrays = [draw.uniform(rng, (*shape, width)), draw.uniform(rng, (classes, width))]
        arrays += [draw.uniform(rng, (classes,))] if with_bias else []

        def function(x, weight, bias=None):
            mask_or_none = masked if mask else None
            return ag.fast.linear_cross_entropy(x, weight, targets, bias, masked=mask_or_none, rows=rows, **settings)

        number = np.where(ignored, -100, np.cumsum(~masked)[np.where(ignored, 0, targets)] - 1)

        def plain(x, weight, bias=None):
            logits = ag.linear(x, weight, bias)[..., allowed]
            return _plain_cross_entropy(logits, number, smoothing, ignored, reduction)

        def in_torch(x, weight, bias=None):
            logits = torch.nn.functional.linear(x, weight, bias)[..., torch.tensor(allowed)]
            return _torch_cross_entropy(logits, number, smoothing, reduction)

        return Example(function, arrays, plain, in_torch)


_linear_cross_entropy("mean, all rows at once", "mean", 0.0, 0.0, None)
_linear_cross_entropy("sum, smoothed, a row at a time", "sum", 0.1, 0.0, 1)
_linear_cross_entropy("mean, bias, some ignored, two rows at a time", "mean", 0.1, 0.4, 2, with_bias=True)
_linear_cross_entropy("each, bias, some ignored, two rows at a time", "none", 0.2, 0.4, 2, with_bias=True)
_linear_cross_entropy("mean, all ignored", "mean", 0.1, 1.1, 1)
_linear_cross_entropy("sum, masked classes, bias", "sum", 0.1, 0.3, 2, with_bias=True, mask=2)
_linear_cross_entropy("each, masked classes", "none", 0.1, 0.3, None, mask=3)


@register("LinearCrossEntropy", "a weight that is also an embedding")
def _(rng):
    ids, targets = draw.indices(rng, (5,), 4), draw.indices(rng, (5,), 4)
    return Example(
        lambda w: ag.fast.linear_cross_entropy(ag.embedding(ids, w), w, targets, rows=2), [draw.uniform(rng, (4, 3))],
        lambda w: _plain_cross_entropy(w[ids] @ w.T, targets, 0.0, np.zeros(5, bool), "mean"),
        lambda w: _torch_cross_entropy(w[torch.tensor(ids.astype(np.int64))] @ w.T, targets, 0.0, "mean"),
    )  # fmt: skip


@register("LinearCrossEntropy", "no rows")
def _(rng):
    arrays = [draw.uniform(rng, (0, 3)), draw.uniform(rng, (4, 3))]
    return Example(lambda x, w: ag.fast.linear_cross_entropy(x, w, np.zeros(0, int)), arrays)
