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


def linear_flops(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """2 · rows · in · out forward, and as many for each of two gradients; rows · out for the bias."""
    product, bias = 2 * math.prod(inputs[0]) * inputs[1][0], math.prod(outputs[0]) * (len(inputs[2]) > 0)
    needs = op.needs_gradient
    return product + bias, product * sum(needs[:2]) + bias * needs[2]


def attention_flops(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """Count for n = B · H · T · S scores: 2 n K for q kᵀ and 2 n M for p v forward, twice that for four gradients.

    Scale and softmax take 6 n (scale, maximum, difference, exponential, sum, division), their gradient 4 n
    (product, sum, difference, product) and 1 n for the scale; dropout 2 n and, with what is computed again, 4 n.
    """
    k, m = inputs[0][-1], outputs[0][-1]
    n = math.prod(outputs[0][:-1]) * inputs[1][-2]
    forward, backward = (6, 5) if op.parameters.get("drop") is None else (8, 9)
    return n * (2 * (k + m) + forward), n * (4 * (k + m) + backward) if any(op.needs_gradient) else 0
