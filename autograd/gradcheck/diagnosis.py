"""Find the mistake that a wrong Jacobian points to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]
Close = Callable[[Array, Array], bool]


def likely_cause(
    analytic: Array, numerical: Array, output_shape: Shape, input_shape: Shape, close: Close, *, complete: bool = True
) -> str:
    """One or two sentences on the mistake that the numbers point to; "" if they point to none.

    Shapes: analytic, numerical [M, n], for M elements of the output and all n of the input; some of them, unless
    `complete`
    """
    if not np.isfinite(analytic).all():
        return "the backward pass divides by 0 or overflows: its result is not finite"
    if not analytic.any():
        return (
            "the gradient never arrives: backward returns None or zeros for this input, or the function leaves the "
            "graph on its way (through .data, .numpy(), detach() or no_grad())"
        )
    by_factor = _constant_factor(analytic, numerical, output_shape, input_shape, close)
    if by_factor or not complete:
        return by_factor
    a, n = (x.reshape(output_shape + input_shape) for x in (analytic, numerical))
    return (
        _transposed(a, n, input_shape, close)
        or _factor_transposed(a, n, len(output_shape), close)
        or _not_summed(a, n, output_shape, input_shape)
        or _overwritten(analytic, numerical, close)
    )


def _constant_factor(a: Array, n: Array, output_shape: Shape, input_shape: Shape, close: Close) -> str:
    ratio = float((a * n).sum() / (n * n).sum()) if n.any() else 0.0
    if not ratio or not close(a, ratio * n):
        return ""
    if close(a, -n):
        return "the sign is wrong: every value is minus the right one"
    causes = []
    if math.isclose(ratio, 2, rel_tol=1e-3):
        causes.append("a term is counted twice, or a factor 1/2 is missing")
    if math.isclose(ratio, 0.5, rel_tol=1e-3):
        causes.append("a factor 2 is missing, or one of two equal terms (a value used twice gets two gradients)")
    for size, where in _sizes(output_shape, input_shape):
        if math.isclose(ratio, 1 / size, rel_tol=1e-3):
            causes.append(f"a mean where a sum is meant (1/{size}, {where})")
        if math.isclose(ratio, size, rel_tol=1e-3):
            causes.append(f"a sum where a mean is meant, or a sum taken twice ({size}, {where})")
    factor = f"1 {ratio - 1:+.0e}" if abs(ratio - 1) < 1e-3 else f"{ratio:.4g}"
    what = f"every value is {factor} times the right one"
    return f"{what}: {'; or '.join(causes)}" if causes else f"{what}: a constant factor is wrong"


def _sizes(output_shape: Shape, input_shape: Shape) -> Iterator[tuple[int, str]]:
    """The possible divisors of a mean: sizes of axes and of whole arrays, each once."""
    seen = {1}
    for what, shape in (("input", input_shape), ("output", output_shape)):
        for axis, size in enumerate(shape):
            if size not in seen:
                seen.add(size)
                yield size, f"the size of axis {axis} of the {what}"
        total = math.prod(shape)
        if total and total not in seen:
            seen.add(total)
            yield total, f"the number of elements of the {what}"


def _transposed(a: Array, n: Array, input_shape: Shape, close: Close) -> str:
    """Are they the right values with two axes of the input exchanged?"""
    first = a.ndim - len(input_shape)
    for p in range(len(input_shape)):
        for q in range(p + 1, len(input_shape)):
            swapped = n.swapaxes(first + p, first + q)
            if close(a, swapped.reshape(a.shape)):
                how = "transposed" if swapped.shape == a.shape else "in the order of the transposed array"
                return f"the values are right but {how}: axes {p} and {q} of the gradient are exchanged"
    return ""


def _factor_transposed(a: Array, n: Array, output_ndim: int, close: Close) -> str:
    """Are they the right values with an axis of the output and one of the input exchanged, as in g @ b for g @ b.T?"""
    for q in range(output_ndim):
        for p in range(output_ndim, a.ndim):
            if a.shape[p] == a.shape[q] and close(a, n.swapaxes(p, q)):
                return (
                    "a factor is transposed: the values are right with axis "
                    f"{q} of the output and axis {p - output_ndim} of the input exchanged, as g @ b gives them where "
                    "g @ b.T is meant"
                )
    return ""


def _not_summed(a: Array, n: Array, output_shape: Shape, input_shape: Shape) -> str:
    """Is the gradient along a broadcast axis of the output that of one index, not the sum over all?"""
    lead = len(output_shape) - len(input_shape)
    for axis, size in enumerate(output_shape):
        repeated = size > 1 and (axis < lead or input_shape[axis - lead] == 1)
        others = tuple([k for k in range(a.ndim) if k != axis])
        if lead >= 0 and repeated and (a != 0).any(axis=others).sum() == 1 < (n != 0).any(axis=others).sum():
            return (
                f"a missing sum: the input is broadcast along axis {axis} of the output, but the gradient of one index "
                "alone comes back instead of the sum over all"
            )
    return ""


def _overwritten(a: Array, n: Array, close: Close) -> str:
    """Are all values right or 0, with 0 for some outputs only that depend on an input element?"""
    if not close(np.where(a == 0, n, a), n):
        return ""
    lost = (a == 0) & (n != 0)
    if (((a != 0).any(axis=0)) & lost.any(axis=0)).any():
        return (
            "some terms are missing, the others are right: where an element is used several times, the gradients must "
            "add up; assigning (g[index] = …) keeps the last one, np.add.at(g, index, …) keeps all"
        )
    return "the gradient of some elements never arrives (it is 0), all others are right"
