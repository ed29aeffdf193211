"""Every op, at random inputs of every kind: its gradient is its derivative.

Each example is held against central differences, complex steps and, for fused ops, their plain composition.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autograd as ag
from autograd import Op, random
from autograd.testing import Example, check_case, check_example, draw
from autograd.testing import strategies as ags
from tests import cases  # noqa: F401 (registers those that `ags.cases` draws)

pytestmark = pytest.mark.heavy

OPS = sorted(Op.registry)
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.differing_executors]}
QUICK = settings(max_examples=2, derandomize=True, **PATIENT)  # the same examples at every run
DEEP = settings(max_examples=1000, database=None, **PATIENT)  # new ones at every run

# ---- Every case of every op ----


@pytest.mark.parametrize("op", OPS)
@QUICK
@given(data=st.data(), rng=ags.rngs())
def test_every_op(op, data, rng, proof):
    proof.add("ops", op, check_case(data.draw(ags.cases(op)), rng))


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
@DEEP
@given(data=st.data(), rng=ags.rngs())
def test_every_op_deep(op, data, rng, proof):
    proof.add("ops", op, check_case(data.draw(ags.cases(op)), rng))


# ---- Arrays so large that they are computed in blocks ----

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
