"""Cases of the ops that treat every element alike, and of those that choose between elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import autograd as ag
from autograd.testing import draw
from autograd.testing.case import Example, register

# ---- One input ----


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + ag.exp(-x))


def _gelu(x: Any) -> Any:
    """x · Φ(x) for numbers only: there is no other op for the error function to differentiate by."""
    return ag.Tensor(x.data * (0.5 + 0.5 * np.vectorize(math.erf, otypes=[float])(x.data / math.sqrt(2))))


def _gelu_tanh(x: Any) -> Any:
    return x * 0.5 * (1 + ag.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


Draw = Callable[[draw.Rng, draw.Shape], np.ndarray]

UNARY: dict[str, tuple[Callable, Draw, Callable | None]] = {
    "Abs": (ag.abs, draw.away_from, None),
    "Exp": (ag.exp, draw.uniform, None),
    "Gelu": (ag.gelu, draw.uniform, None),
    "GeluTanh": (lambda x: ag.gelu(x, approximate="tanh"), draw.uniform, _gelu_tanh),
    "Log": (ag.log, draw.positive, None),
    "Negative": (ag.negative, draw.uniform, None),
    "Reciprocal": (ag.reciprocal, lambda rng, shape: draw.away_from(rng, shape, low=-9, high=9, gap=0.3), None),
    "Relu": (ag.relu, draw.away_from, None),
    "Sigmoid": (ag.sigmoid, draw.uniform, _sigmoid),
    "Silu": (ag.silu, draw.uniform, lambda x: x * _sigmoid(x)),
    "Sqrt": (ag.sqrt, draw.positive, lambda x: ag.exp(0.5 * ag.log(x))),
    "Square": (ag.square, draw.uniform, lambda x: x * x),
    "Tanh": (ag.tanh, draw.uniform, lambda x: 2 * _sigmoid(2 * x) - 1),
}
REAL_ONLY = {"Abs", "Gelu", "Sigmoid", "Silu"}  # they compute with |x|, which takes complex numbers off the path


def _register_unary(op: str, function: Callable, numbers: Draw, plain: Callable | None) -> None:
    analytic = op not in REAL_ONLY

    @register(op, "any shape", analytic)
    def any_shape(rng):
        return Example(function, [numbers(rng, draw.shape(rng))], plain)

    @register(op, "reused", analytic)
    def reused(rng):
        """Two uses of one input and one of the output: the gradients must add up."""
        return Example(lambda x: function(x) * x + function(x), [numbers(rng, draw.shape(rng))])

    @register(op, "zero size", analytic)
    def zero_size(rng):
        return Example(function, [numbers(rng, (2, 0, 3))], plain)


for _op, (_function, _numbers, _plain) in UNARY.items():
    _register_unary(_op, _function, _numbers, _plain)


@register("Tanh", "saturated")
def _(rng):
    return Example(ag.tanh, [draw.uniform(rng, (5,), 3, 6)])


@register("Sigmoid", "saturated", analytic=False)
def _(rng):
    return Example(ag.sigmoid, [draw.uniform(rng, (5,), -30, 30)])


@register("Silu", "far from 0", analytic=False)
def _(rng):
    return Example(ag.silu, [draw.uniform(rng, (5,), -30, 30)])


@register("Gelu", "far from 0", analytic=False)
def _(rng):
    return Example(ag.gelu, [draw.uniform(rng, (5,), -8, 8)])


@register("GeluTanh", "far from 0")
def _(rng):
    return Example(lambda x: ag.gelu(x, approximate="tanh"), [draw.uniform(rng, (5,), -8, 8)])


@register("AsType", "same type", analytic=False)
def _(rng):
    return Example(lambda x: ag.astype(x, "float64"), [draw.uniform(rng, draw.shape(rng))])


@register("AsType", "through a wider type", analytic=False)
def _(rng):
    """Back to float64 by a second AsType, so that differences keep their digits."""
    return Example(
        lambda x: ag.astype(ag.astype(x * x, _wider(x)), "float64"),
        [draw.uniform(rng, draw.shape(rng))],
        lambda x: x * x,
    )


def _wider(x: Any) -> Any:
    """A wider type than float64, where the array's device has one."""
    return np.longdouble if isinstance(x.data, np.ndarray) else np.float64


# ---- Two inputs, broadcast against each other ----


def _sides(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    return [draw.uniform(rng, shape) for shape in shapes]


def _divisible(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    a, b = shapes
    return [draw.uniform(rng, a), draw.away_from(rng, b, low=-9, high=9, gap=0.3)]


def _powers(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    base, exponent = shapes
    return [draw.positive(rng, base), draw.uniform(rng, exponent)]


def _apart(rng: draw.Rng, shapes: list[draw.Shape]) -> list[np.ndarray]:
    return draw.distinct(rng, *shapes)


def _larger(a: Any, b: Any) -> Any:
    return ag.where(a > b, a, b)


def _smaller(a: Any, b: Any) -> Any:
    return ag.where(a > b, b, a)


BINARY: dict[str, tuple[Callable, Callable, Callable | None]] = {
    "Add": (ag.add, _sides, None),
    "Subtract": (ag.subtract, _sides, lambda a, b: a + (-1) * b),
    "Multiply": (ag.multiply, _sides, None),
    "Divide": (ag.divide, _divisible, lambda a, b: a * ag.reciprocal(b)),
    "Power": (ag.power, _powers, lambda a, b: ag.exp(b * ag.log(a))),
    "Maximum": (ag.maximum, _apart, _larger),
    "Minimum": (ag.minimum, _apart, _smaller),
}


def _register_binary(op: str, function: Callable, numbers: Callable, plain: Callable | None) -> None:
    @register(op, "same shape")
    def same_shape(rng):
        shape = draw.shape(rng)
        return Example(function, numbers(rng, [shape, shape]), plain)

    @register(op, "broadcast")
    def broadcast(rng):
        return Example(function, numbers(rng, draw.broadcastable(rng)), plain)

    @register(op, "reused")
    def reused(rng):
        """One Tensor in several places, as a left and as a right operand."""
        shape = draw.shape(rng)
        return Example(lambda a, b: function(a, b) * a + function(a, b) * b, numbers(rng, [shape, shape]))

    @register(op, "with a number on the right")
    def number_right(rng):
        a, b = numbers(rng, [draw.shape(rng), ()])
        number = b.item()
        return Example(lambda a: function(a, number), [a], plain and (lambda a: plain(a, number)))

    @register(op, "with a number on the left")
    def number_left(rng):
        a, b = numbers(rng, [(), draw.shape(rng)])
        number = a.item()
        return Example(lambda b: function(number, b), [b])

    @register(op, "zero size")
    def zero_size(rng):
        return Example(function, numbers(rng, [(2, 0), (1, 1)]), plain)


for _op, (_function, _draw_numbers, _plain) in BINARY.items():
    _register_binary(_op, _function, _draw_numbers, _plain)


@register("Multiply", "a Tensor with itself")
def _(rng):
    return Example(lambda x: ag.multiply(x, x), [draw.uniform(rng, draw.shape(rng))], ag.square)


@register("Power", "whole exponent, any base")
def _(rng):
    exponent = int(rng.choice([-3, -2, 0, 1, 3, 4]))
    return Example(lambda x: ag.power(x, exponent), [draw.away_from(rng, draw.shape(rng), low=-3, high=3, gap=0.3)])


@register("Power", "whole exponents in an array, any base")
def _(rng):
    base, exponent = draw.broadcastable(rng)
    exponents = rng.choice([-2.0, 0.0, 1.0, 3.0], exponent)
    return Example(lambda x: ag.power(x, exponents), [draw.away_from(rng, base, low=-3, high=3, gap=0.3)])


# ---- Bounds and masks ----


@register("Clip", "between numbers")
def _(rng):
    return Example(
        lambda x: ag.clip(x, -1, 1),
        [draw.away_from(rng, draw.shape(rng), (-1, 1))],
        lambda x: ag.minimum(ag.maximum(x, -1), 1),
    )


@register("Clip", "one bound")
def _(rng):
    bounds = [(-0.5, None), (None, 0.5)][rng.integers(2)]
    return Example(lambda x: ag.clip(x, *bounds), [draw.away_from(rng, draw.shape(rng), (-0.5, 0.5))])


@register("Clip", "between Tensors, broadcast")
def _(rng):
    """The bounds may cross: then the upper one wins."""
    return Example(
        ag.clip,
        draw.distinct(rng, *draw.broadcastable(rng, 3)),
        lambda x, low, high: ag.minimum(ag.maximum(x, low), high),
    )


@register("Where", "both sides, broadcast")
def _(rng):
    condition, a, b = draw.broadcastable(rng, 3)
    chosen = draw.mask(rng, condition)
    return Example(
        lambda a, b: ag.where(chosen, a, b), [draw.uniform(rng, a), draw.uniform(rng, b)],
        lambda a, b: a * chosen + b * ~chosen,
    )  # fmt: skip


@register("Where", "a number on one side")
def _(rng):
    shape = draw.shape(rng)
    chosen = draw.mask(rng, shape)
    left = bool(rng.integers(2))
    return Example(lambda x: ag.where(chosen, x, 0.5) if left else ag.where(chosen, 0.5, x), [draw.uniform(rng, shape)])


@register("Where", "reused")
def _(rng):
    shape = draw.shape(rng)
    chosen = draw.mask(rng, shape)
    return Example(lambda x: ag.where(chosen, x, x * x), [draw.uniform(rng, shape)])


@register("MaskedFill", "with a number")
def _(rng):
    x, mask = draw.broadcastable(rng)
    filled = draw.mask(rng, mask)
    return Example(
        lambda x: ag.masked_fill(x, filled, -1.5), [draw.uniform(rng, x)], lambda x: ag.where(filled, -1.5, x)
    )


@register("MaskedFill", "with a Tensor")
def _(rng):
    x, mask = draw.broadcastable(rng)
    filled = draw.mask(rng, mask)
    return Example(
        lambda x, value: ag.masked_fill(x, filled, value), [draw.uniform(rng, x), draw.uniform(rng, ())],
        lambda x, value: ag.where(filled, value, x),
    )  # fmt: skip


@register("MaskedFill", "with minus infinity, before softmax")
def _(rng):
    shape = draw.shape(rng, min_ndim=1)
    filled = ~draw.attention_mask(rng, shape)
    return Example(lambda x: ag.softmax(ag.masked_fill(x, filled, -math.inf)), [draw.uniform(rng, shape)])
