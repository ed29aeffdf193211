"""Activations that grow like x on the right: softplus, silu and gelu, element by element."""

from __future__ import annotations

import math
from typing import Literal

from autograd.backend import keep_bfloat16, widened
from autograd.engine import Op, apply, evaluate
from autograd.ops.elementwise import Sigmoid, erf
from autograd.ops.special import normal_distribution
from autograd.tensor import Tensor, TensorLike


class Softplus(Op):
    """y = ln(1 + exp(x)) = max(x, 0) + ln(1 + exp(-|x|)), which cannot overflow"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))

    @staticmethod
    def backward(xp, g, y, x):
        return g * evaluate(Sigmoid, xp, x)


def softplus(x: TensorLike) -> Tensor:
    """ln(1 + exp(x)), element by element, for any x without overflow."""
    return apply(Softplus, x)


# ---- x times a smooth step from 0 to 1 ----
#
# x is bounded to where the step is neither 0 nor 1: for infinite x, ∞ · 0 would be NaN.


class Silu(Op):
    """y = x · σ(x), with σ the sigmoid"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return keep_bfloat16(xp.maximum(x, -1000) * Sigmoid.forward(xp, x), x)

    @staticmethod
    def backward(xp, g, y, x):
        step, inside = evaluate(Sigmoid, xp, x), xp.clip(x, -1000, 1000)
        return g * (step * (1 + inside * (1 - step)))


def silu(x: TensorLike) -> Tensor:
    """x · sigmoid(x), element by element; also called swish.

    At -∞, the result and the gradient are 0, their limits (PyTorch gives NaN); at NaN, both are NaN, as in PyTorch.
    """
    return apply(Silu, x)


class Gelu(Op):
    """y = x · Φ(x), with Φ the distribution function of the normal distribution"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        x, dtype = widened(xp.asarray(x))
        _, distribution = normal_distribution(xp, x)
        return (distribution * xp.maximum(x, -40)).astype(dtype, copy=False)

    @staticmethod
    def backward(xp, g, y, x):
        x, dtype = widened(x)
        if isinstance(x, Tensor):  # recorded: the polynomial of `normal_distribution` is not what is differentiated
            density, distribution = xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi), 0.5 + 0.5 * erf(math.sqrt(0.5) * x)
        else:
            density, distribution = normal_distribution(xp, x)
        slope = distribution + density * xp.clip(x, -40, 40)
        return g * slope.astype(dtype, copy=False)


class GeluTanh(Op):
    """y = x · (1 + tanh(z)) / 2 = x · σ(2z), z = √(2/π) · (x + 0.044715 x³); in 1 + tanh(z), digits would cancel"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        x, dtype = widened(xp.asarray(x))
        _, step, _ = GeluTanh.parts(xp, x)
        return (xp.maximum(x, -30) * step).astype(dtype, copy=False)

    @staticmethod
    def backward(xp, g, y, x):
        x, dtype = widened(x)
        inside, step, slope = GeluTanh.parts(xp, x)
        slope = step + inside * step * (1 - step) * slope
        return g * slope.astype(dtype, copy=False)

    @staticmethod
    def parts(xp, x):
        """x bounded to ±30, the sigmoid, and the slope of its argument."""
        inside, factor = xp.clip(x, -30, 30), 2 * math.sqrt(2 / math.pi)
        square = inside * inside
        argument = factor * inside * (1 + 0.044715 * square)
        low, high = xp.exp(xp.minimum(argument, 0)), xp.exp(-xp.maximum(argument, 0))
        return inside, low / (low + high), factor * (1 + 3 * 0.044715 * square)


def gelu(x: TensorLike, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """x · Φ(x), element by element; approximate="tanh" for the formula with tanh, which differs by up to 5e-4.

    Raises: ValueError for an unknown approximation
    Source: Hendrycks and Gimpel 2016, "Gaussian error linear units (GELUs)"
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu approximate={approximate!r} is not one of 'none', 'tanh'")
    return apply(Gelu if approximate == "none" else GeluTanh, x)
