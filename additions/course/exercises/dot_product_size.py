"""The size of a dot product

q and k have n elements each, all independent, with mean 0 and variance 1. The experiment draws 20,000 such pairs and
measures the standard deviation of q · k, for several n.

Shapes: n, a number -> a number
Source: section 3.2.1 and its footnote 4
"""

import numpy as np

from additions.course.expect import predicted


def prediction(n):
    """The standard deviation of q · k."""
    # solution
    return n**0.5
    # end


HINTS = (
    "q · k is a sum of n products. What are mean and variance of one of them?",
    "Variances of independent numbers add up; standard deviations do not.",
    "The standard deviation is the root of the variance. By which number does attention divide its scores?",
)

MISTAKES = (
    ("that is the variance, or a sum of n standard deviations; the variances add up, and the deviation is their root",
     "n**0.5", "n"),
    ("the sum is not a mean: it grows with n", "n**0.5", "1.0"),
    ("a mean has such a deviation, which falls with n; a sum's grows", "n**0.5", "n**-0.5"),
    ("a product of two numbers of variance 1 has variance 1, not 2", "n**0.5", "(2 * n) ** 0.5"),
)  # fmt: skip


def check_prediction(answer):
    """the experiment, for 64, 16 and 400 elements"""
    for n in (64, 16, 400):
        q, k = np.random.default_rng(n).standard_normal((2, 20_000, n))
        predicted(f"the standard deviation for n = {n}", answer.prediction(n), (q * k).sum(axis=1).std(), 0.03)
