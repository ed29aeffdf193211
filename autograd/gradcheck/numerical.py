"""Numerical derivatives: central differences with a step that fits the function, complex steps, and the choice.

Every derivative is one along a `Line` through a point.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autograd.gradcheck.function import (
    CheckedFunction,
    NondifferentiableError,
    NotAnalyticError,
    copy_with_layout,
    joined,
    locate,
    parts_of,
)

Array = np.ndarray

ROUNDING = float(np.finfo(float).eps)
DROWNED = 1e-3  # of the values: a function of which no step sees more than noise
UNRELIABLE = 1e-2  # of the largest derivative: a reference that is wrong by more proves little
JUMP_ATOL, JUMP_RTOL = 1e-5, 1e-3  # one-sided slopes that differ by more call for other steps
RUNG = 16.0  # factor from one step to the next


def size_of(values: Array) -> float:
    """Return the largest finite absolute value."""
    return float(abs(values).max(initial=0, where=np.isfinite(values)))


# ---- Lines ----


class Line:
    """The outputs of a function along a line through its point, t ↦ f(x + t · direction), or a weighted sum of them.

    toward: the direction in all inputs, their elements in one vector; or the input and the element that moves alone
    weights: of the outputs [M], for K = 1 value; None for K = M values.  Outputs that are infinite at the point have
        weight 0.
    size: what t must be compared with: the size of the element that moves, or 1
    """

    def __init__(self, function: CheckedFunction, toward: Array | tuple[int, int], weights: Array | None = None):
        self.function, self.toward, self.points = function, toward, function.points
        self.value = 0.0  # of the element that moves
        self.moves: list[tuple[int, Any, Any]] = []  # parts of inputs, each by (input, index, direction)
        if isinstance(toward, tuple):
            i, place = toward
            index: Any = np.unravel_index(place, self.points[i].shape)
            self.moves.append((i, index, 1.0))
            self.value = float(np.nan_to_num(abs(self.points[i][index]), posinf=0))
        else:
            parts = parts_of(toward, [x.shape for x in self.points])
            self.moves = [(i, ..., part) for i, part in enumerate(parts) if part.any()]
        self.size = max(1.0, self.value)
        self.weights = weights if weights is None else np.where(np.isfinite(function.middle), weights, 0)
        self.middle, self.scale = self._values(function.middle), self._values(abs(function.middle), absolute=True)

    def along(self, gradients: Sequence[Array]) -> Array:
        """Gradient · direction, for each element that moves: the terms of the slope."""
        return joined([np.where(part == 0, 0, gradients[i][index] * part) for i, index, part in self.moves])

    @property
    def step(self) -> float:
        """The step that is tried first: about the cube root of the outputs' rounding, 1e-6 or more, relative to x."""
        rounding = self.function.rounding
        return self.size * (max(1e-6, rounding ** (1 / 3)) if rounding > 1e-14 else 1e-6)

    @property
    def least(self) -> float:
        """The smallest step, which moves x by a few units of its rounding, or by a small part of a small x."""
        if self.function.narrow:
            return 1e-5 * self.size
        if self.value > 1e6:
            return 2 * float(np.spacing(self.value))
        return min(1e-14 * self.size, 1e-5 * self.value or math.inf)

    def worst_element(self, badness: Callable[[Line], float]) -> tuple[int, int]:
        """Return the worst element that moves, by bisection: the half with the larger badness is halved again."""
        if isinstance(self.toward, tuple):
            return self.toward
        candidates = np.flatnonzero(self.toward)
        while len(candidates) > 1:
            halves = np.array_split(candidates, 2)
            parts = [np.where(np.isin(np.arange(self.toward.size), half), self.toward, 0) for half in halves]
            found = [badness(Line(self.function, part, self.weights)) for part in parts]
            candidates = halves[int(np.argmax(np.nan_to_num(found, nan=np.inf)))]
        return locate(int(candidates[0]), [x.shape for x in self.points])

    def _values(self, values: Array, absolute: bool = False) -> Array:
        if self.weights is None:
            return values
        weights = abs(self.weights) if absolute else self.weights
        return np.array([(weights * np.where(weights == 0, 0, values)).sum()])

    def _moved(self, points: Sequence[Array], t: complex) -> list[Array]:
        """Points moved by t."""
        moved = [*points]
        for i, index, direction in self.moves:
            moved[i] = copy_with_layout(points[i])
            moved[i][index] += t * direction
        return moved

    @np.errstate(all="ignore")
    def __call__(self, t: float) -> tuple[float, Array]:
        """The t that is left after rounding, and the values there, [K]; NaN where the function raises an error."""
        points = self._moved(self.points, t)
        if isinstance(self.toward, tuple):
            ((i, index, _),) = self.moves
            start = float(self.points[i][index])
            t = float(points[i][index]) - start if math.isfinite(start) else 0.0
        try:
            return t, self._values(self.function.at(points).evaluate())
        except Exception:  # nobody asked for this point, which may be beyond the edge of the domain
            return t, np.full(self.middle.shape, np.nan)

    def complex_slope(self, points: Sequence[Array]) -> tuple[Array, Array]:
        """Im f(x + i h) / h, exact up to h², as no difference is taken, and its rounding.  Shapes: -> [K] twice

        points: the function's, in complex numbers

        Source: W. Squire and G. Trapp, "Using complex variables to estimate derivatives of real functions",
        SIAM Review 40 (1998), 110-112
        """
        found = self.function.evaluate_complex(self._moved(points, 1e-20j)).imag / 1e-20
        rounding = 0.0 if self.weights is None else 16 * ROUNDING * self._values(abs(found), absolute=True)
        return self._values(found), np.broadcast_to(rounding, self.middle.shape)

    @np.errstate(all="ignore")
    def slopes(self, t: float) -> tuple[Array, Array, Array, Array, Array]:
        """Central, left, right slopes, 0 where values do not change, also infinite ones; |f(t) - f(-t)|; max |f|."""
        (up, above), (down, below), middle = self(t), self(-t), self.middle
        return (
            np.where(above == below, 0, (above - below) / (up - down)),
            np.where(below == middle, 0, (below - middle) / down),
            np.where(above == middle, 0, (above - middle) / up),
            abs(above - below),
            np.fmax(abs(above), abs(below)),
        )


# ---- Rounding ----

UNEVEN = np.array([0.7313, 1.8971, 2.6437, 4.1849, 4.9261, 5.8379, 7.2843, 8.1127, 9.4519, 10.1297, 11.0])


@np.errstate(all="ignore")
def measured_noise(line: Line, some: Array | bool = True) -> Array:
    """Measure the rounding noise in the values along a line, as their deviation from a polynomial.  Shapes: -> [K]

    some: mask of the values that it is measured for; 0 for others

    If the function is smooth, eleven values close together are a polynomial of degree 4, up to rounding.  They lie on
    one side, because a kink or a jump at the point itself is not rounding, and at uneven distances, because multiples
    of one distance may all be rounded alike.  If several neighbours are equal, one unit of rounding is larger, and so
    are the distances that are used then.  The smallest come first: rounding is the same at any distance, but the bends
    of a function are not.
    """
    noise, unknown = np.zeros(line.middle.shape), np.broadcast_to(some, line.middle.shape)
    for times in (1, 10, 100, 1000) if line.function.narrow else (1, 1e3, 1e5, 1e7, 1e8):
        distance = times * line.least / 2
        pairs = [line(k * distance) for k in UNEVEN]
        values = np.array([value for _, value in pairs])
        powers = np.vander([moved / distance for moved, _ in pairs], 5)
        values -= values[0]
        left = values - powers @ (np.linalg.pinv(powers) @ np.nan_to_num(values, posinf=0, neginf=0))
        found = np.sqrt((left**2).sum(axis=0) / (len(UNEVEN) - 5))
        coarse = (np.diff(values, axis=0) == 0).sum(axis=0) > 2
        noise, unknown = np.where(unknown, found, noise), unknown & coarse
        if not unknown.any():
            break
    noise = np.where(unknown, np.maximum(noise, ROUNDING), noise)  # values that never change may be what is left of 1
    return np.nan_to_num(noise, nan=0.0, posinf=0.0)


def measure_rounding(function: CheckedFunction, weights: Array, gradients: Sequence[Array]) -> None:
    """Note how coarsely a function rounds its values, if a small step does not change them as its gradients say."""
    direction = joined([np.where(np.isfinite(x), x, 0) for x in function.points]).astype(float)
    line = Line(function, direction, weights)
    if line.moves:
        slope = line.along(gradients).sum()
        if function.narrow or abs(line(1e-9)[1] - line.middle - 1e-9 * slope) > 1e-10 * line.scale:
            noise = measured_noise(Line(function, direction)).max(initial=0)
            rounding = float(noise / (size_of(function.middle) or 1.0))
            if function.rounding < rounding < DROWNED:
                function.rounding = rounding


# ---- Central differences ----


@dataclass
class Slope:
    """Slopes [K] along a line, and a bound on their error; `kink` is True where the one-sided slopes differ too much.

    step: the step that suits most of the values, and noise: of the values, relative to their size, if it was searched
    """

    value: Array
    error: Array
    kink: Array
    left: Array
    right: Array
    step: float = 0.0
    noise: float = 0.0

    def is_near(self, values: Array) -> bool:
        """Whether there are slopes, and they are about these values."""
        near = abs(values - self.value) <= 1e-5 + 1e-3 * abs(self.value) + self.error
        return not self.kink.any() and bool(near.all())

    def replace(self, where: Array, other: Slope) -> None:
        """Take the values of another slope at some places."""
        self.value = np.where(where, other.value, self.value)
        self.error = np.where(where, other.error, self.error)


@np.errstate(invalid="ignore")
def quick_slope(line: Line) -> Slope:
    """(f(t) - f(-t)) / 2t for the first step."""
    value, left, right, *_ = line.slopes(line.step)
    error = 4 * line.function.rounding * np.where(np.isfinite(line.scale), line.scale, 0) / line.step
    jump = abs(right - left)
    steep = JUMP_RTOL * np.maximum(abs(left), abs(right))
    smooth = jump <= np.maximum(np.maximum(steep, JUMP_ATOL / line.size), 25 * error)
    return Slope(value, error, ~smooth, left, right)


@np.errstate(invalid="ignore")
def slope_by_step(line: Line, t: float, noise: float) -> Slope:
    """(4 s(t) - s(2t)) / 3 of central slopes s for one step."""
    near, left, right, *_ = line.slopes(t)
    wide, wide_left, wide_right, *_ = line.slopes(2 * t)
    rounding = 5 * noise * np.nan_to_num(line.scale, posinf=0) / t
    bend, wide_bend = abs(right - left), abs(wide_right - wide_left)
    error = abs(near - wide) + rounding
    smooth = np.isfinite(error) & ((bend <= 4 * rounding) | (wide_bend > 1.4 * bend))
    return Slope((4 * near - wide) / 3, error, ~smooth, left, right)


@np.errstate(all="ignore")
def slope(line: Line) -> Slope:
    """The slopes along a line by the step that suits each value best, and kinks.

    Steps up to the size of x are tried, from one at which the values change by more than their noise, as the quick
    slope says.  For each, (4 s(t) - s(2t)) / 3 of central slopes s has an error
    of about |s(t) - s(2t)| and of the measured noise of f divided by t.  While these intervals overlap, from the
    smallest step on, the best is taken; beyond the first that does not, f does something else: a wave, a kink, a bound.
    """
    low, high = np.full(line.middle.shape, -np.inf), np.full(line.middle.shape, np.inf)
    found = Slope(np.zeros_like(low), high.copy(), np.zeros(low.shape, bool), high * np.nan, high * np.nan)
    goes_on, began = np.ones(low.shape, bool), np.zeros(low.shape, bool)
    largest, steps = np.zeros(low.shape), np.zeros(low.shape)
    bends: list[tuple[Array, ...]] = []
    ends: list[tuple[Array, Array]] = []
    scale = np.nan_to_num(line.scale, posinf=0)
    quick = quick_slope(line)
    changes = ~((quick.left == 0) & (quick.right == 0))
    noise = np.maximum(measured_noise(line, changes), line.function.rounding * scale)
    noise = np.where((noise > DROWNED * scale) & (noise > 1e-10), np.inf, noise)
    about = (abs(quick.right - quick.left) < 0.5 * abs(quick.value)) & (line.size < 1e3)  # no waves within a step
    seen_from = np.where(about, noise / abs(quick.value), np.where(changes, 0, np.inf)).min(initial=line.step)
    first, last = max(line.least, seen_from), max(0.1 * line.size, 100 * line.least)
    for t in np.geomspace(first, last, max(3, 1 + math.ceil(math.log(last / first, RUNG)))):
        near, left, right, change, _ = line.slopes(t)
        wide, wide_left, wide_right, wide_change, height = line.slopes(2 * t)
        value = (4 * near - wide) / 3
        rounding = 5 * np.fmax(noise, line.function.rounding * np.nan_to_num(height, posinf=0)) / t
        cut = abs(near - wide)  # grows with t, unless f does something else within t
        error = cut + rounding
        finite = np.isfinite(value + left + right)
        bound = 2 * error  # a noise that is measured by eleven values may be larger
        fits = finite & (value - bound <= high) & (value + bound >= low) & (cut >= largest / 2)
        goes_on &= fits | ~began
        largest = np.where(goes_on & (cut > rounding), np.fmax(largest, cut), largest)
        better = goes_on & finite & ((error < found.error) | ~began)
        began |= fits
        low = np.where(fits, np.fmax(low, value - bound), low)
        high = np.where(fits, np.fmin(high, value + bound), high)
        found.value, found.error = np.where(better, value, found.value), np.where(better, error, found.error)
        steps = np.where(better, t, steps)
        bend, wide_bend = abs(right - left), abs(wide_right - wide_left)
        seen = goes_on & (bend > 4 * rounding) & (bend > 1e-5 * np.maximum(abs(left), abs(right)))
        bends.append((bend, seen, seen & (wide_bend < 1.4 * bend) & (cut < 0.1 * bend), left, right))
        change_for_sure = np.minimum(change, wide_change) - 20 * noise
        ends.append((np.where(np.isfinite(left + right), change_for_sure, np.nan), np.maximum(change, wide_change)))
        if len(ends) > 3 and not (goes_on & (error < 100 * found.error)).any():
            break  # every value is beyond its best step
    if changes.any():
        found.step = float(np.median(steps[changes]))
        found.noise = float(np.max(noise[changes] / np.maximum(scale[changes], 1e-300)))
    _find_kinks(found, began, bends, ends)
    return found


def _find_kinks(found: Slope, began: Array, bends: list[tuple[Array, ...]], ends: list[tuple[Array, Array]]) -> None:
    """Note where the one-sided slopes differ by the same for ever smaller steps, or values do, or there are none."""
    found.kink |= ~began
    for (bend, seen, same, left, right), (next_bend, *_) in zip(bends, [*bends[1:], bends[-1]], strict=True):
        first = seen & np.isnan(found.left)
        found.left, found.right = np.where(first, left, found.left), np.where(first, right, found.right)
        found.kink |= first & same & (next_bend < 1.5 * bend) & (next_bend > 0.15 * bend)
    sure, most = (np.array(each) for each in zip(*ends[:3], strict=True))
    found.kink |= (sure.min(0) > 0) & (most.max(0) < 1.05 * most.min(0)) & np.isfinite(most.max(0))
    nothing = found.kink & np.isnan(found.left)
    found.left, found.right = (np.where(nothing, bends[0][k], each) for k, each in ((3, found.left), (4, found.right)))


# ---- The reference ----


@dataclass(frozen=True)
class Derivatives:
    """Analytic and numerical derivatives [K, n], a bound on the error of the latter, and the tolerances."""

    analytic: Array
    numerical: Array
    error: Array
    atol: Array | float
    rtol: float

    @cached_property
    def wrong(self) -> Array:
        """Mask of the elements that differ by more than the tolerance; NaN differs."""
        with np.errstate(invalid="ignore"):
            off = abs(self.analytic - self.numerical)
            return ~(off <= self.atol + self.rtol * abs(self.numerical) + self.error)

    @property
    def worst(self) -> tuple[int, int]:
        """Row and column of the largest difference of those that are wrong."""
        row, column = np.unravel_index(worst_of(self.analytic, self.numerical, self.wrong), self.wrong.shape)
        return int(row), int(column)

    @property
    def largest_error(self) -> float:
        """max |analytic - numerical| / max(1, |numerical|)"""
        errors = abs(self.analytic - self.numerical) / np.maximum(1, abs(self.numerical))
        return float(errors.max(initial=0.0))


NOT_ANALYTIC = "its complex steps disagree with its differences, so it is not analytic"
ENOUGH = 10  # columns of a Jacobian whose step is searched, if the first step was right for all of them


class Reference:
    """Numerical derivatives of a function: complex steps where they give the derivative, differences elsewhere.

    mode: "auto", or "central" or "complex" for one of the two
    atol, rtol: what a gradient may differ from `d`, atol + rtol · |d|, besides what is known of the error of `d`; None:
        those of `Options`, or what float32 allows.  atol is less for |x| > 1, whose derivatives are smaller.

    Raises: NondifferentiableError at a kink, ValueError in mode "complex" for a function that it does not suit
    """

    def __init__(
        self, function: CheckedFunction, mode: str = "auto", atol: float | None = None, rtol: float | None = None
    ):
        self.function, self.mode, self.atol, self.rtol = function, mode, atol, rtol
        self._usual = 1e-7, 1e-6, 100 * function.rounding  # tolerances of differences
        self.reason = ""  # why complex steps do not suit the function, if they were tried
        self.steps = mode != "central" and not function.narrow
        self.points: list[Array] = []  # of complex steps

    def __str__(self) -> str:
        if self.steps:
            return "complex steps"
        return "central differences" + (
            f" (complex steps do not suit this function: {self.reason})" if self.reason else ""
        )

    # ---- Derivatives ----

    def derivatives(self, lines: Sequence[Line], analytic: Array) -> Derivatives:
        """The derivatives along lines, with more effort where they disagree with the analytic ones.

        Shapes: analytic [K, len(lines)] -> [K, len(lines)]

        Raises: NondifferentiableError at a kink
        """
        if self.steps:
            try:
                quiet = warnings.catch_warnings(action="ignore" if self.mode == "auto" else None)
                with np.errstate(all="ignore"), quiet:
                    return self._by_steps(lines, analytic)
            except NotAnalyticError as error:
                if self.mode == "complex":
                    raise ValueError(
                        f"mode='complex' does not suit this function: {error}; use mode='central' (|x| and what is "
                        "built on it is not analytic, and an op may not be written for complex numbers)"
                    ) from error
                self.steps, self.reason = False, str(error)  # they are not taken again
        return self._by_differences(lines, analytic)

    def _by_steps(self, lines: Sequence[Line], analytic: Array) -> Derivatives:
        if not self.points:
            self.points = [copy_with_layout(point, np.complex128) for point in self.function.points]
            self._compare_along_a_line()
        pairs = [line.complex_slope(self.points) for line in lines]
        values, rounding = (np.array([pair[k] for pair in pairs]).reshape(analytic.T.shape).T for k in (0, 1))
        if self.mode == "auto" and Reference(self.function, "central").derivatives(lines, values).wrong.any():
            raise NotAnalyticError(NOT_ANALYTIC)
        usual = 1e-9 if self.mode == "auto" else 1e-12
        found = self._beside(lines, analytic, values, rounding, usual, usual)
        if found.wrong.any():  # the steps may lose a small part, as of x + |x| / 1e6
            row, k = found.worst
            fine = slope(lines[k]).value[row]
            if abs(fine - analytic[row, k]) < abs(fine - values[row, k]) / 4:
                raise NotAnalyticError(NOT_ANALYTIC)
        return found

    def _compare_along_a_line(self) -> None:
        """Compare with differences along a random direction of all inputs, or of each: f may not be analytic."""
        rng, points = np.random.default_rng([0, 1]), self.function.points  # no weights are drawn from it
        every = joined([np.where(np.isfinite(x), rng.standard_normal(x.shape), 0) for x in points])
        owner = np.repeat(np.arange(len(points)), [x.size for x in points])
        for chosen in [owner == i for i in range(len(points))] if self.mode == "complex" else [owner >= 0]:
            line = Line(self.function, np.where(chosen, every, 0))
            if line.moves:
                by_step, _ = line.complex_slope(self.points)
                if not (quick_slope(line).is_near(by_step) or slope(line).is_near(by_step)):
                    raise NotAnalyticError(NOT_ANALYTIC)

    def _by_differences(self, lines: Sequence[Line], analytic: Array) -> Derivatives:
        values, errors = np.zeros(analytic.shape), np.zeros(analytic.shape)
        searched, needed = 0, False
        known: Slope | None = None  # of a line before
        for k, line in enumerate(lines):
            right = analytic[:, k]
            found = quick_slope(line)
            smooth, good = ~found.kink, self._is_enough(found, line, right)
            if not good.all() and known is not None and 0 < known.noise < DROWNED:
                other = slope_by_step(line, known.step, known.noise)
                better = ~good & self._is_enough(other, line, right)
                found.replace(better, other)
                good |= better
            if not good.all() and (searched < ENOUGH or needed or not (smooth | good).all()):
                known = slope(line)
                if (kinks := known.kink & ~good).any():
                    raise self._nondifferentiable(line, known, kinks)
                searched += 1
                needed |= bool((abs(known.value - found.value) > 1e-4 * abs(known.value) + known.error).any())
                found.replace(~good, known)
            values[:, k], errors[:, k] = found.value, found.error
        return self._beside(lines, analytic, values, errors, *self._usual)

    def _is_enough(self, found: Slope, line: Line, analytic: Array) -> Array:
        """Whether slopes [K] are known well enough, and agree with the analytic ones."""
        values, errors = found.value[:, None], found.error[:, None]
        first = self._beside([line], analytic[:, None], values, errors, *self._usual)
        known = found.error <= np.maximum(first.atol, UNRELIABLE / 10 * size_of(found.value))
        return ~found.kink & known & ~first.wrong[:, 0]

    def _beside(
        self, lines: Sequence[Line], analytic: Array, values: Array, errors: Array, atol: float, rtol: float,
        coarse: float = 0.0,
    ) -> Derivatives:  # fmt: skip
        """The derivatives and these tolerances, but at least `coarse` of the values, where no others are given."""
        sizes = np.array([line.size for line in lines])
        least = np.maximum(np.maximum(atol / sizes, 1e-13), coarse * size_of(values))
        allowed = least if self.atol is None else self.atol, max(rtol, coarse) if self.rtol is None else self.rtol
        return Derivatives(analytic, values, errors, *allowed)

    def _nondifferentiable(self, line: Line, found: Slope, kinks: Array) -> NondifferentiableError:
        """The error about the worst kink along a line, at the element to blame for it."""
        function = self.function
        row = worst_of(found.right, found.left, kinks)
        i, place = line.worst_element(lambda part: float(abs(np.subtract(*part.slopes(line.step)[1:3]))[row]))
        value = function.points[i].reshape(-1)[place]
        output = function.output_name(row) if line.weights is None else "a random sum of the outputs"
        return NondifferentiableError(
            f"the function is not differentiable at {function.input_name(i, place)} = {value:.6g}: the slope of "
            f"{output} is {found.left[row]:.6g} to the left and {found.right[row]:.6g} to the right (a kink as of relu "
            "or abs at 0, a tie in max, a bound of clip, the edge of a domain); move this input away"
        )


def worst_of(found: Array, right: Array, where: Array) -> int:
    """Return the place of the largest difference, among those chosen; NaN is the largest."""
    with np.errstate(invalid="ignore"):
        return int(np.argmax(np.where(where, np.nan_to_num(abs(found - right), nan=np.inf), -1)))
