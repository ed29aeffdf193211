"""Elementwise arithmetic, powers, exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import DTypeLike

from autograd.backend import is_floating
from autograd.engine import Op, apply
from autograd.ops.arguments import keep_bfloat16
from autograd.ops.flops import moves_only, per_output
from autograd.tensor import Tensor, TensorLike

# ---- Arithmetic of two arrays (the engine undoes broadcasting) ----


class Add(Op):
    """y = a + b

    Shapes: a [...], b [...] -> y [broadcast]
    """

    broadcasts = True
    flops = per_output(1, 0)

    def forward(self, a, b):
        return a + b

    def backward(self, g_y):
        return g_y, g_y


def add(a: TensorLike, b: TensorLike) -> Tensor:
    """a + b, element by element, with broadcasting."""
    return apply(Add, a, b)


class Subtract(Op):
    """y = a - b

    Shapes: a [...], b [...] -> y [broadcast]
    """

    broadcasts = True
    flops = per_output(1, 0.5)  # a sign for one of the two

    def forward(self, a, b):
        return a - b

    def backward(self, g_y):
        needs_b = self.needs_gradient[1]
        return g_y, -g_y if needs_b else None


def subtract(a: TensorLike, b: TensorLike) -> Tensor:
    """a - b, element by element, with broadcasting."""
    return apply(Subtract, a, b)


class Multiply(Op):
    """y = a · b

    Shapes: a [...], b [...] -> y [broadcast]
    Saves:  each factor only if the other one needs a gradient
    """

    broadcasts = True
    flops = per_output(1, 1)

    def forward(self, a, b):
        needs_a, needs_b = self.needs_gradient
        self.save(a if needs_b else None, b if needs_a else None)
        return a * b

    def backward(self, g_y):
        a, b = self.saved
        needs_a, needs_b = self.needs_gradient
        return g_y * b if needs_a else None, g_y * a if needs_b else None


def multiply(a: TensorLike, b: TensorLike) -> Tensor:
    """a · b, element by element, with broadcasting."""
    return apply(Multiply, a, b)


class Divide(Op):
    """y = a / b

    Shapes: a [...], b [...] -> y [broadcast]
    Saves:  b, and y if b needs a gradient (dy/db = -y / b does not need a)
    """

    broadcasts = True
    flops = per_output(1, 2)

    def forward(self, a, b):
        y = a / b
        self.save(b, y if self.needs_gradient[1] else None)
        return y

    def backward(self, g_y):
        b, y = self.saved
        needs_a, needs_b = self.needs_gradient
        g_a = g_y / b
        return g_a if needs_a else None, -g_a * y if needs_b else None


def divide(a: TensorLike, b: TensorLike) -> Tensor:
    """a / b, element by element, with broadcasting."""
    return apply(Divide, a, b)


class Negative(Op):
    """y = -x"""

    flops = per_output(1, 1)

    def forward(self, x):
        return self.xp.negative(x)

    def backward(self, g_y):
        return -g_y


def negative(x: TensorLike) -> Tensor:
    """-x, element by element."""
    return apply(Negative, x)


# ---- Powers, exponentials, logarithms ----


class Square(Op):
    """y = x²

    Saves:  x
    """

    flops = per_output(1, 2)

    def forward(self, x):
        self.save(x)
        return self.xp.square(x)

    def backward(self, g_y):
        (x,) = self.saved
        return g_y * 2 * x


def square(x: TensorLike) -> Tensor:
    """x², element by element."""
    return apply(Square, x)


class Exp(Op):
    """y = eˣ

    Saves:  y (dy/dx = y)
    """

    flops = per_output(1, 1)

    def forward(self, x):
        y = self.xp.exp(x)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return g_y * y


def exp(x: TensorLike) -> Tensor:
    """eˣ, element by element."""
    return apply(Exp, x)


class Log(Op):
    """y = ln x

    Saves:  x
    """

    flops = per_output(1, 1)

    def forward(self, x):
        self.save(x)
        return self.xp.log(x)

    def backward(self, g_y):
        (x,) = self.saved
        return g_y / x


def log(x: TensorLike) -> Tensor:
    """ln x, element by element: -inf at 0 and NaN below, with NumPy's warning."""
    return apply(Log, x)


class Log1p(Op):
    """y = ln(1 + x)

    Saves:  x
    """

    flops = per_output(1, 2)

    def forward(self, x):
        self.save(x)
        return self.xp.log1p(x)

    def backward(self, g_y):
        (x,) = self.saved
        return g_y / (1 + x)


def log1p(x: TensorLike) -> Tensor:
    """ln(1 + x), element by element, exact for small x: -inf at -1 and NaN below, with NumPy's warning."""
    return apply(Log1p, x)


class Expm1(Op):
    """y = eˣ - 1

    Saves:  x (not y: y + 1 is 0 for x < -40)
    """

    flops = per_output(1, 2)

    def forward(self, x):
        self.save(x)
        return self.xp.expm1(x)

    def backward(self, g_y):
        (x,) = self.saved
        return g_y * self.xp.exp(x)


def expm1(x: TensorLike) -> Tensor:
    """eˣ - 1, element by element, exact for small x."""
    return apply(Expm1, x)


class Sin(Op):
    """y = sin x

    Saves:  x
    """

    flops = per_output(1, 2)

    def forward(self, x):
        self.save(x)
        return self.xp.sin(x)

    def backward(self, g_y):
        (x,) = self.saved
        return g_y * self.xp.cos(x)


def sin(x: TensorLike) -> Tensor:
    """The sine of x in radians, element by element."""
    return apply(Sin, x)


class Cos(Op):
    """y = cos x

    Saves:  x
    """

    flops = per_output(1, 2)

    def forward(self, x):
        self.save(x)
        return self.xp.cos(x)

    def backward(self, g_y):
        (x,) = self.saved
        return -g_y * self.xp.sin(x)


def cos(x: TensorLike) -> Tensor:
    """The cosine of x in radians, element by element."""
    return apply(Cos, x)


class Erf(Op):
    """y = 2/√π · ∫ exp(-t²) from 0 to x

    Saves:  x
    """

    flops = per_output(90, 4)  # two polynomials, of 26 and 21 terms

    def forward(self, x):
        xp = self.xp
        x = xp.asarray(x)
        self.save(x)
        wide = x if x.dtype in (xp.float32, xp.float64) else x.astype(xp.result_type(x, xp.float32))
        return self.backend.erf(wide).astype(x.dtype if is_floating(x.dtype) else wide.dtype, copy=False)

    def backward(self, g_y):
        (x,) = self.saved
        return g_y * self.xp.exp(-x * x) * (2 / math.sqrt(math.pi))


def erf(x: TensorLike) -> Tensor:
    """The error function, element by element: 2/√π · ∫ exp(-t²) from 0 to x."""
    return apply(Erf, x)


class Sqrt(Op):
    """y = √x

    Saves:  y (dy/dx = 1 / 2y)
    """

    flops = per_output(1, 2)

    def forward(self, x):
        y = self.xp.sqrt(x)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return g_y / (2 * y)


def sqrt(x: TensorLike) -> Tensor:
    """√x, element by element; its gradient at 0 is infinite."""
    return apply(Sqrt, x)


class Reciprocal(Op):
    """y = 1 / x

    Saves:  y (dy/dx = -y²)
    """

    flops = per_output(1, 3)

    def forward(self, x):
        y = keep_bfloat16(1 / x, x)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return -g_y * y * y


def reciprocal(x: TensorLike) -> Tensor:
    """1 / x, element by element."""
    return apply(Reciprocal, x)


class Power(Op):
    """y = aᵇ

    Shapes: a [...], b [...] -> y [broadcast]
    Saves:  a and b, and y if b needs a gradient (dy/da = b · aᵇ⁻¹, dy/db = y · ln a)
    """

    broadcasts = True
    flops = per_output(1, 4)

    def forward(self, a, b):
        y = a**b
        self.save(a, b, y if self.needs_gradient[1] else None)
        return y

    def backward(self, g_y):
        a, b, y = self.saved
        needs_a, needs_b = self.needs_gradient
        return self._g_base(g_y, a, b) if needs_a else None, self._g_exponent(g_y, a, b, y) if needs_b else None

    def _g_base(self, g_y, a, b):
        if isinstance(b, (int, float)):
            return g_y * (b * a ** (b - 1)) if b != 0 else self.xp.zeros_like(g_y)
        # a⁰ is 1 everywhere, so its derivative is 0, also at a = 0 where the formula says 0 · ∞
        return self.backend.keep_where(g_y * (b * a ** (b - 1)), b != 0)

    def _g_exponent(self, g_y, a, b, y):
        xp = self.xp
        a = xp.asarray(a, dtype=y.dtype)
        slope = y * xp.log(a)
        # 0ᵇ is 0 for all b > 0, so its derivative is 0, where the formula says 0 · ∞; at b = 0 it jumps: 0 as well
        return self.backend.keep_where(g_y * slope, (a != 0) | (b < 0))


def power(a: TensorLike, b: TensorLike) -> Tensor:
    """aᵇ, element by element, with broadcasting; differentiable in both.

    Where the formulas have no value: a⁰ has slope 0 in a, also at a = 0; 0ᵇ has slope 0 in b for b ≥ 0.  For a negative
    a, b must be integral, and its gradient is NaN: aᵇ is not real in its neighbourhood.
    """
    if isinstance(b, (int, float)) and b in _CHEAP and _is_floating(a):
        return _CHEAP[b](a)
    return apply(Power, a, b)


_CHEAP = {2: square, 0.5: sqrt, -1: reciprocal}  # exponents with an op of their own


def _is_floating(a: Any) -> bool:
    return hasattr(a, "dtype") and a.dtype.kind == "f"


# ---- Copies, other precision ----


class Clone(Op):
    """y = x, in memory of its own"""

    flops = moves_only

    def forward(self, x):
        return self.xp.array(x)

    def backward(self, g_y):
        return g_y


def clone(x: TensorLike) -> Tensor:
    """A copy of x, through which gradients flow; `x.detach()` shares memory and has no graph."""
    return apply(Clone, x)


class AsType(Op):
    """y = x in another dtype; the engine casts the gradient back to the dtype of x"""

    flops = moves_only

    def forward(self, x, *, dtype):
        return self.xp.asarray(x).astype(dtype, copy=False)

    def backward(self, g_y):
        return g_y


def astype(x: TensorLike, dtype: DTypeLike) -> Tensor:
    """x as `dtype`, not copied if it has this dtype.  An integer result carries no gradient."""
    return apply(AsType, x, dtype=dtype)
