"""Numerical derivatives, by central differences or by complex steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from autograd.engine import Op
from autograd.gradcheck import NondifferentiableError
from autograd.gradcheck.function import CheckedFunction, copy_with_layout
from autograd.modes import Watcher, watch

Array = np.ndarray
Move = Callable[[float], tuple[float, Array]]  # maps a step to the step taken, after rounding, and the values there


class Numerical:
    """A method of numerical differentiation, with its default step and tolerances."""

    EPS: ClassVar[float]
    ATOL: ClassVar[float]
    RTOL: ClassVar[float]

    def __init__(self, function: CheckedFunction, eps: float):
        self.function, self.eps = function, eps
        self.middle = function.evaluate()  # [M], the outputs at the inputs

    def jacobian(self, i: int) -> Array:
        """d output / d input i.  Shapes: -> [M, n_i]"""
        raise NotImplementedError

    def along(self, i: int, direction: Array, weights: Array) -> float:
        """d (weights · output) / dt at x_i + t · direction.  Shapes: direction [n_i], weights [M]"""
        raise NotImplementedError

    def confirm(self, i: int, direction: Array, weights: Array, agrees: bool) -> None:
        """Check a result by other steps, given whether the gradient agrees with it.

        Raises: NondifferentiableError or ValueError if the result cannot be trusted
        """
        raise NotImplementedError


def narrow_down(direction: Array, badness: Callable[[Array], float]) -> int:
    """The worst element of `direction`, by bisection: the half with the larger badness is halved again."""
    candidates = np.flatnonzero(direction)
    while len(candidates) > 1:
        scores, halves = [], np.array_split(candidates, 2)
        for half in halves:
            part = np.zeros_like(direction)
            part[half] = direction[half]
            scores.append(np.nan_to_num(badness(part), nan=np.inf))
        candidates = halves[int(np.argmax(scores))]
    return int(candidates[0])


def _weighted(weights: Array, values: Array) -> float:
    """weights · values, where an infinite value of weight 0 counts as 0."""
    return float((weights * np.where(weights == 0, 0, values)).sum())


# ---- Central differences ----


class Central(Numerical):
    """(f(x + eps) - f(x - eps)) / 2 eps, with errors of about eps² and of rounding divided by eps.

    Raises: NondifferentiableError if the slopes to the left and to the right disagree
    """

    EPS, ATOL, RTOL = 1e-6, 1e-5, 1e-3  # PyTorch's

    JUMP_ATOL, JUMP_RTOL = 1e-5, 1e-3  # one-sided slopes that differ by more are computed again,
    WIDER = 10  # with a step WIDER times as large

    def jacobian(self, i: int) -> Array:
        moves = [self._by_element(i, place) for place in range(self.function.points[i].size)]
        slopes, kink = self.slopes(moves, self.middle, abs(self.middle))
        if kink is not None:
            place, row, *sides = kink
            raise self._nondifferentiable(i, place, self.function.output_name(row), *sides)
        return slopes.T

    def _by_element(self, i: int, place: int) -> Move:
        point = self.function.points[i]
        index = np.unravel_index(place, point.shape)
        value = point[index]
        if np.isfinite(value) and value + self.eps == value:
            raise ValueError(
                f"eps={self.eps} is lost to rounding beside {self.function.input_name(i, place)} = {value}; "
                "choose a larger eps or smaller inputs"
            )

        def move(step: float) -> tuple[float, Array]:
            point[index] = value + step
            moved = point[index] - value if np.isfinite(value) else 0.0  # ∞ does not move
            try:
                return moved, self.function.evaluate()
            finally:
                point[index] = value

        return move

    def along(self, i: int, direction: Array, weights: Array) -> float:
        weights, middle, move_along = self._along(i, weights)
        scale = np.array([_weighted(abs(weights), abs(self.middle))])
        slopes, kink = self.slopes([move_along(direction)], middle, scale)
        if kink is not None:

            def jump(part: Array) -> float:
                _, left, right = _slopes([move_along(part)], self.eps, middle)
                return float(abs(right - left).item())

            raise self._nondifferentiable(i, narrow_down(direction, jump), "a random sum of the outputs", *kink[2:])
        return float(slopes.item())

    def confirm(self, i: int, direction: Array, weights: Array, agrees: bool) -> None:
        """Search for a jump, whose slope is inversely proportional to the step, if the gradient disagrees."""
        if agrees:
            return
        _, middle, move_along = self._along(i, weights)

        def steepness(part: Array) -> tuple[float, float]:
            """The slope, and how much it changes with a wider step."""
            slope, wide = (_slopes([move_along(part)], h, middle)[0].item() for h in (self.eps, self.WIDER * self.eps))
            return abs(slope), abs(slope - wide)

        slope, change = steepness(direction)
        if change > 0.5 * slope + self.JUMP_ATOL:
            place = narrow_down(direction, lambda part: steepness(part)[1])
            raise self._nondifferentiable(i, place, "a random sum of the outputs", slope, slope)

    def _along(self, i: int, weights: Array) -> tuple[Array, Array, Callable[[Array], Move]]:
        """The weights of finite outputs, their sum at the inputs, and a function to move along directions."""
        weights = np.where(np.isfinite(self.middle), weights, 0)  # an output that is infinite everywhere has slope 0
        point, start = self.function.points[i], self.function.points[i].copy()

        def move_along(part: Array) -> Move:
            def move(step: float) -> tuple[float, Array]:
                point[...] = start + (step * part).reshape(start.shape)
                try:
                    return step, np.array([_weighted(weights, self.function.evaluate())])
                finally:
                    point[...] = start

            return move

        return weights, np.array([_weighted(weights, self.middle)]), move_along

    def slopes(
        self, moves: Sequence[Move], middle: Array, scale: Array
    ) -> tuple[Array, tuple[int, int, float, float] | None]:
        """The central slope of each output for each move, and the worst kink: move, output, left and right slope.

        The one-sided slopes of a smooth function differ by eps · f'', which grows with eps; at a kink, they differ by
        the same amount for any step.  If they differ, a wider step tells the two apart.

        Shapes: middle [M], scale [M], the size of the rounded values -> [len(moves), M]
        """
        slope, left, right = _slopes(moves, self.eps, middle)
        with np.errstate(invalid="ignore"):
            jump = abs(right - left)
            noise = 100 * np.finfo(float).eps * np.where(np.isfinite(scale), scale, 0) / self.eps
            steepest = self.JUMP_RTOL * np.maximum(abs(left), abs(right))
            kink = ~np.isfinite(slope + jump)
            suspicious = ~kink & (jump > np.maximum(np.maximum(steepest, self.JUMP_ATOL), noise))
            for n in np.flatnonzero(suspicious.any(axis=1)).tolist():
                _, wide_left, wide_right = _slopes([moves[n]], self.WIDER * self.eps, middle)
                kink[n] |= suspicious[n] & ~(abs(wide_right - wide_left)[0] > np.sqrt(self.WIDER) * jump[n])
        if not kink.any():
            return slope, None
        worst = int(np.argmax(np.where(kink, np.nan_to_num(jump, nan=np.inf), -1)))
        n, row = divmod(worst, middle.size)
        return slope, (n, row, float(left[n, row]), float(right[n, row]))

    def _nondifferentiable(self, i: int, place: int, output: str, left: float, right: float) -> NondifferentiableError:
        value = self.function.points[i][np.unravel_index(place, self.function.points[i].shape)]
        return NondifferentiableError(
            f"the function is not differentiable at {self.function.input_name(i, place)} = {value:.6g}, or not within "
            f"{self.eps:g} of it: the slope of {output} is {left:.6g} to the left and {right:.6g} to the right (a kink "
            "as of relu or abs at 0, a tie in max, a bound of clip, the edge of a domain); move this input away"
        )


def _slopes(moves: Sequence[Move], step: float, middle: Array) -> tuple[Array, Array, Array]:
    """The central, left and right slopes; 0 for a value that does not change, also an infinite one.

    Shapes: middle [M] -> [len(moves), M], three times
    """
    ends = [(*move(step), *move(-step)) for move in moves]
    up, down = (np.array([end[k] for end in ends]).reshape(-1, 1) for k in (0, 2))
    above, below = (np.array([end[k] for end in ends]).reshape(len(ends), middle.size) for k in (1, 3))
    with np.errstate(all="ignore"):
        return (
            np.where(above == below, 0, (above - below) / (up - down)),
            np.where(below == middle, 0, (below - middle) / down),
            np.where(above == middle, 0, (above - middle) / up),
        )


# ---- Complex steps ----


class ComplexStep(Numerical):
    """Im f(x + i h) / h, exact up to h² and rounding, as no difference is taken.

    Source: W. Squire and G. Trapp, "Using complex variables to estimate derivatives of real functions",
    SIAM Review 40 (1998), 110-112

    Raises: ValueError for a function that does not compute with complex numbers
    """

    EPS, ATOL, RTOL = 1e-20, 1e-12, 1e-12

    def __init__(self, function: CheckedFunction, eps: float):
        super().__init__(function, eps)
        self.points = [copy_with_layout(point, np.complex128) for point in function.points]
        self.trusted = self._agrees_with_differences()

    def _agrees_with_differences(self) -> bool:
        """Compare with differences along one direction of all inputs: the function may not be analytic."""
        rng, central, starts = np.random.default_rng(0), Central(self.function, Central.EPS), []
        directions = [np.where(np.isfinite(x), rng.standard_normal(x.shape), 0) for x in self.function.points]
        for point, direction in zip(self.points, directions, strict=True):
            starts.append(point.copy())
            point += 1j * self.eps * direction
        by_step = self._evaluate().imag / self.eps
        for point, start in zip(self.points, starts, strict=True):
            point[...] = start

        def move(step: float) -> tuple[float, Array]:
            for point, start, direction in zip(self.function.points, starts, directions, strict=True):
                point[...] = start.real + step * direction
            values = self.function.evaluate()
            for point, start in zip(self.function.points, starts, strict=True):
                point[...] = start.real
            return step, values

        by_difference, kink = central.slopes([move], central.middle, abs(central.middle))
        return kink is None and _nearly(by_step, by_difference[0])

    def jacobian(self, i: int) -> Array:
        point = self.points[i]
        columns = np.zeros((point.size, self.middle.size))
        for place, index in enumerate(np.ndindex(*point.shape)):
            value = point[index]
            point[index] = value + 1j * self.eps
            columns[place] = self._evaluate().imag / self.eps
            point[index] = value
        return columns.T

    def along(self, i: int, direction: Array, weights: Array) -> float:
        start = self.points[i].copy()
        self.points[i][...] = start + 1j * self.eps * direction.reshape(start.shape)
        slope = _weighted(weights, self._evaluate().imag / self.eps)
        self.points[i][...] = start
        return slope

    def confirm(self, i: int, direction: Array, weights: Array, agrees: bool) -> None:
        """Raise ValueError if the steps for this input disagree with differences, as for |x|, which is not analytic."""
        if agrees and self.trusted:
            return
        by_difference = Central(self.function, Central.EPS).along(i, direction, weights)
        if not _nearly(self.along(i, direction, weights), by_difference):
            raise _unsuitable("its complex steps disagree with its differences, so something in it is not analytic")

    def _evaluate(self) -> Array:
        """The complex outputs at `points`."""
        seen = _Watch()
        try:
            with warnings.catch_warnings(), watch(seen):
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                values = self.function.evaluate(self.points)
        except (TypeError, np.exceptions.ComplexWarning) as error:
            raise _unsuitable(f"{seen.op or 'it'} stops with {type(error).__name__}: {error}") from error
        if not np.iscomplexobj(values):
            raise _unsuitable("its outputs for complex inputs are real")
        return values


def _nearly(by_step: Any, by_difference: Any) -> bool:
    return bool(np.all(abs(by_step - by_difference) <= Central.ATOL + Central.RTOL * abs(by_difference)))


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


def _unsuitable(what: str) -> ValueError:
    return ValueError(
        f"mode='complex' does not suit this function: {what}; use mode='central' (|x| and what is built on it is not "
        "analytic, and an op may not be written for complex numbers)"
    )


METHODS: dict[str, type[Numerical]] = {"central": Central, "complex": ComplexStep}
