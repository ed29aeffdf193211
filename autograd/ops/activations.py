"""Activation functions, element by element."""

from __future__ import annotations

import math
from typing import Any, Literal

from autograd.backend import is_floating
from autograd.engine import Op, apply
from autograd.ops.arguments import keep_bfloat16
from autograd.ops.flops import per_output
from autograd.tensor import Tensor, TensorLike


class Relu(Op):
    """y = max(x, 0)

    Saves:  y (x > 0 exactly where y > 0; the next layer saves y anyway)
    """

    flops = per_output(1, 1)

    def forward(self, x):
        y = self.backend.relu(x if hasattr(x, "dtype") else self.xp.asarray(x))
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return self.backend.relu_backward(g_y, y)


def relu(x: TensorLike) -> Tensor:
    """max(x, 0), element by element; the gradient at 0 is 0.

    NaN stays NaN, with gradient 0 (PyTorch passes the incoming gradient on): backward sees the result alone, and NaN is
    not above 0.
    """
    return apply(Relu, x)


class Tanh(Op):
    """y = tanh(x)

    Saves:  y (dy/dx = 1 - y², so x need not be kept)
    """

    flops = per_output(1, 3)

    def forward(self, x):
        y = self.xp.tanh(x)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return g_y * (1 - y * y)


def tanh(x: TensorLike) -> Tensor:
    """tanh(x), element by element."""
    return apply(Tanh, x)


def _sigmoid(xp: Any, x: Any) -> Any:
    """1 / (1 + exp(-x)) from exp(-|x|), which cannot overflow."""
    small = xp.exp(-xp.abs(x))
    y = xp.maximum(small, xp.greater_equal(x, 0)) / (1 + small)  # the numerator is 1 for x ≥ 0, else small
    return keep_bfloat16(y, x)


class Sigmoid(Op):
    """y = 1 / (1 + exp(-x))

    Saves:  y (dy/dx = y · (1 - y))
    """

    flops = per_output(5, 3)

    def forward(self, x):
        y = _sigmoid(self.xp, x)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return g_y * y * (1 - y)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)), element by element, for any x without overflow."""
    return apply(Sigmoid, x)


class Softplus(Op):
    """y = ln(1 + exp(x)) = max(x, 0) + ln(1 + exp(-|x|)), which cannot overflow

    Saves:  x (dy/dx = sigmoid(x))
    """

    flops = per_output(6, 6)

    def forward(self, x):
        xp = self.xp
        self.save(x)
        return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))

    def backward(self, g_y):
        (x,) = self.saved
        return g_y * _sigmoid(self.xp, x)


def softplus(x: TensorLike) -> Tensor:
    """ln(1 + exp(x)), element by element, for any x without overflow."""
    return apply(Softplus, x)


# ---- x times a smooth step from 0 to 1 ----
#
# Each saves its derivative, which the forward pass computes (and counts): one array instead of x, and the step is not
# computed again.  `inside` is x bounded to where the step is neither 0 nor 1: for infinite x, ∞ · 0 would be NaN.


class Silu(Op):
    """y = x · σ(x), with σ the sigmoid

    Saves:  dy/dx = σ · (1 + x · (1 - σ))
    """

    flops = per_output(10, 1)

    def forward(self, x):
        xp = self.xp
        step = _sigmoid(xp, x)
        if self.needs_gradient[0]:
            inside = xp.clip(x, -1000, 1000)
            self.save(step * (1 + inside * (1 - step)))
        return keep_bfloat16(xp.maximum(x, -1000) * step, x)

    def backward(self, g_y):
        (slope,) = self.saved
        return g_y * slope


def silu(x: TensorLike) -> Tensor:
    """x · sigmoid(x), element by element; also called swish.

    At -∞, the result and the gradient are 0, their limits (PyTorch gives NaN); at NaN, both are NaN, as in PyTorch.
    """
    return apply(Silu, x)


class Gelu(Op):
    """y = x · Φ(x), with Φ the distribution function of the normal distribution

    Saves:  dy/dx = Φ + x · φ, with φ the density
    """

    flops = per_output(64, 1)  # a polynomial of 26 terms

    def forward(self, x):
        xp = self.xp
        x = xp.asarray(x)
        wide = x if x.dtype in (xp.float32, xp.float64) else x.astype(xp.result_type(x, xp.float32))
        density, step = self.backend.normal_distribution(wide)
        dtype = x.dtype if is_floating(x.dtype) else wide.dtype
        if self.needs_gradient[0]:
            density *= xp.clip(wide, -40, 40)
            density += step
            self.save(density.astype(dtype, copy=False))
        step *= xp.maximum(wide, -40)
        return step.astype(dtype, copy=False)

    def backward(self, g_y):
        (slope,) = self.saved
        return g_y * slope


class GeluTanh(Op):
    """y = x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2

    Saves:  dy/dx
    """

    flops = per_output(20, 1)

    def forward(self, x):
        xp = self.xp
        x = xp.asarray(x)
        dtype = x.dtype
        if dtype.name == "bfloat16":
            x = x.astype(xp.float32)
        inside = xp.clip(x, -30, 30)  # its cube is within the range of float16, too
        square = inside * inside
        factor = math.sqrt(2 / math.pi)
        tanh = xp.tanh(factor * inside * (1 + 0.044715 * square))
        step = 0.5 * (1 + tanh)
        if self.needs_gradient[0]:
            slope = factor * (1 + 3 * 0.044715 * square)  # of the argument of tanh
            slope = step + 0.5 * inside * (1 - tanh * tanh) * slope
            self.save(slope.astype(dtype) if dtype.name == "bfloat16" else slope)
        y = xp.maximum(x, -30) * step
        return y.astype(dtype) if dtype.name == "bfloat16" else y

    def backward(self, g_y):
        (slope,) = self.saved
        return g_y * slope


def gelu(x: TensorLike, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """x · Φ(x), element by element; approximate="tanh" for the formula with tanh, which differs by up to 5e-4.

    Raises: ValueError for an unknown approximation
    Source: Hendrycks and Gimpel 2016, "Gaussian error linear units (GELUs)"
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu approximate={approximate!r} is not one of 'none', 'tanh'")
    return apply(Gelu if approximate == "none" else GeluTanh, x)
