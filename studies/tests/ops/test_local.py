"""Local attention against attention under a band mask: reach, padding, lengths, and what it saves."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from studies.ops import local_attention
from studies.tests.ops.cases.local import band


def qkv(length, width=4, leading=(2, 3)):
    rng = np.random.default_rng(length)
    return [rng.standard_normal((*leading, length, width)) for _ in range(3)]


def test_equals_attention_under_a_band_mask():
    for is_causal in [False, True]:
        for length in [0, 1, 2, 3, 7, 8, 9, 30]:
            for neighbourhood in [1, 2, 3, 4, 7, 100]:
                arrays = qkv(length)
                y = local_attention(*arrays, neighbourhood=neighbourhood, is_causal=is_causal)
                expected = ag.scaled_dot_product_attention(*arrays, band(length, neighbourhood, is_causal))
                np.testing.assert_allclose(y.data, expected.data, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("is_causal", "seen"), [(False, [3, 4, 5, 6, 7]), (True, [1, 2, 3, 4, 5])])
def test_a_position_sees_its_neighbourhood_and_nothing_else(is_causal, seen):
    x = Tensor(qkv(12, leading=())[0], requires_grad=True)
    local_attention(x, x, x, neighbourhood=5, is_causal=is_causal)[5].sum().backward()
    assert np.flatnonzero(np.abs(x.grad.data).sum(axis=1)).tolist() == seen


def test_padded_positions_are_not_seen_and_get_no_gradient():
    x = Tensor(qkv(6, leading=(2,))[0], requires_grad=True)
    mask = np.array([[True] * 6, [True] * 3 + [False] * 3])
    y = local_attention(x, x, x, mask, neighbourhood=3)
    short = local_attention(*[x[1:, :3]] * 3, neighbourhood=3)
    np.testing.assert_allclose(y.data[1, :3], short.data[0], rtol=1e-12)
    np.testing.assert_array_equal(y.data[1, 4:], 0)  # they see only padding
    y[1, :3].backward(np.ones((3, 4)))
    np.testing.assert_array_equal(x.grad.data[1, 3:], 0)


def test_it_saves_its_inputs_and_no_weights():
    arrays = [Tensor(a, requires_grad=True) for a in qkv(64, leading=())]
    op = local_attention(*arrays, neighbourhood=8, dropout=0.5).op
    assert {id(a) for a in op.saved_arrays} == {id(a.data) for a in arrays}


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_dropout_drops_weights_and_repeats_in_the_backward_pass(dropout):
    ag.random.manual_seed(3)
    values = np.eye(9)[None]
    weights = Tensor(values, requires_grad=True)
    y = local_attention(np.zeros((1, 9, 2)), np.zeros((1, 9, 2)), weights, neighbourhood=3, dropout=dropout)
    y.backward(np.ones((1, 9, 9)))
    np.testing.assert_allclose(weights.grad.data[0].sum(axis=1), 9 * y.data[0].sum(axis=0), rtol=1e-12)
    inside = band(9, 3, False)
    assert (y.data[0][~inside] == 0).all()
    assert (np.count_nonzero(y.data[0][inside]) < inside.sum()) == bool(dropout)


def test_float32_stays_float32():
    assert local_attention(*[a.astype(np.float32) for a in qkv(5)], neighbourhood=3).dtype == np.float32


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"neighbourhood": 0}, ValueError, "neighbourhood=0 must be at least 1"),
        (
            {"key": np.ones((2, 3, 5, 4)), "value": np.ones((2, 3, 5, 4))},
            ValueError,
            "key has 5; local attention is self-",
        ),
        ({"key": np.ones((2, 3, 6, 2))}, ValueError, "query has 4 features, key has 2"),
        ({"mask": np.ones((2, 3, 6))}, TypeError, "mask must be boolean"),
        ({"mask": np.ones((2, 3, 6, 6), bool)}, ValueError, "does not broadcast to"),
    ],
)
def test_refused(change, error, message):
    query, key, value = qkv(6)
    given = {"query": query, "key": key, "value": value, "neighbourhood": 3} | change
    with pytest.raises(error, match=message):
        local_attention(**given)
