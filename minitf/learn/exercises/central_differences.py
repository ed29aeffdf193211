"""Central differences: the gradient to compare with

A hand-written gradient is compared with differences of the function itself:

    d f / d x_i ≈ (f(x + eps e_i) - f(x - eps e_i)) / (2 eps)

for each element x_i of an array of any shape. The error is of the order of eps²; the one-sided difference (f(x + eps
e_i) - f(x)) / eps has an error of the order of eps, which is too large to tell a wrong gradient from a right one.

Shapes: f maps an array to a number; x float64 of any shape -> the gradient, of x's shape
Source: `autograd/gradcheck/numerical.py`
"""

import numpy as np

from minitf.learn.expect import equal, true, unchanged


def numerical_gradient(f, x, eps=1e-5):
    """The gradient of the number f(x) by each element of x."""
    # solution
    g = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = eps
        g[place] = (f(x + step) - f(x - step)) / (2 * eps)
    return g
    # end


HINTS = (
    "np.ndindex(x.shape) yields the index of each element of an array of any shape, also of a single number.",
    "Change one element at a time, in a copy: the caller's x must be as it was, also while f runs.",
    "Divide by the distance of the two points, 2 * eps.",
)


def _f(x):
    return float((x**3).sum() + 5 * x.flat[0] * x.flat[-1])


def _gradient(x):
    g = 3 * x**2
    g.flat[0] += 5 * x.flat[-1]
    g.flat[-1] += 5 * x.flat[0]
    return g


def check_matrix(answer):
    """f(x) = Σ x³ + 5 x_first · x_last of a matrix"""
    x = np.array([[0.5, -1.0, 2.0], [1.5, 0.0, -0.7]])
    before, right, eps = x.copy(), _gradient(x), 1e-5
    mistakes = {
        "divided by eps where the distance of the two points is 2 eps": 2 * right,
        "a one-sided difference (f(x + eps) - f(x)) / eps: its error is of the order of eps; central differences are "
        "meant": right + eps * 3 * x,
        "the sign is wrong: f(x + eps) comes first": -right,
        "the elements were moved all at once; the gradient needs each alone": np.full_like(x, right.sum()),
        "all elements of a row are moved at once: x[i] is a row of a matrix; np.ndindex gives single elements": (
            np.repeat(right.sum(axis=1, keepdims=True), 3, axis=1)
        ),
    }
    found = answer.numerical_gradient(_f, x, eps)
    unchanged("x", before, x)
    equal("the gradient", found, right, mistakes, tolerance=1e-8)


def check_eps(answer):
    """eps is the one given"""
    x = np.array([2.0])
    found = answer.numerical_gradient(lambda x: float(x[0] ** 3), x, eps=0.1)
    equal("the gradient of x³ with eps=0.1", found, [12.01], {"eps is not used": [12.0]}, tolerance=1e-6)


def check_any_shape(answer):
    """a single number, an array without elements, a transposed matrix"""
    equal(
        "the gradient at a number", answer.numerical_gradient(lambda x: float(x**3), np.array(2.0)), 12, tolerance=1e-8
    )
    true(answer.numerical_gradient(lambda x: 0.0, np.zeros((0, 3))).shape == (0, 3), "x [0, 3] has a gradient [0, 3]")
    x = np.arange(6.0).reshape(2, 3).T
    message = "elements of a transposed matrix are at the wrong places: is reshape(-1) of it a copy?"
    found = answer.numerical_gradient(_f, x)
    equal("the gradient at a transposed matrix", found, _gradient(x), {message: np.zeros(x.shape)}, tolerance=1e-8)
