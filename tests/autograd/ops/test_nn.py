"""Embedding, dropout, layer norm and the residual connection against their formulas, and one op against several."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, random
from autograd.fast import ops


def normal(shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---- Embedding ----


def test_indices_of_many_kinds():
    weight = Tensor(normal((300, 2)), requires_grad=True)
    expected = weight.data[[255, 0]]
    for indices in (
        [255, 0],
        (255, 0),
        np.array([255, 0], np.uint8),
        np.array([255, 0], np.int16),
        np.array([255, 0], np.uint64),
        Tensor(np.array([255, 0])),
        np.array([0, 9, 255])[::-2],
    ):
        weight.zero_grad()
        y = ag.embedding(indices, weight)
        np.testing.assert_array_equal(y.data, expected)
        y.backward(np.array([[1.0, 2.0], [3.0, 4.0]]))
        np.testing.assert_array_equal(weight.grad.data[[255, 0]], [[1, 2], [3, 4]])
        assert weight.grad.data.sum() == 10


@pytest.mark.parametrize(("indices", "found"), [([-1], "-1 … -1"), ([0, 5], "0 … 5"), ([[2, -3], [7, 0]], "-3 … 7")])
def test_indices_out_of_range_are_refused(indices, found):
    """A negative one would silently wrap around."""
    with pytest.raises(IndexError, match=f"embedding index must lie in 0 … 4, found {found}"):
        ag.embedding(np.array(indices), Tensor(normal((5, 2))))


@pytest.mark.parametrize("indices", [np.array([0.0]), np.array([True, False]), [0.5]])
def test_indices_that_are_no_integers_are_refused(indices):
    with pytest.raises(TypeError, match=r"embedding index must be an integer array, found (float64|bool)"):
        ag.embedding(indices, Tensor(normal((5, 2))))


# ---- Dropout ----


def test_without_dropout_x_itself_comes_back():
    x = Tensor(normal(3), requires_grad=True)
    before = random.get_state()
    assert ag.dropout(x, 0) is x
    assert ag.dropout(x, 0.5, training=False) is x
    assert isinstance(ag.dropout(x.data, 0.0), Tensor)
    assert random.get_state() == before


# ---- Layer norm ----


def plain_layer_norm(x, weight, bias, eps=1e-6):
    """The definition, in NumPy."""
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * weight + bias


def test_layer_norm_of_a_constant_row_is_the_bias():
    """The variance is 0 there: eps keeps the slope finite."""
    bias = normal(4, 2)
    x = Tensor(np.full((2, 4), 5.0), requires_grad=True)
    y = ag.layer_norm(x, Tensor(np.ones(4)), Tensor(bias))
    np.testing.assert_array_equal(y.data, [bias, bias])
    y.backward(normal((2, 4), 3))
    np.testing.assert_allclose(x.grad.data, (normal((2, 4), 3) - normal((2, 4), 3).mean(1, keepdims=True)) * 1000)


def test_layer_norm_in_single_precision_far_from_zero():
    """Mean and variance in one pass, as E[x²] - E[x]², would lose every digit here."""
    x = 4096 + np.round(1024 * normal((5, 64))) / 256  # exact in single precision
    ours = ag.layer_norm(
        Tensor(x.astype(np.float32)), Tensor(np.ones(64, np.float32)), Tensor(np.zeros(64, np.float32))
    )
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours.data, plain_layer_norm(x, 1, 0), atol=2e-3)
    np.testing.assert_allclose(ours.data.std(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("kernels", ["numpy", "numba", "plain"])
@pytest.mark.parametrize("scale", [1e18, 1e20, 1e37])
def test_layer_norm_of_numbers_whose_squares_are_beyond_single_precision(scale, kernels, monkeypatch):
    if kernels == "plain":
        monkeypatch.setattr("autograd.engine.implementations", {})
    elif kernels == "numba":
        pytest.importorskip("numba", reason="needs Numba")
        ag.fast.set_kernels("numba")
    x, g = normal((5, 8), dtype=np.float32), normal((5, 8), 1, np.float32)
    found = []
    for factor in (np.float32(1), np.float32(scale)):
        leaf = Tensor(factor * x, requires_grad=True)
        y = ag.layer_norm(leaf, np.ones(8, np.float32), np.zeros(8, np.float32), eps=0.0)
        y.backward(g)
        found.append((y.data, leaf.grad.data * factor))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_layer_norm_refuses_what_does_not_fit():
    x = Tensor(normal((2, 3)))
    with pytest.raises(ValueError, match=r"weight has shape \(2,\), the last axis of x asks for \(3,\)"):
        ag.layer_norm(x, Tensor(normal(2)), Tensor(normal(3)))
    with pytest.raises(ValueError, match=r"bias has shape \(2, 3\), the last axis of x asks for \(3,\)"):
        ag.layer_norm(x, Tensor(normal(3)), Tensor(normal((2, 3))))
    for nothing in (np.array(1.0), np.zeros((2, 0))):
        w = np.zeros(nothing.shape[-1:])
        with pytest.raises(
            ValueError, match=r"layer norm needs a last axis with at least one feature, found x of shape"
        ):
            ag.layer_norm(Tensor(nothing), Tensor(w), Tensor(w))
        with pytest.raises(
            ValueError, match=r"layer norm needs a last axis with at least one feature, found x of shape"
        ):
            ag.fast.dropout_add_layer_norm(Tensor(nothing), Tensor(nothing), Tensor(w), Tensor(w))


# ---- The residual connection as one op ----


def residual_inputs(dtype=np.float64, shape=(3, 4, 6)):
    return [normal(shape, 1, dtype), 2 + normal(shape, 2, dtype), *(normal(shape[-1], seed, dtype) for seed in (3, 4))]


def test_a_large_mask_is_kept_as_bits(monkeypatch):
    found = []
    for size in (1 << 20, 1):  # in bytes: this mask is smaller, then larger
        monkeypatch.setattr(ops, "PACKED_BYTES", size)
        random.manual_seed(1)
        leaves = [Tensor(array, requires_grad=True) for array in residual_inputs(shape=(3, 7))]
        y = ag.fast.dropout_add_layer_norm(*leaves, p=0.5)
        found.append((y.op.saved_arrays[0].nbytes, ag.grad((y * y).sum(), leaves)))
    (whole, expected), (bits, gradients) = found
    assert (whole, bits) == (21, 3)
    for g, e in zip(gradients, expected, strict=True):
        np.testing.assert_array_equal(g.data, e.data)


def test_the_residual_connection_refuses_shapes_that_differ():
    x, residual, weight, bias = (Tensor(array) for array in residual_inputs(shape=(2, 3)))
    with pytest.raises(ValueError, match=r"x has shape \(2, 3\), residual has shape \(1, 3\); they must be equal"):
        ag.fast.dropout_add_layer_norm(x, residual[:1], weight, bias)
    with pytest.raises(ValueError, match=r"weight has shape \(2,\), the last axis of x asks for \(3,\)"):
        ag.fast.dropout_add_layer_norm(x, residual, weight[:2], bias)


# ---- Half precision ----


def test_a_mean_over_more_rows_than_float16_can_count():
    logits = Tensor(np.zeros((70_000, 3), np.float16), requires_grad=True)
    loss = ag.cross_entropy(logits, np.zeros(70_000, int))
    loss.backward()
    assert abs(loss.item() - np.log(3)) < 1e-3
    np.testing.assert_allclose(logits.grad.data[5], np.array([-2, 1, 1]) / 3 / 70_000, rtol=0.01)
