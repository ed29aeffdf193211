"""The missing projection of a softmax or a normalisation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from autograd.gradcheck.evidence import Evidence

Array = np.ndarray

NEARLY = 0.02  # of what a slope adds up is nearly 0: a normalisation divides by √(variance + ε)


def projection(evidence: Evidence) -> str:
    """Does the output not change along directions along which this gradient says it does?

    Softmax and normalisations do not change when a constant is added to the input along an axis, or when the input is
    scaled along it.  Their gradients have a term that removes these directions, and it is the one that is forgotten.
    """
    if evidence.at is None or evidence.zero(evidence.off).all():
        return ""
    for axes in _axes(len(evidence.input_shape)):
        slices = _slices(evidence, evidence.at, axes)
        if slices is None or slices.shape[-1] < 2:
            continue
        analytic, numerical, x = slices[0], slices[1], slices[2, 0]
        constant = np.ones_like(x)
        shift = _not_removed(analytic, numerical, constant)
        centred = _vanishes(numerical, analytic, constant)
        scale = _not_removed(analytic, numerical, x - x.mean(-1, keepdims=True) if centred else x)
        alone = evidence.explained_by(evidence.numerical, ~evidence.zero(evidence.analytic))
        leaks = (evidence.zero(evidence.numerical) & ~evidence.zero(evidence.analytic)).any()
        if shift + scale and (alone or leaks or _rank(analytic - numerical) <= shift + scale):
            return _missing_projection(axes, shift, scale)
    return ""


def _missing_projection(axes: tuple[int, ...], shift: bool, scale: bool) -> str:
    where = f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"
    if shift and scale:
        return (
            f"mean and deviation along {where} are treated as constants, or their terms are wrong: in a normalisation "
            "they depend on the input too, so that g - mean(g) - x̂ · mean(g · x̂) is meant where g stands"
        )
    if scale:
        return (
            f"a missing or wrong projection: the output does not change when the input is scaled along {where}, as in "
            "a normalisation, but the gradient does not vanish in this direction; is the term - x̂ · mean(g · x̂), for "
            "a norm - x̂ · Σ g · x̂, missing, or made of something else than x̂?"
        )
    return (
        "a missing or wrong projection: the output does not change when a constant is added to the input along "
        f"{where}, so the gradient must add up to 0 along it, and does not; is the term - Σ g · y of a softmax, "
        "- y · Σ g of a log-softmax or - mean(g) of a normalisation missing, or taken along another axis?"
    )


def _axes(ndim: int) -> Iterator[tuple[int, ...]]:
    for count in range(1, ndim + 1):
        yield from combinations(range(ndim), count)


def _slices(evidence: Evidence, at: Array, axes: tuple[int, ...]) -> Array | None:
    """Both Jacobians and the input, cut along `axes`.  Shapes: -> [3, M, R, k], R slices of k elements; x in M = 0"""
    a, n = (j.reshape(len(j), *evidence.input_shape) for j in (evidence.analytic, evidence.numerical))
    k = int(np.prod([evidence.input_shape[axis] for axis in axes]))
    x = np.broadcast_to(at, a.shape)
    if not np.isfinite(x).all():
        return None
    ends = tuple(range(-len(axes), 0))
    return np.array([np.moveaxis(j, [axis + 1 for axis in axes], ends).reshape(len(a), -1, k) for j in (a, n, x)])


def _vanishes(jacobian: Array, other: Array, v: Array) -> bool:
    """Whether the slopes along v are 0, but for a small part of their terms.  Shapes: [M, R, k] twice, v [R, k]"""
    terms = max(abs(j * v).sum(-1).max(initial=0) for j in (jacobian, other))
    return bool(abs((jacobian * v).sum(-1)).max(initial=0) <= NEARLY * terms)


def _not_removed(analytic: Array, numerical: Array, v: Array) -> bool:
    """Whether the output does not change along v, and the gradient says that it does."""
    return _vanishes(numerical, analytic, v) and not _vanishes(analytic, numerical, v)


def _rank(off: Array) -> int:
    """The largest rank of the slices of [M, R, k], but for a hundredth."""
    values = np.linalg.svd(np.moveaxis(off, 1, 0), compute_uv=False)
    return int((values > 1e-2 * values.max(initial=0)).sum(-1).max(initial=0))
