"""Cases of autograd/ops/arithmetic.py."""

from __future__ import annotations

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch
from tests.cases.families import one_input, two_inputs


def _sides(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    return [draw.uniform(rng, shape) for shape in shapes]


def _divisible(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    a, b = shapes
    return [draw.uniform(rng, a), draw.away_from(rng, b, low=-9, high=9, gap=0.3)]


two_inputs("Add", ag.add, lambda a, b: torch.add(a, b), _sides)
two_inputs("Subtract", ag.subtract, lambda a, b: torch.subtract(a, b), _sides, lambda a, b: a + (-1) * b)
two_inputs("Multiply", ag.multiply, lambda a, b: torch.multiply(a, b), _sides)
two_inputs("Divide", ag.divide, lambda a, b: torch.divide(a, b), _divisible, lambda a, b: a * ag.reciprocal(b))
one_input("Negative", ag.negative, lambda x: torch.negative(x))


@register("Multiply", "a Tensor with itself")
def _(rng):
    return Example(
        lambda x: ag.multiply(x, x), [draw.uniform(rng, draw.shape(rng))], ag.square, lambda x: torch.square(x)
    )
