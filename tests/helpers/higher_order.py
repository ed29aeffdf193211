"""Second derivatives compared with differences of first ones."""

from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.engine import run_backward

STEP = 3e-5  # short: a kink of ReLU between the points would spoil the differences
DIFFERENCES = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))  # of eighth order


def outputs_of(function: Any, leaves: list[Tensor]) -> list[Tensor]:
    ys = function(*leaves)
    return [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.requires_grad]


def second_order_error(function: Any, arrays: list[np.ndarray], rng: np.random.Generator) -> float:
    """The relative error of the derivative, along a random direction, of the gradients of `function`.

    The gradients are functions of the inputs and of the cotangents: the direction is one of both.
    """
    leaves = [Tensor(a, requires_grad=True) for a in arrays]
    ys = outputs_of(function, leaves)
    if not ys:
        return 0.0
    cotangents = [rng.standard_normal(y.shape) for y in ys]
    gs = [Tensor(g, requires_grad=True) for g in cotangents]
    gradients = ag.grad(ys, leaves, gs, create_graph=True, allow_unused=True)
    weights = [rng.standard_normal(a.shape) for a in arrays]
    terms = [(g * w).sum() for g, w in zip(gradients, weights, strict=True) if g is not None]
    variables = [*leaves, *gs]
    found = ag.grad(sum(terms[1:], terms[0]), variables, allow_unused=True) if terms else [None] * len(variables)
    direction = [rng.standard_normal(x.shape) for x in variables]
    slope = sum(float((d.data * v).sum()) for d, v in zip(found, direction, strict=True) if d is not None)

    def first_order(distance: float) -> float:
        moved = [x.data + distance * v for x, v in zip(variables, direction, strict=True)]
        leaves = [Tensor(a, requires_grad=True) for a in moved[: len(arrays)]]
        run_backward(outputs_of(function, leaves), moved[len(arrays) :])
        return sum(float((x.grad.data * w).sum()) for x, w in zip(leaves, weights, strict=True) if x.grad is not None)

    expected = sum(c * (first_order(n * STEP) - first_order(-n * STEP)) for n, c in DIFFERENCES) / STEP
    return abs(slope - expected) / max(1.0, abs(expected))
