"""Cases of autograd/ops/loss.py."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

import autograd as ag
from autograd.testing import draw, register
from tests.cases.example import Example, torch


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
        lambda w: _torch_cross_entropy(w[torch.tensor(ids)] @ w.T, targets, 0.0, "mean"),
    )  # fmt: skip


@register("LinearCrossEntropy", "no rows")
def _(rng):
    arrays = [draw.uniform(rng, (0, 3)), draw.uniform(rng, (4, 3))]
    return Example(lambda x, w: ag.fast.linear_cross_entropy(x, w, np.zeros(0, int)), arrays)
