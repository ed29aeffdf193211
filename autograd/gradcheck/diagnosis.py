"""Find the mistake that a wrong Jacobian points to: each pattern makes guesses, and the first that fits is named."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from autograd.gradcheck import factors
from autograd.gradcheck.factors import NICE, Array, Evidence, Guess, Shape, listed, ratio_of, subsets

NEARLY = 0.02  # of what a slope adds up is nearly 0: a normalisation divides by √(variance + ε)


@np.errstate(all="ignore")
def likely_cause(e: Evidence) -> str:
    """One or two sentences on the mistake that the numbers point to; "" if they point to none."""
    if not np.isfinite(e.analytic).all():
        return "the backward pass divides by 0 or overflows: its result is not finite"
    wrong = [
        j for j, (a, n) in enumerate(e.outputs) if not np.allclose(a, n, rtol=1e-4, atol=1e-6 * abs(n).max(initial=0))
    ]
    if len(e.outputs) > 1 and (cause := _confused_outputs(e, wrong)):
        return cause
    if not e.analytic.any():
        return (
            "the gradient is lost: backward returns None or zeros for this input, or the function leaves the "
            "graph on its way (through .data, .numpy(), detach() or no_grad())"
        )
    if not np.isfinite(e.numerical).all():
        return ""
    part = f"only the part of backward for output {e.output} is wrong; in this part, "
    for pattern in PATTERNS if e.complete else (factors.constant_factor,):
        for text, model in pattern(e):
            if e.fits(model):
                return (part if len(e.outputs) > 1 and wrong == [e.output] else "") + text
    return ""


# ---- The gradient of something else ----


def _confused_outputs(e: Evidence, wrong: list[int]) -> str:
    """Does backward take the incoming gradient for one of several outputs for that of another, or none?

    The response to the gradient of output j must be the derivative of output j alone.  Where it is a sum of c_jk times
    those of the outputs k, and all c_jk are simple numbers, they say which gradients are confused.
    """
    count = len(e.outputs)
    if len({a.shape for a, _ in e.outputs}) == 1 and np.isfinite(e.outputs).all():
        right = np.array([n.reshape(-1) for _, n in e.outputs]).T  # [elements, outputs]
        found = np.array([a.reshape(-1) for a, _ in e.outputs]).T
        factors, _, rank, _ = np.linalg.lstsq(right, found, rcond=1e-6)
        nice = np.array((0.0, *NICE))
        simple = nice[abs(factors[..., None] - nice).argmin(-1)]
        mixed = [(j, k) for j in wrong for k in range(count) if k != j and simple[k, j]]
        exact = abs(found - right @ simple).max(initial=0) <= 1e-3 * abs(found - right).max(initial=0)
        if rank == count and exact and mixed:
            j, k = mixed[0]
            return (
                f"backward uses the incoming gradient of output {j} for that of output {k}: it multiplies it by "
                f"the derivative of output {k}"
            )
    if len(wrong) < count and not any(e.outputs[j][0].any() for j in wrong):
        which = " and ".join(f"output {j}" for j in wrong)
        return f"the gradient from {which} is lost: backward does not use its incoming gradient"
    return ""


def of_something_else(e: Evidence) -> Iterator[Guess]:
    """The gradient is that of another output or input, or lacks a part."""
    a, n = e.analytic, e.numerical
    for name, jacobian in e.others().items():
        if jacobian.shape == a.shape:
            yield f"this is the gradient of {name}: two gradients, or two factors, are exchanged", jacobian
    yield (
        "the sign is wrong for some elements, all magnitudes are right: is a factor sign(x), or abs, misplaced?",
        np.copysign(n, a),
    )
    wrong = ~e.zero(e.off).all(axis=0)
    total = n[:, wrong].sum(axis=1, keepdims=True)
    for model, which in ((total, "sum"), (total / max(1, wrong.sum()), "mean")) if not e.zero(total).all() else ():
        yield (
            f"each derivative is the {which} of all of them: a sum over the elements of the input, or over the data, "
            "is taken too early",
            np.where(wrong, model, n),
        )
    if e.output_shape == e.at.shape and len(a) > 1 and n.any():
        residual = "as by a residual connection x + f(x)"
        yield f"the direct path is missing: the incoming gradient itself must be added, {residual}", n - np.eye(len(a))
        yield f"the incoming gradient itself is added once too often, {residual}", n + np.eye(len(a))
    if np.count_nonzero(e.off) > 1 and (abs(e.off) <= np.finfo(np.float32).eps * abs(n)).all():
        yield (
            "every value is right to the 7 digits of float32: something in backward is computed or kept in float32 (an "
            "astype, an array or a constant made with that dtype)",
            a,
        )


# ---- Masks and zeros ----


def masks(e: Evidence) -> Iterator[Guess]:
    """The gradient passes where the function is flat, in a function whose outputs depend on one element each."""
    a, n = e.analytic, e.numerical
    flat, passes = e.zero(n), ~e.zero(a)
    if not (flat & passes).any():
        return
    if not n.any():
        yield (
            "the output does not depend on this input here, and yet a gradient arrives: is a mask forgotten, or the "
            "projection of a softmax or a normalisation, or the bound of a clipped value?",
            a,
        )
    elif not ((~flat | passes).sum(axis=1) > 1).any():
        where = "where the output does not depend on the input"
        if not passes[~flat].any():
            yield f"the gradient passes exactly {where}: a mask is the wrong way round", a
        ratio = ratio_of(a[~flat], n[~flat])
        scale = f", and so is its factor {1 / (ratio or 1):.4g}" if abs(ratio - 1) > 1e-3 else ""
        mask = "a mask (of relu, clip, where, dropout, padding)"
        yield f"a gradient passes {where}: {mask} is forgotten in backward{scale}", np.where(flat, a, ratio * n)


def leaks(e: Evidence) -> Iterator[Guess]:
    """All derivatives are right but some that must be 0."""
    flat = e.zero(e.numerical)
    if not flat.all():
        yield (
            "elements that the output does not depend on get a gradient, all others are right: a mask is missing, "
            "a value that the function clips has a slope that is not 0, or a gradient goes to a whole row where it "
            "belongs to one element (max, an index, a diagonal)",
            np.where(flat, e.analytic, e.numerical),
        )


def zeros(e: Evidence) -> Iterator[Guess]:
    """All derivatives are right but some that are 0."""
    zero = e.zero(e.analytic)
    lost = zero & ~e.zero(e.numerical)
    rows, columns = (lost.any(axis=axis) for axis in (1, 0))
    if 1 < lost.sum() == rows.sum() * columns.sum() and min(lost.shape) > 1 and not (rows.all() or columns.all()):
        text = (
            f"a block of zeros, all others are right: derivatives of the outputs {listed(rows)} by the elements "
            f"{listed(columns)} are 0"
        )
    elif len(lost) == len(lost.T) > 1 and (lost == lost.T).all() and not lost.diagonal().any():
        text = (
            "a block of zeros off the diagonal, and its mirror image; all others are right: mixed derivatives are lost"
        )
    elif ((~zero).any(axis=0) & lost.any(axis=0)).any():
        text = (
            "some terms are missing, the others are right: where an element is used several times, the gradients must "
            "add up; assigning (g[index] = …) keeps the last one, np.add.at(g, index, …) keeps all"
        )
    else:
        text = f"the gradient of some elements is lost (it is 0), all others are right: elements {listed(columns)}"
    yield text, np.where(zero, e.analytic, e.numerical)


def some_places(e: Evidence) -> Iterator[Guess]:
    """Only the derivatives at one index of an axis are wrong, or those of one number by some elements."""
    a, n = e.both
    for axis, size in enumerate(n.shape):
        for place in range(size) if size > 2 else ():
            model, index = n.copy(), (slice(None),) * axis + (place,)
            model[index] = a[index]
            yield (
                f"only index {place} of {e.where(axis)} is wrong, all others are right: an edge, a single index, "
                "or an element that is treated separately",
                model,
            )
    wrong = (abs(e.off) > 1e-3 * abs(e.off).max(initial=0)).any(axis=0)
    if len(e.analytic) == 1 and not wrong.all():
        yield (
            f"only the derivatives by the elements {listed(wrong)} of the input are wrong: the mistake is in a term or "
            "a factor that only these have",
            a,
        )


# ---- Right values in the wrong places, or not added up ----


def axes_exchanged(e: Evidence) -> Iterator[Guess]:
    """Two axes of the input are exchanged, or one of them and one of the output, as in g @ b for g @ b.T."""
    a, n = e.both
    first = len(e.output_shape)
    for p, q in combinations(range(first, n.ndim), 2):
        swapped = n.swapaxes(p, q)
        how = "transposed" if swapped.shape == a.shape else "in the order of the transposed array"
        keepdims = "; after a reduction, the gradient is broadcast along the wrong axis (keepdims)"
        text = f"the values are right but {how}: axes {p - first} and {q - first} of the gradient are exchanged"
        yield text + (keepdims if first < len(e.at.shape) else ""), swapped
    for q in range(first):
        for p in range(first, a.ndim):
            if a.shape[p] == a.shape[q]:
                yield (
                    f"a factor is transposed: the values are right with {e.where(q)} and {e.where(p)} exchanged, as "
                    "if g @ b were computed instead of g @ b.T",
                    n.swapaxes(p, q),
                )


def flipped_kernel(e: Evidence) -> Iterator[Guess]:
    """Each output depends on a window of the input, with the right values in reverse order within the window.

    Windows that the edge of the input cuts are left out: what stands there depends on the padding.
    """
    _, n = e.both
    axes_of_input = [axis for axis in range(len(e.output_shape), n.ndim) if n.shape[axis] > 2]
    for axes in subsets(axes_of_input, 3):
        ends = tuple(range(-len(axes), 0))
        right, found, off = (
            np.moveaxis(j.reshape(n.shape), axes, ends).reshape(-1, *[n.shape[axis] for axis in axes])
            for j in (e.numerical, e.analytic, e.off)
        )
        windows = [_window(row) for row in ~e.zero(right)]
        sizes = [tuple([part.stop - part.start for part in window]) for window in windows]
        largest = tuple(map(max, zip(*sizes, strict=True)))
        whole = [k for k, size in enumerate(sizes) if size == largest]
        moves = len({tuple([part.start for part in windows[k]]) for k in whole}) > 1
        if not moves or min(largest) < 2 or abs(off[whole]).max() < 0.1 * abs(off).max():
            continue
        model = np.zeros_like(right)
        for k in whole:
            model[k][windows[k]] = np.flip(right[k][windows[k]])
        if abs(found - model)[whole].max() <= 1e-3 * abs(off).max():
            yield (
                f"the kernel of a convolution is flipped along {' and '.join(map(e.where, axes))}: the values are "
                "right but in reverse order within each window; for y[t] = Σₖ w[k] · x[t + k], the gradient by x[s] is "
                "Σₖ w[k] · g[s - k], which passes the kernel in the opposite direction",
                e.analytic,
            )


def _window(mask: Array) -> tuple[slice, ...]:
    """Return the smallest box that holds all that is True; empty slices if nothing is."""
    places = np.argwhere(mask)
    return tuple(map(slice, places.min(0), places.max(0) + 1)) if len(places) else (slice(0, 0),) * mask.ndim


def not_summed(e: Evidence) -> Iterator[Guess]:
    """The gradient along a broadcast axis of the output is that of one index, not the sum over all."""
    a, n = e.both
    lead = len(e.output_shape) - len(e.at.shape)
    for axis, size in enumerate(e.output_shape):
        repeated = size > 1 and (axis < lead or e.at.shape[axis - lead] == 1)
        others = tuple([k for k in range(a.ndim) if k != axis])
        if lead >= 0 and repeated and (a != 0).any(axis=others).sum() == 1 < (n != 0).any(axis=others).sum():
            yield (
                f"a missing sum: the input is broadcast along axis {axis} of the output, but the gradient of one index "
                "alone comes back instead of the sum over all",
                a,
            )


def moved(e: Evidence) -> Iterator[Guess]:
    """The right values stand in reverse order, moved along an axis, or in any other order."""
    _, n = e.both
    for axes in combinations(range(len(e.output_shape), n.ndim), 2):
        where = " and ".join(map(e.where, axes))
        if all(n.shape[axis] > 1 for axis in axes):
            text = f"the values are right but in reverse order along {where}: is the kernel of a convolution flipped?"
            yield text, np.flip(n, axes)
    for axis, size in enumerate(n.shape):
        if size > 1:
            yield f"the values are right but in reverse order along {e.where(axis)}", np.flip(n, axis)
        for by, edge in ((1, 0), (-1, -1)) if size > 2 else ():
            rolled = np.roll(n, by, axis)
            cut = rolled.copy()
            cut[(slice(None),) * axis + (edge,)] = 0
            text = f"the values are right but moved by one along {e.where(axis)}: a start or an index is off by one"
            yield from ((text, rolled), (text, cut))
    digits = max(0, 6 - int(np.ceil(np.log10(abs(e.numerical).max(initial=1e-300)))))
    for what, a, n in (("input", e.analytic, e.numerical), ("output", e.analytic.T, e.numerical.T)):
        in_order = [j[:, np.lexsort(np.round(j, digits))] for j in (a, n)]
        if a.shape[1] > 1 and abs(in_order[0] - in_order[1]).max(initial=0) <= 1e-3 * abs(e.off).max(initial=0):
            yield (
                f"the values are right but at other elements of the {what}: is the order of the elements, an index or "
                "a permutation of axes not undone (the inverse of a permutation is np.argsort of it)?",
                e.analytic,
            )


# ---- The projection of a softmax or a normalisation, and its ε ----


def normalisation(e: Evidence) -> Iterator[Guess]:
    """The output does not change along directions along which this gradient says it does, or hardly changes.

    Softmax and normalisations do not change when a constant is added to the input along an axis, or when the input is
    scaled along it.  Their gradients have a term that removes these directions, and it is the one that is forgotten.
    With ε in √(variance + ε), the output changes a little when the input is scaled: by the part of ε in the variance.
    A backward pass with another ε is wrong by about as much.
    """
    if not np.isfinite(e.at).all() or e.zero(e.off).all():
        return
    small = abs(e.off).max() <= NEARLY * abs(e.numerical).max()
    for axes in subsets(range(e.at.ndim), e.at.ndim):
        a, n, x = (_slices(j, e.at.shape, axes) for j in (e.analytic, e.numerical, e.at[None]))
        if x.shape[-1] < 2:
            continue
        constant = np.ones_like(x)
        centred = _vanishes(n, a, constant)
        v = x - x.mean(-1, keepdims=True) if centred else x
        if small:
            left, wrong = (abs((j * v).sum(-1)).max(initial=0) for j in (n, a - n))
            if _vanishes(n, a, v) and _vanishes(a, n, v) and wrong >= 1e-3 * left > 0:
                yield (
                    "the gradient of a normalisation is right except for a small part, as caused by ε: is the ε of the "
                    "forward pass, as in √(variance + ε), missing in backward, another one, or at another place?",
                    e.analytic,
                )
        elif len(e.analytic) > 1:
            shift = centred and not _vanishes(a, n, constant)
            scale = _vanishes(n, a, v) and not _vanishes(a, n, v)
            alone = e.fits(np.where(e.zero(e.analytic), 0, e.numerical))
            leaks = (e.zero(e.numerical) & ~e.zero(e.analytic)).any()
            values = np.linalg.svd(np.moveaxis(a - n, 1, 0), compute_uv=False)
            rank = int((values > 1e-2 * values.max(initial=0)).sum(-1).max(initial=0))  # of a slice
            if shift + scale and (alone or leaks or rank <= shift + scale):
                yield _missing_projection(axes, shift, scale), e.analytic


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
            "a norm - x̂ · Σ g · x̂, missing, or computed from something other than x̂?"
        )
    return (
        "a missing or wrong projection: the output does not change when a constant is added to the input along "
        f"{where}, so the gradient must add up to 0 along it, and does not; is the term - Σ g · y of a softmax, "
        "- y · Σ g of a log-softmax or - mean(g) of a normalisation missing, or taken along another axis?"
    )


def _slices(a: Array, shape: Shape, axes: tuple[int, ...]) -> Array:
    """Arrays of the input's shape cut along `axes`.  Shapes: [M, n] -> [M, R, k], R slices of k elements"""
    ends = tuple(range(-len(axes), 0))
    moved = np.moveaxis(a.reshape(len(a), *shape), [axis + 1 for axis in axes], ends)
    return moved.reshape(len(a), -1, math.prod(shape[axis] for axis in axes))


def _vanishes(jacobian: Array, other: Array, v: Array) -> bool:
    """Whether the slopes along v are 0, but for a small part of their terms.  Shapes: [M, R, k] twice, v [1, R, k]"""
    terms = max(abs(j * v).sum(-1).max(initial=0) for j in (jacobian, other))
    return bool(abs((jacobian * v).sum(-1)).max(initial=0) <= NEARLY * terms)


PATTERNS: tuple[Callable[[Evidence], Iterator[Guess]], ...] = (  # the most specific first
    factors.constant_factor,
    flipped_kernel,
    axes_exchanged,
    not_summed,
    of_something_else,
    masks,
    factors.by_logarithm,
    factors.factor_beside_decay,
    normalisation,
    zeros,
    factors.factor_of_values,
    factors.term_of_values,
    moved,
    factors.two_factors,
    factors.own_factors,
    leaks,
    some_places,
)
