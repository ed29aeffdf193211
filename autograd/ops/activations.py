"""The nonlinearities of neural networks, element by element."""

from __future__ import annotations

from typing import Any

from autograd.engine import Op, apply
from autograd.tensor import Tensor


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


class Relu(Op):
    """y = max(x, 0)

    Saves:  y (x > 0 exactly where y > 0; the layer that follows keeps y anyway)
    """

    def forward(self, x):
        y = self.xp.maximum(x, 0)
        self.save(y)
        return y

    def backward(self, g_y):
        (y,) = self.saved
        # not g_y * (y > 0): an infinite gradient times 0 would be NaN
        return self.xp.where(y <= 0, 0, g_y)


def relu(x: Any) -> Tensor:
    """max(x, 0), element by element; the gradient at 0 is 0."""
    return apply(Relu, x)
