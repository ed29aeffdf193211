"""Numerical derivatives: central differences with a step that fits the function, complex steps, and the choice.

Every derivative is one along a `Line` through a point.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd.gradcheck.function import CheckedFunction, NondifferentiableError, NotAnalyticError, copy_with_layout
from autograd.gradcheck.line import DROWNED, Line, measured_noise, narrow_down, size_of

Array = np.ndarray

UNRELIABLE = 1e-2  # of the largest derivative: a reference that is wrong by more proves little
JUMP_ATOL, JUMP_RTOL = 1e-5, 1e-3  # one-sided slopes that differ by more call for other steps
RUNG = 16.0  # factor from one step to the next

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

    def replace(self, where: Array, other: Slope) -> None:
        """Take the values of another slope at some places."""
        self.value = np.where(where, other.value, self.value)
        self.error = np.where(where, other.error, self.error)


def quick_slope(line: Line) -> Slope:
    """(f(t) - f(-t)) / 2t for the first step."""
    value, left, right, *_ = line.slopes(line.step)
    error = 4 * line.function.rounding * np.where(np.isfinite(line.scale), line.scale, 0) / line.step
    with np.errstate(invalid="ignore"):
        jump = abs(right - left)
        steep = JUMP_RTOL * np.maximum(abs(left), abs(right))
        smooth = jump <= np.maximum(np.maximum(steep, JUMP_ATOL / line.size), 25 * error)
    return Slope(value, error, ~smooth, left, right)


def slope_by_step(line: Line, t: float, noise: float) -> Slope:
    """(4 s(t) - s(2t)) / 3 of central slopes s for one step."""
    near, left, right, *_ = line.slopes(t)
    wide, wide_left, wide_right, *_ = line.slopes(2 * t)
    with np.errstate(invalid="ignore"):
        rounding = 5 * noise * np.nan_to_num(line.scale, posinf=0) / t
        bend, wide_bend = abs(right - left), abs(wide_right - wide_left)
        error = abs(near - wide) + rounding
        smooth = np.isfinite(error) & ((bend <= 4 * rounding) | (wide_bend > 1.4 * bend))
        return Slope((4 * near - wide) / 3, error, ~smooth, left, right)


def slope(line: Line, quick: Slope | None = None) -> Slope:
    """The slopes along a line by the step that suits each value best, and kinks.

    Steps up to the size of x are tried, from one at which the values change by more than their noise, as the `quick`
    slope says.  For each, (4 s(t) - s(2t)) / 3 of central slopes s has an error
    of about |s(t) - s(2t)| and of the measured noise of f divided by t.  While these intervals overlap, from the
    smallest step on, the best is taken; beyond the first that does not, f does something else: a wave, a kink, a bound.
    """
    low, high = np.full(line.middle.shape, -np.inf), np.full(line.middle.shape, np.inf)
    found = Slope(np.zeros_like(low), high.copy(), np.zeros(low.shape, bool), high * np.nan, high * np.nan)
    goes_on, began = np.ones(low.shape, bool), np.zeros(low.shape, bool)
    largest, steps = np.zeros(low.shape), np.zeros(low.shape)
    bends: list[tuple[Array, ...]] = []
    ends: list[Array] = []
    scale = np.nan_to_num(line.scale, posinf=0)
    quick = quick or quick_slope(line)
    changes = ~((quick.left == 0) & (quick.right == 0))
    noise = np.maximum(measured_noise(line, changes), line.function.rounding * scale)
    noise = np.where((noise > DROWNED * scale) & (noise > 1e-10), np.inf, noise)
    with np.errstate(invalid="ignore", divide="ignore"):
        about = (abs(quick.right - quick.left) < 0.5 * abs(quick.value)) & (line.size < 1e3)  # no waves within a step
        seen_from = np.where(about, noise / abs(quick.value), np.where(changes, 0, np.inf)).min(initial=line.step)
    first, last = max(line.least, seen_from), max(0.1 * line.size, 100 * line.least)
    for t in np.geomspace(first, last, max(3, 1 + math.ceil(math.log(last / first, RUNG)))):
        near, left, right, change, _ = line.slopes(t)
        wide, wide_left, wide_right, wide_change, height = line.slopes(2 * t)
        with np.errstate(all="ignore"):
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
            ends.append(
                np.where(np.isfinite(left) & np.isfinite(right), np.minimum(change, wide_change) - 20 * noise, np.nan)
            )
            ends.append(np.maximum(change, wide_change))
        if len(ends) > 6 and not (goes_on & (error < 100 * found.error)).any():
            break  # every value is beyond its best step
    if changes.any():
        found.step = float(np.median(steps[changes]))
        found.noise = float(np.max(noise[changes] / np.maximum(scale[changes], 1e-300)))
    _find_kinks(found, began, bends, ends)
    return found


def _find_kinks(found: Slope, began: Array, bends: list[tuple[Array, ...]], ends: list[Array]) -> None:
    """Note where the one-sided slopes differ by the same for ever smaller steps, or values do, or there are none."""
    found.kink |= ~began
    for (bend, seen, same, left, right), (next_bend, *_) in zip(bends, [*bends[1:], bends[-1]], strict=True):
        first = seen & np.isnan(found.left)
        found.left, found.right = np.where(first, left, found.left), np.where(first, right, found.right)
        found.kink |= first & same & (next_bend < 1.5 * bend) & (next_bend > 0.15 * bend)
    smallest, largest = np.min(ends[0:6:2], axis=0), np.max(ends[1:6:2], axis=0)
    with np.errstate(invalid="ignore"):
        found.kink |= (smallest > 0) & (largest < 1.05 * np.min(ends[1:6:2], axis=0)) & np.isfinite(largest)
    nothing = found.kink & np.isnan(found.left)
    found.left, found.right = (np.where(nothing, bends[0][k], each) for k, each in ((3, found.left), (4, found.right)))


# ---- The reference ----


@dataclass(frozen=True)
class Estimate:
    """Numerical derivatives [K, n], a bound on their own error, and the tolerances of a comparison with them."""

    values: Array
    error: Array
    atol: Array | float
    rtol: float

    def wrong(self, analytic: Array) -> Array:
        """Mask of the elements that differ by more than the tolerance; NaN differs."""
        with np.errstate(invalid="ignore"):
            return ~(abs(analytic - self.values) <= self.atol + self.rtol * abs(self.values) + self.error)


NOT_ANALYTIC = "its complex steps disagree with its differences, so it is not analytic"
ENOUGH = 10  # columns of a Jacobian whose step is searched, where the first step was right for all of them


class Reference:
    """Numerical derivatives of a function: complex steps where they give the derivative, differences elsewhere.

    mode: "auto", or "central" or "complex" for one of the two
    atol, rtol: what a gradient may differ from `d`, atol + rtol · |d|, besides what is known of the error of `d`; None:
        atol=rtol=1e-9 for complex steps, 1e-12 in mode "complex", 1e-7 and 1e-6 for differences, and what float32
        allows for a function in it.  atol is less for |x| > 1, whose derivatives are smaller.

    Raises: NondifferentiableError at a kink, NotAnalyticError in mode "complex"
    """

    def __init__(
        self, function: CheckedFunction, mode: str = "auto", atol: float | None = None, rtol: float | None = None
    ):
        self.function, self.mode, self.atol, self.rtol = function, mode, atol, rtol
        self.reason = ""  # why complex steps do not suit the function, if they were tried
        self.steps = mode != "central" and not function.narrow
        self.points: list[Array] = []
        if self.steps:
            with self._distrust():
                self.points = [copy_with_layout(point, np.complex128) for point in function.points]
                self._compare_along_a_line()

    def __str__(self) -> str:
        if self.steps:
            return "complex steps"
        return "central differences" + (
            f" (complex steps do not suit this function: {self.reason})" if self.reason else ""
        )

    @contextmanager
    def _distrust(self) -> Iterator[None]:
        """Context manager: complex steps that do not suit the function are not taken again."""
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                if self.mode == "auto":
                    warnings.simplefilter("ignore")
                yield
        except NotAnalyticError as error:
            if self.mode == "complex":
                raise
            self.steps, self.reason = False, error.reason

    def _compare_along_a_line(self) -> None:
        """Compare with differences along a random direction of all inputs, or of each: f may not be analytic."""
        rng, points = np.random.default_rng([0, 1]), self.function.points  # no weights are drawn from it
        every = np.concatenate([np.where(np.isfinite(x), rng.standard_normal(x.shape), 0).reshape(-1) for x in points])
        owner = np.repeat(np.arange(len(points)), [x.size for x in points])
        for chosen in [owner == i for i in range(len(points))] if self.mode == "complex" else [owner >= 0]:
            line = Line.along(self.function, np.where(chosen, every, 0))
            if not line.moves:
                continue
            by_step, _ = line.complex_slope(self.points)
            found = quick_slope(line)
            if found.kink.any() or not _nearly(by_step, found).all():
                found = slope(line, found)
                if found.kink.any() or not _nearly(by_step, found).all():
                    raise NotAnalyticError(NOT_ANALYTIC)

    # ---- Derivatives ----

    def derivatives(self, lines: Sequence[Line], analytic: Array) -> Estimate:
        """The derivatives along lines, with more effort where they disagree with the analytic ones.

        Shapes: analytic [K, len(lines)] -> [K, len(lines)]

        Raises: NondifferentiableError at a kink
        """
        if self.steps:
            with self._distrust():
                return self._by_steps(lines, analytic)
        return self._by_differences(lines, analytic, self.atol, self.rtol)

    def _by_steps(self, lines: Sequence[Line], analytic: Array) -> Estimate:
        found = [line.complex_slope(self.points) for line in lines]
        values, rounding = (np.array([pair[k] for pair in found]).reshape(analytic.T.shape).T for k in (0, 1))
        if self.mode == "auto" and self._by_differences(lines, values, None, None).wrong(values).any():
            raise NotAnalyticError(NOT_ANALYTIC)
        usual = 1e-9 if self.mode == "auto" else 1e-12
        atol = np.maximum(usual / _sizes(lines), 1e-13) if self.atol is None else self.atol
        estimate = Estimate(values, rounding, atol, usual if self.rtol is None else self.rtol)
        if estimate.wrong(analytic).any():  # the steps may lose a small part, as of x + |x| / 1e6
            excess = np.nan_to_num(abs(analytic - values), nan=np.inf, posinf=np.inf)
            row, k = np.unravel_index(int(np.argmax(excess)), excess.shape)
            fine = slope(lines[int(k)]).value[row]
            if abs(fine - analytic[row, k]) < abs(fine - values[row, k]) / 4:
                raise NotAnalyticError(NOT_ANALYTIC)
        return estimate

    def _by_differences(
        self, lines: Sequence[Line], analytic: Array, atol: float | None, rtol: float | None
    ) -> Estimate:
        values, errors = np.zeros(analytic.shape), np.zeros(analytic.shape)
        searched = needless = 0
        known: Slope | None = None  # of a line before
        for k, line in enumerate(lines):
            right = analytic[:, k]
            found = quick_slope(line)
            smooth, good = ~found.kink, self._is_enough(found, line, right, atol, rtol)
            if not good.all() and known is not None and 0 < known.noise < DROWNED:
                other = slope_by_step(line, known.step, known.noise)
                better = ~good & self._is_enough(other, line, right, atol, rtol)
                found.replace(better, other)
                good |= better
            if not good.all() and (needless < ENOUGH or needless < searched or not (smooth | good).all()):
                known = slope(line)
                if (kinks := known.kink & ~good).any():
                    raise self._nondifferentiable(line, known, kinks)
                searched += 1
                needless += bool((abs(known.value - found.value) <= 1e-4 * abs(known.value) + known.error).all())
                found.replace(~good, known)
            values[:, k], errors[:, k] = found.value, found.error
        return self._estimate(lines, values, errors, atol, rtol)

    def _is_enough(self, found: Slope, line: Line, analytic: Array, atol: float | None, rtol: float | None) -> Array:
        """Whether slopes [K] are known well enough, and agree with the analytic ones."""
        first = self._estimate([line], found.value[:, None], found.error[:, None], atol, rtol)
        known = found.error <= np.maximum(first.atol, UNRELIABLE / 10 * size_of(found.value))
        return ~found.kink & known & ~first.wrong(analytic[:, None])[:, 0]

    def _estimate(
        self, lines: Sequence[Line], values: Array, errors: Array, atol: float | None, rtol: float | None
    ) -> Estimate:
        coarse = 100 * self.function.rounding
        least: Any = np.maximum(np.maximum(1e-7 / _sizes(lines), 1e-13), coarse * size_of(values))
        return Estimate(values, errors, least if atol is None else atol, max(1e-6, coarse) if rtol is None else rtol)

    def _nondifferentiable(self, line: Line, found: Slope, kinks: Array) -> NondifferentiableError:
        """The error about the worst kink along a line, at the element to blame for it."""
        function = self.function
        with np.errstate(invalid="ignore"):
            jump = np.nan_to_num(abs(found.right - found.left), nan=np.inf)
        row = int(np.argmax(np.where(kinks, jump, -1)))
        if line.element is None:

            def bend(part: Array) -> float:
                _, left, right, *_ = Line.along(function, part, line.weights).slopes(line.step)
                return float(abs(right - left)[row])

            i, place = function.element_at(narrow_down(line.direction, bend))
        else:
            i, place = line.element
        value = function.points[i].reshape(-1)[place]
        output = function.output_name(row) if line.weights is None else "a random sum of the outputs"
        return NondifferentiableError(
            f"the function is not differentiable at {function.input_name(i, place)} = {value:.6g}: the slope of "
            f"{output} is {found.left[row]:.6g} to the left and {found.right[row]:.6g} to the right (a kink as of relu "
            "or abs at 0, a tie in max, a bound of clip, the edge of a domain); move this input away"
        )


def _nearly(by_step: Array, found: Slope) -> Array:
    with np.errstate(invalid="ignore"):
        return abs(by_step - found.value) <= 1e-5 + 1e-3 * abs(found.value) + found.error


def _sizes(lines: Sequence[Line]) -> Array:
    return np.array([line.size for line in lines])
