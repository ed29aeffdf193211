"""Tools for testing ops: cases for every op here, and Hypothesis strategies for ops of your own.

    from autograd.testing import cases_for

    for case in cases_for("LayerNorm"):
        function, arrays = case.make(np.random.default_rng(0))
        gradcheck(function, arrays)

`autograd.testing.strategies` needs Hypothesis (`pip install hypothesis`); nothing else here does.
"""

from autograd.testing.case import Case, Example, all_cases, cases_for, register
from autograd.testing.check import Errors, check_case, check_example

__all__ = ["Case", "Errors", "Example", "all_cases", "cases_for", "check_case", "check_example", "register"]
