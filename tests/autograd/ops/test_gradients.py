"""Every op: its gradient is its derivative, at examples of all its cases and at arrays that are computed in blocks.

Each example is held against central differences, complex steps and, for fused ops, their plain composition.
"""

import numpy as np
import pytest

import autograd as ag
from autograd import Op, random
from autograd.testing import Example, check_case, check_example, draw
from tests.cases import cases_for

pytestmark = pytest.mark.heavy

OPS = sorted(Op.registry)
MANY = 1000  # examples of each op in the slow test


@pytest.mark.parametrize("op", OPS)
def test_every_case(op):
    for case in cases_for(op):
        check_case(case, np.random.default_rng(len(case.name)))


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


LARGE = {
    "add": (ag.add, [(300, 300), (300, 1)]),
    "relu": (ag.relu, [(300, 300)]),
    "gelu": (ag.gelu, [(300, 300)]),
    "softmax": (ag.softmax, [(300, 300)]),
    "layer_norm": (ag.layer_norm, [(600, 256), (256,), (256,)]),
    "linear": (ag.linear, [(700, 120), (110, 120), (110,)]),
    "embedding": (lambda w: ag.fast.scaled_embedding(np.arange(4000) * 7 % 500, w, scale=2.0), [(500, 40)]),
    "dropout": (lambda x: (random.manual_seed(1), ag.dropout(x, 0.3))[1], [(300, 300)]),
    "attention": (
        lambda q, k, v: ag.scaled_dot_product_attention(q, k, v, np.arange(90) < 80, is_causal=True),
        [(5, 4, 90, 16), (5, 4, 90, 16), (5, 4, 90, 16)],
    ),
    "cross_entropy": (
        lambda x: ag.cross_entropy(x, np.arange(300) % 7, ignore_index=3, label_smoothing=0.1, reduction="none"),
        [(300, 300)],
    ),
    "sum": (lambda x: ag.sum(x * x, 0), [(400, 300)]),
}


@pytest.mark.parametrize(("function", "shapes"), LARGE.values(), ids=LARGE)
def test_large_arrays(function, shapes):
    rng = np.random.default_rng(0)
    arrays = [draw.away_from(rng, shape) for shape in shapes]
    check_example(Example(function, arrays), analytic=function is not ag.gelu, fast=True)
