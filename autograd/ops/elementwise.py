"""Functions of each element: activations, powers, exponentials, logarithms, copies in another precision."""

from __future__ import annotations

import math

from numpy.typing import DTypeLike

from autograd.backend import keep_bfloat16, keep_where
from autograd.engine import Op, apply
from autograd.ops.arithmetic import divide
from autograd.tensor import Tensor, TensorLike, attach

# ---- Activations ----


class Tanh(Op):
    """y = tanh(x)"""

    reads = "y"

    @staticmethod
    def forward(xp, x):
        return xp.tanh(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g * (1 - y * y)


def tanh(x: TensorLike) -> Tensor:
    """tanh(x), element by element."""
    return apply(Tanh, x)


class Sigmoid(Op):
    """y = 1 / (1 + exp(-x)), computed from exp(-|x|), which cannot overflow"""

    reads = "y"

    @staticmethod
    def forward(xp, x):
        small = xp.exp(-xp.abs(x))
        y = xp.maximum(small, xp.greater_equal(x, 0)) / (1 + small)  # the numerator is 1 for x ≥ 0, else small
        return keep_bfloat16(y, x)

    @staticmethod
    def backward(xp, g, y, x):
        return g * y * (1 - y)


def sigmoid(x: TensorLike) -> Tensor:
    """1 / (1 + exp(-x)), element by element, for any x without overflow."""
    return apply(Sigmoid, x)


# ---- Powers, exponentials, logarithms ----


class Square(Op):
    """y = x²"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return xp.square(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g * 2 * x


def square(x: TensorLike) -> Tensor:
    """x², element by element."""
    return apply(Square, x)


class Exp(Op):
    """y = eˣ"""

    reads = "y"

    @staticmethod
    def forward(xp, x):
        return xp.exp(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g * y


def exp(x: TensorLike) -> Tensor:
    """eˣ, element by element."""
    return apply(Exp, x)


class Log(Op):
    """y = ln x"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return xp.log(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g / x


def log(x: TensorLike) -> Tensor:
    """ln x, element by element: -inf at 0 and NaN below, with NumPy's warning."""
    return apply(Log, x)


class Log1p(Op):
    """y = ln(1 + x)"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return xp.log1p(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g / (1 + x)


def log1p(x: TensorLike) -> Tensor:
    """ln(1 + x), element by element, exact for small x: -inf at -1 and NaN below, with NumPy's warning."""
    return apply(Log1p, x)


class Expm1(Op):
    """y = eˣ - 1"""

    reads = "x"  # not y: y + 1 is 0 for x < -40

    @staticmethod
    def forward(xp, x):
        return xp.expm1(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g * xp.exp(x)


def expm1(x: TensorLike) -> Tensor:
    """eˣ - 1, element by element, exact for small x."""
    return apply(Expm1, x)


class Sin(Op):
    """y = sin x"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return xp.sin(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g * xp.cos(x)


def sin(x: TensorLike) -> Tensor:
    """The sine of x in radians, element by element."""
    return apply(Sin, x)


class Cos(Op):
    """y = cos x"""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return xp.cos(x)

    @staticmethod
    def backward(xp, g, y, x):
        return -g * xp.sin(x)


def cos(x: TensorLike) -> Tensor:
    """The cosine of x in radians, element by element."""
    return apply(Cos, x)


class Sqrt(Op):
    """y = √x"""

    reads = "y"

    @staticmethod
    def forward(xp, x):
        return xp.sqrt(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g / (2 * y)


def sqrt(x: TensorLike) -> Tensor:
    """√x, element by element; its gradient at 0 is infinite."""
    return apply(Sqrt, x)


class Reciprocal(Op):
    """y = 1 / x"""

    reads = "y"

    @staticmethod
    def forward(xp, x):
        return keep_bfloat16(1 / x, x)

    @staticmethod
    def backward(xp, g, y, x):
        return -g * y * y


def reciprocal(x: TensorLike) -> Tensor:
    """1 / x, element by element."""
    return apply(Reciprocal, x)


class Power(Op):
    """y = aᵇ"""

    broadcasts = True
    reads = ("a b", "a b y")

    @staticmethod
    def forward(xp, a, b):
        return a**b

    @staticmethod
    def backward(xp, g, y, a, b):
        def g_a():  # a⁰ is 1 everywhere, so its slope is 0, also at a = 0, where a⁻¹ would say 0 · ∞
            return keep_where(xp, g * (b * a ** (b - (b != 0))), xp.asarray(b) != 0)

        def g_b():  # 0ᵇ is 0 for all b > 0, so its slope is 0, where the formula says 0 · ∞; it jumps at b = 0: 0 too
            base = xp.asarray(a, dtype=y.dtype)
            counts = xp.logical_or(base != 0, xp.less(b, 0))
            return keep_where(xp, g * (y * xp.log(xp.where(counts, base, 1))), counts)

        return g_a, g_b


def power(a: TensorLike, b: TensorLike) -> Tensor:
    """aᵇ, element by element, with broadcasting; differentiable in both.

    Where the formulas have no value: a⁰ has slope 0 in a, also at a = 0; 0ᵇ has slope 0 in b for b ≥ 0.  For a negative
    a, b must be integral, and its gradient is NaN: aᵇ is not real in its neighbourhood.
    """
    if isinstance(b, (int, float)) and b in _CHEAP and hasattr(a, "dtype") and a.dtype.kind == "f":
        return _CHEAP[b](a)
    return apply(Power, a, b)


_CHEAP = {2: square, 0.5: sqrt, -1: reciprocal}  # exponents with an op of their own


def tan(x: TensorLike) -> Tensor:
    """sin(x) / cos(x), element by element."""
    return divide(sin(x), cos(x))


def log2(x: TensorLike) -> Tensor:
    """The logarithm to the base 2, element by element: ln(x) / ln(2)."""
    return divide(log(x), math.log(2))


# ---- Copies, other precision ----


class Clone(Op):
    """y = x, in memory of its own"""

    @staticmethod
    def forward(xp, x):
        return xp.array(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g


def clone(x: TensorLike) -> Tensor:
    """A copy of x, through which gradients flow; `x.detach()` shares memory and has no graph."""
    return apply(Clone, x)


class AsType(Op):
    """y = x in another dtype; the engine casts the gradient back to the dtype of x"""

    @staticmethod
    def forward(xp, x, *, dtype):
        return xp.asarray(x).astype(dtype, copy=False)

    @staticmethod
    def backward(xp, g, y, x, *, dtype):
        return g


def astype(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """x as `dtype`, not copied if it has this dtype.  An integer result carries no gradient."""
    return apply(AsType, x, dtype=dtype)


def _astype(x: Tensor, dtype: DTypeLike, copy: bool = False) -> Tensor:
    x = clone(x) if copy else x
    return x if x.dtype == dtype else astype(x, dtype)


attach(__pow__=power, __rpow__=lambda x, other: power(other, x), copy=clone, astype=_astype)
