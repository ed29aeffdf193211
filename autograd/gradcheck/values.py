"""Mistakes of values: factors, terms, masks, signs, exchanged inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from autograd.gradcheck import GradcheckError
from autograd.gradcheck.evidence import Evidence

Array = np.ndarray
Shape = tuple[int, ...]

NICE = (1, 2, 1 / 2, 3, 1 / 3, 4, 1 / 4, -1, -2, -1 / 2)  # factors beside a function of the values
MANY = 80  # functions of inputs and output of which pairs are not tried

# ---- Constant factors ----


def constant_factor(evidence: Evidence) -> str:
    """Is every value the right one times a number?"""
    a, n = evidence.analytic, evidence.numerical
    ratio = float((a * n).sum() / (n * n).sum()) if n.any() else 0.0
    if not ratio or not evidence.explained_by(ratio * n):
        return ""
    if math.isclose(ratio, -1, rel_tol=1e-6):
        return "the sign is wrong: every value is minus the right one"
    causes = []
    if math.isclose(ratio, 2, rel_tol=1e-3):
        causes.append("a term is counted twice, or a factor 1/2 is missing")
    if math.isclose(ratio, 0.5, rel_tol=1e-3):
        causes.append("a factor 2 is missing, or one of two equal terms (a value used twice gets two gradients)")
    causes += causes_of_ratio(ratio, evidence.output_shape, evidence.input_shape)
    factor = f"1 {ratio - 1:+.0e}" if abs(ratio - 1) < 1e-3 else f"{ratio:.4g}"
    what = f"every value is {factor} times the right one"
    return f"{what}: {'; or '.join(causes)}" if causes else f"{what}: a constant factor is wrong"


def causes_of_ratio(ratio: float, output_shape: Shape, input_shape: Shape) -> list[str]:
    """Explanations of a factor by the sizes of axes: means and sums, their counts, and the scale 1/√d of attention."""
    sizes = list(_sizes(output_shape, input_shape))
    causes = []
    for size, where in sizes:
        if math.isclose(ratio, 1 / size, rel_tol=1e-3):
            causes.append(f"a mean where a sum is meant (1/{size}, {where})")
        if math.isclose(ratio, size, rel_tol=1e-3):
            causes.append(f"a sum where a mean is meant, or a sum taken twice ({size}, {where})")
    if causes:
        return causes[:2]
    for size, where in sizes:
        if size > 1 and math.isclose(ratio, size / (size - 1), rel_tol=1e-4):
            causes.append(f"divided by n - 1 where n is meant (n = {size}, {where})")
        if size > 1 and math.isclose(ratio, (size - 1) / size, rel_tol=1e-4):
            causes.append(f"divided by n where n - 1 is meant (n = {size}, {where})")
        if math.isclose(ratio, math.sqrt(size), rel_tol=1e-4):
            causes.append(f"a factor 1/√{size} is missing ({where})")
        if math.isclose(ratio, 1 / math.sqrt(size), rel_tol=1e-4):
            causes.append(f"a factor √{size} is missing ({where})")
    for size, where in sizes:
        for other, elsewhere in sizes:
            if size != other and math.isclose(ratio, size / other, rel_tol=1e-4):
                causes.append(f"divided by {other} ({elsewhere}) where {size} is meant ({where})")
    return causes[:3]


def _sizes(output_shape: Shape, input_shape: Shape) -> Iterator[tuple[int, str]]:
    """The possible divisors of a mean: sizes of axes, of whole arrays and of all axes but one, each once."""
    seen = {1}
    for what, shape in (("input", input_shape), ("output", output_shape)):
        sizes = [(size, f"the size of axis {axis} of the {what}") for axis, size in enumerate(shape)]
        total = math.prod(shape)
        sizes.append((total, f"the number of elements of the {what}"))
        if total and len(shape) > 2:
            rest = [
                (total // size, f"the elements of the {what} per index of axis {k}") for k, size in enumerate(shape)
            ]
            sizes += rest
        for size, where in sizes:
            if size and size not in seen:
                seen.add(size)
                yield size, where


# ---- The gradient of something else ----


def cotangent_ignored(evidence: Evidence) -> str:
    """Is the gradient the same for each output?"""
    a = evidence.analytic
    if len(a) > 1 and evidence.explained_by(np.broadcast_to(a[:1], a.shape)):
        return "backward does not use the gradient that arrives: it returns the same for every output"
    return ""


def of_another_input(evidence: Evidence) -> str:
    """Is it the right gradient of another input?"""
    try:
        others = evidence.others()
    except GradcheckError:  # another input is at a kink
        return ""
    for name, jacobian in others.items():
        if jacobian.shape == evidence.analytic.shape and evidence.explained_by(jacobian):
            return f"this is the gradient of {name}: two gradients, or two factors, are exchanged"
    return ""


def direct_path(evidence: Evidence) -> str:
    """Is the Jacobian the right one without the identity, or with one too many?"""
    if evidence.output_shape != evidence.input_shape or len(evidence.analytic) < 2:
        return ""
    one = np.eye(len(evidence.analytic))
    if evidence.explained_by(evidence.numerical - one):
        return "the direct path is missing: a residual connection x + f(x) adds the incoming gradient itself"
    if evidence.explained_by(evidence.numerical + one):
        return "the incoming gradient itself is added once too often, as by a residual connection x + f(x)"
    return ""


def passed_on(evidence: Evidence) -> str:
    """Is the Jacobian the identity, where the function is element-wise?"""
    n = evidence.numerical
    if evidence.output_shape != evidence.input_shape or not evidence.zero(n - np.diag(np.diag(n))).all():
        return ""
    if evidence.explained_by(np.eye(len(n))):
        return "the incoming gradient is passed on unchanged: the derivative of the function itself is forgotten"
    return ""


# ---- Masks and signs ----


def mask(evidence: Evidence) -> str:
    """Does the gradient pass where the function is flat, in a function whose outputs depend on one element each?"""
    a, n = evidence.analytic, evidence.numerical
    flat, passes = evidence.zero(n), ~evidence.zero(a)
    if not (flat & passes).any():
        return ""
    if not n.any():
        return (
            "the output does not depend on this input here, and yet a gradient arrives: is a mask forgotten, or the "
            "projection of a softmax or a normalisation?"
        )
    if ((~flat | passes).sum(axis=1) > 1).any():
        return ""
    if not passes[~flat].any():
        return (
            "the gradient passes exactly where the output does not depend on the input: a mask is the wrong way round"
        )
    ratio = float((a * n)[~flat].sum() / (n * n)[~flat].sum())
    if evidence.explained_by(ratio * n, ~flat):
        scale = "" if math.isclose(ratio, 1, rel_tol=1e-3) else f", and so is its factor {1 / ratio:.4g}"
        return (
            "a gradient passes where the output does not depend on the input: a mask (of relu, clip, where, dropout, "
            f"padding) is forgotten in backward{scale}"
        )
    return ""


def leak(evidence: Evidence) -> str:
    """Are all derivatives right but some that must be 0?"""
    flat = evidence.zero(evidence.numerical)
    if flat.all() or not evidence.explained_by(evidence.numerical, ~flat):
        return ""
    return (
        "a gradient arrives at elements that the output does not depend on, all others are right: a mask is missing, "
        "or a gradient goes to a whole row where it belongs to one element (max, an index, a diagonal)"
    )


def signs(evidence: Evidence) -> str:
    a, n = evidence.analytic, evidence.numerical
    if evidence.explained_by(np.copysign(n, a)):
        return "the sign is wrong for some elements, all magnitudes are right: is a factor sign(x), or abs, misplaced?"
    return ""


# ---- Factors and terms made of the values ----


def factor_of_values(evidence: Evidence) -> str:
    """Is every value the right one times a power, or a simple function, of an input or of the output?"""
    a, n = evidence.both
    some = ~evidence.zero(evidence.numerical).reshape(n.shape)
    if not evidence.zero(evidence.analytic[~some.reshape(evidence.numerical.shape)]).all():
        return ""
    ratio = np.divide(a, n, out=np.ones_like(a), where=some)
    if len(np.unique(ratio[some].round(9))) < 3:
        return ""
    for name, values in _candidates(evidence):
        for sign, text in ((1, "is missing"), (-1, "is too many")):
            with np.errstate(all="ignore"):
                model = np.where(some, n / values if sign == 1 else n * values, 0)
                times = float((a * model).sum() / (model * model).sum())
            nice = min(NICE, key=lambda number, times=times: abs(number - times))  # type: ignore[misc]
            if np.isfinite(model).all() and evidence.explained_by(nice * model):
                return _factor(name if nice == 1 else f"{nice**-sign:g} · {name}", sign, text)
    return ""


def _factor(name: str, sign: int, text: str) -> str:
    if " / " in name and " · " not in name:
        one, other = name.split(" / ")
        one, other = (other, one) if sign == 1 else (one, other)
        return (
            f"every value is {one} / {other} times the right one: {one} and {other} are confused, or a factor is "
            f"missing{_legend(name)}"
        )
    times = f"1 / ({name})" if sign == 1 and " · " in name else f"1 / {name}" if sign == 1 else name
    return f"every value is {times} times the right one: a factor {name} {text}{_legend(name)}"


def term_of_values(evidence: Evidence) -> str:
    """Is a simple term added to every value, or missing from it?"""
    off = evidence.off.reshape(evidence.output_shape + evidence.input_shape)
    if off.size > 2 and evidence.explained_by(evidence.numerical + off.flat[0]):
        return (
            "the same number is added to every derivative: a mean or a sum of the incoming gradient gets into the "
            "result"
        )
    some = ~evidence.zero(evidence.off).reshape(off.shape)
    if len(np.unique(off[some].round(9))) < 3:
        return ""
    for name, values in _candidates(evidence):
        for sign, text in ((1, "too many"), (-1, "missing")):
            model = evidence.numerical.reshape(off.shape) + np.where(some, sign * values, 0)
            if np.isfinite(model).all() and evidence.explained_by(model):
                return f"a term {name} is {text}{_legend(name)}"
    return ""


def _legend(name: str) -> str:
    return " (x is the input, y the output)" if {"x", "y"} & {*name} and "input" not in name else ""


def _candidates(evidence: Evidence) -> Iterator[tuple[str, Array]]:
    """Simple functions of inputs and output, and products of two, that broadcast against the Jacobian."""
    found = [made for name, values in evidence.arrays.items() for made in _simple(evidence, name, values)]
    with np.errstate(all="ignore"):
        for simple in ([made for made in found if "(" not in made[0]], found):
            yield from simple
            for (name, values), (other, others) in combinations(simple, 2) if len(simple) < MANY else ():
                yield f"{name} · {other}", values * others
                yield f"{name} / {other}", values / others


def _simple(evidence: Evidence, name: str, values: Array) -> Iterator[tuple[str, Array]]:
    """Functions of one array, as a factor that depends on the output's or on the input's element."""
    for shape, lead in ((evidence.output_shape, False), (evidence.input_shape, True)):
        try:
            array = np.broadcast_to(values, shape)
        except ValueError:
            continue
        if not np.isfinite(array).all():
            continue
        array = array.reshape(
            (1,) * len(evidence.output_shape) + shape if lead else shape + (1,) * len(evidence.input_shape)
        )
        with np.errstate(all="ignore"):
            yield name, array
            yield f"{name}²", array**2
            yield f"(1 - {name})", 1 - array
            yield f"(1 + {name})", 1 + array
            yield f"exp({name})", np.exp(array)
            yield f"log({name})", np.log(array)
            yield f"√{name}", np.sqrt(array)


def two_factors(evidence: Evidence) -> str:
    """Are some values right, and all others the right ones times one number?"""
    a, n = evidence.analytic, evidence.numerical
    some = ~evidence.zero(n)
    right = abs(a - n) <= 1e-3 * abs(evidence.off).max(initial=0)
    wrong = some & ~right
    if not right[some].any() or wrong.sum() < 2:
        return ""
    ratio = float((a * n)[wrong].sum() / (n * n)[wrong].sum())
    if not ratio or not evidence.explained_by(np.where(wrong, ratio * n, n)):
        return ""
    causes = ["counted twice"] if np.isclose(ratio, 2) else ["the sign is wrong"] if np.isclose(ratio, -1) else []
    causes += causes_of_ratio(ratio, evidence.output_shape, evidence.input_shape)
    text = f"some values are right, all others are {ratio:.4g} times the right ones"
    return f"{text}: {'; or '.join(causes)}" if causes else text
