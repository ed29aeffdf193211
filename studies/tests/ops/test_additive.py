"""Additive attention."""

import numpy as np
import pytest

from autograd import Tensor
from studies.ops import additive_attention


def normal(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def qkv(*leading, t=4, s=5, k=3, m=2, dtype=np.float64):
    return [normal((*leading, *rest), seed, dtype) for seed, rest in enumerate(((t, k), (s, k), (s, m)))]


def close(y, expected, tolerance=1e-12):
    np.testing.assert_allclose(y.data, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_additive_scores(leading):
    q, k, v = qkv(*leading)
    w = normal((*leading[-1:], 3), 9)
    scores = (np.tanh(q[..., :, None, :] + k[..., None, :, :]) * w[..., None, None, :]).sum(-1)
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    close(additive_attention(q, k, v, w), p @ v)


def test_additive_attention_is_causal_and_masked_like_the_other():
    q, k, v = qkv(2, t=5)
    mask = np.array([[True, True, False, True, True], [False] * 5])[:, None]
    x = Tensor(k, requires_grad=True)
    y = additive_attention(q, x, v, normal((3,)), mask, is_causal=True)
    y[0, 3].sum().backward()
    assert np.flatnonzero(np.abs(x.grad.data[0]).sum(axis=1)).tolist() == [0, 1, 3]
    np.testing.assert_array_equal(y.data[1], 0)


def test_a_weight_of_another_width_is_refused():
    with pytest.raises(ValueError, match=r"weight has shape \(4,\); expected"):
        additive_attention(*qkv(), np.ones(4))
