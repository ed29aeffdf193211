"""The gradients of a function beside numerical derivatives, at its inputs and elsewhere, and the report of an error."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from autograd.gradcheck.diagnosis import likely_cause
from autograd.gradcheck.factors import Evidence
from autograd.gradcheck.function import CheckedFunction, GradcheckError, GradcheckWarning, joined
from autograd.gradcheck.numerical import UNRELIABLE, Estimate, Line, Reference, quick_slope, size_of, slope, worst

Array = np.ndarray
Rng = np.random.Generator

FULL = 20_000  # entries of the largest Jacobian that is computed to explain a failure of the fast check
SAMPLE = 200  # elements that are compared if it is larger


class Comparison:
    """The gradients of a function at its inputs beside numerical derivatives.

    weights, gradients: random weights [M] of the outputs, and the gradients of the weighted sum, in the inputs' shapes
    """

    def __init__(
        self,
        function: CheckedFunction,
        reference: Reference,
        weights: Array,
        gradients: Sequence[Array],
        rng: Rng,
    ):
        self.function, self.reference, self.weights, self.rng = function, reference, weights, rng
        self.gradients = [g.reshape(-1) for g in gradients]

    def _estimate(self, i: int, lines: Sequence[Line], analytic: Array) -> Estimate:
        """Return the numerical derivatives; warn if right ones are not verified, as the reference may be wrong, too."""
        estimate = self.reference.derivatives(lines, analytic)
        known = estimate.error <= np.maximum(UNRELIABLE * size_of(estimate.values), estimate.atol)
        if not estimate.wrong(analytic).any() and not known.all():
            place = int(np.argmax(~known)) % analytic.shape[1]
            warnings.warn(
                f"the reference derivative is not reliable here: by {self.function.input_name(i, place)} it is only "
                f"known to ±{float(estimate.error.max()):.0e}, because of rounding in the function; the gradient "
                "agrees with it, but a wrong gradient might, too: choose inputs without cancellation",
                GradcheckWarning,
                stacklevel=7,
            )
        return estimate

    # ---- Every derivative ----

    def everywhere(self) -> float:
        """Compare all Jacobians; return the largest error.

        Raises: GradcheckError if one is wrong
        """
        jacobians = self.function.jacobian()
        return max([self.jacobian(i, analytic) for i, analytic in enumerate(jacobians)], default=0.0)

    def numerical(self, i: int, analytic: Array) -> Estimate:
        """The numerical Jacobian by input i.  Shapes: analytic [M, n_i] -> [M, n_i]"""
        lines = [Line(self.function, (i, place)) for place in range(analytic.shape[1])]
        return self._estimate(i, lines, analytic)

    def jacobian(self, i: int, analytic: Array) -> float:
        """Compare the Jacobian by input i, and the gradient for random weights, which must be a sum of its rows."""
        estimate = self.numerical(i, analytic)
        if estimate.wrong(analytic).any():
            raise GradcheckError(self._report(i, analytic, estimate))
        expected, gradient = self.weights @ analytic, self.gradients[i]
        rounding = max(1e-9, 100 * self.function.rounding)
        off = ~(abs(gradient - expected) <= rounding * (1 + abs(self.weights) @ abs(analytic)))
        if off.any():
            place = int(np.argmax(off))
            raise GradcheckError(
                f"the backward pass is not linear in the incoming gradient: for random numbers it gives "
                f"{gradient[place]:.10g} at {self.function.input_name(i, place)}, but what it gives for each output "
                f"alone adds up to {expected[place]:.10g}; does it use that gradient twice, or mix up several outputs?"
            )
        return _error(analytic, estimate.values)

    # ---- Along random directions ----

    def along_directions(self) -> float:
        """Compare one number per input; return the largest error.

        Raises: GradcheckError if one is wrong, after a search for the wrong elements
        """
        errors = [0.0]
        for i in range(len(self.gradients)):
            line, analytic = self._random_line(i)
            estimate = self._estimate(i, [line], analytic)
            if estimate.wrong(analytic).any():
                self._blame(i, line)
                raise GradcheckError(
                    f"wrong gradient of {self.function.input_name(i)}: along a random direction the derivative of a "
                    f"random sum of the outputs is\n  analytic   {analytic.item():.10g}\n"
                    f"  numerical  {estimate.values.item():.10g}\n"
                    "but none of the single derivatives checked is wrong; many small errors seem to add up"
                )
            errors.append(_error(analytic, estimate.values))
        return max(errors)

    def _random_line(self, i: int) -> tuple[Line, Array]:
        """A line along which input i moves, and the slope [1, 1] of the weighted outputs that its gradient says.

        Its direction has length 1, and is longer by |x| at an |x| above 1,000: the derivative along it and its errors
        are about as large as those by single elements.  It is 0 where the input is infinite.
        """
        point = self.function.points[i].reshape(-1)
        direction = np.where(np.isfinite(point), self.rng.standard_normal(point.shape), 0)
        direction = direction / (np.linalg.norm(direction) or 1)
        direction = direction * np.where(np.isfinite(point) & (abs(point) > 1e3), abs(point), 1)
        parts = [direction if k == i else np.zeros(x.size) for k, x in enumerate(self.function.points)]
        return Line(self.function, joined(parts), self.weights), np.array([[self.gradients[i] @ direction]])

    def _blame(self, i: int, line: Line) -> None:
        """Search for wrong derivatives by single elements of input i.

        Raises: GradcheckError if there is one
        """
        function, gradient = self.function, self.gradients[i]
        if len(self.weights) * gradient.size <= FULL:
            self.jacobian(i, function.jacobian()[i])
            return
        flat = joined(self.gradients)

        def badness(part: Line) -> float:
            found = quick_slope(part)
            return float(abs(flat @ part.direction - (slope(part, found) if found.kink.any() else found).value).item())

        places = np.unique([line.worst_element(badness)[1], *self.rng.permutation(gradient.size)[:SAMPLE]])
        analytic = gradient[None, places]
        lines = [Line(function, (i, int(place)), self.weights) for place in places]
        estimate = self.reference.derivatives(lines, analytic)
        if estimate.wrong(analytic).any():
            raise GradcheckError(self._report(i, analytic, estimate, places))

    # ---- The report ----

    def _report(self, i: int, analytic: Array, estimate: Estimate, places: Array | None = None) -> str:
        """The error message for d output / d input i; given `places`, for the weighted outputs by these elements."""
        function, numerical = self.function, estimate.values
        wrong = estimate.wrong(analytic)
        row, column = _worst(analytic, estimate)
        place = column if places is None else int(places[column])
        output = function.output_name(row) if places is None else "a random sum of the outputs"
        cause = self.cause(i, analytic, estimate, complete=places is None)
        error = float(estimate.error[row, column])
        return (
            f"wrong gradient of {function.input_name(i)}: {int(wrong.sum())} of {wrong.size} derivatives "
            f"differ, most that of {output} by {function.input_name(i, place)}:\n"
            f"  analytic   {analytic[row, column]:.10g}\n"
            f"  numerical  {numerical[row, column]:.10g}"
            + (f", to ±{error:.0e}" if error > abs(numerical[row, column]) / 1000 else "")
            + f"\nlikely cause: {cause or 'no known mistake fits these numbers' + _ratios(analytic, numerical)}"
            + (f"\n(numerical: {self.reference})" if self.reference.reason else "")
            + about_rounding(function)
        )

    def cause(self, i: int, analytic: Array, estimate: Estimate, complete: bool = True) -> str:
        """The likely cause of a wrong Jacobian by input i, from the output with the worst derivative; "" if unknown.

        complete: whether it is the whole Jacobian, and not that of some elements
        """
        function, shape, numerical = self.function, self.function.points[i].shape, estimate.values
        if not complete:
            return likely_cause(Evidence(analytic, numerical, (), shape, complete=False))
        output = function.output_of(_worst(analytic, estimate)[0])
        rows = function.rows_of(output)
        arrays = {"x" if len(function.points) == 1 else function.input_name(k): x
                  for k, x in enumerate(function.points)}  # fmt: skip
        arrays["y"] = function.middle[rows].reshape(function.output_shapes[output])

        def others() -> dict[str, Array]:
            right = function.jacobian()
            try:
                return {
                    function.input_name(k): self.numerical(k, right[k]).values[rows]
                    for k in range(len(right))
                    if k != i
                }
            except GradcheckError:  # another input is at a kink
                return {}

        every = [function.rows_of(j) for j in range(len(function.outputs))]
        return likely_cause(
            Evidence(
                analytic[rows], numerical[rows], function.output_shapes[output], shape, arrays, function.points[i],
                others, outputs=tuple([(analytic[part], numerical[part]) for part in every]), output=output,
                noise=size_of(estimate.error),
            )
        )  # fmt: skip


def _worst(analytic: Array, estimate: Estimate) -> tuple[int, int]:
    """Row and column of the largest difference of those that are wrong."""
    row, column = np.unravel_index(worst(analytic, estimate.values, estimate.wrong(analytic)), analytic.shape)
    return int(row), int(column)


def _ratios(analytic: Array, numerical: Array) -> str:
    """Compare analytic and numerical derivatives, in words, where the numerical ones are not 0."""
    some = (numerical != 0) & np.isfinite(numerical) & np.isfinite(analytic)
    if not some.any():
        return ""
    ratios = analytic[some] / numerical[some]
    if (off := abs(ratios - 1).max()) < 1e-3:
        return (
            f" (they differ by {off:.0e} of the value: an approximation in one of the passes, or a series cut short?)"
        )
    return f" (analytic / numerical is between {ratios.min():.4g} and {ratios.max():.4g})"


def about_rounding(function: CheckedFunction) -> str:
    """A line of a message, where the values of the function are coarse."""
    if function.narrow or function.rounding < 1e-11:
        return ""
    return (
        f"\n(the values of the function are known to {function.rounding:.0e} of their size, less than float64 knows: "
        'large numbers cancel, or it computes in float32; if it is meant to, check it with precision="float32")'
    )


def _error(analytic: Array, numerical: Array) -> float:
    """max |analytic - numerical| / max(1, |numerical|)"""
    return float((abs(analytic - numerical) / np.maximum(1, abs(numerical))).max(initial=0.0))
