"""Compare analytic with numerical derivatives, and report the differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autograd.gradcheck import GradcheckError
from autograd.gradcheck.conduct import check_conduct
from autograd.gradcheck.function import CheckedFunction
from autograd.gradcheck.numerical import Numerical, narrow_down

Array = np.ndarray

FULL = 20_000  # entries of the largest Jacobian that is computed to explain a failure of the fast check
SAMPLE = 200  # elements that are compared if it is larger


class Comparison:
    """One check of |analytic - numerical| ≤ atol + rtol · |numerical|."""

    def __init__(
        self,
        function: CheckedFunction,
        method: Callable[[], Numerical],
        atol: float,
        rtol: float,
        rng: np.random.Generator,
    ):
        self.function, self.atol, self.rtol, self.rng = function, atol, rtol, rng
        self.weights, self.gradients = check_conduct(function, rng)
        self.numerical = method()

    def wrong(self, analytic: Array, numerical: Array) -> Array:
        """Mask of the elements that differ by more than the tolerance; NaN differs."""
        with np.errstate(invalid="ignore"):
            return ~(abs(analytic - numerical) <= self.atol + self.rtol * abs(numerical))

    def close(self, a: Array, b: Array) -> bool:
        return not self.wrong(a, b).any()

    # ---- Every derivative ----

    def everywhere(self) -> float:
        """Compare all Jacobians; return the largest error.

        Raises: GradcheckError if one is wrong
        """
        worst = 0.0
        for i, analytic in enumerate(self.function.jacobian()):
            worst = max(worst, self._jacobian(i, analytic))
            self._check_linear(i, analytic)
        return worst

    def _jacobian(self, i: int, analytic: Array) -> float:
        """Shapes: analytic [M, n_i]"""
        numerical = self.numerical.jacobian(i)
        agrees = self.close(analytic, numerical)
        self.numerical.confirm(i, self._direction(i), self.weights, agrees)
        if not agrees:
            raise GradcheckError(self._report(i, analytic, numerical))
        return _error(analytic, numerical)

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
            analytic = np.array([gradient @ direction])
            numerical = np.array([self.numerical.along(i, direction, self.weights)])
            agrees = self.close(analytic, numerical)
            self.numerical.confirm(i, direction, self.weights, agrees)
            if not agrees:
                self._blame(i, direction)
                raise GradcheckError(
                    f"wrong gradient of {self.function.input_name(i)}: along a random direction the derivative of a "
                    f"random sum of the outputs is\n  analytic   {analytic[0]:.10g}\n  numerical  {numerical[0]:.10g}"
                    "\nbut no single derivative that was looked at is; many small errors seem to add up"
                )
            worst = max(worst, _error(analytic, numerical))
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
            return abs(gradient @ part - self.numerical.along(i, part, self.weights))

        others = self.rng.permutation(gradient.size)[:SAMPLE]
        places = np.unique([narrow_down(direction, difference), *others])
        unit = np.eye(1, gradient.size)[0]
        slopes = [self.numerical.along(i, np.roll(unit, place), self.weights) for place in places]
        analytic, numerical = gradient[None, places], np.array([slopes])
        if self.wrong(analytic, numerical).any():
            raise GradcheckError(self._report(i, analytic, numerical, places))

    # ---- The report ----

    def _report(self, i: int, analytic: Array, numerical: Array, places: Array | None = None) -> str:
        """The error message for d output / d input i; given `places`, for the weighted outputs by these elements."""
        from autograd.gradcheck.diagnosis import likely_cause  # only for an error message

        function = self.function
        wrong = self.wrong(analytic, numerical)
        with np.errstate(invalid="ignore"):
            excess = np.where(wrong, np.nan_to_num(abs(analytic - numerical), nan=np.inf), -1)
        row, column = (int(k) for k in np.unravel_index(int(np.argmax(excess)), excess.shape))
        rows = slice(None) if places is not None else function.rows_of(function.locate(row)[0])
        output_shape = () if places is not None else function.output_shapes[function.locate(row)[0]]
        input_shape = function.points[i].shape
        cause = likely_cause(
            analytic[rows], numerical[rows], output_shape, input_shape, self.close, complete=places is None
        )
        place = column if places is None else int(places[column])
        output = function.output_name(row) if places is None else "a random sum of the outputs"
        return (
            f"wrong gradient of {function.input_name(i)}: {int(wrong.sum())} of {wrong.size} derivatives looked at "
            f"differ, most that of {output} by {function.input_name(i, place)}:\n"
            f"  analytic   {analytic[row, column]:.10g}\n"
            f"  numerical  {numerical[row, column]:.10g}\n"
            f"likely cause: {cause or 'none of the usual ones fits these numbers'}"
        )


def _error(analytic: Array, numerical: Array) -> float:
    """max |analytic - numerical| / max(1, |numerical|)"""
    return float((abs(analytic - numerical) / np.maximum(1, abs(numerical))).max(initial=0.0))
