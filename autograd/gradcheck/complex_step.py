"""Numerical derivatives by complex steps, and the choice between them and central differences."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autograd.engine import Op
from autograd.gradcheck.function import CheckedFunction, copy_with_layout
from autograd.gradcheck.numerical import ROUNDING, Central, Estimate, Numerical, weighted
from autograd.modes import Watcher, watch

Array = np.ndarray


class ComplexStep(Numerical):
    """Im f(x + i h) / h, exact up to h² and rounding, as no difference is taken.

    Source: W. Squire and G. Trapp, "Using complex variables to estimate derivatives of real functions",
    SIAM Review 40 (1998), 110-112

    Raises: ValueError for a function that does not compute with complex numbers
    """

    EPS, ATOL, RTOL = 1e-20, 1e-12, 1e-12

    def __init__(
        self, function: CheckedFunction, eps: float | None = None, atol: float | None = None, rtol: float | None = None
    ):
        super().__init__(function, eps, atol, rtol)
        self.central = Central(function)
        self.points = [copy_with_layout(point, np.complex128) for point in function.points]
        self.trusted = self._agrees_with_differences()

    def describe(self) -> str:
        return "complex steps"

    def _agrees_with_differences(self) -> bool:
        """Compare with differences along one direction of all inputs: the function may not be analytic."""
        rng, central, starts = np.random.default_rng([0, 1]), self.central, []  # no weights are drawn from it
        directions = [np.where(np.isfinite(x), rng.standard_normal(x.shape), 0) for x in self.function.points]
        for point, direction in zip(self.points, directions, strict=True):
            starts.append(point.copy())
            point += 1j * self.eps * direction
        try:
            by_step = self._evaluate().imag / self.eps
        finally:
            for point, start in zip(self.points, starts, strict=True):
                point[...] = start

        def move(step: float) -> tuple[float, Array]:
            for point, start, direction in zip(self.function.points, starts, directions, strict=True):
                point[...] = start.real + step * direction
            try:
                return step, self.function.evaluate()
            finally:
                for point, start in zip(self.function.points, starts, strict=True):
                    point[...] = start.real

        by_difference, kink = central.slopes([move], central.middle, abs(central.middle), np.array([central.eps]))
        return kink is None and _nearly(by_step, by_difference[0])

    def jacobian(self, i: int) -> Estimate:
        point = self.points[i]
        columns = np.zeros((point.size, self.middle.size))
        for place, index in enumerate(np.ndindex(*point.shape)):
            value = point[index]
            point[index] = value + 1j * self.eps
            try:
                columns[place] = self._evaluate().imag / self.eps
            finally:
                point[index] = value
        return self.estimate(columns.T)

    def along(self, i: int, direction: Array, weights: Array) -> Estimate:
        start = self.points[i].copy()
        self.points[i][...] = start + 1j * self.eps * direction.reshape(start.shape)
        try:
            slopes = self._evaluate().imag / self.eps
            rounding = 16 * ROUNDING * weighted(abs(weights), abs(slopes))
            return self.estimate(np.asarray(weighted(weights, slopes)), rounding)
        finally:
            self.points[i][...] = start

    def confirm(self, i: int, direction: Array, weights: Array, agrees: bool) -> None:
        """Raise ValueError if the steps for this input disagree with differences, as for |x|, which is not analytic."""
        by_difference = self.central.along(i, direction, weights)
        if not _nearly(self.along(i, direction, weights).values, by_difference.values, by_difference.error):
            raise _unsuitable(NOT_ANALYTIC)

    def reconsider(self, i: int, analytic: Array, estimate: Estimate) -> Estimate:
        """Raise ValueError if fine differences side with the gradient: the steps may lose a small part."""
        excess = np.nan_to_num(abs(analytic - estimate.values), nan=np.inf, posinf=np.inf)
        row, place = np.unravel_index(int(np.argmax(excess)), excess.shape)
        fine = self.central.fine(i, int(place))[row]
        if _closer(fine, analytic[row, place], estimate.values[row, place]):
            raise _unsuitable(NOT_ANALYTIC)
        return estimate

    def reconsider_along(
        self, i: int, direction: Array, weights: Array, analytic: Array, estimate: Estimate
    ) -> Estimate:
        """Likewise."""
        if _closer(self.central.fine_along(i, direction, weights), analytic, estimate.values):
            raise _unsuitable(NOT_ANALYTIC)
        return estimate

    def _evaluate(self) -> Array:
        """The complex outputs at `points`."""
        seen = _Watch()
        try:
            with warnings.catch_warnings(), watch(seen):
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                values = self.function.evaluate(self.points)
        except _UnsuitableError:
            raise
        except Exception as error:  # a function of real numbers may stop in any way
            raise _unsuitable(f"{seen.op or 'it'} stops with {type(error).__name__}: {error}") from error
        if not np.iscomplexobj(values):
            raise _unsuitable("its outputs for complex inputs are real")
        return values


class Automatic(Numerical):
    """Complex steps where they give the derivative, central differences elsewhere; kinks by central differences."""

    ATOL, RTOL = 1e-9, 1e-9  # of complex steps: a gradient may be computed with some cancellation

    def __init__(
        self, function: CheckedFunction, eps: float | None = None, atol: float | None = None, rtol: float | None = None
    ):
        super().__init__(function, Central.EPS if eps is None else eps, atol, rtol)
        self.asked_atol, self.asked_rtol = atol, rtol
        self.central = Central(function, eps)
        self.steps: ComplexStep | None = None
        self.reason = ""  # why complex steps do not suit the function
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                steps = ComplexStep(function, None, self.atol, self.rtol)
        except _UnsuitableError as unsuitable:
            self.reason = unsuitable.what
        else:
            self.steps, self.reason = (steps, "") if steps.trusted else (None, NOT_ANALYTIC)

    def describe(self) -> str:
        if self.steps is not None:
            return self.steps.describe()
        return f"{self.central.describe()} (complex steps do not suit this function: {self.reason})"

    def jacobian(self, i: int) -> Estimate:
        by_difference = self.central.jacobian(i)
        by_step = self._try("jacobian", i)
        if by_step is None:
            return self._as_asked(by_difference)
        if by_difference.wrong(by_step.values).any():
            by_difference = self.central.reconsider(i, by_step.values, by_difference)
        return self._better(by_step, by_difference)

    def along(self, i: int, direction: Array, weights: Array) -> Estimate:
        by_difference = self.central.along(i, direction, weights)
        by_step = self._try("along", i, direction, weights)
        if by_step is None:
            return self._as_asked(by_difference)
        if by_difference.wrong(by_step.values).any():
            by_difference = self.central.reconsider_along(i, direction, weights, by_step.values, by_difference)
        return self._better(by_step, by_difference)

    def confirm(self, i: int, direction: Array, weights: Array, agrees: bool) -> None:
        self.central.confirm(i, direction, weights, agrees)

    def reconsider(self, i: int, analytic: Array, estimate: Estimate) -> Estimate:
        if self._try("reconsider", i, analytic, estimate):
            return estimate
        return self._as_asked(self.central.reconsider(i, analytic, self.central.jacobian(i)))

    def reconsider_along(
        self, i: int, direction: Array, weights: Array, analytic: Array, estimate: Estimate
    ) -> Estimate:
        if self._try("reconsider_along", i, direction, weights, analytic, estimate):
            return estimate
        by_difference = self.central.along(i, direction, weights)
        return self._as_asked(self.central.reconsider_along(i, direction, weights, analytic, by_difference))

    def _try(self, method: str, *arguments: Any) -> Estimate | None:
        """What complex steps give; None if they do not suit the function."""
        if self.steps is None:
            return None
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return getattr(self.steps, method)(*arguments)
        except _UnsuitableError as unsuitable:
            self.steps, self.reason = None, unsuitable.what
            return None

    def _better(self, by_step: Estimate, by_difference: Estimate) -> Estimate:
        """The complex steps, unless the differences say that they are wrong."""
        if not by_difference.wrong(by_step.values).any():
            return by_step
        self.steps, self.reason = None, NOT_ANALYTIC
        return self._as_asked(by_difference)

    def _as_asked(self, by_difference: Estimate) -> Estimate:
        atol = by_difference.atol if self.asked_atol is None else self.asked_atol
        rtol = by_difference.rtol if self.asked_rtol is None else self.asked_rtol
        return replace(by_difference, atol=atol, rtol=rtol)


NOT_ANALYTIC = "its complex steps disagree with its differences, so something in it is not analytic"


def _nearly(by_step: Any, by_difference: Any, error: Any = 0.0) -> bool:
    return bool(np.all(abs(by_step - by_difference) <= 1e-5 + 1e-3 * abs(by_difference) + error))


def _closer(fine: Any, analytic: Any, by_step: Any) -> bool:
    """Are fine differences much closer to the gradient than to the complex steps?"""
    return bool(abs(fine - analytic) < abs(fine - by_step) / 4)


class _Watch(Watcher):
    """Find the op that drops imaginary parts, which are the derivative."""

    op: Op | None = None
    complex_input = False

    def before_forward(self, op: Op, arrays: Sequence[Any]) -> None:
        self.op = op
        self.complex_input = any(getattr(getattr(a, "dtype", None), "kind", "") == "c" for a in arrays)

    def after_forward(self, op: Op, outputs: Sequence[Any]) -> None:
        if self.complex_input and any(y.dtype.kind == "f" for y in outputs):
            raise _unsuitable(f"{op} turns complex numbers into real ones")


class _UnsuitableError(ValueError):
    """Complex steps do not suit a function. what: the reason"""

    what = ""


def _unsuitable(what: str) -> _UnsuitableError:
    error = _UnsuitableError(
        f"mode='complex' does not suit this function: {what}; use mode='central' (|x| and what is built on it is not "
        "analytic, and an op may not be written for complex numbers)"
    )
    error.what = what
    return error


METHODS: dict[str, type[Numerical]] = {"auto": Automatic, "central": Central, "complex": ComplexStep}
