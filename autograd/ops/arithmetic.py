"""Arithmetic: the engine sums the gradient over the axes along which an input was broadcast."""

from __future__ import annotations

from autograd.engine import Op, apply
from autograd.tensor import Tensor, TensorLike, attach


class Add(Op):
    """y = a + b"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a + b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g, g


def add(a: TensorLike, b: TensorLike) -> Tensor:
    """a + b, element by element, with broadcasting."""
    return apply(Add, a, b)


class Subtract(Op):
    """y = a - b"""

    broadcasts = True

    @staticmethod
    def forward(xp, a, b):
        return a - b

    @staticmethod
    def backward(xp, g, y, a, b):
        return g, lambda: -g


def subtract(a: TensorLike, b: TensorLike) -> Tensor:
    """a - b, element by element, with broadcasting."""
    return apply(Subtract, a, b)


class Multiply(Op):
    """y = a · b"""

    broadcasts = True
    reads = ("b", "a")

    @staticmethod
    def forward(xp, a, b):
        return a * b

    @staticmethod
    def backward(xp, g, y, a, b):
        return lambda: g * b, lambda: g * a


def multiply(a: TensorLike, b: TensorLike) -> Tensor:
    """a · b, element by element, with broadcasting."""
    return apply(Multiply, a, b)


class Divide(Op):
    """y = a / b"""

    broadcasts = True
    reads = ("b", "y b")

    @staticmethod
    def forward(xp, a, b):
        return a / b

    @staticmethod
    def backward(xp, g, y, a, b):
        return lambda: g / b, lambda: -g / b * y


def divide(a: TensorLike, b: TensorLike) -> Tensor:
    """a / b, element by element, with broadcasting."""
    return apply(Divide, a, b)


class Negative(Op):
    """y = -x"""

    @staticmethod
    def forward(xp, x):
        return xp.negative(x)

    @staticmethod
    def backward(xp, g, y, x):
        return -g


def negative(x: TensorLike) -> Tensor:
    """-x, element by element."""
    return apply(Negative, x)


attach(
    __add__=add,
    __radd__=lambda x, other: add(other, x),
    __sub__=subtract,
    __rsub__=lambda x, other: subtract(other, x),
    __mul__=multiply,
    __rmul__=lambda x, other: multiply(other, x),
    __truediv__=divide,
    __rtruediv__=lambda x, other: divide(other, x),
    __neg__=negative,
    __pos__=lambda x: x,
)
