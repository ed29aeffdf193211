"""Activations that grow like x on the right, and the error function, which NumPy lacks: element by element."""

from __future__ import annotations

import math
from typing import Any, Literal

from autograd.backend import keep_bfloat16, widened
from autograd.engine import Op, apply, evaluate
from autograd.ops.arithmetic import multiply
from autograd.ops.choose import where
from autograd.ops.elementwise import Sigmoid
from autograd.tensor import Tensor, TensorLike, tensors

Array = Any


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


def leaky_relu(x: TensorLike, negative_slope: float = 0.01) -> Tensor:
    """x where x > 0, else negative_slope · x, element by element; the gradient at 0 is `negative_slope`."""
    (x,) = tensors(x=x)
    return where(x > 0, x, multiply(x, negative_slope))


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


# ---- The error function and the normal distribution, from NumPy's elementary functions ----


class Erf(Op):
    """y = 2/√π · ∫ exp(-t²) from 0 to x: a power series for |x| < 1, 1 - erfc(|x|) above"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        x, dtype = widened(xp.asarray(x))
        z = xp.minimum(xp.abs(x), 40)  # at its limit, and ∞ would make NaNs below
        tail = _polynomial(xp, _FLOAT32 if x.dtype == xp.float32 else _FLOAT64, 1 - 7.5 / (z + 3.75))
        tail *= xp.exp(-z * z) / (1 + 2 * z)  # erfc(z)
        inside = xp.minimum(z, 1)
        y = xp.where(z < 1, x * _polynomial(xp, _ERF_SERIES, inside * inside), xp.copysign(1 - tail, x))
        return y.astype(dtype, copy=False)

    @staticmethod
    def backward(xp, g, y, x):
        return g * xp.exp(-x * x) * (2 / math.sqrt(math.pi))


def erf(x: TensorLike) -> Tensor:
    """The error function, element by element: 2/√π · ∫ exp(-t²) from 0 to x."""
    return apply(Erf, x)


# (1 + 2z) · exp(z²) · erfc(z) for all z ≥ 0 as a polynomial in t = (z - 3.75) / (z + 3.75), highest power first:
# interpolation at the Chebyshev nodes, computed with 60 digits.
# Source: M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x²) erfc x in 0 ≤ x < ∞",
# Mathematics of Computation 36 (1981), 249-253
_FLOAT64 = (
    -3.7980647235900285e-11, 4.2433038251096756e-10, 5.485084520083625e-10, -5.169080644815932e-09,
    -4.396921916762906e-09, 3.866242066283792e-08, 2.4301839484503084e-08, -2.586489910718322e-07,
    -5.827501862768691e-08, 1.7516189406943677e-06, -9.728413451815077e-07, -1.1444134389658475e-05,
    2.238390827660038e-05, 5.1649093885821704e-05, -0.0002901539781378384, 0.0002937136669846131,
    0.0017556258321915355, -0.009746579558275152, 0.02836227742154398, -0.05869339858961116,
    0.09230432116019638, -0.10880393014175023, 0.08227673849015109, 0.0035854154854644583,
    -0.14024059858554702, 1.2375126308378275,
)  # fmt: skip
_FLOAT32 = (
    1.8780736285192822e-05, 2.1987965983870166e-05, -0.0002851543388991308, 0.00033034420935822574,
    0.001752209498690462, -0.009770286714565772, 0.028363473790408853, -0.05868533658608146,
    0.09230412174644181, -0.10880525203898243, 0.08227675095346368, 0.0035854974289632052,
    -0.1402405987127234, 1.2375126300030113,
)  # fmt: skip


def normal_distribution(xp: Any, x: Array) -> tuple[Array, Array]:
    """The density φ(x) = exp(-x²/2) / √(2π) and the distribution Φ(x) = ∫ φ up to x = erfc(-x/√2) / 2.

    Accurate to a few roundings, relative to the larger of Φ(x) and 1 - Φ(x); the small one loses what rounding x²
    costs, a factor of 1 + x².  One formula serves all x, because choosing formulas by masks takes longer than any.

    Shapes: x [...], float32 or float64 -> [...], [...] in the same dtype
    """
    z = xp.minimum(xp.abs(x), 40)  # both are at their limits, and ∞ would make NaNs below
    z = z * math.sqrt(0.5)
    density = xp.exp(-z * z)
    tail = _polynomial(xp, _FLOAT32 if x.dtype == xp.float32 else _FLOAT64, 1 - 7.5 / (z + 3.75))
    tail /= 2 + 4 * z
    tail *= density  # erfc(z) / 2 = 1 - Φ(|x|)
    density *= 1 / math.sqrt(2 * math.pi)
    return density, tail + (1 - 2 * tail) * (x >= 0)  # Φ is the tail for x < 0, else 1 - tail


_ERF_SERIES = tuple(
    [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(20, -1, -1)]
)  # erf(x) / x in powers of x², highest first


def _polynomial(xp: Any, coefficients: tuple[float, ...], t: Array) -> Array:
    """Σ coefficients · powers of t, by Horner's rule, in place."""
    value = xp.full(t.shape, coefficients[0], t.dtype)
    for coefficient in coefficients[1:]:
        value *= t
        value += coefficient
    return value
