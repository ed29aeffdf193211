"""Every op, layer and model to check: cases that serve gradients, FLOP counts, the comparison with PyTorch and mutants.

`python -m tests.cases` checks them all; docs/gradient-tables.md is written by it.  The cases of the ops in
autograd/ops/X.py stand in tests/cases/ops/X.py.
"""

from tests.cases import ops  # registers the cases of all ops
from tests.cases.checks import all_cases, cases_for

__all__ = ["all_cases", "cases_for", "ops"]
