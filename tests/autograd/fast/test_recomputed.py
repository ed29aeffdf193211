"""Large outputs that are computed again in the backward pass: the same gradients, to the bit, in less memory."""

import gc

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, random
from autograd.fast import recomputed
from autograd.recompute import checkpoint
from tests.helpers.leaves import nodes_behind

recomputed.recompute_large_outputs()


def leaf(rng, *shape):
    return Tensor(rng.standard_normal(shape).astype(np.float32), requires_grad=True)


class Layer:
    """Attention with its heads joined, a product, and the end of a sub-layer; then two products of the result."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.x, self.heads = leaf(rng, 3, 5, 8), [leaf(rng, 3, 2, 5, 4) for _ in range(3)]
        self.weights, self.norm = [leaf(rng, 8, 8) for _ in range(3)], [leaf(rng, 8), leaf(rng, 8)]

    def normalised(self):
        random.manual_seed(3)
        y = ag.scaled_dot_product_attention(*self.heads, dropout=0.2)
        y = ag.linear(y.swapaxes(1, 2).reshape(3, 5, 8), self.weights[0])
        return ag.fast.dropout_add_layer_norm(y, self.x, *self.norm, p=0.3)

    def __call__(self):
        y = self.normalised()
        return (ag.linear(y, self.weights[1]) * ag.linear(y, self.weights[2])).sum()

    @property
    def leaves(self):
        return [self.x, *self.heads, *self.weights, *self.norm]


def kept(loss):
    saved = [a for node in nodes_behind(loss) for a in getattr(node._saved, "saved", ())]
    return sum(type(a) is recomputed.RecomputedArray for a in saved)


def gradients(loss, leaves, **settings):
    return [g.data for g in ag.grad(loss, leaves, **settings)]


@pytest.fixture
def expected():
    """With every output kept, as all of these are small."""
    layer = Layer()
    loss = layer()
    assert kept(loss) == 0
    return gradients(loss, layer.leaves)


@pytest.fixture
def always(expected, monkeypatch):
    monkeypatch.setattr(recomputed, "LARGE_BYTES", 0)


def assert_equal(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("how", ["plain", "twice", "checkpoint"])
def test_gradients_have_the_same_bits(how, expected, always):
    layer = Layer()
    if how == "checkpoint":
        assert_equal(gradients(checkpoint(layer), layer.leaves), expected)
        return
    loss = layer()
    assert kept(loss) == 3  # of attention, through two views, and twice of the norm
    if how == "twice":
        assert_equal(gradients(loss, layer.leaves, retain_graph=True), expected)
    assert_equal(gradients(loss, layer.leaves), expected)


@pytest.mark.parametrize("first_needs_it", [True, False])
def test_an_output_outlives_the_op_that_computes_it(first_needs_it, always):
    """The first backward pass frees what the norm saved; the second goes to a weight behind it alone."""
    layer = Layer()
    y = layer.normalised()
    first = (ag.linear(y, layer.weights[1]) if first_needs_it else y).sum()
    second = ag.linear(y, layer.weights[2]).sum()
    first.backward()
    (g,) = gradients(second, [layer.weights[2]])
    np.testing.assert_allclose(g, np.repeat(y.data.sum(axis=(0, 1))[None], 8, axis=0), rtol=1e-5, atol=1e-5)


def test_changes_in_place_are_found(always):
    for changed in ("weight", "bias"):
        layer = Layer()
        y = layer.normalised()
        loss = ag.linear(y, layer.weights[1]).sum()
        with ag.no_grad():
            target = {"weight": layer.norm[0], "bias": layer.norm[1]}[changed]
            target[...] = 2.0
        with pytest.raises(RuntimeError, match="changed in place"):
            ag.grad(loss, [layer.weights[1]])  # which the op that was given the weight takes no part in


def test_a_change_of_the_output_itself_does_no_harm(expected, always):
    layer = Layer()
    y = layer.normalised()
    loss = (ag.linear(y, layer.weights[1]) * ag.linear(y, layer.weights[2])).sum()
    with ag.no_grad():
        y[...] = 2.0
    assert_equal(gradients(loss, layer.leaves), expected)


@pytest.mark.heavy
def test_no_cycle_is_left(always):
    gc.collect()
    gc.disable()
    try:
        layer = Layer()
        loss = layer()
        loss.backward()
        unused = layer()
        del loss, unused
        assert gc.collect() == 0
    finally:
        gc.enable()
