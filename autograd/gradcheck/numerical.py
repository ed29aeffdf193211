"""Numerical derivatives by central differences; complex_step.py has the other methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from autograd.gradcheck import NondifferentiableError
from autograd.gradcheck.function import CheckedFunction

Array = np.ndarray
Move = Callable[[float], tuple[float, Array]]  # maps a step to the step taken, after rounding, and the values there

ROUNDING = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Estimate:
    """Numerical derivatives, a bound on their own error, and the tolerances of a comparison with them."""

    values: Array
    error: Array
    atol: float
    rtol: float

    def wrong(self, analytic: Array) -> Array:
        """Mask of the elements that differ by more than the tolerance; NaN differs."""
        with np.errstate(invalid="ignore"):
            return ~(abs(analytic - self.values) <= self.atol + self.rtol * abs(self.values) + self.error)


class Numerical:
    """A method of numerical differentiation, with its default step and tolerances.

    atol, rtol: what a gradient may differ from `d`, atol + rtol · |d|, in addition to what is known of the error of `d`
    """

    EPS: ClassVar[float]
    ATOL: ClassVar[float]
    RTOL: ClassVar[float]

    def __init__(
        self, function: CheckedFunction, eps: float | None = None, atol: float | None = None, rtol: float | None = None
    ):
        self.function = function
        self.eps = self.EPS if eps is None else eps
        self.eps_is_given = eps is not None
        self.atol = self.ATOL if atol is None else atol
        self.rtol = self.RTOL if rtol is None else rtol
        self.middle = function.evaluate()  # [M], the outputs at the inputs

    def jacobian(self, i: int) -> Estimate:
        """d output / d input i.  Shapes: -> [M, n_i]"""
        raise NotImplementedError

    def along(self, i: int, direction: Array, weights: Array) -> Estimate:
        """d (weights · output) / dt at x_i + t · direction.  Shapes: direction [n_i], weights [M] -> []"""
        raise NotImplementedError

    def confirm(self, i: int, direction: Array, weights: Array, agrees: bool) -> None:
        """Check a result by other steps, given whether the gradient agrees with it.

        Raises: NondifferentiableError or ValueError if the result cannot be trusted
        """
        raise NotImplementedError

    def reconsider(self, i: int, analytic: Array, estimate: Estimate) -> Estimate:
        """`jacobian(i)` with more effort, given the gradient [M, n_i] that disagrees with it."""
        return estimate

    def reconsider_along(
        self, i: int, direction: Array, weights: Array, analytic: Array, estimate: Estimate
    ) -> Estimate:
        """`along(i, direction, weights)` with more effort, given the slope [] that disagrees with it."""
        return estimate

    def describe(self) -> str:
        """What the gradient is compared with."""
        raise NotImplementedError

    def estimate(self, values: Array, error: Array | float = 0.0) -> Estimate:
        return Estimate(values, np.broadcast_to(error, values.shape), self.atol, self.rtol)


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


def weighted(weights: Array, values: Array) -> float:
    """weights · values, where an infinite value of weight 0 counts as 0."""
    return float((weights * np.where(weights == 0, 0, values)).sum())


class Central(Numerical):
    """(f(x + h) - f(x - h)) / 2h, with errors of about h² and of rounding divided by h.

    For single elements, h = eps · max(1, |x|), or `eps` itself if it is given.

    Raises: NondifferentiableError if the slopes to the left and to the right disagree
    """

    EPS, ATOL, RTOL = 1e-6, 1e-7, 1e-6

    JUMP_ATOL, JUMP_RTOL = 1e-5, 1e-3  # one-sided slopes that differ by more are computed again,
    WIDER = 10  # with a step WIDER times as large

    def describe(self) -> str:
        return "central differences"

    # ---- Every derivative ----

    def jacobian(self, i: int) -> Estimate:
        places = range(self.function.points[i].size)
        moves = [self._by_element(i, place) for place in places]
        steps = np.array([self._step(i, place) for place in places])
        slopes, kink = self.slopes(moves, self.middle, abs(self.middle), steps)
        if kink is not None:
            place, row, *sides = kink
            raise self._nondifferentiable(i, place, self.function.output_name(row), *sides)
        return self.estimate(slopes.T, self._noise(abs(self.middle)[:, None], steps))

    def reconsider(self, i: int, analytic: Array, estimate: Estimate) -> Estimate:
        """Allow for the error of the differences: what twice the step changes in the columns that are wrong."""
        error = estimate.error.copy()
        for place in np.flatnonzero(estimate.wrong(analytic).any(axis=0)).tolist():
            wide = _slopes([self._by_element(i, place)], np.array([2 * self._step(i, place)]), self.middle)[0][0]
            error[:, place] += abs(wide - estimate.values[:, place])
        return self.estimate(estimate.values, error)

    def fine(self, i: int, place: int) -> Array:
        """d output / d one element, by Richardson's extrapolation: to about 1e-12 where f is smooth.  Shapes: -> [M]"""
        return self._extrapolate(self._by_element(i, place), 100 * self._step(i, place), self.middle)

    def fine_along(self, i: int, direction: Array, weights: Array) -> Array:
        """`along`, in the same way.  Shapes: -> []"""
        _, middle, move_along = self._along(i, weights)
        return self._extrapolate(move_along(direction), 100 * self.eps, middle)[0]

    def _extrapolate(self, move: Move, h: float, middle: Array) -> Array:
        (near,), (far,) = (_slopes([move], np.array([step]), middle)[0] for step in (h, 2 * h))
        return (4 * near - far) / 3

    def _step(self, i: int, place: int) -> float:
        value = self.function.points[i].reshape(-1)[place]
        return self.eps * (1.0 if self.eps_is_given or not np.isfinite(value) else max(1.0, abs(value)))

    def _noise(self, scale: Array | float, steps: Array | float) -> Array:
        """What rounding values of size `scale` may change in a slope."""
        return np.asarray(4 * ROUNDING * np.where(np.isfinite(scale), scale, 0) / steps)

    def _by_element(self, i: int, place: int) -> Move:
        point = self.function.points[i]
        index = np.unravel_index(place, point.shape)
        value = point[index]
        if np.isfinite(value) and value + self._step(i, place) == value:
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

    # ---- Along a direction ----

    def along(self, i: int, direction: Array, weights: Array) -> Estimate:
        weights, middle, move_along = self._along(i, weights)
        scale = np.array([weighted(abs(weights), abs(self.middle))])
        slopes, kink = self.slopes([move_along(direction)], middle, scale, np.array([self.eps]))
        if kink is not None:

            def jump(part: Array) -> float:
                _, left, right = _slopes([move_along(part)], np.array([self.eps]), middle)
                return float(abs(right - left).item())

            raise self._nondifferentiable(i, narrow_down(direction, jump), "a random sum of the outputs", *kink[2:])
        return self.estimate(slopes[0, 0], self._noise(scale[0], self.eps))

    def reconsider_along(
        self, i: int, direction: Array, weights: Array, analytic: Array, estimate: Estimate
    ) -> Estimate:
        """Likewise."""
        _, middle, move_along = self._along(i, weights)
        wide = _slopes([move_along(direction)], np.array([2 * self.eps]), middle)[0][0, 0]
        return self.estimate(estimate.values, estimate.error + abs(wide - estimate.values))

    def confirm(self, i: int, direction: Array, weights: Array, agrees: bool) -> None:
        """Search for a jump, whose slope is inversely proportional to the step, if the gradient disagrees."""
        if agrees:
            return
        _, middle, move_along = self._along(i, weights)

        def steepness(part: Array) -> tuple[float, float]:
            """The slope, and how much it changes with a wider step."""
            steps = (np.array([self.eps]), np.array([self.WIDER * self.eps]))
            slope, wide = (_slopes([move_along(part)], h, middle)[0].item() for h in steps)
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
                    return step, np.array([weighted(weights, self.function.evaluate())])
                finally:
                    point[...] = start

            return move

        return weights, np.array([weighted(weights, self.middle)]), move_along

    # ---- Slopes and kinks ----

    def slopes(
        self, moves: Sequence[Move], middle: Array, scale: Array, steps: Array
    ) -> tuple[Array, tuple[int, int, float, float] | None]:
        """The central slope of each output for each move, and the worst kink: move, output, left and right slope.

        The one-sided slopes of a smooth function differ by h · f'', which grows with h; at a kink, they differ by the
        same amount for any step.  If they differ, a wider step tells the two apart.

        Shapes: middle [M], scale [M], the size of the rounded values, steps [len(moves)] -> [len(moves), M]
        """
        slope, left, right = _slopes(moves, steps, middle)
        with np.errstate(invalid="ignore"):
            jump = abs(right - left)
            noise = 25 * self._noise(scale, steps[:, None])
            steepest = self.JUMP_RTOL * np.maximum(abs(left), abs(right))
            kink = ~np.isfinite(slope + jump)
            suspicious = ~kink & (jump > np.maximum(np.maximum(steepest, self.JUMP_ATOL), noise))
            for n in np.flatnonzero(suspicious.any(axis=1)).tolist():
                _, wide_left, wide_right = _slopes([moves[n]], self.WIDER * steps[n : n + 1], middle)
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
            f"{self._step(i, place):g} of it: the slope of {output} is {left:.6g} to the left and {right:.6g} to the "
            "right (a kink as of relu or abs at 0, a tie in max, a bound of clip, the edge of a domain); move this "
            "input away"
        )


def _slopes(moves: Sequence[Move], steps: Array, middle: Array) -> tuple[Array, Array, Array]:
    """The central, left and right slopes; 0 for a value that does not change, also an infinite one.

    Shapes: steps [len(moves)], middle [M] -> [len(moves), M], three times
    """
    ends = [(*move(step), *move(-step)) for move, step in zip(moves, steps, strict=True)]
    up, down = (np.array([end[k] for end in ends]).reshape(-1, 1) for k in (0, 2))
    above, below = (np.array([end[k] for end in ends]).reshape(len(ends), middle.size) for k in (1, 3))
    with np.errstate(all="ignore"):
        return (
            np.where(above == below, 0, (above - below) / (up - down)),
            np.where(below == middle, 0, (below - middle) / down),
            np.where(above == middle, 0, (above - middle) / up),
        )
