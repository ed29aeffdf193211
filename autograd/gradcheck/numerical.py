"""Numerical derivatives: central differences, complex steps, and the choice between them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from autograd.gradcheck.function import CheckedFunction, NondifferentiableError, NotAnalyticError, copy_with_layout

Array = np.ndarray
Move = Callable[[float], tuple[float, Array]]  # maps a step to the step taken, after rounding, and the values there

UNRELIABLE = 1e-2  # of the largest derivative: a reference that is wrong by more proves little
ROUNDING = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Target:
    """The derivatives to compute by input i: the Jacobian [M, n_i], or one weighted sum of it.

    direction, weights: for the derivative [1, 1] of weights · outputs along `direction`.  Shapes: [n_i], [M]
    """

    i: int
    direction: Array | None = None
    weights: Array | None = None


@dataclass(frozen=True)
class Estimate:
    """Numerical derivatives, a bound on their own error, and the tolerances of a comparison with them.

    closer: mask of the derivatives by a closer step, whose error is known
    """

    values: Array
    error: Array
    atol: float
    rtol: float
    closer: Array | None = None

    def wrong(self, analytic: Array) -> Array:
        """Mask of the elements that differ by more than the tolerance; NaN differs."""
        with np.errstate(invalid="ignore"):
            return ~(abs(analytic - self.values) <= self.atol + self.rtol * abs(self.values) + self.error)


class Numerical:
    """A method of numerical differentiation, with its default step and tolerances.

    A subclass has `derivative(target)`; `confirm(target, agrees)`, which checks the derivative along a direction by
    other steps; and `reconsider(target, analytic, estimate)`, which makes more effort where gradients disagree.

    atol, rtol: what a gradient may differ from `d`, atol + rtol · |d|, in addition to what is known of the error of `d`
    """

    EPS: ClassVar[float]
    ATOL: ClassVar[float]
    RTOL: ClassVar[float]
    reason = ""  # why complex steps do not suit the function, if they were tried

    def __init__(
        self, function: CheckedFunction, eps: float | None = None, atol: float | None = None, rtol: float | None = None
    ):
        self.function = function
        self.eps = self.EPS if eps is None else eps
        self.eps_is_given = eps is not None
        self.atol = self.ATOL if atol is None else atol
        self.rtol = self.RTOL if rtol is None else rtol
        self.middle = function.evaluate()  # [M], the outputs at the inputs

    def estimate(self, values: Array, error: Array | float = 0.0) -> Estimate:
        """Return derivatives with their errors and the tolerances of this method."""
        return Estimate(values, np.broadcast_to(error, values.shape), self.atol, self.rtol)


def narrow_down(direction: Array, badness: Callable[[Array], float]) -> int:
    """Return the worst element of `direction`, by bisection: the half with the larger badness is halved again."""
    candidates = np.flatnonzero(direction)
    while len(candidates) > 1:
        halves = np.array_split(candidates, 2)
        parts = [np.where(np.isin(np.arange(direction.size), half), direction, 0) for half in halves]
        candidates = halves[int(np.argmax([np.nan_to_num(badness(part), nan=np.inf) for part in parts]))]
    return int(candidates[0])


def size_of(values: Array) -> float:
    """Return the largest finite absolute value."""
    return float(abs(values).max(initial=0, where=np.isfinite(values)))


def weighted(weights: Array, values: Array) -> float:
    """weights · values, where an infinite value of weight 0 counts as 0."""
    return float((weights * np.where(weights == 0, 0, values)).sum())


# ---- Central differences ----


class Central(Numerical):
    """(f(x + h) - f(x - h)) / 2h, with errors of about h² and of rounding divided by h.

    For single elements, h = eps · max(1, |x|), or `eps` itself if it is given; much less where the slope changes within
    h and is smooth nearer (log at 1e-8).  Where f rounds more coarsely than its values, as (x + 1e8) - 1e8 does, that
    noise is measured and is part of the error.

    Raises: NondifferentiableError if the slopes to the left and to the right disagree
    """

    EPS, ATOL, RTOL = 1e-6, 1e-7, 1e-6

    JUMP_ATOL, JUMP_RTOL = 1e-5, 1e-3  # one-sided slopes that differ by more are computed again,
    WIDER = 10  # with a step WIDER times as large
    BENT = 0.01  # of the slope: if they differ by more, the slope may be inexact, too
    CLOSER = (1e-3, 1e-5, 1e-8)  # times the step: where it is computed again

    def __str__(self) -> str:
        return "central differences"

    def derivative(self, target: Target) -> Estimate:
        """Return the derivative by differences, with its error.  Raises: NondifferentiableError at a kink"""
        moves, steps = self._moves(target)
        middle, scale = self._values(target, self.middle), self._values(target, abs(self.middle), absolute=True)
        found = self.slopes(moves, middle, scale, steps)
        if found.kink is None:
            return replace(self.estimate(found.slope.T, found.error.T), closer=found.closer.T)
        place, row, left, right = found.kink
        if target.direction is None:
            raise self._nondifferentiable(target.i, place, self.function.output_name(row), left, right)

        def jump(part: Array) -> float:
            _, left, right = _slopes(*self._moves(replace(target, direction=part)), middle)
            return float(abs(right - left).item())

        place = narrow_down(target.direction, jump)
        raise self._nondifferentiable(target.i, place, "a random sum of the outputs", left, right)

    def reconsider(self, target: Target, analytic: Array, estimate: Estimate) -> Estimate:
        """Allow for the error of the differences: what twice the step changes in the columns that are wrong.

        Where rounding dominates it, steps of 100 and 10,000 times the size may know better.
        """
        values, error = estimate.values.copy(), estimate.error.copy()
        closer = np.zeros(values.shape, bool) if estimate.closer is None else estimate.closer
        doubtful = estimate.wrong(analytic) | (error > UNRELIABLE * size_of(values))
        for place in np.flatnonzero(doubtful.any(axis=0)).tolist():
            move, step = self._move(target, place)
            noise = measured_noise(move, step)
            for times in (1, 100, 10_000):
                slope = self._column(target, place, times)
                bound = abs(self._column(target, place, 2 * times) - slope) + 4 * noise / (times * step)
                if times == 1:
                    usual = ~closer[:, place]
                    error[:, place] += np.where(usual, bound, 0)
                    usual &= 4 * noise / step > 1e-2 * estimate.rtol * abs(slope)
                likely = abs(slope - values[:, place]) <= bound + error[:, place]  # no wave passed over
                better = usual & likely & (bound < error[:, place])
                values[better, place], error[better, place] = slope[better], bound[better]
                if not usual.any():
                    break
        return self.estimate(values, error)

    def fine(self, target: Target, place: int) -> Array:
        """One column of `derivative` by Richardson's extrapolation, to 1e-12 where f is smooth.  Shapes: -> [M]"""
        far = (4 * self._column(target, place, 100) - self._column(target, place, 200)) / 3
        near = self.derivative(target)
        return np.where(near.closer[:, place], near.values[:, place], far) if near.closer is not None else far

    def confirm(self, target: Target, agrees: bool) -> None:
        """Search for a jump, whose slope is inversely proportional to the step, if the gradient disagrees."""
        if agrees or target.direction is None:
            return
        if np.any(self.derivative(target).closer):
            return  # no jump: f is smooth nearer than a step

        def steepness(part: Array) -> tuple[float, float]:
            """Return the slope, and how much it changes with a wider step."""
            slope, wide = (self._column(replace(target, direction=part), 0, k).item() for k in (1, self.WIDER))
            return abs(slope), abs(slope - wide)

        slope, change = steepness(target.direction)
        if change > 0.5 * slope + self.JUMP_ATOL:
            place = narrow_down(target.direction, lambda part: steepness(part)[1])
            raise self._nondifferentiable(target.i, place, "a random sum of the outputs", slope, slope)

    # ---- Steps ----

    def _column(self, target: Target, place: int, times: int) -> Array:
        """One column of `derivative`, with `times` times the step.  Shapes: -> [M]"""
        move, step = self._move(target, place)
        return _slopes([move], np.array([times * step]), self._values(target, self.middle))[0][0]

    def _moves(self, target: Target) -> tuple[list[Move], Array]:
        """Return the moves for the columns of `derivative`, and the steps."""
        columns = self.function.points[target.i].size if target.direction is None else 1
        pairs = [self._move(target, place) for place in range(columns)]
        return [move for move, _ in pairs], np.array([step for _, step in pairs])

    def _move(self, target: Target, place: int) -> tuple[Move, float]:
        point = self.function.points[target.i]
        if target.direction is None:
            return self._move_element(target.i, place), self._step(target.i, place)
        return self.move_all([(point, target.direction)], lambda y: self._values(target, y)), self.eps

    def _values(self, target: Target, values: Array, absolute: bool = False) -> Array:
        """The outputs [M], or their weighted sum [1], without outputs that are infinite everywhere and have slope 0."""
        if target.weights is None:
            return values
        weights = np.where(np.isfinite(self.middle), target.weights, 0)
        return np.array([weighted(abs(weights) if absolute else weights, values)])

    def _step(self, i: int, place: int) -> float:
        value = self.function.points[i].reshape(-1)[place]
        return self.eps * (1.0 if self.eps_is_given or not np.isfinite(value) else max(1.0, abs(value)))

    def _move_element(self, i: int, place: int) -> Move:
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

    def move_all(self, directions: Sequence[tuple[Array, Array]], result: Callable[[Array], Array]) -> Move:
        """Move several inputs at once, each along its direction."""
        starts = [point.copy() for point, _ in directions]

        def move(step: float) -> tuple[float, Array]:
            for (point, direction), start in zip(directions, starts, strict=True):
                point[...] = start + (step * direction).reshape(start.shape)
            try:
                return step, result(self.function.evaluate())
            finally:
                for (point, _), start in zip(directions, starts, strict=True):
                    point[...] = start

        return move

    def _noise(self, scale: Array, steps: Array | float) -> Array:
        """Bound the change of a slope caused by rounding values of size `scale`."""
        return np.asarray(4 * ROUNDING * np.where(np.isfinite(scale), scale, 0) / steps)

    # ---- Slopes and kinks ----

    def slopes(self, moves: Sequence[Move], middle: Array, scale: Array, steps: Array) -> Slopes:
        """Return the central slope of each output for each move, and the worst kink.

        The one-sided slopes of a smooth function differ by h · f'', which grows with h; at a kink, they differ by the
        same amount for any step.  If they differ, a wider step tells the two apart.

        Shapes: middle [M], scale [M], the size of the rounded values, steps [len(moves)]
        """
        slope, left, right = _slopes(moves, steps, middle)
        error = np.broadcast_to(self._noise(scale, steps[:, None]), slope.shape).copy()
        closer = np.zeros(slope.shape, bool)
        with np.errstate(invalid="ignore"):
            jump = abs(right - left)
            noise = 25 * error
            steepest = self.JUMP_RTOL * np.maximum(abs(left), abs(right))
            kink = ~np.isfinite(slope + jump)
            suspicious = ~kink & (jump > np.maximum(np.maximum(steepest, self.JUMP_ATOL), noise))
            for n in np.flatnonzero(suspicious.any(axis=1)).tolist():
                _, wide_left, wide_right = _slopes([moves[n]], self.WIDER * steps[n : n + 1], middle)
                kink[n] |= suspicious[n] & ~(abs(wide_right - wide_left)[0] > np.sqrt(self.WIDER) * jump[n])
            bent = suspicious & (jump > self.BENT * np.maximum(abs(left), abs(right)))
            for n in np.flatnonzero((kink | bent).any(axis=1)).tolist():
                for times in self.CLOSER:
                    step = times * steps[n]
                    nearer, bound, smooth = self._closer_slopes(moves[n], step, steps[n], middle, scale, jump[n])
                    smooth &= (kink[n] | bent[n]) & ~closer[n]
                    slope[n, smooth], error[n, smooth] = nearer[smooth], bound[smooth]
                    closer[n] |= smooth
                    kink[n] &= ~smooth
                if kink[n].any():
                    rounding = 4 * measured_noise(moves[n], steps[n]) / steps[n]
                    noisy = kink[n] & (jump[n] <= 6 * rounding)
                    error[n] += np.where(noisy, rounding, 0)
                    kink[n] &= ~noisy
        if not kink.any():
            return Slopes(slope, error, closer)
        worst = int(np.argmax(np.where(kink, np.nan_to_num(jump, nan=np.inf), -1)))
        n, row = divmod(worst, middle.size)
        return Slopes(slope, error, closer, (n, row, float(left[n, row]), float(right[n, row])))

    def _closer_slopes(
        self, move: Move, step: float, usual: float, middle: Array, scale: Array, jump: Array
    ) -> tuple[Array, Array, Array]:
        """Slopes with a small step, their error, and the mask of outputs which they show to be smooth here.

        They do where the second derivative at this very point explains that the slope changes within the usual step:
        that of log at 1e-8 does, that of relu at 1e-8 does not.

        Shapes: jump [M], by how much the one-sided slopes differ for the usual step -> [M], three times
        """
        (slope,), (left,), (right,) = _slopes([move], np.array([step]), middle)
        (wide,), *_ = _slopes([move], np.array([2 * step]), middle)
        bend, noise = abs(right - left), self._noise(scale, step)
        explained = bend * (usual / step) >= 0.1 * np.where(np.isfinite(jump), jump, abs(slope))
        small = bend <= 0.02 * np.fmax(np.where(np.isfinite(jump), jump, 0), abs(slope))
        error = abs(wide - slope) + noise
        return slope, error, np.isfinite(slope + bend + error) & explained & small & (10 * noise <= bend)

    def _nondifferentiable(self, i: int, place: int, output: str, left: float, right: float) -> NondifferentiableError:
        value = self.function.points[i].reshape(-1)[place]
        return NondifferentiableError(
            f"the function is not differentiable at {self.function.input_name(i, place)} = {value:.6g}, or not within "
            f"{self._step(i, place):g} of it: the slope of {output} is {left:.6g} to the left and {right:.6g} to the "
            "right (a kink as of relu or abs at 0, a tie in max, a bound of clip, the edge of a domain); move this "
            "input away"
        )


@dataclass(frozen=True)
class Slopes:
    """Central slopes [N, M] of M outputs for N moves, a bound on their error, and where they are of a closer step.

    kink: the worst: its move and output, and the slopes to the left and to the right
    """

    slope: Array
    error: Array
    closer: Array
    kink: tuple[int, int, float, float] | None = None


UNEVEN = np.array([0.7, 1.9, 2.6, 4.2, 4.9, 5.8, 7.3, 8.1, 9.4, 10.1, 11.0])
SMOOTH = np.vander(UNEVEN, 5) @ np.linalg.pinv(np.vander(UNEVEN, 5))  # values to the polynomial through them


def measured_noise(move: Move, step: float) -> Array:
    """Measure the rounding noise in the values of `move`, as their deviation from a polynomial.  Shapes: -> [M]

    If the function is smooth, eleven values close together are a polynomial of degree 4, up to rounding.  They lie on
    one side, because a kink or a jump at the point itself is not rounding, and at uneven distances, because multiples
    of one distance may all be rounded alike.  If most neighbours are equal, they lie within one unit of rounding, and
    larger distances are used.  The smallest distances come first: rounding is the same at any distance, but the bends
    of a function are not.
    """
    noise, unknown = np.zeros(1), np.ones(1, bool)
    for distance in (step / 1000, step / 10, step, 10 * step):
        with np.errstate(all="ignore"):
            values = np.array([move(k * distance)[1] for k in UNEVEN])
            values -= values[0]
            left = values - SMOOTH @ values
            found = np.sqrt((left**2).sum(axis=0) / (len(UNEVEN) - 5))
            coarse = (np.diff(values, axis=0) == 0).sum(axis=0) > 5
        noise, unknown = np.where(unknown, found, noise), unknown & coarse
        if not unknown.any():
            break
    noise = np.where(unknown, np.maximum(noise, ROUNDING), noise)  # values that never change may be what is left of 1
    return np.nan_to_num(noise, nan=0.0, posinf=0.0)


def _slopes(moves: Sequence[Move], steps: Array, middle: Array) -> tuple[Array, Array, Array]:
    """Return the central, left and right slopes; 0 for a value that does not change, also an infinite one.

    Shapes: steps [len(moves)], middle [M] -> [len(moves), M], three times
    """
    with np.errstate(all="ignore"):  # nobody asked for these points, which may be beyond the edge of the domain
        ends = [(*move(step), *move(-step)) for move, step in zip(moves, steps, strict=True)]
    up, down = (np.array([end[k] for end in ends]).reshape(-1, 1) for k in (0, 2))
    above, below = (np.array([end[k] for end in ends]).reshape(len(ends), middle.size) for k in (1, 3))
    with np.errstate(all="ignore"):
        return (
            np.where(above == below, 0, (above - below) / (up - down)),
            np.where(below == middle, 0, (below - middle) / down),
            np.where(above == middle, 0, (above - middle) / up),
        )


# ---- Complex steps ----

NOT_ANALYTIC = "its complex steps disagree with its differences, so it is not analytic"


class ComplexStep(Numerical):
    """Im f(x + i h) / h, exact up to h² and rounding, as no difference is taken.

    Source: W. Squire and G. Trapp, "Using complex variables to estimate derivatives of real functions",
    SIAM Review 40 (1998), 110-112

    Raises: NotAnalyticError for a function that does not compute with complex numbers
    """

    EPS, ATOL, RTOL = 1e-20, 1e-12, 1e-12

    def __init__(self, function: CheckedFunction, *given: float | None):
        super().__init__(function, *given)
        self.central = Central(function)
        self.points = [copy_with_layout(point, np.complex128) for point in function.points]
        self.trusted = self._agrees_with_differences()

    def __str__(self) -> str:
        return "complex steps"

    def _slope(self, *moved: tuple[int, Any, Array | float]) -> Array:
        """Return the slope of each output where elements of inputs move: (input, index, direction).  Shapes: -> [M]"""
        starts = [np.array(self.points[i][index]) for i, index, _ in moved]
        for (i, index, direction), start in zip(moved, starts, strict=True):
            self.points[i][index] = start + 1j * self.eps * direction
        try:
            return self.function.evaluate_complex(self.points).imag / self.eps
        finally:
            for (i, index, _), start in zip(moved, starts, strict=True):
                self.points[i][index] = start

    def _agrees_with_differences(self) -> bool:
        """Compare with differences along one direction of all inputs: the function may not be analytic."""
        rng, central = np.random.default_rng([0, 1]), self.central  # no weights are drawn from it
        directions = [np.where(np.isfinite(x), rng.standard_normal(x.shape), 0) for x in self.function.points]
        by_step = self._slope(*[(i, ..., direction) for i, direction in enumerate(directions)])
        move = central.move_all(list(zip(self.function.points, directions, strict=True)), lambda y: y)
        found = central.slopes([move], central.middle, abs(central.middle), np.array([central.eps]))
        if found.kink is None and not _nearly(by_step, found.slope[0], found.error[0]):
            noise = measured_noise(move, central.eps)
            return _nearly(by_step, found.slope[0], found.error[0] + 4 * noise / central.eps)
        return found.kink is None

    def derivative(self, target: Target) -> Estimate:
        """Return Im f(x + ih) / h, whose error is that of rounding."""
        i, direction = target.i, target.direction
        if direction is None or target.weights is None:
            columns = [self._slope((i, index, 1.0)) for index in np.ndindex(*self.points[i].shape)]
            return self.estimate(np.array(columns).reshape(self.points[i].size, self.middle.size).T)
        slopes = self._slope((i, ..., direction.reshape(self.points[i].shape)))
        rounding = 16 * ROUNDING * weighted(abs(target.weights), abs(slopes))
        return self.estimate(np.array([[weighted(target.weights, slopes)]]), rounding)

    def confirm(self, target: Target, agrees: bool) -> None:
        """Raise NotAnalyticError if the steps for this input disagree with differences, as for |x|."""
        by_difference = self.central.derivative(target)
        if not _nearly(self.derivative(target).values, by_difference.values, by_difference.error):
            raise NotAnalyticError(NOT_ANALYTIC)

    def reconsider(self, target: Target, analytic: Array, estimate: Estimate) -> Estimate:
        """Raise NotAnalyticError if fine differences side with the gradient: the steps may lose a small part."""
        excess = np.nan_to_num(abs(analytic - estimate.values), nan=np.inf, posinf=np.inf)
        row, place = np.unravel_index(int(np.argmax(excess)), excess.shape)
        fine = self.central.fine(target, int(place))[row]
        if abs(fine - analytic[row, place]) < abs(fine - estimate.values[row, place]) / 4:
            raise NotAnalyticError(NOT_ANALYTIC)
        return estimate


def _nearly(by_step: Any, by_difference: Any, error: Any = 0.0) -> bool:
    return bool(np.all(abs(by_step - by_difference) <= 1e-5 + 1e-3 * abs(by_difference) + error))


# ---- The choice ----


class Automatic(Numerical):
    """Complex steps where they give the derivative, central differences elsewhere; kinks by central differences."""

    EPS = Central.EPS
    ATOL, RTOL = 1e-9, 1e-9  # of complex steps: a gradient may be computed with some cancellation

    def __init__(
        self, function: CheckedFunction, eps: float | None = None, atol: float | None = None, rtol: float | None = None
    ):
        super().__init__(function, eps, atol, rtol)
        given: dict[str, Any] = {"atol": atol, "rtol": rtol}
        self.given = {name: value for name, value in given.items() if value is not None}
        self.central = Central(function, eps)
        self.steps: ComplexStep | None = None
        with self._distrust():
            steps = ComplexStep(function, None, self.atol, self.rtol)
            if not steps.trusted:
                raise NotAnalyticError(NOT_ANALYTIC)
            self.steps = steps

    def __str__(self) -> str:
        if self.steps is not None:
            return str(self.steps)
        return f"{self.central} (complex steps do not suit this function: {self.reason})"

    @contextmanager
    def _distrust(self) -> Iterator[None]:
        """Context manager: complex steps that do not suit the function are not taken again."""
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except NotAnalyticError as error:
            self.steps, self.reason = None, error.reason

    def derivative(self, target: Target) -> Estimate:
        """Return the derivative by complex steps, or by differences where the two disagree."""
        by_difference = self.central.derivative(target)
        if self.steps is not None:
            with self._distrust():
                by_step = self.steps.derivative(target)
                values, wide = by_step.values, by_difference
                if wide.wrong(values).any():
                    wide = self.central.reconsider(target, values, by_difference)
                if wide.wrong(values).any():
                    raise NotAnalyticError(NOT_ANALYTIC)
                return by_step
        return replace(by_difference, **self.given)

    def confirm(self, target: Target, agrees: bool) -> None:
        """Confirm the differences: see `Central.confirm`."""
        self.central.confirm(target, agrees)

    def reconsider(self, target: Target, analytic: Array, estimate: Estimate) -> Estimate:
        """Reconsider an estimate by the method that made it."""
        if self.steps is not None:
            with self._distrust():
                return self.steps.reconsider(target, analytic, estimate)
        by_difference = self.central.derivative(target)
        return replace(self.central.reconsider(target, analytic, by_difference), **self.given)


Method = Central | ComplexStep | Automatic
METHODS: dict[str, type[Method]] = {"auto": Automatic, "central": Central, "complex": ComplexStep}
