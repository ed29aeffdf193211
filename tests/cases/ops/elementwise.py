"""Cases of autograd/ops/elementwise.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch
from tests.cases.families import one_input, two_inputs


def _away_from_0(rng: draw.Rng, shape: draw.Shape) -> np.ndarray:
    return draw.away_from(rng, shape, low=-9, high=9, gap=0.3)


def _powers(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    base, exponent = shapes
    return [draw.positive(rng, base), draw.uniform(rng, exponent)]


# ---- Activations ----


def _plain_sigmoid(x: Any) -> Any:
    return 1 / (1 + ag.exp(-x))


one_input("Tanh", ag.tanh, lambda x: torch.tanh(x), plain=lambda x: 2 * _plain_sigmoid(2 * x) - 1)
# It computes with |x|, which is not analytic
one_input("Sigmoid", ag.sigmoid, lambda x: torch.sigmoid(x), plain=_plain_sigmoid, analytic=False)


@register("Tanh", "saturated")
def _(rng):
    return Example(ag.tanh, [draw.uniform(rng, (5,), 3, 6)], torch=lambda x: torch.tanh(x))


@register("Sigmoid", "saturated", analytic=False)
def _(rng):
    return Example(ag.sigmoid, [draw.uniform(rng, (5,), -30, 30)], torch=lambda x: torch.sigmoid(x))


# ---- Powers, exponentials, logarithms ----

one_input("Square", ag.square, lambda x: torch.square(x), plain=lambda x: x * x)
one_input("Exp", ag.exp, lambda x: torch.exp(x))
one_input("Log", ag.log, lambda x: torch.log(x), draw.positive)
one_input("Sqrt", ag.sqrt, lambda x: torch.sqrt(x), draw.positive, lambda x: ag.exp(0.5 * ag.log(x)))
one_input("Reciprocal", ag.reciprocal, lambda x: torch.reciprocal(x), _away_from_0)
two_inputs("Power", ag.power, lambda a, b: torch.pow(a, b), _powers, lambda a, b: ag.exp(b * ag.log(a)))


# CuPy raises complex numbers by their logarithm, whose rounding hides steps of 1e-20
@register("Power", "whole exponent, any base", analytic="cpu")
def _(rng):
    n = int(rng.choice([-3, -2, 0, 1, 3, 4]))
    x = draw.away_from(rng, draw.shape(rng), low=-3, high=3, gap=0.3)
    return Example(lambda x: ag.power(x, n), [x], torch=lambda x: x**n)


@register("Power", "whole exponents in an array, any base", analytic="cpu")
def _(rng):
    base, exponent = draw.broadcastable(rng)
    n = rng.choice([-2.0, 0.0, 1.0, 3.0], exponent)
    x = draw.away_from(rng, base, low=-3, high=3, gap=0.3)
    return Example(
        lambda x: ag.power(x, n.astype(x.dtype)), [x], torch=lambda x: torch.pow(x, torch.tensor(n, dtype=x.dtype))
    )


# ---- Other precision ----

one_input("Clone", ag.clone, lambda x: torch.clone(x))
one_input("Sin", ag.sin, lambda x: torch.sin(x))
one_input("Cos", ag.cos, lambda x: torch.cos(x), plain=lambda x: ag.sin(x + np.pi / 2))
one_input(
    "Log1p", ag.log1p, lambda x: torch.log1p(x), lambda rng, shape: draw.uniform(rng, shape, -0.25, 3.0),
    lambda x: ag.log(1 + x),
)  # fmt: skip
one_input("Expm1", ag.expm1, lambda x: torch.expm1(x), plain=lambda x: ag.exp(x) - 1)
one_input("Erf", ag.erf, lambda x: torch.erf(x), analytic=False)


@register("Erf", "far from 0", analytic=False)
def _(rng):
    return Example(ag.erf, [draw.uniform(rng, draw.shape(rng), -5.0, 5.0)], torch=lambda x: torch.erf(x))


@register("AsType", "same type", analytic=False)
def _(rng):
    return Example(lambda x: ag.astype(x, x.dtype), [draw.uniform(rng, draw.shape(rng))], torch=lambda x: x.to(x.dtype))


@register("AsType", "through a wider type", analytic=False)
def _(rng):
    """Back to float64 by a second AsType, so that differences keep their digits."""
    return Example(
        lambda x: ag.astype(ag.astype(x * x, _wider(x)), "float64"),
        [draw.uniform(rng, draw.shape(rng))],
        lambda x: x * x,
    )


def _wider(x: Any) -> Any:
    """A wider type than float64, if the array's device has one."""
    return np.longdouble if isinstance(x.data, np.ndarray) else np.float64
