"""An op of your own, proven: gradcheck compares its backward pass with numerical derivatives.

Run it with `python -m examples.own_op` in the project's directory.
"""

import numpy as np

import autograd as ag


class Softplus(ag.Op):
    """y = log(1 + e^x)"""

    reads = "x"  # the arrays that backward reads: the graph keeps these

    @staticmethod
    def forward(xp, x):  # arrays in, arrays out; xp is numpy, or cupy on a GPU
        return xp.logaddexp(0, x)

    @staticmethod
    def backward(xp, g, y, x):  # g: the gradient of the loss by y
        return g / (1 + xp.exp(-x))  # by x: the derivative of softplus is the sigmoid


def softplus(x):
    """log(1 + e^x), a smooth relu."""
    return ag.apply(Softplus, x)


class SavingSoftplus(ag.Op):
    """The same with methods, which keep what they like: here the slope."""

    def forward(self, x):
        self.save(1 / (1 + np.exp(-x)))
        return np.logaddexp(0, x)

    def backward(self, g_y):
        (slope,) = self.saved
        return g_y * slope


class WrongSoftplus(Softplus):
    @staticmethod
    def backward(xp, g, y, x):
        return -g / (1 + xp.exp(-x))  # a sign error


points = np.random.default_rng(0).standard_normal((2, 3))
print("right:", ag.gradcheck(softplus, points))
print("right:", ag.gradcheck(lambda x: ag.apply(SavingSoftplus, x), points))

# The error message names the place, both numbers, and often the cause.
try:
    ag.gradcheck(lambda x: ag.apply(WrongSoftplus, x), points)
except RuntimeError as error:
    print("wrong:", error)

# The op is now as good as any other: part of a larger function, whose gradient is checked the same way.
weights = np.random.default_rng(1).standard_normal((3, 4))
print("in a network:", ag.gradcheck(lambda x, w: softplus(x @ w).sum(axis=1), [points, weights]))
