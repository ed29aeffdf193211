"""Tools for testing ops: cases for every op here, and Hypothesis strategies for ops of your own.

    from autograd.testing import cases_for

    for case in cases_for("LayerNorm"):
        function, arrays = case.make(np.random.default_rng(0))
        gradcheck(function, arrays)

`autograd.testing.strategies` needs Hypothesis (`pip install hypothesis`); nothing else here does.
"""

from autograd.testing.case import Case, Example, all_cases, cases_for, register

__all__ = ["Case", "Example", "all_cases", "cases_for", "register"]
