"""The whole check of a gradient: analytic against numerical derivatives, then the same under other circumstances."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd.gradcheck.diagnosis import Evidence, likely_cause
from autograd.gradcheck.function import CheckedFunction, GradcheckError, GradcheckWarning
from autograd.gradcheck.numerical import METHODS, UNRELIABLE, Estimate, Method, Target, narrow_down, size_of
from autograd.gradcheck.other_inputs import check_other_inputs
from autograd.gradcheck.variations import (
    check_float32,
    check_frozen,
    check_layouts,
    check_multiples,
    check_points,
    check_side_effects,
)

Array = np.ndarray

FULL = 20_000  # entries of the largest Jacobian that is computed to explain a failure of the fast check
SAMPLE = 200  # elements that are compared if it is larger


@dataclass(frozen=True)
class Options:
    """Options of `gradcheck`: the numerical derivatives, and the checks to add or omit.

    mode: "complex", Im f(x + i eps) / eps, with eps=1e-20 and atol=rtol=1e-12: exact up to rounding, for functions that
        accept complex numbers; "central", (f(x + eps) - f(x - eps)) / 2 eps, with eps=1e-6, atol=1e-7, rtol=1e-6 and
        the known error of the difference; "auto", complex steps with atol=rtol=1e-9 where they work, and central
        differences otherwise, with the reason in the error message and in the output of `verbose`.
    eps: the step; default: that of the mode.
    seed: seed of the random weights and directions, which are never all 1, because a softmax without gradient would
        pass.
    elsewhere: False to call func only at the inputs.  By default, the gradients are also compared with differences at
        the inputs in another order, times factors from -10 to 100, and with random numbers added, where func is
        defined.
    layouts: False to omit other memory layouts of inputs and incoming gradients.
    shapes: False to omit inputs of other shapes (larger, with axes of size 1, empty, of shape (), broadcast in another
        way), repeated indices, inverted masks, and the same array for two inputs.  Like other points, they are used
        only if func accepts them, and omitted by elsewhere=False.
    float32: whether to compare the gradients of float32 inputs with those of float64 inputs.  They may differ by 1e-4
        of the value, 1e-5 of the largest value, and ten times the change caused by moving the inputs by a few
        roundings.  None: only if func accepts float32 arrays and computes the same values with them; omitted by
        elsewhere=False.
    verbose: True to print the kind of numerical derivatives and the largest error.

    Raises: ValueError for an unknown mode or a step that is not positive
    """

    mode: str = "auto"
    eps: float | None = None
    seed: int = 0
    elsewhere: bool = True
    layouts: bool = True
    shapes: bool = True
    float32: bool | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        if self.mode not in METHODS:
            raise ValueError(f"mode={self.mode!r} is not one of {', '.join(map(repr, METHODS))}")
        if self.eps is not None and not self.eps > 0:
            raise ValueError(f"eps={self.eps}: eps must be positive")


def gradient_error(
    func: Callable[..., Any],
    inputs: Any,
    *,
    atol: float | None = math.inf,
    rtol: float | None = 0.0,
    fast: bool = False,
    options: Options | None = None,
) -> float:
    """Return the largest |analytic - numerical| / max(1, |numerical|) that `gradcheck` with these arguments finds.

    Raises: as gradcheck; but by default, every finite error is within `atol`
    """
    options = options or Options()
    if not all(value is None or value >= 0 for value in (atol, rtol)):
        raise ValueError(f"atol={atol}, rtol={rtol}: tolerances must be at least 0")
    with CheckedFunction(func, inputs) as function:
        rng = np.random.default_rng(options.seed)
        weights, right = check_side_effects(function, rng)
        function.warn_of_others(function.call())
        numerical = METHODS[options.mode](function, options.eps, atol, rtol)
        comparison = Comparison(function, numerical, weights, right, rng)
        error = comparison.along_directions() if fast else comparison.everywhere()
        check_multiples(function, weights, right)
        check_frozen(function, weights, right, rng)
        if options.layouts:
            check_layouts(function, weights, right, rng)
        if options.elsewhere:
            check_points(function, weights, right, rng, atol or 0.0, rtol or 0.0)
        if options.elsewhere and options.shapes:
            check_other_inputs(function, rng, atol or 0.0, rtol or 0.0)
        if options.float32 or (options.float32 is None and options.elsewhere):
            check_float32(function, weights, rng, required=bool(options.float32))
    if options.verbose:
        print(f"gradients right: compared with {numerical}, largest error {error:.0e}")
    return error


class Comparison:
    """The gradients of a function at its inputs beside numerical derivatives.

    weights, gradients: random weights [M] of the outputs, and the gradients of the weighted sum, in the inputs' shapes
    """

    def __init__(
        self,
        function: CheckedFunction,
        numerical: Method,
        weights: Array,
        gradients: list[Array],
        rng: np.random.Generator,
    ):
        self.function, self.numerical, self.weights, self.rng = function, numerical, weights, rng
        self.gradients = [g.reshape(-1) for g in gradients]

    def _compare(self, target: Target, along: Target, analytic: Array) -> Estimate:
        """Return the numerical derivatives, computed with more effort if they disagree with the analytic ones."""
        estimate = self.numerical.derivative(target)
        agrees = not estimate.wrong(analytic).any()
        self.numerical.confirm(along, agrees)
        if agrees:
            return estimate
        estimate = self.numerical.reconsider(target, analytic, estimate)
        self._warn_of_unreliable(target.i, analytic, estimate)
        return estimate

    def _warn_of_unreliable(self, i: int, analytic: Array, estimate: Estimate) -> None:
        """Warn if a gradient cannot be verified: its reference derivative may be wrong by a hundredth or more."""
        known = estimate.error <= UNRELIABLE * size_of(estimate.values)
        if not estimate.wrong(analytic).any() and not known.all():
            place = int(np.argmax(~known)) % analytic.shape[1]
            warnings.warn(
                f"the reference derivative is not reliable here: by {self.function.input_name(i, place)} it is only "
                f"known to ±{float(estimate.error.max()):.0e}, because of rounding in the function; the gradient "
                "agrees with it, but a wrong gradient might, too: choose inputs without cancellation",
                GradcheckWarning,
                stacklevel=7,
            )

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
        estimate = self._compare(Target(i), Target(i, self._direction(i), self.weights), analytic)
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
                f"the backward pass is not linear in the incoming gradient: for random numbers it gives "
                f"{gradient[place]:.10g} at {self.function.input_name(i, place)}, but what it gives for each output "
                f"alone adds up to {expected[place]:.10g}; does it use that gradient twice, or mix up several outputs?"
            )

    # ---- Along random directions ----

    def _direction(self, i: int) -> Array:
        """Return a random direction of length 1, 0 where the input is infinite.  Shapes: -> [n_i]

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
            target, analytic = Target(i, direction, self.weights), np.array([[gradient @ direction]])
            estimate = self._compare(target, target, analytic)
            if estimate.wrong(analytic).any():
                self._blame(i, direction)
                raise GradcheckError(
                    f"wrong gradient of {self.function.input_name(i)}: along a random direction the derivative of a "
                    f"random sum of the outputs is\n  analytic   {analytic.item():.10g}\n"
                    f"  numerical  {estimate.values.item():.10g}\n"
                    "but none of the single derivatives checked is wrong; many small errors seem to add up"
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

        def along(part: Array) -> Estimate:
            return self.numerical.derivative(Target(i, part, self.weights))

        worst = narrow_down(direction, lambda part: abs(gradient @ part - along(part).values.item()))
        places = np.unique([worst, *self.rng.permutation(gradient.size)[:SAMPLE]])
        unit = np.eye(1, gradient.size)[0]
        single = [along(np.roll(unit, place)) for place in places]
        values, errors = (np.concatenate([getattr(e, name) for e in single], 1) for name in ("values", "error"))
        estimate = Estimate(values, errors, single[0].atol, single[0].rtol)
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
        cause = likely_cause(self._evidence(i, analytic, numerical, row, complete=places is None))
        error = float(estimate.error[row, column])
        return (
            f"wrong gradient of {function.input_name(i)}: {int(wrong.sum())} of {wrong.size} derivatives "
            f"differ, most that of {output} by {function.input_name(i, place)}:\n"
            f"  analytic   {analytic[row, column]:.10g}\n"
            f"  numerical  {numerical[row, column]:.10g}"
            + (f", to ±{error:.0e}" if error > abs(numerical[row, column]) / 1000 else "")
            + "\n"
            f"likely cause: {cause or 'no known mistake fits these numbers' + _ratios(analytic, numerical)}"
            + (f"\n(numerical: {self.numerical})" if self.numerical.reason else "")
        )

    def _evidence(self, i: int, analytic: Array, numerical: Array, row: int, complete: bool) -> Evidence:
        """Collect the evidence about the derivatives with respect to input i of the output that `row` belongs to."""
        function, shape = self.function, self.function.points[i].shape
        if not complete:
            return Evidence(analytic, numerical, (), shape, complete=False)
        output = function.output_of(row)
        rows = function.rows_of(output)
        arrays = {"x" if len(function.points) == 1 else function.input_name(k): x
                  for k, x in enumerate(function.points)}  # fmt: skip
        arrays["y"] = self.numerical.middle[rows].reshape(function.output_shapes[output])

        def others() -> dict[str, Array]:
            return {
                function.input_name(k): self.numerical.derivative(Target(k)).values[rows]
                for k in range(len(function.points)) if k != i
            }  # fmt: skip

        every = [function.rows_of(j) for j in range(len(function.outputs))]
        outputs = tuple([(analytic[part], numerical[part]) for part in every])
        return Evidence(
            analytic[rows], numerical[rows], function.output_shapes[output], shape, arrays, function.points[i], others,
            outputs=outputs, output=output,
        )  # fmt: skip


def _ratios(analytic: Array, numerical: Array) -> str:
    """Return the range of analytic / numerical, where the numerical derivative is not 0."""
    some = (numerical != 0) & np.isfinite(numerical) & np.isfinite(analytic)
    if not some.any():
        return ""
    ratios = analytic[some] / numerical[some]
    return f" (analytic / numerical is between {ratios.min():.4g} and {ratios.max():.4g})"


def _error(analytic: Array, numerical: Array) -> float:
    """max |analytic - numerical| / max(1, |numerical|)"""
    return float((abs(analytic - numerical) / np.maximum(1, abs(numerical))).max(initial=0.0))
