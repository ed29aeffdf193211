"""The loss: cross-entropy with label smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from autograd.backend import backend_of
from autograd.engine import Op, apply
from autograd.ops.arguments import array_of, number, tensors
from autograd.ops.flops import per_input
from autograd.ops.nn import check_indices


class CrossEntropy(Op):
    """loss = -Σ_k q_k log softmax(logits)_k, with q = (1 - ε) · one-hot + ε / V

    Shapes: logits [N, V]; targets int [N], counted bool [N] -> loss [] or [N], negative log-likelihood likewise
    Saves:  d loss / d logits, computed in the forward pass: both need the same exponentials
    """

    flops = per_input(7, 1)  # the softmax and the gradient are computed forward, backward scales it

    def forward(self, logits, *, targets, counted, label_smoothing, reduction, overwrite_logits):
        xp = self.xp
        targets = xp.where(counted, targets, 0)  # ignored rows read column 0; their loss is set to 0
        if self.needs_gradient[0]:
            g_logits = logits if overwrite_logits else logits.copy()
            loss, nll = self.backend.cross_entropy_(g_logits, targets, label_smoothing)
            # not a factor of 0 in the backward pass: logits of ignored rows may be infinite or NaN
            self.backend.clear_rows_(g_logits, counted)
            self.save(g_logits, counted)
        else:
            loss, nll = self.backend.cross_entropy(logits, targets, label_smoothing)
        loss, nll = xp.where(counted, loss, 0), xp.where(counted, nll, 0)
        self.reduction, self.overwrite_logits = reduction, overwrite_logits
        if reduction == "none":
            return loss, nll
        # a mean over no target is 0, with gradient 0, not NaN
        self.divisor = max(int(counted.sum()), 1) if reduction == "mean" else 1
        return loss.sum() / self.divisor, nll.sum() / self.divisor

    def backward(self, g_loss, _g_nll):
        g_logits, counted = self.saved
        g_rows = g_loss if self.reduction == "none" else g_loss / self.divisor
        g_rows = self.xp.where(counted, g_rows, 1)  # [N]; ignored rows of g_logits are 0 already
        if not self.overwrite_logits:
            return g_logits * g_rows[:, None]
        for version, _ in self._versions:
            version[0] += 1  # a second backward pass, which would scale twice, raises an error
        return self.backend.scale_rows_(g_logits, g_rows)


def cross_entropy(
    logits: Any,
    targets: Any,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    reduction: str = "mean",
    with_nll: bool = False,
    overwrite_logits: bool = False,
) -> Any:
    """Cross-entropy of integer targets under softmax(logits), with label smoothing (section 5.4).

    The target distribution gives 1 - ε to the target and spreads ε over all V classes, the target included
    (Szegedy et al. 2016, which the paper cites; PyTorch's definition, too).  Rows whose target is `ignore_index` are
    left out; a "mean" over no row is 0.

    With `with_nll`, returns (loss, nll): nll is the negative log-likelihood without smoothing, from which perplexity is
    computed; it carries no gradient.  `overwrite_logits` writes the gradient into the memory of the logits, which saves
    the largest array of a training step; an op that saved the logits then raises an error in its backward pass.

    Shapes: logits [..., V], targets int [...] -> [] ("mean", "sum") or [...] ("none")
    Raises: ValueError for shapes that do not match, an unknown reduction or ε outside [0, 1]; IndexError for a target
    outside 0 … V - 1, TypeError for targets that are not integers.
    """
    targets = array_of(targets)
    (logits,) = tensors(logits=logits)
    label_smoothing = number("label_smoothing", label_smoothing)
    if not logits.ndim:
        raise ValueError("logits need a last axis, the classes; found a single number")
    *leading, classes = logits.shape
    if targets.shape != tuple(leading):
        raise ValueError(f"targets of shape {targets.shape} do not match logits of shape {logits.shape}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction={reduction!r} is not one of 'mean', 'sum', 'none'")
    if not 0 <= label_smoothing <= 1:
        raise ValueError(f"label_smoothing={label_smoothing} is outside [0, 1]")
    targets = targets.reshape(-1)
    counted = targets != ignore_index
    if isinstance(
        targets, np.ndarray
    ):  # on a GPU, the check would wait for the device; there, a target outside gives NaN
        check_indices(targets[counted], classes, "cross_entropy target")
    backend = backend_of([logits.data])
    targets, counted = backend.asarray(targets), backend.asarray(counted)
    if overwrite_logits:
        logits.version[0] += 1
    loss, nll = apply(
        CrossEntropy,
        logits.reshape(-1, classes) if logits.ndim != 2 else logits,
        targets=targets,
        counted=counted,
        label_smoothing=label_smoothing,
        reduction=reduction,
        overwrite_logits=overwrite_logits,
    )
    if reduction == "none" and len(leading) != 1:
        loss, nll = loss.reshape(tuple(leading)), nll.reshape(tuple(leading))
    return (loss, nll.detach()) if with_nll else loss
