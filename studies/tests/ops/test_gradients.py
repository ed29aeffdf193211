"""The gradients of the ops that were added from outside."""

import numpy as np
import pytest

from studies.tests.ops import cases  # noqa: F401  (registers them)
from studies.tests.ops.cases.register import CASES
from tests.cases.checks import check_case, check_example


def test_every_op_has_cases():
    assert {case.op for case in CASES} == {"AdditiveAttention", "GRU", "LocalAttention"}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case):
    example = case.draw(np.random.default_rng(len(case.name)))
    check_example(example, analytic=bool(case.analytic), fast=True, elsewhere=False)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_derivative(case):
    check_case(case, np.random.default_rng(len(case.name)))
