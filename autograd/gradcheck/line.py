"""The outputs of a function along a line through its point: by one element, or by random parts of all inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from autograd.gradcheck.function import CheckedFunction

Array = np.ndarray

ROUNDING = float(np.finfo(float).eps)
DROWNED = 1e-3  # of the values: a function of which no step sees more than noise


def size_of(values: Array) -> float:
    """Return the largest finite absolute value."""
    return float(abs(values).max(initial=0, where=np.isfinite(values)))


def narrow_down(direction: Array, badness: Callable[[Array], float]) -> int:
    """Return the worst element of `direction`, by bisection: the half with the larger badness is halved again."""
    candidates = np.flatnonzero(direction)
    while len(candidates) > 1:
        halves = np.array_split(candidates, 2)
        parts = [np.where(np.isin(np.arange(direction.size), half), direction, 0) for half in halves]
        candidates = halves[int(np.argmax([np.nan_to_num(badness(part), nan=np.inf) for part in parts]))]
    return int(candidates[0])


class Line:
    """The outputs of a function along a line through its point, t ↦ f(x + t · direction), or a weighted sum of them.

    moves: parts of inputs that move, each by (input, index, direction)
    weights: of the outputs [M], for K = 1 value; None for K = M values.  Outputs that are infinite at the point have
        weight 0.
    size: what t must be compared with: the size of the element that moves, or 1
    """

    direction: Array  # of all inputs, in one vector, if several elements may move

    def __init__(
        self, function: CheckedFunction, moves: Sequence[tuple[int, Any, Any]], weights: Array | None = None,
        size: float = 1.0,
    ):  # fmt: skip
        self.function, self.moves, self.size = function, moves, size
        self.weights = weights if weights is None else np.where(np.isfinite(function.middle), weights, 0)
        self.middle, self.scale = self._values(function.middle), self._values(abs(function.middle), absolute=True)

    @classmethod
    def along(cls, function: CheckedFunction, direction: Array, weights: Array | None = None) -> Line:
        """The line along a direction in all inputs, their elements in one vector."""
        parts = np.split(direction, np.cumsum([x.size for x in function.points])[:-1])
        moves = [(i, ..., part.reshape(x.shape))
                 for i, (x, part) in enumerate(zip(function.points, parts, strict=True)) if part.any()]  # fmt: skip
        line = cls(function, moves, weights)
        line.direction = direction
        return line

    @classmethod
    def of_element(cls, function: CheckedFunction, i: int, place: int, weights: Array | None = None) -> Line:
        """The line along which one element of input i moves."""
        index = np.unravel_index(place, function.points[i].shape)
        value = float(function.points[i][index])
        return cls(function, [(i, index, 1.0)], weights, max(1.0, abs(value)) if np.isfinite(value) else 1.0)

    @property
    def step(self) -> float:
        """The step that is tried first."""
        return self.function.step * self.size

    @property
    def least(self) -> float:
        """The smallest step, which moves x by a few units of its rounding, or by a small part of a small x."""
        least = (1e-5 if self.function.narrow else 1e-14) * self.size
        if self.element is not None and not self.function.narrow:
            i, index, _ = self.moves[0]
            value = abs(float(self.function.points[i][index]))
            if np.isfinite(value) and value:
                least = 2 * float(np.spacing(value)) if value > 1e6 else min(least, 1e-5 * value)
        return least

    @property
    def element(self) -> tuple[int, int] | None:
        """The input and the element that move, if one element alone does."""
        i, index, _ = self.moves[0]
        return None if index is ... else (i, int(np.ravel_multi_index(index, self.function.points[i].shape)))

    def _values(self, values: Array, absolute: bool = False) -> Array:
        if self.weights is None:
            return values
        weights = abs(self.weights) if absolute else self.weights
        return np.array([(weights * np.where(weights == 0, 0, values)).sum()])

    @contextmanager
    def _moved(self, points: Sequence[Array], t: float | complex) -> Iterator[float]:
        """Context manager: points moved by t; gives the t that is left after rounding."""
        starts = [np.array(points[i][index]) for i, index, _ in self.moves]
        try:
            for (i, index, direction), start in zip(self.moves, starts, strict=True):
                points[i][index] = start + t * direction
            moved = t
            if len(starts) == 1 and starts[0].ndim == 0 and not isinstance(t, complex):
                i, index, direction = self.moves[0]
                moved = (
                    (float(points[i][index]) - float(starts[0])) / float(direction) if np.isfinite(starts[0]) else 0.0
                )
            yield moved  # type: ignore[misc]
        finally:
            for (i, index, _), start in zip(self.moves, starts, strict=True):
                points[i][index] = start

    def __call__(self, t: float) -> tuple[float, Array]:
        """The t that is left after rounding, and the values there, [K]; NaN where the function raises an error."""
        with self._moved(self.function.points, t) as moved, np.errstate(all="ignore"):
            try:
                return moved, self._values(self.function.evaluate())
            except Exception:  # nobody asked for this point, which may be beyond the edge of the domain
                return moved, np.full(self.middle.shape, np.nan)

    def complex_slope(self, points: Sequence[Array], eps: float = 1e-20) -> tuple[Array, Array]:
        """Im f(x + i h) / h, exact up to h², as no difference is taken, and its rounding.  Shapes: -> [K] twice

        points: the function's, in complex numbers

        Source: W. Squire and G. Trapp, "Using complex variables to estimate derivatives of real functions",
        SIAM Review 40 (1998), 110-112
        """
        with self._moved(points, 1j * eps):
            found = self.function.evaluate_complex(points).imag / eps
        rounding = 0.0 if self.weights is None else 16 * ROUNDING * self._values(abs(found), absolute=True)
        return self._values(found), np.broadcast_to(rounding, self.middle.shape)

    def slopes(self, t: float) -> tuple[Array, Array, Array, Array, Array]:
        """Central, left, right slopes, 0 where values do not change, also infinite ones; |f(t) - f(-t)|; max |f|."""
        (up, above), (down, below), middle = self(t), self(-t), self.middle
        with np.errstate(all="ignore"):
            return (
                np.where(above == below, 0, (above - below) / (up - down)),
                np.where(below == middle, 0, (below - middle) / down),
                np.where(above == middle, 0, (above - middle) / up),
                abs(above - below),
                np.fmax(abs(above), abs(below)),
            )


# ---- Rounding ----

UNEVEN = np.array([0.7313, 1.8971, 2.6437, 4.1849, 4.9261, 5.8379, 7.2843, 8.1127, 9.4519, 10.1297, 11.0])


def measured_noise(line: Line, some: Array | bool = True) -> Array:
    """Measure the rounding noise in the values along a line, as their deviation from a polynomial.  Shapes: -> [K]

    some: mask of the values that it is measured for; 0 for others

    If the function is smooth, eleven values close together are a polynomial of degree 4, up to rounding.  They lie on
    one side, because a kink or a jump at the point itself is not rounding, and at uneven distances, because multiples
    of one distance may all be rounded alike.  If several neighbours are equal, one unit of rounding is larger, and so
    are the distances that are used then.  The smallest come first: rounding is the same at any distance, but the bends
    of a function are not.
    """
    noise, unknown = np.zeros(line.middle.shape), np.broadcast_to(some, line.middle.shape)
    for times in (1, 10, 100, 1000) if line.function.narrow else (1, 1e3, 1e5, 1e7, 1e8):
        distance = times * line.least / 2
        with np.errstate(all="ignore"):
            pairs = [line(k * distance) for k in UNEVEN]
            values = np.array([value for _, value in pairs])
            powers = np.vander([moved / distance for moved, _ in pairs], 5)
            values -= values[0]
            left = values - powers @ (np.linalg.pinv(powers) @ np.nan_to_num(values, posinf=0, neginf=0))
            found = np.sqrt((left**2).sum(axis=0) / (len(UNEVEN) - 5))
            coarse = (np.diff(values, axis=0) == 0).sum(axis=0) > 2
        noise, unknown = np.where(unknown, found, noise), unknown & coarse
        if not unknown.any():
            break
    noise = np.where(unknown, np.maximum(noise, ROUNDING), noise)  # values that never change may be what is left of 1
    return np.nan_to_num(noise, nan=0.0, posinf=0.0)


def measure_rounding(function: CheckedFunction, weights: Array, gradients: Sequence[Array]) -> None:
    """Note how coarsely a function rounds its values, if a small step does not change them as its gradients say."""
    direction = np.concatenate([np.where(np.isfinite(x), x, 0).reshape(-1) for x in function.points]).astype(float)
    line = Line.along(function, direction, weights)
    if line.moves:
        slope = np.concatenate([g.reshape(-1) for g in gradients])[direction != 0] @ direction[direction != 0]
        if function.narrow or abs(line(1e-9)[1] - line.middle - 1e-9 * slope) > 1e-10 * line.scale:
            noise = measured_noise(Line.along(function, direction)).max(initial=0)
            rounding = float(noise / (size_of(function.middle) or 1.0))
            if function.rounding < rounding < DROWNED:
                function.rounding = rounding
