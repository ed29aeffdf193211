"""Compare analytic with numerical derivatives, and report the differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autograd.gradcheck import GradcheckError
from autograd.gradcheck.conduct import check_conduct
from autograd.gradcheck.function import CheckedFunction
from autograd.gradcheck.numerical import Estimate, Numerical, narrow_down

Array = np.ndarray

FULL = 20_000  # entries of the largest Jacobian that is computed to explain a failure of the fast check
SAMPLE = 200  # elements that are compared if it is larger


class Comparison:
    """One check of a backward pass against numerical derivatives."""

    def __init__(self, function: CheckedFunction, method: Callable[[], Numerical], rng: np.random.Generator):
        self.function, self.rng = function, rng
        self.weights, self.gradients = check_conduct(function, rng)
        self.numerical = method()

    # ---- Every derivative ----

    def everywhere(self) -> float:
        """Compare all Jacobians; return the largest error.

        Raises: GradcheckError if one is wrong
        """
        worst = 0.0
        jacobians = self.function.jacobian()
        for i, analytic in enumerate(jacobians):
            worst = max(worst, self._jacobian(i, analytic))
            self._check_linear(i, analytic)
        return worst

    def _jacobian(self, i: int, analytic: Array) -> float:
        """Shapes: analytic [M, n_i]"""
        estimate = self.numerical.jacobian(i)
        agrees = not estimate.wrong(analytic).any()
        self.numerical.confirm(i, self._direction(i), self.weights, agrees)
        if not agrees:
            estimate = self.numerical.reconsider(i, analytic, estimate)
        if estimate.wrong(analytic).any():
            raise GradcheckError(self._report(i, analytic, estimate))
        return _error(analytic, estimate.values)

    def _check_linear(self, i: int, analytic: Array) -> None:
        """The gradient for random weights must be the same weighted sum of the gradients for single outputs."""
        expected, gradient = self.weights @ analytic, self.gradients[i]
        off = ~(abs(gradient - expected) <= 1e-9 * (1 + abs(self.weights) @ abs(analytic)))
        if off.any():
            place = int(np.argmax(off))
            raise GradcheckError(
                f"the backward pass is not linear in the gradient that arrives: for random numbers it gives "
                f"{gradient[place]:.10g} at {self.function.input_name(i, place)}, but what it gives for each output "
                f"alone adds up to {expected[place]:.10g}; does it use that gradient twice, or mix up several outputs?"
            )

    # ---- Along random directions ----

    def _direction(self, i: int) -> Array:
        """A random direction of length 1, 0 where the input is infinite.  Shapes: -> [n_i]

        With length 1, the derivative along it and its errors are about as large as those by single elements.
        """
        point = self.function.points[i].reshape(-1)
        direction = np.where(np.isfinite(point), self.rng.standard_normal(point.shape), 0)
        return direction / (np.linalg.norm(direction) or 1)

    def along_directions(self) -> float:
        """Compare one number per input; return the largest error.

        Raises: GradcheckError if one is wrong, after a search for the wrong elements
        """
        worst = 0.0
        for i, gradient in enumerate(self.gradients):
            direction = self._direction(i)
            analytic = np.asarray(gradient @ direction)
            estimate = self.numerical.along(i, direction, self.weights)
            agrees = not estimate.wrong(analytic).any()
            self.numerical.confirm(i, direction, self.weights, agrees)
            if not agrees:
                estimate = self.numerical.reconsider_along(i, direction, self.weights, analytic, estimate)
            if estimate.wrong(analytic).any():
                self._blame(i, direction)
                raise GradcheckError(
                    f"wrong gradient of {self.function.input_name(i)}: along a random direction the derivative of a "
                    f"random sum of the outputs is\n  analytic   {analytic:.10g}\n  numerical  {estimate.values:.10g}"
                    "\nbut no single derivative that was looked at is; many small errors seem to add up"
                )
            worst = max(worst, _error(analytic, estimate.values))
        return worst

    def _blame(self, i: int, direction: Array) -> None:
        """Search for wrong derivatives by single elements of input i.

        Raises: GradcheckError if there is one
        """
        function, gradient = self.function, self.gradients[i]
        if len(self.weights) * gradient.size <= FULL:
            analytic = function.jacobian()[i]
            self._jacobian(i, analytic)
            self._check_linear(i, analytic)
            return

        def difference(part: Array) -> float:
            return abs(gradient @ part - self.numerical.along(i, part, self.weights).values)

        others = self.rng.permutation(gradient.size)[:SAMPLE]
        places = np.unique([narrow_down(direction, difference), *others])
        unit = np.eye(1, gradient.size)[0]
        single = [self.numerical.along(i, np.roll(unit, place), self.weights) for place in places]
        estimate = Estimate(
            np.array([[e.values for e in single]]),
            np.array([[e.error for e in single]]),
            single[0].atol,
            single[0].rtol,
        )
        analytic = gradient[None, places]
        if estimate.wrong(analytic).any():
            raise GradcheckError(self._report(i, analytic, estimate, places))

    # ---- The report ----

    def _report(self, i: int, analytic: Array, estimate: Estimate, places: Array | None = None) -> str:
        """The error message for d output / d input i; given `places`, for the weighted outputs by these elements."""
        function, numerical = self.function, estimate.values
        wrong = estimate.wrong(analytic)
        with np.errstate(invalid="ignore"):
            excess = np.where(wrong, np.nan_to_num(abs(analytic - numerical), nan=np.inf), -1)
        row, column = (int(k) for k in np.unravel_index(int(np.argmax(excess)), excess.shape))
        place = column if places is None else int(places[column])
        output = function.output_name(row) if places is None else "a random sum of the outputs"
        cause = self._cause(i, analytic, estimate, row, places)
        reason = getattr(self.numerical, "reason", "")
        return (
            f"wrong gradient of {function.input_name(i)}: {int(wrong.sum())} of {wrong.size} derivatives looked at "
            f"differ, most that of {output} by {function.input_name(i, place)}:\n"
            f"  analytic   {analytic[row, column]:.10g}\n"
            f"  numerical  {numerical[row, column]:.10g}\n"
            f"likely cause: {cause or 'none of the usual ones fits these numbers'}"
            + (f"\n(numerical: {self.numerical.describe()})" if reason else "")
        )

    def _cause(self, i: int, analytic: Array, estimate: Estimate, row: int, places: Array | None) -> str:
        """The likely mistake in the derivatives of the output that `row` belongs to."""
        from autograd.gradcheck.diagnosis import likely_cause  # only for an error message
        from autograd.gradcheck.evidence import Evidence

        function = self.function
        if places is not None:
            return likely_cause(Evidence(analytic, estimate.values, (), function.points[i].shape, complete=False))
        output = function.locate(row)[0]
        rows = function.rows_of(output)
        arrays = {function.input_name(k): point for k, point in enumerate(function.points)}
        if len(function.points) == 1:
            arrays = {"x": function.points[0]}
        arrays["y"] = self.numerical.middle[rows].reshape(function.output_shapes[output])
        return likely_cause(
            Evidence(
                analytic[rows], estimate.values[rows], function.output_shapes[output], function.points[i].shape,
                arrays=arrays, at=function.points[i],
                others=lambda: self._other_jacobians(i, rows),
            )
        )  # fmt: skip

    def _other_jacobians(self, i: int, rows: slice) -> dict[str, Array]:
        """Numerical d output / d input k for the inputs k other than i, by name."""
        function = self.function
        return {
            function.input_name(k): self.numerical.jacobian(k).values[rows]
            for k in range(len(function.points)) if k != i
        }  # fmt: skip


def _error(analytic: Array, numerical: Array) -> float:
    """max |analytic - numerical| / max(1, |numerical|)"""
    return float((abs(analytic - numerical) / np.maximum(1, abs(numerical))).max(initial=0.0))
