"""Gradients of a few rows: the sums of an array of the whole matrix, to the bit."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from autograd.fast import cpu_kernels
from autograd.fast.row_gradient import RowGradient
from autograd.inspect import anomaly_mode

IDS = np.array([[5, 2, 5], [0, 5, 2]])


def leaf(rng, *shape):
    return Tensor(rng.standard_normal(shape).astype(np.float32), requires_grad=True)


@pytest.mark.parametrize("scale", [1.0, 1.7])
def test_adding_rows_is_adding_the_whole_array(scale):
    rng = np.random.default_rng(0)
    values, indices = rng.standard_normal((500, 7)).astype(np.float32), rng.integers(0, 90, 500)
    gradient = RowGradient(cpu_kernels(), values, indices, 1000, scale)
    total = rng.standard_normal((1000, 7)).astype(np.float32)
    expected = total + gradient.dense()
    gradient.add_to(total)
    np.testing.assert_array_equal(total, expected)
    assert gradient.dense().shape == gradient.shape


def test_a_dropout_of_the_rows_is_part_of_their_gradient():
    rng, kernels = np.random.default_rng(5), cpu_kernels()
    values, indices = rng.standard_normal((60, 7)).astype(np.float32), rng.integers(0, 9, 60)
    drop = rng.random((60, 7)) < 0.5, np.float32(2)
    expected = RowGradient(kernels, kernels.dropout(values, *drop), indices, 9).dense()
    gradient = RowGradient(kernels, values, indices, 9, drop=drop)
    for found in (gradient.dense(), gradient.astype(np.dtype(np.float32)).dense()):
        np.testing.assert_array_equal(found, expected)
    total = np.zeros_like(expected)
    gradient.add_to(total)
    np.testing.assert_array_equal(total, expected)


def tied_loss(weight):
    """A matrix whose gradient comes from a product first, and then from two embeddings."""
    x = ag.fast.scaled_embedding(IDS, weight, scale=3.0) * ag.embedding(IDS[::-1], weight)
    return ag.linear(x, weight).tanh().sum()


def plain_loss(weight):
    x = weight[IDS] * 3.0 * weight[IDS[::-1]]
    return (x @ weight.T).tanh().sum()


@pytest.mark.parametrize("how", ["backward", "twice", "grad", "watched", "hook"])
def test_a_matrix_that_is_an_embedding_and_a_factor(how):
    weight, plain = (leaf(np.random.default_rng(1), 40, 4) for _ in range(2))
    plain_loss(plain).backward()
    expected, loss = plain.grad.data, tied_loss(weight)
    if how == "grad":
        (found,) = ag.grad(loss, [weight])
        np.testing.assert_allclose(found.data, expected, rtol=1e-5, atol=1e-6)
        return
    if how == "hook":
        weight.register_hook(lambda g: g * 2)
        expected = expected * 2
    if how == "twice":
        loss.backward(retain_graph=True)
        expected = expected * 2
    if how == "watched":
        with anomaly_mode():
            loss.backward()
    else:
        loss.backward()
    np.testing.assert_allclose(weight.grad.data, expected, rtol=1e-5, atol=1e-6)


def test_rows_that_arrive_first_are_the_first_terms_of_the_sum():
    """The newest op runs backward first: here an embedding, then another one, then a product."""
    weight, plain = (leaf(np.random.default_rng(3), 40, 4) for _ in range(2))
    factor = np.random.default_rng(4).standard_normal((7, 4)).astype(np.float32)
    product = ag.linear(factor, weight).tanh().sum()
    (product + (ag.embedding(IDS, weight) * ag.embedding(IDS[::-1], weight)).tanh().sum()).backward()
    ((factor @ plain.T).tanh().sum() + (plain[IDS] * plain[IDS[::-1]]).tanh().sum()).backward()
    np.testing.assert_allclose(weight.grad.data, plain.grad.data, rtol=1e-5, atol=1e-6)


def test_an_embedding_alone_has_a_whole_array():
    weight = leaf(np.random.default_rng(1), 40, 4)
    ag.embedding(IDS, weight).sum().backward()
    counts = np.bincount(IDS.reshape(-1), minlength=40).astype(np.float32)
    np.testing.assert_array_equal(weight.grad.data, np.repeat(counts[:, None], 4, axis=1))


def test_the_sum_of_another_owner_is_not_changed():
    """linear_cross_entropy returns the gradient that it saved, and may be asked for it again."""
    rng = np.random.default_rng(2)
    weight, targets = leaf(rng, 40, 4), np.arange(6)
    x = ag.embedding(IDS, weight).reshape(6, 4)
    loss = ag.fast.linear_cross_entropy(x, weight, targets, reduction="sum")
    (first,), (second,) = (ag.grad(loss, [weight], retain_graph=True) for _ in range(2))
    np.testing.assert_array_equal(first.data, second.data)
    loss.backward()
    np.testing.assert_array_equal(weight.grad.data, first.data)
