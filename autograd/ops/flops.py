"""FLOP counts of ops by shapes alone: each op states its counts beside its forward and backward passes.

One multiplication with the addition that follows it counts as two.  Matrix products, linear layers and attention's
products are exact.  Everything else is counted per element: an addition, multiplication, division, comparison, root,
exponential or other function of one number is one operation; moving elements costs none.  The sums that undo
broadcasting and that add up the gradients of several uses are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Shapes = Sequence[tuple[int, ...]]
Cost = tuple[float, float]  # operations forward, backward
Count = Callable[[Any, Shapes, Shapes], Cost]  # (op, shapes of inputs, shapes of outputs): the method `Op.flops`


def per_output(forward: float, backward: float) -> Count:
    """Operations per element of the first output; `backward` for each input that needs a gradient."""

    def flops(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
        n = math.prod(outputs[0])
        return forward * n, backward * n * sum(op.needs_gradient)

    return flops


def per_input(forward: float, backward: float) -> Count:
    """Operations per element of the first input: what is summed or normalised."""

    def flops(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
        n = math.prod(inputs[0])
        return forward * n, backward * n if any(op.needs_gradient) else 0

    return flops


moves_only = per_output(0, 0)
