"""Tools for testing ops of your own: cases, checks and Hypothesis strategies.

    from autograd.testing import Example, cases_for, check_case, draw, register

    @register("Cube", "any shape")
    def _(rng):
        return Example(cube, [draw.uniform(rng, draw.shape(rng))], plain=lambda x: x * x * x)

    for case in cases_for("Cube"):
        check_case(case, np.random.default_rng(0))

`autograd.testing.strategies` needs Hypothesis (`pip install hypothesis`); nothing else here does.
"""

from autograd.testing.case import Case, Example, all_cases, cases_for, register
from autograd.testing.check import Errors, check_case, check_example

__all__ = ["Case", "Errors", "Example", "all_cases", "cases_for", "check_case", "check_example", "register"]
