"""Guesses at a mistake and the numbers they are tried on; guesses at wrong factors and terms.

These are numbers, sizes of axes, functions of the inputs and of the output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any

import numpy as np

from autograd.ops.shape import broadcasts_to

Array = np.ndarray
Shape = tuple[int, ...]
Guess = tuple[str, Array]  # a mistake, and the Jacobian that it makes: that of backward if the numbers are known to fit

NICE = (1, 2, 1 / 2, 3, 1 / 3, 4, 1 / 4, -1, -2, -1 / 2)  # factors beside a function of the values
MANY = 80  # functions of inputs and output of which pairs are not tried


@dataclass(frozen=True)
class Evidence:
    """A wrong Jacobian, the right one, and the values that a mistake may have used.

    Shapes: analytic, numerical [M, n], for M elements of an output and all n of an input, or some unless `complete`

    at: the input; arrays: inputs and output by name
    others: returns the right Jacobians [M, n_k] of the same output by the other inputs, by name
    noise: a bound on the error of the right Jacobian
    outputs: the analytic and the right Jacobian of each output by this input, where there are several; output: which of
        them this one is
    """

    analytic: Array
    numerical: Array
    output_shape: Shape
    at: Array
    arrays: Mapping[str, Array] = field(default_factory=dict)
    others: Callable[[], Mapping[str, Array]] = dict
    complete: bool = True
    outputs: tuple[tuple[Array, Array], ...] = ()
    output: int = 0
    noise: float = 0.0

    @property
    def off(self) -> Array:
        """Return the difference between analytic and numerical derivatives."""
        return self.analytic - self.numerical

    @property
    def both(self) -> tuple[Array, Array]:
        """The two Jacobians in the shapes of output and input."""
        shape = self.output_shape + self.at.shape
        return self.analytic.reshape(shape), self.numerical.reshape(shape)

    def fits(self, model: Array) -> bool:
        """Whether a Jacobian is the analytic one, except for a thousandth of what is wrong."""
        residual = abs(self.analytic - np.reshape(model, self.analytic.shape))
        return bool(residual.max(initial=0.0) <= 1e-3 * abs(self.off).max(initial=0.0))

    def zero(self, values: Array) -> Array:
        """Mask of derivatives that are 0 up to rounding."""
        return abs(values) <= max(1e-7 * abs(self.numerical).max(initial=0.0), self.noise)

    def where(self, axis: int) -> str:
        """Return the name of an axis of `both`."""
        outputs = len(self.output_shape)
        return f"axis {axis} of the output" if axis < outputs else f"axis {axis - outputs} of the input"


def subsets(of: Iterable[Any], most: int) -> Iterator[tuple[Any, ...]]:
    """Yield the subsets of 1 to `most` elements, small ones first."""
    elements = list(of)
    return chain.from_iterable(combinations(elements, k) for k in range(1, most + 1))


def ratio_of(a: Array, n: Array) -> float:
    """Return the number r for which r · n is nearest to a; 0 if n is."""
    return float((a * n).sum() / (n * n).sum()) if n.any() else 0.0


def listed(mask: Array, most: int = 8) -> str:
    """Return the indices at which a mask is True, in words."""
    places = np.flatnonzero(mask).tolist()
    return ", ".join(map(str, places[:most])) + (", …" if len(places) > most else "")


# ---- Numbers ----


def constant_factor(e: Evidence) -> Iterator[Guess]:
    """Every value is the right one times a number."""
    ratio = ratio_of(e.analytic, e.numerical)
    if ratio:
        yield _about_factor(ratio, e), ratio * e.numerical


def _about_factor(ratio: float, e: Evidence) -> str:
    if math.isclose(ratio, -1, rel_tol=1e-6):
        return "the sign is wrong: every value is minus the right one"
    known = [
        (2, "a term is counted twice, or a factor 1/2 is missing"),
        (0.5, "a factor 2 is missing, or one of two equal terms (a value used twice gets two gradients)"),
    ]
    causes = [text for value, text in known if math.isclose(ratio, value, rel_tol=1e-3)] + _causes_of_ratio(ratio, e)
    for whole, what in ((ratio, "a sum where a mean is meant"), (1 / ratio, "a mean where a sum is meant")):
        if not causes and whole > 2.5 and abs(whole - round(whole)) < 1e-3:
            causes.append(f"a constant factor is wrong, or {what}, over {whole:.0f} samples, outputs or classes")
    if abs(ratio - 1) < 1e-3:
        causes.append(f"differs by {abs(ratio - 1):.0e} of the value: an approximation in one of the passes")
    factor = f"1 {ratio - 1:+.0e}" if abs(ratio - 1) < 1e-3 else f"{ratio:.4g}"
    return f"every value is {factor} times the right one: {'; or '.join(causes) or 'a constant factor is wrong'}"


def two_factors(e: Evidence) -> Iterator[Guess]:
    """Some values are right, and all others the right ones times one number."""
    a, n = e.analytic, e.numerical
    some = ~e.zero(n)
    right = abs(a - n) <= 1e-3 * abs(e.off).max(initial=0)
    wrong = some & ~right
    ratio = ratio_of(a[wrong], n[wrong])
    if right[some].any() and wrong.sum() > 1 and ratio:
        causes = ["counted twice"] if np.isclose(ratio, 2) else ["the sign is wrong"] if np.isclose(ratio, -1) else []
        causes += _causes_of_ratio(ratio, e)
        text = f"some values are right, all others are {ratio:.4g} times the right ones"
        yield f"{text}: {'; or '.join(causes)}" if causes else text, np.where(wrong, ratio * n, n)


def own_factors(e: Evidence) -> Iterator[Guess]:
    """The derivatives of each output, or by each element, are the right ones times a factor of its own."""
    for text, a, n in (
        ("of each output are the right ones times a factor of its own: the incoming gradient is multiplied by a wrong "
         "value (the slope of an activation at another value than in the forward pass, a mask) before the rest",
         e.analytic, e.numerical),
        ("by each element are the right ones times a factor of its own: what backward multiplies by last is wrong",
         e.analytic.T, e.numerical.T),
    ):  # fmt: skip
        if ((~e.zero(n)).sum(axis=1) > 1).sum() > 1:
            squares = (a * a).sum(axis=1, keepdims=True)  # of the exact ones: a factor may be large
            multiples = a * (a * n).sum(axis=1, keepdims=True) / np.where(squares == 0, 1, squares)
            if abs(n - multiples).max() <= 1e-3 * abs(e.off).max() + e.noise:
                yield f"the derivatives {text}", e.analytic


def _causes_of_ratio(ratio: float, e: Evidence) -> list[str]:
    """Explanations of a factor by the sizes of axes: means and sums, their counts, and the scale 1/√d of attention."""
    sizes = list(_sizes(e))
    whole, near = [], []
    for size, where in sizes:
        whole += [
            (1 / size, f"a mean where a sum is meant (1/{size}, {where})"),
            (size, f"a sum where a mean is meant, or a sum taken twice ({size}, {where})"),
        ]
        near += [
            (size / (size - 1), f"divided by n - 1 where n is meant (n = {size}, {where})"),
            ((size - 1) / size, f"divided by n where n - 1 is meant (n = {size}, {where})"),
        ]
        if size != 4:  # √4 is a size itself
            near += [
                (math.sqrt(size), f"a factor 1/√{size} is missing ({where})"),
                (1 / math.sqrt(size), f"a factor √{size} is missing ({where})"),
            ]
    for (size, where), (other, elsewhere) in ((one, two) for one in sizes for two in sizes if one != two):
        near.append((size / other, f"divided by {other} ({elsewhere}) where {size} is meant ({where})"))
    causes = [text for value, text in whole if math.isclose(ratio, value, rel_tol=1e-3)]
    return causes[:2] or [text for value, text in near if math.isclose(ratio, value, rel_tol=1e-4)][:3]


def _sizes(e: Evidence) -> Iterator[tuple[int, str]]:
    """Yield the possible divisors of a mean: sizes of axes, of whole arrays and of all axes but one, each once."""
    seen = {0, 1}
    for what, shape in (("input", e.at.shape), ("output", e.output_shape)):
        total = math.prod(shape)
        sizes = [(size, f"the size of axis {axis} of the {what}") for axis, size in enumerate(shape)]
        sizes.append((total, f"the number of elements of the {what}"))
        sizes += [(total // size, f"the elements of the {what} per index of axis {k}")
                  for k, size in enumerate(shape) if size]  # fmt: skip
        for size, where in sizes:
            if size not in seen:
                seen.add(size)
                yield size, where


# ---- Functions of the values ----


def factor_of_values(e: Evidence) -> Iterator[Guess]:
    """Every value is the right one times a power, or a simple function, of an input or of the output."""
    a, n = e.both
    some = ~e.zero(n)
    ratio = np.divide(a, n, out=np.ones_like(a), where=some)
    if len(np.unique(ratio[some].round(9))) < 3 or not e.zero(a[~some]).all():
        return
    for name, values in _candidates(e):
        for sign in (1, -1):
            model = np.where(some, n / values if sign == 1 else n * values, 0)
            if np.isfinite(model).all():
                nice = _nearest(NICE, ratio_of(a, model))
                yield _about_values(name if nice == 1 else f"{nice**-sign:g} · {name}", sign), nice * model


def _nearest(numbers: tuple[float, ...], ratio: float) -> float:
    return min(numbers, key=lambda number: abs(number - ratio))


def _about_values(name: str, sign: int) -> str:
    if " / " in name and " · " not in name:
        one, other = name.split(" / ")[:: -1 if sign == 1 else 1]
        return (
            f"every value is {one} / {other} times the right one: {one} and {other} are confused, or a factor is "
            f"missing{_legend(name)}"
        )
    times = name if sign == -1 else f"1 / ({name})" if " · " in name else f"1 / {name}"
    verb = "is missing" if sign == 1 else "is too many"
    return f"every value is {times} times the right one: a factor {name} {verb}{_legend(name)}"


def term_of_values(e: Evidence) -> Iterator[Guess]:
    """The function's own derivative is forgotten; or a term is added, missing, or has a wrong constant factor."""
    if e.output_shape == e.at.shape and e.zero(e.numerical - np.diag(np.diag(e.numerical))).all():
        text = "the incoming gradient is passed on unchanged: the derivative of the function itself is forgotten"
        yield text, np.eye(len(e.numerical))
    _, n = e.both
    off = e.off.reshape(n.shape)
    if off.size > 2:
        cause = "a mean or a sum of the incoming gradient gets into the result"
        yield f"the same number is added to every derivative: {cause}", n + off.flat[0]
    some = ~e.zero(off)
    different = len(np.unique(off[some].round(9)))
    if different < 3:
        return
    for name, values in _candidates(e):
        term = np.where(some, values, 0)
        if np.isfinite(term).all():
            times = ratio_of(off, term)
            how = f"has a wrong constant factor, {abs(times):.4g} too {'small' if times < 0 else 'large'}"
            if abs(abs(times) - 1) < 1e-3:
                times, how = np.sign(times), "is missing" if times < 0 else "is too many"
            if how.startswith("is") or different > 8:  # a free factor fits a few numbers by chance
                yield f"a term {name} {how}{_legend(name)}", n + times * term


def _legend(name: str) -> str:
    return " (x is the input, y the output)" if {"x", "y"} & {*name} and "input" not in name else ""


def _candidates(e: Evidence) -> Iterator[tuple[str, Array]]:
    """Simple functions of inputs and output, and products of two, that broadcast against the Jacobian.

    They are factors that depend on the output's element or on the input's.
    """
    places = ((e.output_shape, 0, len(e.at.shape)), (e.at.shape, len(e.output_shape), 0))
    found: list[tuple[str, Array]] = []
    for (name, values), (shape, lead, trail) in itertools.product(e.arrays.items(), places):
        if broadcasts_to(values.shape, shape) and np.isfinite(values).all():
            x = np.broadcast_to(values, shape).reshape((1,) * lead + shape + (1,) * trail)
            found += [
                (name, x), (f"{name}²", x**2), (f"(1 - {name})", 1 - x), (f"(1 + {name})", 1 + x),
                (f"exp({name})", np.exp(x)), (f"log({name})", np.log(x)), (f"√{name}", np.sqrt(x)),
            ]  # fmt: skip
    for simple in ([made for made in found if "(" not in made[0]], found):
        yield from simple
        for (name, values), (other, others) in combinations(simple, 2) if len(simple) < MANY else ():
            yield f"{name} · {other}", values * others
            yield f"{name} / {other}", values / others


# ---- Parameters of a likelihood or a loss ----


def by_logarithm(e: Evidence) -> Iterator[Guess]:
    """Some derivatives are those by log x, or those by x in place of log x."""
    off = np.atleast_1d(~e.zero(e.off).all(axis=0))
    if len(e.analytic) > 1 and off.all():
        return
    x = e.at.reshape(-1)
    for factor, how in ((x, "logarithm"), (1 / x, "exponential")) if x[off].all() else ():
        model = np.where(off, e.numerical * factor, e.numerical)
        if np.isfinite(model).all() and (abs(factor[off] - 1) > 1e-3).all():
            element = f"the derivative by element {listed(off, 5)} is one by the {how} of this element"
            yield f"{element}: a parameter that is transformed?", model


def factor_beside_decay(e: Evidence) -> Iterator[Guess]:
    """The derivatives are a factor times the right ones, but for a multiple of the input: that of a weight decay."""
    if len(e.analytic) != 1 or e.at.size < 4 or not np.isfinite(e.at).all():
        return
    a, n, x = e.analytic[0], e.numerical[0], e.at.reshape(-1)
    ratios, counts = np.unique((a / n)[~e.zero(n)].round(4), return_counts=True)
    fitted = np.linalg.lstsq(np.array([n, x]).T, a, rcond=None)[0][0]
    for ratio in (fitted, *ratios[counts.argsort()[-1:]]):  # the decay may be of all elements, or of some
        factor = _nearest((*NICE, *range(5, 100)), ratio)
        some = ~e.zero(a - factor * n)
        decay = ratio_of((a - factor * n)[some], x[some])
        text = (
            f"the derivatives are {factor:g} times the right ones, but for {decay:.3g} times the element, as "
            "of a weight decay that has another factor: a sum where a mean is meant (over outputs, samples), or a "
            "factor is missing"
        )
        yield text, factor * n + np.where(some, decay * x, 0)
