"""The gradients of a function beside numerical derivatives, at its inputs and elsewhere, and the report of an error."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autograd.gradcheck.diagnosis import likely_cause
from autograd.gradcheck.factors import Evidence
from autograd.gradcheck.function import CheckedFunction, GradcheckError, GradcheckWarning, joined
from autograd.gradcheck.numerical import UNRELIABLE, Derivatives, Line, Reference, quick_slope, size_of, slope

Array = np.ndarray
Rng = np.random.Generator

FULL = 20_000  # entries of the largest Jacobian that is computed to explain a failure of the fast check
SAMPLE = 200  # elements that are compared if it is larger


@dataclass
class Comparison:
    """The gradients of a function at its inputs beside numerical derivatives.

    weights, gradients: random weights [M] of the outputs, and the gradients of the weighted sum, in the inputs' shapes
    """

    function: CheckedFunction
    reference: Reference
    weights: Array
    gradients: Sequence[Array]
    rng: Rng

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
        flat = joined(self.gradients)

        def badness(part: Line) -> float:
            found = quick_slope(part)
            return float(abs(flat @ part.direction - (slope(part, found) if found.kink.any() else found).value).item())

        places = np.unique([line.worst_element(badness)[1], *self.rng.permutation(gradient.size)[:SAMPLE]])
        lines = [Line(function, (i, int(place)), self.weights) for place in places]
        found = self.reference.derivatives(lines, gradient[None, places])
        if found.wrong.any():
            raise GradcheckError(self._report(i, found, places))

    # ---- The report ----

    def _report(self, i: int, found: Derivatives, places: Array | None = None) -> str:
        """The error message for d output / d input i; given `places`, for the weighted outputs by these elements."""
        function, (row, column) = self.function, found.worst
        analytic, numerical, error = (a[row, column] for a in (found.analytic, found.numerical, found.error))
        if places is None:
            output, place, cause = function.output_name(row), column, self.cause(i, found)
        else:
            output, place = "a random sum of the outputs", int(places[column])
            evidence = Evidence(found.analytic, found.numerical, (), function.points[i].shape, complete=False)
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
        function, every, row = self.function, self.function.rows, found.worst[0]
        output = next(j for j, rows in enumerate(every) if rows.start <= row < rows.stop)
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
                *parts[output], function.output_shapes[output], function.points[i].shape, arrays, function.points[i],
                others, outputs=parts, output=output, noise=size_of(found.error),
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
