"""Ops that treat every element alike, the easiest first."""

from __future__ import annotations

from typing import Any

from autograd.engine import Op, apply
from autograd.tensor import Tensor

# ---- Arithmetic of two arrays (the engine undoes broadcasting) ----


class Add(Op):
    """y = a + b

    Shapes: a [...], b [...] -> y [broadcast]
    """

    broadcasts = True

    def forward(self, a, b):
        return a + b

    def backward(self, g_y):
        return g_y, g_y


def add(a: Any, b: Any) -> Tensor:
    """a + b, element by element, with broadcasting."""
    return apply(Add, a, b)


class Multiply(Op):
    """y = a · b

    Shapes: a [...], b [...] -> y [broadcast]
    Saves:  each factor only where the other one needs a gradient
    """

    broadcasts = True

    def forward(self, a, b):
        needs_a, needs_b = self.needs_gradient
        self.save(a if needs_b else None, b if needs_a else None)
        return a * b

    def backward(self, g_y):
        a, b = self.saved
        needs_a, needs_b = self.needs_gradient
        return g_y * b if needs_a else None, g_y * a if needs_b else None


def multiply(a: Any, b: Any) -> Tensor:
    """a · b, element by element, with broadcasting."""
    return apply(Multiply, a, b)


# ---- Functions of one array ----


class Tanh(Op):
    """y = tanh(x)

    Saves:  y (dy/dx = 1 - y², so x need not be kept)
    """

    def forward(self, x):
        y = self.xp.tanh(x)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        return g_y * (1 - y * y)


def tanh(x: Any) -> Tensor:
    """tanh(x), element by element."""
    return apply(Tanh, x)
