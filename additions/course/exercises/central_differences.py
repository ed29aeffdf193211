"""Central differences: the gradient to compare with

A hand-written gradient is compared with differences of the function itself:

    d f / d x_i ≈ (f(x + eps e_i) - f(x - eps e_i)) / (2 eps)

for each element x_i of an array of any shape. The error is of the order of eps²; the one-sided difference (f(x + eps
e_i) - f(x)) / eps has an error of the order of eps, which is too large to tell a wrong gradient from a right one.

Shapes: f maps an array to a number; x float64 of any shape -> the gradient, of x's shape
Source: `autograd/gradcheck/numerical.py`
"""

import numpy as np

from additions.course.expect import equal, true, unchanged


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

MISTAKES = (
    ("a one-sided difference (f(x + eps) - f(x)) / eps: its error is of the order of eps; central differences "
     "are meant", "(f(x + step) - f(x - step)) / (2 * eps)", "(f(x + step) - f(x)) / eps"),
    ("the elements were moved all at once; the gradient needs each alone", "step[place]", "step[...]"),
    ("all elements of a row are moved at once: x[i] is a row of a matrix; np.ndindex gives single elements",
     "step[place]", "step[place[:1]]"),
    ("eps is not used", "step[place] = eps", "step[place] = eps = 1e-5"),
    ("elements of a transposed matrix are at the wrong places: is reshape(-1) of it a copy?", "g[place] = (",
     "g.reshape(-1)[np.ravel_multi_index(place, x.shape) if place else 0] = ("),
)  # fmt: skip


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
    before = x.copy()
    found = answer.numerical_gradient(_f, x, 1e-5)
    unchanged("x", before, x)
    equal("the gradient", found, _gradient(x), tolerance=1e-8)


def check_eps(answer):
    """eps is the one given"""
    found = answer.numerical_gradient(lambda x: float(x[0] ** 3), np.array([2.0]), eps=0.1)
    equal("the gradient of x³ with eps=0.1", found, [12.01], tolerance=1e-6)


def check_any_shape(answer):
    """a single number, an array without elements, a transposed matrix"""
    found = answer.numerical_gradient(lambda x: float(x**3), np.array(2.0))
    equal("the gradient at a number", found, 12, tolerance=1e-8)
    true(answer.numerical_gradient(lambda x: 0.0, np.zeros((0, 3))).shape == (0, 3), "x [0, 3] has a gradient [0, 3]")
    x = np.arange(6.0).reshape(2, 3).T
    equal("the gradient at a transposed matrix", answer.numerical_gradient(_f, x), _gradient(x), tolerance=1e-8)
