"""Find the mistake that a wrong Jacobian points to: each pattern knows one mistake, and says "" if it is another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations

import numpy as np

from autograd.gradcheck.function import GradcheckError

Array = np.ndarray
Shape = tuple[int, ...]

NICE = (1, 2, 1 / 2, 3, 1 / 3, 4, 1 / 4, -1, -2, -1 / 2)  # factors beside a function of the values
MANY = 80  # functions of inputs and output of which pairs are not tried
NEARLY = 0.02  # of what a slope adds up is nearly 0: a normalisation divides by √(variance + ε)


@dataclass(frozen=True)
class Evidence:
    """A wrong Jacobian, the right one, and the values that a mistake may have used.

    Shapes: analytic, numerical [M, n], for M elements of an output and all n of an input, or some unless `complete`

    arrays: inputs and output by name; at: the input itself
    others: returns the right Jacobians [M, n_k] of the same output by the other inputs, by name
    noise: a bound on the error of the right Jacobian
    outputs: the analytic and the right Jacobian of each output by this input, where there are several; output: which of
        them this one is
    """

    analytic: Array
    numerical: Array
    output_shape: Shape
    input_shape: Shape
    arrays: Mapping[str, Array] = field(default_factory=dict)
    at: Array | None = None
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
        shape = self.output_shape + self.input_shape
        return self.analytic.reshape(shape), self.numerical.reshape(shape)

    def explained_by(self, model: Array, part: Array | None = None) -> bool:
        """Whether the analytic Jacobian is `model` (where `part` is True), except for a thousandth of what is wrong."""
        residual = abs(self.analytic.reshape(model.shape) - model)
        if part is not None:
            residual = residual[part]
        return bool(residual.max(initial=0.0) <= 1e-3 * abs(self.off).max(initial=0.0))

    def zero(self, values: Array) -> Array:
        """Mask of derivatives that are 0 up to rounding."""
        return abs(values) <= max(1e-7 * abs(self.numerical).max(initial=0.0), self.noise)

    def where(self, axis: int) -> str:
        """Return the name of an axis of `both`."""
        outputs = len(self.output_shape)
        return f"axis {axis} of the output" if axis < outputs else f"axis {axis - outputs} of the input"


def likely_cause(e: Evidence) -> str:
    """One or two sentences on the mistake that the numbers point to; "" if they point to none."""
    if not np.isfinite(e.analytic).all():
        return "the backward pass divides by 0 or overflows: its result is not finite"
    if len(e.outputs) > 1 and (cause := cotangents(e)):
        return cause
    if not e.analytic.any():
        return (
            "the gradient is lost: backward returns None or zeros for this input, or the function leaves the "
            "graph on its way (through .data, .numpy(), detach() or no_grad())"
        )
    if not np.isfinite(e.numerical).all():
        return ""
    patterns = (constant_factor, *(PATTERNS if e.complete else ()))
    cause = next(filter(None, (pattern(e) for pattern in patterns)), "")
    return cause and part_that_is_wrong(e) + cause


# ---- Constant factors ----


def constant_factor(e: Evidence) -> str:
    """Is every value the right one times a number?"""
    a, n = e.analytic, e.numerical
    ratio = float((a * n).sum() / (n * n).sum()) if n.any() else 0.0
    if not ratio or not e.explained_by(ratio * n):
        return ""
    if math.isclose(ratio, -1, rel_tol=1e-6):
        return "the sign is wrong: every value is minus the right one"
    causes = []
    if math.isclose(ratio, 2, rel_tol=1e-3):
        causes.append("a term is counted twice, or a factor 1/2 is missing")
    if math.isclose(ratio, 0.5, rel_tol=1e-3):
        causes.append("a factor 2 is missing, or one of two equal terms (a value used twice gets two gradients)")
    causes += _causes_of_ratio(ratio, e)
    for whole, what in ((ratio, "a sum where a mean is meant"), (1 / ratio, "a mean where a sum is meant")):
        if not causes and whole > 2.5 and abs(whole - round(whole)) < 1e-3:
            causes.append(f"a constant factor is wrong, or {what}, over {whole:.0f} samples, outputs or classes")
    if abs(ratio - 1) < 1e-3:
        causes.append(f"differs by {abs(ratio - 1):.0e} of the value: an approximation in one of the passes")
    factor = f"1 {ratio - 1:+.0e}" if abs(ratio - 1) < 1e-3 else f"{ratio:.4g}"
    return f"every value is {factor} times the right one: {'; or '.join(causes) or 'a constant factor is wrong'}"


def rounded(e: Evidence) -> str:
    """Is every value right but for the rounding of float32?"""
    if np.count_nonzero(e.off) > 1 and (abs(e.off) <= np.finfo(np.float32).eps * abs(e.numerical)).all():
        return (
            "every value is right to the 7 digits of float32: something in backward is computed or kept in float32 (an "
            "astype, an array or a constant made with that dtype)"
        )
    return ""


def two_factors(e: Evidence) -> str:
    """Are some values right, and all others the right ones times one number?"""
    a, n = e.analytic, e.numerical
    some = ~e.zero(n)
    right = abs(a - n) <= 1e-3 * abs(e.off).max(initial=0)
    wrong = some & ~right
    if not right[some].any() or wrong.sum() < 2:
        return ""
    ratio = float((a * n)[wrong].sum() / (n * n)[wrong].sum())
    if not ratio or not e.explained_by(np.where(wrong, ratio * n, n)):
        return ""
    causes = ["counted twice"] if np.isclose(ratio, 2) else ["the sign is wrong"] if np.isclose(ratio, -1) else []
    causes += _causes_of_ratio(ratio, e)
    text = f"some values are right, all others are {ratio:.4g} times the right ones"
    return f"{text}: {'; or '.join(causes)}" if causes else text


def _causes_of_ratio(ratio: float, e: Evidence) -> list[str]:
    """Explanations of a factor by the sizes of axes: means and sums, their counts, and the scale 1/√d of attention."""

    def is_near(value: float, rel_tol: float = 1e-4) -> bool:
        return math.isclose(ratio, value, rel_tol=rel_tol)

    sizes = list(_sizes(e))
    causes = []
    for size, where in sizes:
        if is_near(1 / size, 1e-3):
            causes.append(f"a mean where a sum is meant (1/{size}, {where})")
        if is_near(size, 1e-3):
            causes.append(f"a sum where a mean is meant, or a sum taken twice ({size}, {where})")
    if causes:
        return causes[:2]
    for size, where in sizes:
        if is_near(size / (size - 1)):
            causes.append(f"divided by n - 1 where n is meant (n = {size}, {where})")
        if is_near((size - 1) / size):
            causes.append(f"divided by n where n - 1 is meant (n = {size}, {where})")
        if is_near(math.sqrt(size)) and size != 4:
            causes.append(f"a factor 1/√{size} is missing ({where})")
        if is_near(1 / math.sqrt(size)) and size != 4:
            causes.append(f"a factor √{size} is missing ({where})")
    for size, where in sizes:
        for other, elsewhere in sizes:
            if size != other and is_near(size / other):
                causes.append(f"divided by {other} ({elsewhere}) where {size} is meant ({where})")
    return causes[:3]


def _sizes(e: Evidence) -> Iterator[tuple[int, str]]:
    """Yield the possible divisors of a mean: sizes of axes, of whole arrays and of all axes but one, each once."""
    seen = {0, 1}
    for what, shape in (("input", e.input_shape), ("output", e.output_shape)):
        total = math.prod(shape)
        sizes = [(size, f"the size of axis {axis} of the {what}") for axis, size in enumerate(shape)]
        sizes.append((total, f"the number of elements of the {what}"))
        if total and len(shape) > 2:
            sizes += [(total // size, f"the elements of the {what} per index of axis {k}")
                      for k, size in enumerate(shape)]  # fmt: skip
        for size, where in sizes:
            if size not in seen:
                seen.add(size)
                yield size, where


# ---- The gradient of something else ----


def cotangents(e: Evidence) -> str:
    """Does backward take the incoming gradient for one of several outputs for that of another, or none?

    The response to the gradient of output j must be the derivative of output j alone.  Where it is a sum of c_jk times
    those of the outputs k, and all c_jk are simple numbers, they say which gradients are confused.
    """
    wrong = [
        j for j, (a, n) in enumerate(e.outputs) if not np.allclose(a, n, rtol=1e-4, atol=1e-6 * abs(n).max(initial=0))
    ]
    names = [f"output {j}" for j in range(len(e.outputs))]
    lost = [j for j in wrong if not e.outputs[j][0].any()]
    sizes = {a.shape for a, _ in e.outputs}
    if len(sizes) == 1 and all(np.isfinite(part).all() for pair in e.outputs for part in pair):
        right = np.array([n.reshape(-1) for _, n in e.outputs]).T  # [elements, outputs]
        found = np.array([a.reshape(-1) for a, _ in e.outputs]).T
        factors, _, rank, _ = np.linalg.lstsq(right, found, rcond=1e-6)
        simple = np.array([min((0.0, *NICE), key=lambda nice, c=c: abs(nice - c)) for c in factors.flat])  # type: ignore[misc]
        simple = simple.reshape(factors.shape)
        mixed = [(j, k) for j in wrong for k in range(len(names)) if k != j and simple[k, j]]
        exact = abs(found - right @ simple).max(initial=0) <= 1e-3 * abs(found - right).max(initial=0)
        if rank == len(names) and exact and mixed:
            j, k = mixed[0]
            return (
                f"backward uses the incoming gradient of {names[j]} for that of {names[k]}: it multiplies it by "
                f"the derivative of {names[k]}"
            )
    if lost == wrong and len(wrong) < len(names):
        which = " and ".join(names[j] for j in lost)
        return f"the gradient from {which} is lost: backward does not use its incoming gradient"
    return ""


def part_that_is_wrong(e: Evidence) -> str:
    """Name the output if it is the only one whose term is wrong; otherwise ""."""
    wrong = [
        j for j, (a, n) in enumerate(e.outputs) if not np.allclose(a, n, rtol=1e-4, atol=1e-6 * abs(n).max(initial=0))
    ]
    if len(e.outputs) < 2 or wrong != [e.output]:
        return ""
    return f"only the part of backward for output {e.output} is wrong; in this part, "


def cotangent_ignored(e: Evidence) -> str:
    """Is the gradient the same for each output?"""
    a = e.analytic
    if len(a) > 1 and e.explained_by(np.broadcast_to(a[:1], a.shape)):
        return "backward does not use the incoming gradient: it returns the same for every output"
    return ""


def of_another_input(e: Evidence) -> str:
    """Is it the right gradient of another input?"""
    try:
        others = e.others()
    except GradcheckError:  # another input is at a kink
        return ""
    for name, jacobian in others.items():
        if jacobian.shape == e.analytic.shape and e.explained_by(jacobian):
            return f"this is the gradient of {name}: two gradients, or two factors, are exchanged"
    return ""


def direct_path(e: Evidence) -> str:
    """Is the Jacobian the right one without the identity, or with one too many?"""
    if e.output_shape != e.input_shape or len(e.analytic) < 2:
        return ""
    one = np.eye(len(e.analytic))
    if e.explained_by(e.numerical - one):
        return "the direct path is missing: a residual connection x + f(x) adds the incoming gradient itself"
    if e.explained_by(e.numerical + one):
        return "the incoming gradient itself is added once too often, as by a residual connection x + f(x)"
    return ""


def passed_on(e: Evidence) -> str:
    """Is the Jacobian the identity, where the function is element-wise?"""
    n = e.numerical
    elementwise = e.output_shape == e.input_shape and e.zero(n - np.diag(np.diag(n))).all()
    if elementwise and e.explained_by(np.eye(len(n))):
        return "the incoming gradient is passed on unchanged: the derivative of the function itself is forgotten"
    return ""


# ---- Masks and signs ----


def mask(e: Evidence) -> str:
    """Does the gradient pass where the function is flat, in a function whose outputs depend on one element each?"""
    a, n = e.analytic, e.numerical
    flat, passes = e.zero(n), ~e.zero(a)
    if not (flat & passes).any():
        return ""
    if not n.any():
        return (
            "the output does not depend on this input here, and yet a gradient arrives: is a mask forgotten, or the "
            "projection of a softmax or a normalisation, or the bound of a clipped value?"
        )
    if ((~flat | passes).sum(axis=1) > 1).any():
        return ""
    if not passes[~flat].any():
        return (
            "the gradient passes exactly where the output does not depend on the input: a mask is the wrong way round"
        )
    ratio = float((a * n)[~flat].sum() / (n * n)[~flat].sum())
    if e.explained_by(ratio * n, ~flat):
        scale = "" if math.isclose(ratio, 1, rel_tol=1e-3) else f", and so is its factor {1 / ratio:.4g}"
        return (
            "a gradient passes where the output does not depend on the input: a mask (of relu, clip, where, dropout, "
            f"padding) is forgotten in backward{scale}"
        )
    return ""


def leak(e: Evidence) -> str:
    """Are all derivatives right but some that must be 0?"""
    flat = e.zero(e.numerical)
    if flat.all() or not e.explained_by(e.numerical, ~flat):
        return ""
    return (
        "elements that the output does not depend on get a gradient, all others are right: a mask is missing, "
        "a value that the function clips has a slope that is not 0, or a gradient goes to a whole row where it belongs "
        "to one element (max, an index, a diagonal)"
    )


def signs(e: Evidence) -> str:
    """Are all magnitudes right and some signs wrong?"""
    if e.explained_by(np.copysign(e.numerical, e.analytic)):
        return "the sign is wrong for some elements, all magnitudes are right: is a factor sign(x), or abs, misplaced?"
    return ""


# ---- Factors and terms made of the values ----


def factor_of_values(e: Evidence) -> str:
    """Is every value the right one times a power, or a simple function, of an input or of the output?"""
    a, n = e.both
    some = ~e.zero(n)
    if not e.zero(a[~some]).all():
        return ""
    ratio = np.divide(a, n, out=np.ones_like(a), where=some)
    if len(np.unique(ratio[some].round(9))) < 3:
        return ""
    for name, values in _candidates(e):
        for sign in (1, -1):
            with np.errstate(all="ignore"):
                model = np.where(some, n / values if sign == 1 else n * values, 0)
                times = float((a * model).sum() / (model * model).sum())
            nice = min(NICE, key=lambda number, times=times: abs(number - times))  # type: ignore[misc]
            if np.isfinite(model).all() and e.explained_by(nice * model):
                return _factor(name if nice == 1 else f"{nice**-sign:g} · {name}", sign)
    return ""


def _factor(name: str, sign: int) -> str:
    if " / " in name and " · " not in name:
        one, other = name.split(" / ")[:: -1 if sign == 1 else 1]
        return (
            f"every value is {one} / {other} times the right one: {one} and {other} are confused, or a factor is "
            f"missing{_legend(name)}"
        )
    times = name if sign == -1 else f"1 / ({name})" if " · " in name else f"1 / {name}"
    verb = "is missing" if sign == 1 else "is too many"
    return f"every value is {times} times the right one: a factor {name} {verb}{_legend(name)}"


def term_of_values(e: Evidence) -> str:
    """Is a simple term added to every value, or missing from it?"""
    _, n = e.both
    off = e.off.reshape(n.shape)
    if off.size > 2 and e.explained_by(n + off.flat[0]):
        return (
            "the same number is added to every derivative: a mean or a sum of the incoming gradient gets into the "
            "result"
        )
    some = ~e.zero(off)
    if len(np.unique(off[some].round(9))) < 3:
        return ""
    for name, values in _candidates(e):
        for sign, text in ((1, "too many"), (-1, "missing")):
            model = n + np.where(some, sign * values, 0)
            if np.isfinite(model).all() and e.explained_by(model):
                return f"a term {name} is {text}{_legend(name)}"
    return ""


def factor_of_a_term(e: Evidence) -> str:
    """Is the error of an element-wise function's derivative r · xᵖ · yᵠ · …, for one number r and whole exponents?

    A constant that is missing in one of several terms leaves such a product: log |error| is linear in the exponents,
    with more equations than unknowns.
    """
    n = e.numerical
    if e.at is None or e.output_shape != e.input_shape or not e.zero(n - np.diag(np.diag(n))).all():
        return ""
    off, x, y = np.diag(e.off), e.at.reshape(-1), e.arrays["y"].reshape(-1)
    with np.errstate(all="ignore"):
        factors = {"x": x, "y": y, "(1 - y)": 1 - y, "(1 + y)": 1 + y, "(1 - y / x)": 1 - y / x}
        log_off, *logs = np.log(abs(np.array([off, *factors.values()])))
    known = np.isfinite([log_off, *logs]).all(axis=0)
    if len(np.unique(off[known].round(9))) < 3:
        return ""
    for chosen in chain.from_iterable(combinations(range(len(factors)), k) for k in (1, 2, 3)):
        if known.sum() < len(chosen) + 4:
            return ""
        columns = np.array([np.ones_like(x), *(logs[k] for k in chosen)])[:, known].T
        powers = np.linalg.lstsq(columns, log_off[known], rcond=None)[0][1:].round().astype(int)
        if not powers.all() or abs(powers).max() > 4:
            continue
        names = [list(factors)[k] for k in chosen]
        term = np.prod([factors[f][known] ** float(k) for f, k in zip(names, powers, strict=True)], axis=0)
        times = float((off[known] * term).sum() / (term * term).sum())
        if abs(off[known] - times * term).max() <= 1e-3 * abs(off).max():
            name = " · ".join(f"{f}{_power(k)}" for f, k in zip(names, powers, strict=True))
            how = f"{abs(times):.4g} too {'small' if times < 0 else 'large'}"
            return f"a term {name} has a wrong constant factor, {how} (x is the input, y the output)"
    return ""


def _power(k: int) -> str:
    return "" if k == 1 else str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _legend(name: str) -> str:
    return " (x is the input, y the output)" if {"x", "y"} & {*name} and "input" not in name else ""


def _candidates(e: Evidence) -> Iterator[tuple[str, Array]]:
    """Simple functions of inputs and output, and products of two, that broadcast against the Jacobian."""
    found = [made for name, values in e.arrays.items() for made in _simple(e, name, values)]
    with np.errstate(all="ignore"):
        for simple in ([made for made in found if "(" not in made[0]], found):
            yield from simple
            for (name, values), (other, others) in combinations(simple, 2) if len(simple) < MANY else ():
                yield f"{name} · {other}", values * others
                yield f"{name} / {other}", values / others


def _simple(e: Evidence, name: str, values: Array) -> Iterator[tuple[str, Array]]:
    """Functions of one array, as a factor that depends on the output's or on the input's element."""
    for shape, lead, trail in ((e.output_shape, 0, len(e.input_shape)), (e.input_shape, len(e.output_shape), 0)):
        try:
            array = np.broadcast_to(values, shape)
        except ValueError:
            continue
        if not np.isfinite(array).all():
            continue
        array = array.reshape((1,) * lead + shape + (1,) * trail)
        with np.errstate(all="ignore"):
            yield name, array
            yield f"{name}²", array**2
            yield f"(1 - {name})", 1 - array
            yield f"(1 + {name})", 1 + array
            yield f"exp({name})", np.exp(array)
            yield f"log({name})", np.log(array)
            yield f"√{name}", np.sqrt(array)


# ---- Right values in the wrong places, or not added up ----


def transposed(e: Evidence) -> str:
    """Are they the right values with two axes of the input exchanged?"""
    a, n = e.both
    first = len(e.output_shape)
    for p, q in combinations(range(len(e.input_shape)), 2):
        swapped = n.swapaxes(first + p, first + q)
        if e.explained_by(swapped.reshape(a.shape)):
            how = "transposed" if swapped.shape == a.shape else "in the order of the transposed array"
            keepdims = "; after a reduction, the gradient is broadcast along the wrong axis (keepdims)"
            return f"the values are right but {how}: axes {p} and {q} of the gradient are exchanged" + (
                keepdims if first < len(e.input_shape) else ""
            )
    return ""


def factor_transposed(e: Evidence) -> str:
    """Are they the right values with an axis of the output and one of the input exchanged, as in g @ b for g @ b.T?"""
    a, n = e.both
    outputs = len(e.output_shape)
    for q in range(outputs):
        for p in range(outputs, a.ndim):
            if a.shape[p] == a.shape[q] and e.explained_by(n.swapaxes(p, q)):
                return (
                    f"a factor is transposed: the values are right with {e.where(q)} and {e.where(p)} exchanged, as "
                    "if g @ b were computed instead of g @ b.T"
                )
    return ""


def flipped_kernel(e: Evidence) -> str:
    """Does each output depend on a window of the input, with the right values in reverse order within the window?

    Windows that the edge of the input cuts are left out: what stands there depends on the padding.
    """
    _, n = e.both
    first = len(e.output_shape)
    axes_of_input = [axis for axis in range(first, n.ndim) if n.shape[axis] > 2]
    for axes in chain.from_iterable(combinations(axes_of_input, k) for k in (1, 2, 3)):
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
            return (
                f"the kernel of a convolution is flipped along {' and '.join(map(e.where, axes))}: the values are "
                "right but in reverse order within each window; for y[t] = Σₖ w[k] · x[t + k], the gradient by x[s] is "
                "Σₖ w[k] · g[s - k], which passes the kernel in the opposite direction"
            )
    return ""


def _window(mask: Array) -> tuple[slice, ...]:
    """Return the smallest box that holds all that is True; empty slices if nothing is."""
    ranges = []
    for axis in range(mask.ndim):
        places = np.flatnonzero(mask.any(axis=tuple([k for k in range(mask.ndim) if k != axis])))
        ranges.append(slice(places[0], places[-1] + 1) if len(places) else slice(0, 0))
    return tuple(ranges)


def not_summed(e: Evidence) -> str:
    """Is the gradient along a broadcast axis of the output that of one index, not the sum over all?"""
    a, n = e.both
    lead = len(e.output_shape) - len(e.input_shape)
    for axis, size in enumerate(e.output_shape):
        repeated = size > 1 and (axis < lead or e.input_shape[axis - lead] == 1)
        others = tuple([k for k in range(a.ndim) if k != axis])
        if lead >= 0 and repeated and (a != 0).any(axis=others).sum() == 1 < (n != 0).any(axis=others).sum():
            return (
                f"a missing sum: the input is broadcast along axis {axis} of the output, but the gradient of one index "
                "alone comes back instead of the sum over all"
            )
    return ""


def overwritten(e: Evidence) -> str:
    """Are all values right or 0, with 0 for some outputs only that depend on an input element?"""
    zero = e.zero(e.analytic)
    if not e.explained_by(e.numerical, ~zero):
        return ""
    lost = zero & ~e.zero(e.numerical)
    rows, columns = (lost.any(axis=axis) for axis in (1, 0))
    if 1 < lost.sum() == rows.sum() * columns.sum() and min(lost.shape) > 1 and not (rows.all() or columns.all()):
        return (
            f"a block of zeros, all others are right: derivatives of the outputs {_listed(rows)} by the elements "
            f"{_listed(columns)} are 0"
        )
    if len(lost) == len(lost.T) > 1 and (lost == lost.T).all() and not lost.diagonal().any():
        return (
            "a block of zeros off the diagonal, and its mirror image; all others are right: mixed derivatives are lost"
        )
    if ((~zero).any(axis=0) & lost.any(axis=0)).any():
        return (
            "some terms are missing, the others are right: where an element is used several times, the gradients must "
            "add up; assigning (g[index] = …) keeps the last one, np.add.at(g, index, …) keeps all"
        )
    return f"the gradient of some elements is lost (it is 0), all others are right: elements {_listed(columns)}"


def _listed(mask: Array) -> str:
    places = np.flatnonzero(mask).tolist()
    return ", ".join(map(str, places[:8])) + (", …" if len(places) > 8 else "")


def shifted(e: Evidence) -> str:
    """Are they the right values moved along an axis, or in reverse order?"""
    _, n = e.both
    first = len(e.output_shape)
    for axes in combinations(range(first, n.ndim), 2):
        if all(n.shape[axis] > 1 for axis in axes) and e.explained_by(np.flip(n, axes)):
            return (
                f"the values are right but in reverse order along {' and '.join(map(e.where, axes))}: is the kernel of "
                "a convolution flipped?"
            )
    for axis, size in enumerate(n.shape):
        if size > 1 and e.explained_by(np.flip(n, axis)):
            return f"the values are right but in reverse order along {e.where(axis)}"
        for by in (1, -1):
            moved = np.roll(n, by, axis)
            cut = moved.copy()
            cut[(slice(None),) * axis + (0 if by == 1 else -1,)] = 0
            if size > 2 and (e.explained_by(moved) or e.explained_by(cut)):
                return (
                    f"the values are right but moved by one along {e.where(axis)}: a start, an offset or an index is "
                    "off by one"
                )
    return ""


def reordered(e: Evidence) -> str:
    """Are the columns, or the rows, the right ones in another order?"""
    digits = max(0, 6 - int(np.ceil(np.log10(abs(e.numerical).max(initial=1e-300)))))
    for what, a, n in (("input", e.analytic, e.numerical), ("output", e.analytic.T, e.numerical.T)):
        in_order = [j[:, np.lexsort(np.round(j, digits))] for j in (a, n)]
        if a.shape[1] > 1 and abs(in_order[0] - in_order[1]).max(initial=0) <= 1e-3 * abs(e.off).max(initial=0):
            return (
                f"the values are right but at other elements of the {what}: is the order of the elements, an index or "
                "a permutation of axes not undone (the inverse of a permutation is np.argsort of it)?"
            )
    return ""


def by_logarithm(e: Evidence) -> str:
    """Are derivatives right but for some elements x, where they are those by log x, or those by x in place of log x?"""
    if e.at is None:
        return ""
    x, off = e.at.reshape(-1), ~e.zero(e.off).all(axis=0)
    if len(e.analytic) > 1 and off.all():
        return ""
    with np.errstate(all="ignore"):
        for factor, text in ((x, "by the logarithm of"), (1 / x, "by the exponential of")):
            model = np.where(off, e.numerical * factor, e.numerical)
            if np.isfinite(model).all() and off.any() and (abs(factor[off] - 1) > 1e-3).all() and e.explained_by(model):
                places = ", ".join(map(str, np.flatnonzero(off)[:5]))
                return (
                    f"the derivative by element {places} is one {text} this element: a parameter that is transformed?"
                )
    return ""


def factor_beside_decay(e: Evidence) -> str:
    """Are the derivatives a factor times the right ones, but for a multiple of the input: that of a weight decay?"""
    if e.at is None or len(e.analytic) != 1 or e.at.size < 4 or not np.isfinite(e.at).all():
        return ""
    a, n, x = e.analytic[0], e.numerical[0], e.at.reshape(-1)
    with np.errstate(all="ignore"):
        ratios, counts = np.unique((a / n)[~e.zero(n)].round(4), return_counts=True)
    fitted = np.linalg.lstsq(np.array([n, x]).T, a, rcond=None)[0][0]
    for ratio in (fitted, *ratios[counts > 1]):  # the decay may be of all elements, or of some
        factor = min((*NICE, *range(5, 100)), key=lambda nice, ratio=ratio: abs(nice - ratio))  # type: ignore[misc]
        left = a - factor * n
        some = ~e.zero(left)
        decay = (left * x)[some].sum() / ((x * x)[some].sum() or 1.0)
        if e.explained_by((factor * n + np.where(some, decay * x, 0))[None]):
            return (
                f"the derivatives are {factor:g} times the right ones, but for {decay:.3g} times the element, as "
                "of a weight decay that has another factor: a sum where a mean is meant (over outputs, samples), or a "
                "factor is missing"
            )
    return ""


def sum_of_all(e: Evidence) -> str:
    """Is each element the sum of all right ones, or all of them the mean?"""
    total = np.broadcast_to(e.numerical.sum(axis=1, keepdims=True), e.numerical.shape)
    for model, text in ((total, "the sum of all of them"), (total / max(1, total.shape[1]), "the mean of all of them")):
        if total.shape[1] > 1 and e.explained_by(model):
            return (
                f"each derivative is {text}: a sum over the elements of the input, or over the data, is taken too early"
            )
    return ""


def one_place(e: Evidence) -> str:
    """Are only the derivatives at one index of an axis wrong?"""
    off = ~e.zero(e.off.reshape(e.output_shape + e.input_shape))
    for axis, size in enumerate(off.shape):
        places = np.flatnonzero(off.any(axis=tuple([k for k in range(off.ndim) if k != axis])))
        if size > 2 and len(places) == 1:
            return (
                f"only index {places[0]} of {e.where(axis)} is wrong, all others are right: an edge, a single index, "
                "or an element that is treated separately"
            )
    return ""


# ---- Another ε of a normalisation ----


def epsilon(e: Evidence) -> str:
    """Is a normalisation right but for about the small part that its ε makes?

    With ε in √(variance + ε), the output of a normalisation changes a little when the input is scaled: by the part of ε
    in the variance.  A backward pass with another ε is wrong by about as much.
    """
    if (
        e.at is None
        or not np.isfinite(e.at).all()
        or abs(e.off).max(initial=0) > NEARLY * abs(e.numerical).max(initial=0)
    ):
        return ""
    for axes in chain.from_iterable(combinations(range(e.at.ndim), k + 1) for k in range(e.at.ndim)):
        analytic, numerical, x = (_slices(j, e.input_shape, axes) for j in (e.analytic, e.numerical, e.at[None]))
        if x.shape[-1] < 2:
            continue
        centred = _vanishes(numerical, analytic, np.ones_like(x))
        v = x - x.mean(-1, keepdims=True) if centred else x
        if _vanishes(numerical, analytic, v) and _vanishes(analytic, numerical, v):
            left, wrong = (abs((j * v).sum(-1)).max(initial=0) for j in (numerical, analytic - numerical))
            if left and wrong >= 1e-3 * left:
                return (
                    "the gradient of a normalisation is right except for a small part, as caused by ε: is the ε of the "
                    "forward pass, as in √(variance + ε), missing in backward, another one, or at another place?"
                )
    return ""


# ---- The missing projection of a softmax or a normalisation ----


def projection(e: Evidence) -> str:
    """Does the output not change along directions along which this gradient says it does?

    Softmax and normalisations do not change when a constant is added to the input along an axis, or when the input is
    scaled along it.  Their gradients have a term that removes these directions, and it is the one that is forgotten.
    """
    if e.at is None or len(e.analytic) < 2 or not np.isfinite(e.at).all() or e.zero(e.off).all():
        return ""
    for axes in chain.from_iterable(combinations(range(e.at.ndim), k + 1) for k in range(e.at.ndim)):
        analytic, numerical, x = (_slices(j, e.input_shape, axes) for j in (e.analytic, e.numerical, e.at[None]))
        if x.shape[-1] < 2:
            continue
        constant = np.ones_like(x)
        shift = _not_removed(analytic, numerical, constant)
        centred = _vanishes(numerical, analytic, constant)
        scale = _not_removed(analytic, numerical, x - x.mean(-1, keepdims=True) if centred else x)
        alone = e.explained_by(e.numerical, ~e.zero(e.analytic))
        leaks = (e.zero(e.numerical) & ~e.zero(e.analytic)).any()
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


def _not_removed(analytic: Array, numerical: Array, v: Array) -> bool:
    """Return whether the output does not change along v, and the gradient says that it does."""
    return _vanishes(numerical, analytic, v) and not _vanishes(analytic, numerical, v)


def _rank(off: Array) -> int:
    """Return the largest rank of the slices of [M, R, k], except for a hundredth."""
    values = np.linalg.svd(np.moveaxis(off, 1, 0), compute_uv=False)
    return int((values > 1e-2 * values.max(initial=0)).sum(-1).max(initial=0))


PATTERNS: tuple[Callable[[Evidence], str], ...] = (  # the most specific first
    transposed,
    flipped_kernel,
    factor_transposed,
    not_summed,
    cotangent_ignored,
    of_another_input,
    mask,
    signs,
    by_logarithm,
    factor_beside_decay,
    sum_of_all,
    direct_path,
    epsilon,
    rounded,
    projection,
    overwritten,
    factor_of_values,
    passed_on,
    term_of_values,
    factor_of_a_term,
    shifted,
    reordered,
    two_factors,
    leak,
    one_place,
)
