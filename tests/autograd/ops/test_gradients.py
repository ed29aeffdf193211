"""Every op: its gradient is its derivative, at examples of all its cases.

Each example is held against central differences, complex steps and, for fused ops, their plain composition.
"""

import numpy as np
import pytest

from autograd import Op
from tests.cases import cases_for
from tests.cases.checks import check_case, check_example

pytestmark = pytest.mark.heavy

OPS = sorted(Op.registry)
MANY = 1000  # examples of each op in the slow test


@pytest.mark.parametrize("op", OPS)
def test_every_case(op):
    """Along one random direction in each input; test_every_op.py is about dtypes and layouts.

    The slow test, and `python -m tests.cases`, take each derivative, and look at other inputs as well.
    """
    for case in cases_for(op):
        example = case.draw(np.random.default_rng(len(case.name)))
        check_example(example, analytic=bool(case.analytic), fast=True, elsewhere=False)


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_many_examples(op):
    seed = np.random.SeedSequence().entropy  # new ones at every run
    cases = cases_for(op)
    for k in range(MANY):
        try:
            check_case(cases[k % len(cases)], np.random.default_rng([seed, k]))
        except Exception as error:
            error.add_note(f"{cases[k % len(cases)]}, np.random.default_rng([{seed}, {k}])")
            raise
