"""The loss: cross-entropy with label smoothing."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np

from autograd.backend import CPU, backend_of
from autograd.engine import Op, apply
from autograd.ops.arguments import array_of, number, tensors
from autograd.ops.flops import per_input
from autograd.ops.nn import check_indices
from autograd.ops.products import check_linear_shapes, note_reduced, reduced_weight
from autograd.tensor import Tensor, TensorLike


class CrossEntropy(Op):
    """loss = -Σ_k q_k log softmax(logits)_k, with q = (1 - ε) · one-hot + ε / V

    Shapes: logits [N, V]; targets int [N], counted bool [N] -> loss [] or [N], negative log-likelihood likewise
    Saves:  d loss / d logits, computed in the forward pass as both need the same exponentials, and which rows count
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


Reduction = Literal["mean", "sum", "none"]


@overload
def cross_entropy(
    logits: TensorLike,
    targets: TensorLike,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    with_nll: Literal[False] = False,
    overwrite_logits: bool = False,
) -> Tensor: ...
@overload
def cross_entropy(
    logits: TensorLike,
    targets: TensorLike,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    with_nll: Literal[True],
    overwrite_logits: bool = False,
) -> tuple[Tensor, Tensor]: ...
def cross_entropy(
    logits: TensorLike,
    targets: TensorLike,
    *,
    label_smoothing: float = 0.0,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    with_nll: bool = False,
    overwrite_logits: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Cross-entropy of integer targets under softmax(logits), with label smoothing (section 5.4).

    The target distribution gives 1 - ε to the target and spreads ε over all V classes, the target included
    (Szegedy et al. 2016, which the paper cites; PyTorch's definition, too).  Rows whose target is `ignore_index` are
    left out; a "mean" over no row is 0.

    With `with_nll`, returns (loss, nll): nll is the negative log-likelihood without smoothing, from which perplexity is
    computed; it carries no gradient.  `overwrite_logits` writes the gradient into the memory of the logits, which saves
    the largest array of a training step; an op that saved the logits then raises an error in its backward pass.

    Shapes: logits [..., V], targets int [...] -> [] ("mean", "sum") or [...] ("none")
    Saves:  d loss / d logits, computed in the forward pass as both need the same exponentials, and which rows count
    Raises: ValueError for shapes that do not match, an unknown reduction or ε outside [0, 1]; IndexError for a target
    outside 0 … V - 1, TypeError for targets that are not integers.
    """
    (logits,) = tensors(logits=logits)
    if not logits.ndim:
        raise ValueError("logits need a last axis, the classes; found a single number")
    *leading, classes = logits.shape
    label_smoothing = number("label_smoothing", label_smoothing)
    labels, counted = _rows(logits, targets, classes, ignore_index, label_smoothing, reduction)
    if overwrite_logits:
        logits.version[0] += 1
    loss, nll = apply(
        CrossEntropy,
        logits.reshape(-1, classes) if logits.ndim != 2 else logits,
        targets=labels,
        counted=counted,
        label_smoothing=label_smoothing,
        reduction=reduction,
        overwrite_logits=overwrite_logits,
    )
    if reduction == "none" and len(leading) != 1:
        loss, nll = loss.reshape(tuple(leading)), nll.reshape(tuple(leading))
    return (loss, nll.detach()) if with_nll else loss


def _rows(x: Any, targets: Any, classes: int, ignore_index: int, label_smoothing: float, reduction: str) -> Any:
    """The targets of the rows of x and which of them count, on the device of x.  Shapes: -> int [N], bool [N]"""
    targets = array_of(targets)
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
    return backend.asarray(targets), backend.asarray(counted)


# ---- With the product that makes the logits --------------------------------------------------------------------------


class LinearCrossEntropy(Op):
    """loss = -Σ_k q_k log softmax(x Wᵀ + b)_k, a block of rows at a time: the logits never stand in memory

    Shapes: x [N, D], weight [V, D], bias [V] or absent; targets int [N], counted bool [N], allowed int [V'] or None
            -> loss [] or [N], negative log-likelihood likewise
    Saves:  d loss / d inputs, computed in the forward pass while a block's exponentials are there; with reduction
            "none", whose rows get different cotangents, the inputs, from which backward computes the logits again
    """

    def forward(self, x, weight, bias=None, *, reduced, targets, counted, allowed, label_smoothing, reduction, rows):
        xp = self.xp
        self.reduction, self.dtypes = reduction, [a.dtype for a in (x, weight)] + ([] if bias is None else [bias.dtype])
        self.settings = {"label_smoothing": label_smoothing, "rows": rows}
        self.classes, self.allowed = len(weight), allowed
        weight = weight if reduced is None else reduced
        if allowed is not None:  # the product has the columns of these classes only
            weight, bias = weight[allowed], None if bias is None else bias[allowed]
            place = xp.full(self.classes, -1)
            place[allowed] = xp.arange(len(allowed))
            targets = place[xp.where(counted, targets, 0)]
        targets = xp.where(counted, targets, 0)  # ignored rows read column 0; their loss is 0
        now = any(self.needs_gradient) and reduction != "none"
        wanted = (*self.needs_gradient, False)[:3] if now else (False,) * 3
        arrays = (x, weight, bias, targets, counted)
        loss, nll, *gradients = self.backend.linear_cross_entropy(*arrays, None, wanted, **self.settings)
        self.save(*(gradients if now else arrays if any(self.needs_gradient) else ()))
        if reduction == "none":
            return loss, nll
        # a mean over no target is 0, with gradient 0, not NaN
        self.divisor = max(int(counted.sum()), 1) if reduction == "mean" else 1
        return loss.sum() / self.divisor, nll.sum() / self.divisor

    def flops(self, inputs, outputs):
        """2 · N · V · D of each product: the logits, and a gradient each of x and weight; 7 · N · V of the softmax.

        Gradients count as backward, where they are scaled, although the forward pass computes them; with reduction
        "none", the backward pass computes logits and softmax again.
        """
        (n, d), v = inputs[0], inputs[1][0] if self.allowed is None else len(self.allowed)
        product, bias = 2 * n * v * d, n * v * (len(inputs) > 2)
        logits = product + bias + 7 * n * v
        if not any(self.needs_gradient):
            return logits, 0
        gradients = product * sum(self.needs_gradient[:2]) + n * v * any(self.needs_gradient[2:])
        again = n * v + logits if self.reduction == "none" else sum(map(math.prod, inputs))
        return logits, gradients + again

    def backward(self, g_loss, _g_nll):
        if self.reduction == "none":
            x, weight, bias, targets, counted = self.saved
            wanted = (*self.needs_gradient, False)[:3]
            arrays = (x, weight, bias, targets, counted)
            _, _, *gradients = self.backend.linear_cross_entropy(*arrays, g_loss, wanted, **self.settings)
        else:
            factor, gradients = g_loss / self.divisor, list(self.saved)
            if self.backend is not CPU or factor != 1:  # on a GPU, looking at it would wait for the device
                gradients = [None if g is None else g * factor for g in gradients]
        gradients = [self._of_all_classes(i, g) for i, g in enumerate(gradients[: len(self.dtypes)])]
        return tuple(gradients)

    def _of_all_classes(self, i, g):
        """The gradient of input i, with zeros for classes that were left out, in the dtype of the input."""
        if g is None:
            return None
        if i and self.allowed is not None:
            whole = self.xp.zeros((self.classes, *g.shape[1:]), g.dtype)
            whole[self.allowed] = g
            g = whole
        return g.astype(self.dtypes[i], copy=False)


@overload
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
    with_nll: Literal[False] = False,
    rows: int | None = None,
) -> Tensor: ...
@overload
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
    with_nll: Literal[True],
    rows: int | None = None,
) -> tuple[Tensor, Tensor]: ...
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
) -> Tensor | tuple[Tensor, Tensor]:
    """cross_entropy(linear(x, weight, bias), targets), without the logits in memory: the last product and the loss.

    Logits, loss and the gradients of all inputs are computed for `rows` rows at a time (None: as many as have logits of
    128 MiB on a CPU, 512 MiB on a GPU).  A weight that is used elsewhere, too, as a tied embedding is, gets the sum of
    its gradients.
    `masked`, bool [V], is True for classes that have probability 0 and no share in the label smoothing.  In mixed
    precision, x is bfloat16 and weight and bias float32: products use a bfloat16 copy of the weight, logits and loss
    are float32.  The other parameters are those of `cross_entropy`.

    Shapes: x [..., D], weight [V, D], targets int [...], bias [V] -> [] ("mean", "sum") or [...] ("none")
    Raises: as `linear` and `cross_entropy`; ValueError for a mask of another shape or dtype, and for rows < 1;
    IndexError for a target that is masked, except on a GPU, where its loss is NaN.
    """
    inputs = tensors(x=x, weight=weight, **({} if bias is None else {"bias": bias}))
    x, weight = inputs[:2]
    check_linear_shapes(*[each.shape for each in inputs], *([None] if bias is None else []))
    if rows is not None and rows < 1:
        raise ValueError(f"rows={rows} computes nothing; choose 1 or more, or None")
    classes = weight.shape[0]
    label_smoothing = number("label_smoothing", label_smoothing)
    targets, counted = _rows(x, targets, classes, ignore_index, label_smoothing, reduction)
    flat = [x.reshape(math.prod(x.shape[:-1]), x.shape[-1]) if x.ndim != 2 else x, *inputs[1:]]
    reduced = reduced_weight(x, weight)
    loss, nll = apply(
        LinearCrossEntropy,
        *flat,
        reduced=reduced,
        targets=targets,
        counted=counted,
        allowed=_allowed(masked, classes, targets, counted),
        label_smoothing=label_smoothing,
        reduction=reduction,
        rows=rows,
    )
    if reduction == "none":  # which computes the logits again
        note_reduced(loss, weight, reduced)
    if reduction == "none" and x.ndim != 2:
        loss, nll = loss.reshape(x.shape[:-1]), nll.reshape(x.shape[:-1])
    return (loss, nll.detach()) if with_nll else loss


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
