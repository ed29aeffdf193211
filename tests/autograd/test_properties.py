"""Every op, at random inputs of every kind: its gradient is its derivative.

Each example is held against central differences, complex steps and, for fused ops, their plain composition.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autograd as ag
from autograd import Op, Tensor, random
from autograd.testing import Example, check_case, check_example, draw
from autograd.testing import strategies as ags
from tests import cases  # noqa: F401 (registers those that `ags.cases` draws)

pytestmark = pytest.mark.heavy

OPS = sorted(Op.registry)
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.differing_executors]}
QUICK = settings(max_examples=2, derandomize=True, **PATIENT)  # the same examples at every run
SOME = settings(max_examples=6, derandomize=True, **PATIENT)
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


# ---- Where the arrays lie in memory ----


def gradients(function, arrays, cotangents=None, seed=0):
    """Outputs of the function at the arrays as they lie, the cotangents used, and the gradients."""
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    outputs = function(*leaves)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    if cotangents is None:
        rng = np.random.default_rng(seed)
        cotangents = [np.asarray(rng.standard_normal(y.shape)) for y in outputs]
    found = ag.grad(outputs, leaves, cotangents, allow_unused=True)
    return [y.data for y in outputs], cotangents, [None if g is None else g.data for g in found]


@pytest.mark.parametrize("op", OPS)
@QUICK
@given(data=st.data(), rng=ags.rngs())
def test_memory_layout_makes_no_difference(op, data, rng):
    """Inputs and incoming gradients by columns, backwards, with gaps (of NaN) or read-only give the same."""
    function, arrays = data.draw(ags.cases(op)).make(rng)
    plain = [np.array(array, order="C") for array in arrays]
    values, cotangents, expected = gradients(function, plain)
    elsewhere = [data.draw(ags.layouts(array)) for array in plain]
    moved = [data.draw(ags.layouts(cotangent)) for cotangent in cotangents]
    new_values, _, found = gradients(function, elsewhere, moved)
    for a, b in zip([*new_values, *found], [*values, *expected], strict=True):
        if a is None or b is None:
            assert a is b
        else:
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    for a, b in zip([*elsewhere, *moved], [*plain, *cotangents], strict=True):
        np.testing.assert_array_equal(a, b, err_msg="changed in place")


# ---- Shapes that broadcast, axes of every kind, arrays without elements ----

BINARY = {
    "add": (ag.add, {}),
    "subtract": (ag.subtract, {}),
    "multiply": (ag.multiply, {}),
    "divide": (ag.divide, {"away_from": (0,), "low": -3, "high": 3}),
    "power": (ag.power, {"low": 0.3}),
    "maximum": (lambda a, b: ag.maximum(a, b + 0.01), {}),
    "minimum": (lambda a, b: ag.minimum(a, b + 0.01), {}),
    "where": (lambda a, b: ag.where(np.array([True, False, True, False])[: (a.data + b.data).shape[-1]], a, b), {}),
}


@pytest.mark.parametrize(("function", "numbers"), BINARY.values(), ids=BINARY)
@SOME
@given(data=st.data())
def test_broadcasting(function, numbers, data):
    a, b = data.draw(ags.broadcastable_shapes())
    if function is BINARY["where"][0]:
        a, b = (*a, 1), (*b, 4)
    if function in (BINARY["maximum"][0], BINARY["minimum"][0]):
        # multiples of 0.1, so that the sides never come closer than 0.01
        arrays = [np.round(data.draw(ags.arrays(shape)), 1) for shape in (a, b)]
    else:
        arrays = [data.draw(ags.arrays(shape, **numbers)) for shape in (a, b)]
    check_example(Example(function, arrays))


REDUCTIONS = {
    "sum": (ag.sum, False, True),
    "mean": (ag.mean, False, False),
    "var": (lambda x, axis, keepdims: ag.var(x, axis, keepdims=keepdims), False, False),
    "max": (ag.max, True, False),
    "min": (ag.min, True, False),
    "logsumexp": (ag.logsumexp, False, False),
}


@pytest.mark.parametrize(("function", "distinct", "of_nothing"), REDUCTIONS.values(), ids=REDUCTIONS)
@SOME
@given(data=st.data(), keepdims=st.booleans())
def test_axes(function, distinct, of_nothing, data, keepdims):
    shape = data.draw(ags.shapes(min_side=0 if of_nothing else 1))
    axis = data.draw(ags.axes(len(shape)))
    x = data.draw(ags.arrays(shape, distinct=distinct))
    check_example(Example(lambda x: function(x, axis, keepdims), [x]))


@pytest.mark.parametrize("function", [ag.softmax, ag.log_softmax])
@SOME
@given(data=st.data())
def test_softmax_axes(function, data):
    shape = data.draw(ags.shapes(min_ndim=1))
    axis = data.draw(ags.axes(len(shape), none=False, several=False))
    check_example(Example(lambda x: function(x, axis), [data.draw(ags.arrays(shape))]))


@SOME
@given(data=st.data())
def test_indices_that_repeat(data):
    rows = data.draw(st.integers(1, 4))
    x = data.draw(ags.arrays((rows, 2)))
    where = data.draw(ags.indices(rows, negative=True))
    unsigned = data.draw(ags.indices(rows))
    one_hot = np.eye(rows)
    check_example(Example(lambda x: x[where], [x], lambda x: ag.matmul(one_hot[where], x)))
    check_example(Example(lambda x: ag.take(x, where, 0), [x], lambda x: ag.matmul(one_hot[where], x)))
    check_example(Example(lambda x: ag.embedding(unsigned, x), [x], lambda x: ag.matmul(one_hot[unsigned], x)))


@SOME
@given(data=st.data())
def test_boolean_masks(data):
    shape = data.draw(ags.shapes(min_ndim=1))
    mask = data.draw(ags.masks(shape))
    x = data.draw(ags.arrays(shape))
    check_example(Example(lambda x: x[mask], [x]))
    check_example(Example(lambda x: ag.masked_fill(x, mask, 0.5), [x], lambda x: ag.where(mask, 0.5, x)))


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


# ---- What must be zero is exactly zero ----


@SOME
@given(data=st.data(), rng=ags.rngs(), dropout=st.sampled_from([0.0, 0.4]))
def test_attention_gradients_of_what_is_masked_are_zero(data, rng, dropout):
    mask = data.draw(ags.masks((2, 3, 4)))
    q, k, v = (rng.standard_normal((2, n, 2)) for n in (3, 4, 4))
    random.manual_seed(1)

    def attend(q, k, v):
        return ag.scaled_dot_product_attention(q, k, v, mask, dropout=dropout)

    (y,), _, (g_q, g_k, g_v) = gradients(attend, [q, k, v])
    nothing_to_see, unseen = ~mask.any(axis=2), ~mask.any(axis=1)
    assert (y[nothing_to_see] == 0).all()
    assert (g_q[nothing_to_see] == 0).all()
    assert (g_k[unseen] == 0).all()
    assert (g_v[unseen] == 0).all()
    if not dropout:
        assert (g_v[~unseen] != 0).all()


def test_causal_gradients_of_later_keys_are_zero():
    rng = np.random.default_rng(0)
    q, k, v = (Tensor(rng.standard_normal((2, 5, 3)), requires_grad=True) for _ in range(3))
    for t in range(5):
        y = ag.scaled_dot_product_attention(q, k, v, is_causal=True)
        g_k, g_v = ag.grad(ag.sum(y[:, t] * rng.standard_normal((2, 3))), [k, v])
        assert (g_k.data[:, t + 1 :] == 0).all()
        assert (g_v.data[:, t + 1 :] == 0).all()
        assert (g_v.data[:, : t + 1] != 0).all()


@SOME
@given(rng=ags.rngs())
def test_gradients_of_dropped_elements_are_zero(rng):
    random.manual_seed(rng.seed)
    (y,), _, (g,) = gradients(lambda x: ag.dropout(x, 0.5), [rng.standard_normal((4, 5))])
    assert ((g == 0) == (y == 0)).all()


@SOME
@given(data=st.data(), rng=ags.rngs())
def test_gradients_of_ignored_targets_are_zero(data, rng):
    targets = np.where(data.draw(ags.masks((6,))), rng.integers(0, 4, 6), -1)
    _, _, (g,) = gradients(
        lambda x: ag.cross_entropy(x, targets, ignore_index=-1, label_smoothing=0.1), [rng.standard_normal((6, 4))]
    )
    assert (g[targets == -1] == 0).all()
    assert (g[targets != -1] != 0).any(axis=1).all()
