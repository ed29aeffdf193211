"""An op of your own, proven: gradcheck compares its backward pass with numerical derivatives.

Run it with `python -m examples.own_op` in the project's directory.
"""

import numpy as np

import autograd as ag


class Softplus(ag.Op):
    """y = log(1 + e^x)"""

    def forward(self, x):
        self.save(x)  # what the backward pass needs
        return np.logaddexp(0, x)  # arrays in, arrays out

    def backward(self, g_y):  # the gradient of the loss by y
        (x,) = self.saved
        return g_y / (1 + np.exp(-x))  # by x: the derivative of softplus is the sigmoid


def softplus(x):
    """log(1 + e^x), a smooth relu."""
    return ag.apply(Softplus, x)


class WrongSoftplus(Softplus):
    """The same with a sign error in the derivative."""

    def backward(self, g_y):
        (x,) = self.saved
        return -g_y / (1 + np.exp(-x))


points = np.random.default_rng(0).standard_normal((2, 3))
print("right:", ag.gradcheck(softplus, points))

# The error message names the place, both numbers, and often the cause.
try:
    ag.gradcheck(lambda x: ag.apply(WrongSoftplus, x), points)
except RuntimeError as error:
    print("wrong:", error)

# The op is now as good as any other: part of a larger function, whose gradient is checked the same way.
weights = np.random.default_rng(1).standard_normal((3, 4))
print("in a network:", ag.gradcheck(lambda x, w: softplus(x @ w).sum(axis=1), [points, weights]))
