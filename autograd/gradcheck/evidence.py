"""What is known of a wrong gradient: the material of a diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Evidence:
    """A wrong Jacobian, the right one, and the values that a mistake may have used.

    Shapes: analytic, numerical [M, n], for M elements of an output and all n of an input, or some unless `complete`

    arrays: inputs and output by name; at: the input itself
    others: returns the right Jacobians [M, n_k] of the same output by the other inputs, by name
    """

    analytic: Array
    numerical: Array
    output_shape: Shape
    input_shape: Shape
    arrays: Mapping[str, Array] = field(default_factory=dict)
    at: Array | None = None
    others: Callable[[], Mapping[str, Array]] = dict
    complete: bool = True

    @property
    def off(self) -> Array:
        return self.analytic - self.numerical

    @property
    def both(self) -> tuple[Array, Array]:
        """The two Jacobians in the shapes of output and input."""
        shape = self.output_shape + self.input_shape
        return self.analytic.reshape(shape), self.numerical.reshape(shape)

    def explained_by(self, model: Array, part: Array | None = None) -> bool:
        """Whether the analytic Jacobian is `model` (where `part` is True), but for a thousandth of what is wrong."""
        residual = abs(self.analytic.reshape(model.shape) - model)
        if part is not None:
            residual = residual[part]
        return bool(residual.max(initial=0.0) <= 1e-3 * abs(self.off).max(initial=0.0))

    def zero(self, values: Array) -> Array:
        """Mask of derivatives that are 0 but for rounding."""
        return abs(values) <= 1e-7 * abs(self.numerical).max(initial=0.0)
