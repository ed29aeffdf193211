"""The evidence of a wrong Jacobian, and what a guess at the mistake consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]


class Guess(NamedTuple):
    """A mistake, and the Jacobian that it makes; None if the numbers are known to fit.

    part: mask of the derivatives that the mistake says something about; None for all
    """

    text: str
    model: Array | None = None
    part: Array | None = None


@dataclass(frozen=True)
class Evidence:
    """A wrong Jacobian, the right one, and the values that a mistake may have used.

    Shapes: analytic, numerical [M, n], for M elements of an output and all n of an input, or some unless `complete`

    arrays: inputs and output by name; at: the input itself
    others: returns the right Jacobians [M, n_k] of the same output by the other inputs, by name
    noise: a bound on the error of the right Jacobian
    outputs: the analytic and the right Jacobian of each output by this input, where there are several; output: which of
        them this one is
    """

    analytic: Array
    numerical: Array
    output_shape: Shape
    input_shape: Shape
    arrays: Mapping[str, Array] = field(default_factory=dict)
    at: Array | None = None
    others: Callable[[], Mapping[str, Array]] = dict
    complete: bool = True
    outputs: tuple[tuple[Array, Array], ...] = ()
    output: int = 0
    noise: float = 0.0

    @property
    def off(self) -> Array:
        """Return the difference between analytic and numerical derivatives."""
        return self.analytic - self.numerical

    @property
    def both(self) -> tuple[Array, Array]:
        """The two Jacobians in the shapes of output and input."""
        shape = self.output_shape + self.input_shape
        return self.analytic.reshape(shape), self.numerical.reshape(shape)

    @property
    def is_elementwise(self) -> bool:
        """Whether each output depends on the input at its own place alone."""
        n = self.numerical
        return self.output_shape == self.input_shape and bool(self.zero(n - np.diag(np.diag(n))).all())

    def fits(self, guess: Guess) -> bool:
        """Whether a guess explains the analytic Jacobian, except for a thousandth of what is wrong."""
        _, model, part = guess
        if model is None:
            return True
        residual = abs(self.analytic - np.reshape(model, self.analytic.shape))
        if part is not None:
            residual = residual[part.reshape(residual.shape)]
        return bool(residual.max(initial=0.0) <= 1e-3 * abs(self.off).max(initial=0.0))

    def zero(self, values: Array) -> Array:
        """Mask of derivatives that are 0 up to rounding."""
        return abs(values) <= max(1e-7 * abs(self.numerical).max(initial=0.0), self.noise)

    def where(self, axis: int) -> str:
        """Return the name of an axis of `both`."""
        outputs = len(self.output_shape)
        return f"axis {axis} of the output" if axis < outputs else f"axis {axis - outputs} of the input"


def subsets(of: Iterable[Any], most: int) -> Iterator[tuple[Any, ...]]:
    """Yield the subsets of 1 to `most` elements, small ones first."""
    elements = list(of)
    return chain.from_iterable(combinations(elements, k) for k in range(1, most + 1))


def ratio_of(a: Array, n: Array) -> float:
    """Return the number r for which r · n is nearest to a; 0 if n is."""
    return float((a * n).sum() / (n * n).sum()) if n.any() else 0.0


def listed(mask: Array, most: int = 8) -> str:
    """Return the indices at which a mask is True, in words."""
    places = np.flatnonzero(mask).tolist()
    return ", ".join(map(str, places[:most])) + (", …" if len(places) > most else "")
