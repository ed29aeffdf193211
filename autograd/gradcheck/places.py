"""Mistakes of places: right values in the wrong order, or not added up."""

from __future__ import annotations

import numpy as np

from autograd.gradcheck.evidence import Evidence


def transposed(evidence: Evidence) -> str:
    """Are they the right values with two axes of the input exchanged?"""
    a, n = evidence.both
    first = len(evidence.output_shape)
    for p in range(len(evidence.input_shape)):
        for q in range(p + 1, len(evidence.input_shape)):
            swapped = n.swapaxes(first + p, first + q)
            if evidence.explained_by(swapped.reshape(a.shape)):
                how = "transposed" if swapped.shape == a.shape else "in the order of the transposed array"
                reduced = first < len(evidence.input_shape)
                return f"the values are right but {how}: axes {p} and {q} of the gradient are exchanged" + (
                    "; after a reduction, the gradient is broadcast along the wrong axis (keepdims)" * reduced
                )
    return ""


def factor_transposed(evidence: Evidence) -> str:
    """Are they the right values with an axis of the output and one of the input exchanged, as in g @ b for g @ b.T?"""
    a, n = evidence.both
    for q in range(len(evidence.output_shape)):
        for p in range(len(evidence.output_shape), a.ndim):
            if a.shape[p] == a.shape[q] and evidence.explained_by(n.swapaxes(p, q)):
                return (
                    "a factor is transposed: the values are right with axis "
                    f"{q} of the output and axis {p - len(evidence.output_shape)} of the input exchanged, as g @ b "
                    "gives them where g @ b.T is meant"
                )
    return ""


def not_summed(evidence: Evidence) -> str:
    """Is the gradient along a broadcast axis of the output that of one index, not the sum over all?"""
    a, n = evidence.both
    output_shape, input_shape = evidence.output_shape, evidence.input_shape
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


def overwritten(evidence: Evidence) -> str:
    """Are all values right or 0, with 0 for some outputs only that depend on an input element?"""
    a, n = evidence.analytic, evidence.numerical
    zero = evidence.zero(a)
    if not evidence.explained_by(n, ~zero):
        return ""
    lost = zero & ~evidence.zero(n)
    if ((~zero).any(axis=0) & lost.any(axis=0)).any():
        return (
            "some terms are missing, the others are right: where an element is used several times, the gradients must "
            "add up; assigning (g[index] = …) keeps the last one, np.add.at(g, index, …) keeps all"
        )
    return "the gradient of some elements never arrives (it is 0), all others are right"


def shifted(evidence: Evidence) -> str:
    """Are they the right values moved along an axis, or in reverse order?"""
    _, n = evidence.both
    outputs = len(evidence.output_shape)
    for axis, size in enumerate(n.shape):
        where = f"axis {axis} of the output" if axis < outputs else f"axis {axis - outputs} of the input"
        if size > 1 and evidence.explained_by(np.flip(n, axis)):
            return f"the values are right but in reverse order along {where}"
        for by in (1, -1):
            moved = np.roll(n, by, axis)
            cut = moved.copy()
            cut[(slice(None),) * axis + (0 if by == 1 else -1,)] = 0
            if size > 2 and any(evidence.explained_by(model) for model in (moved, cut)):
                return (
                    f"the values are right but moved by one along {where}: a start, an offset or an index is off by one"
                )
    return ""


def reordered(evidence: Evidence) -> str:
    """Are the columns, or the rows, the right ones in another order?"""
    a, n = evidence.analytic, evidence.numerical
    for what, one, other in (("input", a, n), ("output", a.T, n.T)):
        if one.shape[1] > 1 and _same_columns(one, other, abs(evidence.off).max(initial=0)):
            return (
                f"the values are right but at other elements of the {what}: is the order of the elements, an index or "
                "a permutation of axes not undone (the inverse of a permutation is np.argsort of it)?"
            )
    return ""


def _same_columns(a: np.ndarray, n: np.ndarray, off: float) -> bool:
    digits = max(0, 6 - int(np.ceil(np.log10(abs(n).max(initial=1e-300)))))
    order_a, order_n = (np.lexsort(np.round(j, digits)) for j in (a, n))
    return bool(abs(a[:, order_a] - n[:, order_n]).max(initial=0.0) <= 1e-3 * off)


def one_place(evidence: Evidence) -> str:
    """Are only the derivatives at one index of an axis wrong?"""
    off = ~evidence.zero(evidence.off).reshape(evidence.output_shape + evidence.input_shape)
    outputs = len(evidence.output_shape)
    for axis, size in enumerate(off.shape):
        others = tuple([k for k in range(off.ndim) if k != axis])
        places = np.flatnonzero(off.any(axis=others))
        if size > 2 and len(places) == 1:
            what, axis = ("output", axis) if axis < outputs else ("input", axis - outputs)
            return (
                f"only index {places[0]} of axis {axis} of the {what} is wrong, all others are right: an edge, a "
                "single index, or an element that is treated by itself"
            )
    return ""
