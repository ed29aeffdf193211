"""Scaled dot-product attention against its formula: masks, causality, broadcasting, dropout, sight of nothing."""

import math

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, random
from autograd.fast.threads import Workers, _Process

attention = ag.scaled_dot_product_attention


def normal(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def qkv(*leading, t=4, s=5, k=3, m=2, dtype=np.float64):
    return [normal((*leading, *rest), seed, dtype) for seed, rest in enumerate(((t, k), (s, k), (s, m)))]


def plain_attention(q, k, v, allowed=None, keep=1.0, scale=None):
    """Equation 1 row by row in NumPy; a query that may attend to nothing gives zeros."""
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True)) * (1 if allowed is None else allowed)
    total = weights.sum(axis=-1, keepdims=True)
    return (weights / np.where(total == 0, 1, total) * keep) @ v


@pytest.fixture(autouse=True, params=[None, pytest.param(3, marks=pytest.mark.slow)], ids=["", "3 threads"])
def threads(request, monkeypatch):
    """The kernel for threads is another one; what it computes is not."""
    if request.param is not None:
        monkeypatch.setattr(_Process, "threads", request.param)
        monkeypatch.setattr(_Process, "pool", Workers(request.param - 1))
    return request.param


def close(y, expected, tolerance=1e-12):
    np.testing.assert_allclose(y.data, expected, rtol=tolerance, atol=tolerance)


# ---- Without masks ----


def test_the_default_scale_is_one_over_the_root_of_the_features():
    """Section 3.2.1: equal scores of K ones are K / √K."""
    q, k = np.ones((1, 9)), np.stack([np.ones(9), np.zeros(9)])
    y = attention(q, k, np.array([[1.0], [0.0]]))
    close(y, [[1 / (1 + math.exp(-3))]])


def test_large_scores_do_not_overflow():
    y = attention(np.array([[1000.0]]), np.array([[1000.0], [999.0]]), np.array([[1.0], [2.0]]), scale=1.0)
    close(y, [[1.0]])
    tiny = attention(np.full((1, 1), -1e4, np.float32), np.full((3, 1), 1e4, np.float32), np.eye(3, dtype=np.float32))
    close(tiny, np.full((1, 3), 1 / 3), 1e-6)


# ---- Who may attend to whom ----


def test_true_means_may_attend():
    q, k, v = qkv(t=1, s=3)
    mask = np.array([[False, True, False]])
    close(attention(q, k, v, mask), v[1:2])
    close(attention(q, k, v, ~mask), plain_attention(q, k[[0, 2]], v[[0, 2]]))


@pytest.mark.parametrize(("t", "s"), [(4, 4), (4, 6), (6, 4), (1, 3), (3, 1)])
def test_causal(t, s):
    """Key j for query i where j ≤ i, both counted from 0, also where there are more of one."""
    arrays = qkv(2, 2, t=t, s=s)
    allowed = np.array([[j <= i for j in range(s)] for i in range(t)])
    close(attention(*arrays, is_causal=True), plain_attention(*arrays, allowed))
    first, *_ = attention(*(array[0, 0] for array in arrays), is_causal=True)
    close(first, arrays[2][0, 0, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_query_that_may_attend_to_nothing(dtype, dropout):
    """Zeros, with gradients of zero, and no NaN on the way."""
    leaves = [Tensor(array, requires_grad=True) for array in qkv(2, 2, dtype=dtype)]
    mask = np.ones((2, 1, 4, 5), bool)
    mask[0, :, 1] = False
    mask[1] = False
    y = attention(*leaves, mask, dropout=dropout)
    y.backward(normal(y.shape, 9, dtype))
    assert (y.data[0, :, 1] == 0).all()
    assert (y.data[1] == 0).all()
    q, k, v = (leaf.grad.data for leaf in leaves)
    assert (q[0, :, 1] == 0).all()
    assert all((g[1] == 0).all() for g in (q, k, v))
    assert all(np.isfinite(g).all() and np.abs(g[0]).max() > 0 for g in (q, k, v))


@pytest.mark.parametrize("wild", [1e6, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("mask_rows", [1, 4])
def test_what_is_masked_has_no_influence(wild, mask_rows):
    """To the bit, even a key that has overflowed; a sentence of which all is masked is among them."""
    q, k, v = qkv(3, 2, s=7)
    mask = np.array([[0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 0, 1]], bool)[:, None, None, :]
    mask = np.broadcast_to(mask, (3, 1, mask_rows, 7))
    y = attention(q, k, v, mask).data
    k[..., 0], v[...] = np.where(mask[:, :, 0], k[..., 0], wild), np.where(mask[:, :, 0, :, None], v, -1e6)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(attention(q, k, v, mask).data, y)


@pytest.mark.parametrize("bad", [np.ones((4, 5)), np.ones((4, 5), np.int64), np.zeros((4, 5), np.float32)])
def test_masks_that_are_not_boolean_are_refused(bad):
    """A float mask might be meant to be added, and 1 to mean *may not*."""
    with pytest.raises(
        TypeError, match=rf"mask must be boolean \(True = may attend\), found {bad.dtype}; use mask != 0"
    ):
        attention(*qkv(2, 2), bad)


@pytest.mark.parametrize("shape", [(4, 4), (2, 5), (3, 1, 4, 5), (5, 1, 1, 4, 5), (2, 2, 5, 4)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_masks_of_wrong_shapes_are_refused(shape, is_causal):
    with pytest.raises(
        ValueError, match=r"a mask of shape \(.*\) does not broadcast to \[..., T, S\] = \(2, 2, 4, 5\)"
    ):
        attention(*qkv(2, 2), np.ones(shape, bool), is_causal=is_causal)


# ---- Shapes ----


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((4, 3), (5, 2), (5, 2)), "query has 3 features, key has 2; they must be equal"),
        (((4, 3), (5, 3), (4, 2)), "key has 5 positions, value has 4; they must be equal"),
        (((3,), (5, 3), (5, 2)), "query, key and value need at least two axes: positions and features"),
        (((2, 4, 3), (3, 5, 3), (5, 2)), r"the leading axes of query, key and value, .*, do not broadcast together"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        attention(*(normal(shape) for shape in shapes))


# ---- Dtypes ----


@pytest.mark.parametrize("wide", [0, 1, 2])
def test_mixed_precision_computes_in_the_wider(wide):
    arrays = [a if i == wide else a.astype(np.float32) for i, a in enumerate(qkv(2, 2))]
    leaves = [Tensor(array, requires_grad=True) for array in arrays]
    y = attention(*leaves)
    assert y.dtype == np.float64
    close(y, plain_attention(*(a.astype(np.float64) for a in arrays)))
    y.backward(normal(y.shape, 9))
    exact = [Tensor(array.astype(np.float64), requires_grad=True) for array in arrays]
    attention(*exact).backward(normal(y.shape, 9))
    for i, (leaf, expected) in enumerate(zip(leaves, exact, strict=True)):
        assert leaf.grad.dtype == leaf.dtype
        close(leaf.grad, expected.grad.data, 1e-12 if i == wide else 1e-6)


# ---- Dropout of the weights ----


def test_dropout_is_another_for_each_broadcast_value():
    q, k, v = qkv()
    y = attention(q, k, np.stack([v] * 8), dropout=0.5).data
    assert len({each.tobytes() for each in y}) == 8


def test_no_dropout_draws_nothing():
    before = random.get_state()
    attention(*qkv())
    assert random.get_state() == before
    attention(*qkv(), dropout=0.1)
    assert random.get_state()[2] == before[2] + 1
