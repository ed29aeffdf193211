"""The gradients of a function beside numerical derivatives, at its inputs and elsewhere, and the report of an error."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from autograd.gradcheck.diagnosis import likely_cause
from autograd.gradcheck.factors import Evidence
from autograd.gradcheck.function import CheckedFunction, GradcheckError, GradcheckWarning, joined, locate, places_of
from autograd.gradcheck.numerical import UNRELIABLE, Derivatives, Line, Reference, quick_slope, size_of, slope

Array = np.ndarray
Rng = np.random.Generator

FULL = 20_000  # entries of the largest Jacobian that is computed to explain a failure of the fast check
SAMPLE = 200  # elements that are compared if it is larger
SMALL = 1_000  # entries of the largest Jacobian that is computed to explain a failure at another point
SLOPE = 1e-6  # of a slope there, what may differ besides what is known of the error of the differences
FLOOR = 1e-9  # likewise of the outputs: a slope may be what is left of terms that cancel


class Comparison:
    """The gradients of a function at its inputs beside numerical derivatives.

    weights, gradients: random weights [M] of the outputs, and the gradients of the weighted sum, in the inputs' shapes
    how: mode, atol and rtol of the `Reference`
    """

    def __init__(self, function: CheckedFunction, weights: Array, gradients: list[Array], rng: Rng, *how: Any):
        self.function, self.weights, self.gradients, self.rng = function, weights, gradients, rng
        self.reference = Reference(function, *how)

    def _derivatives(self, i: int, lines: Sequence[Line], analytic: Array) -> Derivatives:
        """Return the derivatives; warn if right ones are not verified, as the reference may be wrong, too."""
        found = self.reference.derivatives(lines, analytic)
        known = found.error <= np.maximum(UNRELIABLE * size_of(found.numerical), found.atol)
        if not found.wrong.any() and not known.all():
            place = int(np.argmax(~known)) % analytic.shape[1]
            warnings.warn(
                f"the reference derivative is not reliable here: by {self.function.input_name(i, place)} it is only "
                f"known to ±{float(found.error.max()):.0e}, because of rounding in the function; the gradient "
                "agrees with it, but a wrong gradient might, too: choose inputs without cancellation",
                GradcheckWarning,
                stacklevel=7,
            )
        return found

    # ---- Every derivative ----

    def everywhere(self) -> float:
        """Compare all Jacobians; return the largest error.

        Raises: GradcheckError if one is wrong
        """
        jacobians = self.function.jacobian()
        return max([self.jacobian(i, analytic) for i, analytic in enumerate(jacobians)], default=0.0)

    def by_elements(self, i: int, analytic: Array) -> Derivatives:
        """The Jacobian by input i beside the numerical one.  Shapes: analytic [M, n_i]"""
        return self._derivatives(i, [Line(self.function, (i, place)) for place in range(analytic.shape[1])], analytic)

    def jacobian(self, i: int, analytic: Array) -> float:
        """Compare the Jacobian by input i, and the gradient for random weights, which must be a sum of its rows."""
        found = self.by_elements(i, analytic)
        if found.wrong.any():
            raise GradcheckError(self._report(i, found))
        expected, gradient = self.weights @ analytic, self.gradients[i].reshape(-1)
        rounding = max(1e-9, 100 * self.function.rounding)
        off = ~(abs(gradient - expected) <= rounding * (1 + abs(self.weights) @ abs(analytic)))
        if off.any():
            place = int(np.argmax(off))
            raise GradcheckError(
                f"the backward pass is not linear in the incoming gradient: for random numbers it gives "
                f"{gradient[place]:.10g} at {self.function.input_name(i, place)}, but what it gives for each output "
                f"alone adds up to {expected[place]:.10g}; does it use that gradient twice, or mix up several outputs?"
            )
        return found.largest_error

    # ---- Along random directions ----

    def along_directions(self) -> float:
        """Compare one number per input, the slope of the weighted outputs along a direction; return the largest error.

        The direction has length 1, and is longer by |x| at an |x| above 1,000: the derivative along it and its errors
        are about as large as those by single elements.  It is 0 where the input is infinite.

        Raises: GradcheckError if one is wrong, after a search for the wrong elements
        """
        errors, points = [0.0], self.function.points
        for i, gradient in enumerate(self.gradients):
            x = points[i].reshape(-1)
            direction = np.where(np.isfinite(x), self.rng.standard_normal(x.shape), 0)
            direction = direction / (np.linalg.norm(direction) or 1)
            direction = direction * np.where(np.isfinite(x) & (abs(x) > 1e3), abs(x), 1)
            parts = [direction if k == i else np.zeros(other.size) for k, other in enumerate(points)]
            line = Line(self.function, joined(parts), self.weights)
            found = self._derivatives(i, [line], np.array([[gradient.reshape(-1) @ direction]]))
            if found.wrong.any():
                self._blame(i, line)
                raise GradcheckError(
                    f"wrong gradient of {self.function.input_name(i)}: along a random direction the derivative of a "
                    f"random sum of the outputs is\n  analytic   {found.analytic.item():.10g}\n"
                    f"  numerical  {found.numerical.item():.10g}\n"
                    "but none of the single derivatives checked is wrong; many small errors seem to add up"
                )
            errors.append(found.largest_error)
        return max(errors)

    def _blame(self, i: int, line: Line) -> None:
        """Search for wrong derivatives by single elements of input i.

        Raises: GradcheckError if there is one
        """
        function, gradient = self.function, self.gradients[i].reshape(-1)
        if len(self.weights) * gradient.size <= FULL:
            self.jacobian(i, function.jacobian()[i])
            return

        def badness(part: Line) -> float:
            found = quick_slope(part)
            found = slope(part) if found.kink.any() else found
            return float(abs(part.along(self.gradients).sum() - found.value).item())

        places = np.unique([line.worst_element(badness)[1], *self.rng.permutation(gradient.size)[:SAMPLE]])
        lines = [Line(function, (i, int(place)), self.weights) for place in places]
        found = self.reference.derivatives(lines, gradient[None, places])
        if found.wrong.any():
            raise GradcheckError(self._report(i, found, places))

    # ---- Where there may be no derivatives ----

    def excess(self, line: Line) -> tuple[float, float, float]:
        """Return the disagreement of slopes beyond what is allowed; the analytic and the numerical one."""
        function, reference, terms = self.function, self.reference, line.along(self.gradients)
        rtol = max(SLOPE, reference.rtol or 0.0, 1000 * function.rounding)
        # Of the weighted sum; what a backward pass rounds may be as large as what arrives, though f is 0
        atol = ((reference.atol or 0.0) + 10 * function.rounding) * max(1.0, abs(self.weights).sum())
        for slope_along, times in ((quick_slope, 25), (slope, 3)):
            found = slope_along(line)
            analytic, numerical = float(terms.sum()), float(found.value.item())
            size = abs(numerical) + abs(np.nan_to_num(terms, posinf=0, neginf=0)).sum()
            scale = float(line.scale.item()) + function.usual
            allowed = rtol * size + max(FLOOR, 10 * function.rounding) * scale
            allowed += atol * sum(np.abs(part).sum() for *_, part in line.moves)
            off = abs(analytic - numerical) - (allowed + times * float(found.error.item()))
            if off <= 0:
                return 0.0, analytic, numerical
        error = float(found.error.item())
        vague = error > max(0.1 * abs(numerical), SLOPE * scale)
        if found.kink.any() or not np.isfinite(numerical + error) or (math.isnan(off) and vague):
            return 0.0, analytic, numerical  # no derivative, or none that a NaN would be wrong for
        return (math.inf if math.isnan(off) else off), analytic, numerical

    def check_slope(self, least: Sequence[float], begin: str, general: str = "", spared: float = math.nan) -> None:
        """Compare the slope along a random direction in all inputs, at a point where there may be no derivatives.

        A wrong one is no error if no single element is to blame: rounding, or kinks close by, of which those of several
        outputs may cancel in the weighted sum.

        least: sizes of the inputs that their elements are moved by at least a tenth of
        begin: of the message; general: the likely cause in general
        spared: a value of elements where kinks may cancel

        Raises: GradcheckError for a wrong slope
        """
        function, weights = self.function, self.weights
        moved = [np.where(np.isfinite(x), np.maximum(abs(x), 0.1 * max(size_of(x), usual) or 1.0), 0)
                 for x, usual in zip(function.points, least, strict=True)]  # fmt: skip
        sizes = joined(moved)
        line = Line(function, self.rng.standard_normal(sizes.size) * sizes, weights)
        if not line.moves or not self.excess(line)[0]:
            return
        i, place = line.worst_element(lambda part: self.excess(part)[0])
        off, analytic, numerical = self.excess(Line(function, (i, place), weights))
        value = function.points[i].reshape(-1)[place]
        if not off or (value == spared and np.isfinite(analytic)):
            return
        each = slope(Line(function, (i, place)))
        confirmed, rtol = weights * each.value, max(SLOPE, self.reference.rtol or 0.0, 1000 * function.rounding)
        known = 3 * (abs(weights) * each.error).sum() + rtol * abs(confirmed).sum()
        if each.kink.any() or abs(analytic - confirmed.sum()) <= known:
            return
        cause = ""
        if len(weights) * function.points[i].size <= SMALL:
            with suppress(GradcheckError):  # a kink, at another element
                cause = self.cause(i, self.by_elements(i, function.jacobian()[i]))
        cause = "; and there alone: ".join(filter(None, (cause, general))) or "no known mistake fits these numbers"
        raise GradcheckError(
            f"{begin}: for a random sum of the outputs by {function.input_name(i, place)}, which is {value:.6g} there\n"
            f"  analytic   {analytic:.10g}\n  numerical  {numerical:.10g}\n"
            f"likely cause: {cause}{about_rounding(function)}"
        )

    # ---- The report ----

    def _report(self, i: int, found: Derivatives, places: Array | None = None) -> str:
        """The error message for d output / d input i; given `places`, for the weighted outputs by these elements."""
        function, (row, column) = self.function, found.worst
        analytic, numerical, error = (a[row, column] for a in (found.analytic, found.numerical, found.error))
        if places is None:
            output, place, cause = function.output_name(row), column, self.cause(i, found)
        else:
            output, place = "a random sum of the outputs", int(places[column])
            evidence = Evidence(found.analytic, found.numerical, (), function.points[i], complete=False)
            cause = likely_cause(evidence)
        return (
            f"wrong gradient of {function.input_name(i)}: {int(found.wrong.sum())} of {found.wrong.size} derivatives "
            f"differ, most that of {output} by {function.input_name(i, place)}:\n"
            f"  analytic   {analytic:.10g}\n  numerical  {numerical:.10g}"
            + (f", to ±{error:.0e}" if error > abs(numerical) / 1000 else "")
            + f"\nlikely cause: {cause or 'no known mistake fits these numbers' + _ratios(found)}"
            + (f"\n(numerical: {self.reference})" if self.reference.reason else "")
            + about_rounding(function)
        )

    def cause(self, i: int, found: Derivatives) -> str:
        """The likely cause of a wrong Jacobian by input i, from the output with the worst derivative; "" if unknown."""
        function, every = self.function, places_of(self.function.output_shapes)
        output, _ = locate(found.worst[0], function.output_shapes)
        arrays = {"x" if len(function.points) == 1 else function.input_name(k): x
                  for k, x in enumerate(function.points)}  # fmt: skip
        arrays["y"] = function.middle[every[output]].reshape(function.output_shapes[output])

        def others() -> dict[str, Array]:
            right = enumerate(function.jacobian())
            try:
                found = {k: self.by_elements(k, jacobian) for k, jacobian in right if k != i}
            except GradcheckError:  # another input is at a kink
                return {}
            return {function.input_name(k): each.numerical[every[output]] for k, each in found.items()}

        parts = tuple([(found.analytic[rows], found.numerical[rows]) for rows in every])
        return likely_cause(
            Evidence(
                *parts[output], arrays["y"].shape, function.points[i], arrays, others, outputs=parts, output=output,
                noise=size_of(found.error),
            )
        )  # fmt: skip


def _ratios(found: Derivatives) -> str:
    """Compare the derivatives, in words, where the numerical ones are not 0."""
    some = (found.numerical != 0) & np.isfinite(found.numerical) & np.isfinite(found.analytic)
    ratios = found.analytic[some] / found.numerical[some]
    if not some.any():
        return ""
    if (off := abs(ratios - 1).max()) < 1e-3:
        known = "an approximation in one of the passes, or a series cut short?"
        return f" (they differ by {off:.0e} of the value: {known})"
    return f" (analytic / numerical is between {ratios.min():.4g} and {ratios.max():.4g})"


def about_rounding(function: CheckedFunction) -> str:
    """A line of a message, where the values of the function are coarse."""
    if function.narrow or function.rounding < 1e-11:
        return ""
    return (
        f"\n(the values of the function are known to {function.rounding:.0e} of their size, less than float64 knows: "
        'large numbers cancel, or it computes in float32; if it is meant to, check it with precision="float32")'
    )
