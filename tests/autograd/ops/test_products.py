"""Matrix products in all of NumPy's forms, the fully connected layer, Einstein's summation."""

import re

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from autograd.fast.table import cpu


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def leaf(shape, seed=0, dtype=np.float64):
    return Tensor(normal(shape, seed).astype(dtype), requires_grad=True)


# ---- matmul ----


@pytest.mark.parametrize(
    ("shape_a", "shape_b", "message"),
    [
        ((3,), (5, 2, 4), "the last axis of the first, 3, must equal the last axis but one of the second, 2"),
        ((5, 2, 3), (2, 3), "the last axis of the first, 3, must equal the last axis but one of the second, 2"),
        ((3,), (4,), "the last axis of the first, 3, must equal the only axis of the second, 4; transpose"),
        ((2, 3, 4), (3, 4, 5), "the batch axes (2,) and (3,) cannot be broadcast; make them equal or 1"),
        ((), (4,), "a scalar has no matrix product; multiply with *"),
    ],
)
def test_matmul_of_what_does_not_fit_names_shapes_and_axes(shape_a, shape_b, message):
    one, two = np.ones(shape_a), np.ones(shape_b)
    for a, b in ((Tensor(one), Tensor(two)), (Tensor(one), two), (one, Tensor(two))):
        with pytest.raises(ValueError, match=re.escape(f"matmul of shapes {shape_a} and {shape_b}: {message}")):
            a @ b


# ---- linear ----


@pytest.mark.parametrize(
    ("x", "weight", "bias", "message"),
    [
        ((2, 3), (3,), None, r"weight of two axes, \[out, in\]; found shape \(3,\)"),
        ((2, 4), (5, 3), None, r"x of shape \(2, 4\) does not end in the 3 inputs of the weight \[out, in\] \(5, 3\)"),
        ((), (5, 3), None, r"x of shape \(\) does not end in the 3 inputs"),
        ((2, 3), (5, 3), (3,), r"bias has shape \(3,\), the weight \[out, in\] \(5, 3\) asks for \(5,\)"),
        ((2, 3), (5, 3), (1, 5), r"bias has shape \(1, 5\)"),
    ],
)
def test_linear_shape_errors(x, weight, bias, message):
    with pytest.raises(ValueError, match=message):
        ag.linear(leaf(x), leaf(weight), None if bias is None else leaf(bias))


# ---- einsum ----


@pytest.mark.parametrize(
    ("subscripts", "shapes", "message"),
    [
        ("ij,jk->ik", [(2, 3)], "'ij,jk->ik' names 2 operands, 1 were given"),
        ("ijk->i", [(2, 3)], "'ijk' does not describe an operand of 2 axes"),
        ("...ijk->i", [(2, 3)], "'...ijk' does not describe an operand of 2 axes"),
        ("ij->ijk", [(2, 3)], "each label of the output 'ijk'"),
        ("ij->ii", [(2, 3)], "each label of the output 'ii'"),
        ("ij,jk->ik", [(2, 3), (4, 2)], "label 'j' has size 3 and size 4"),
        ("...i,...i", [(1, 2, 3), (4, 5, 3)], "label '...' has size 2 and size 5"),
        ("ii", [(2, 3)], "label 'i' has size 2 and size 3"),
    ],
)
def test_einsum_errors(subscripts, shapes, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")) as error:
        ag.einsum(subscripts, *[leaf(shape) for shape in shapes])
    assert subscripts in str(error.value)


def test_einsum_with_lists_of_numbers_is_refused():
    with pytest.raises(TypeError, match="subscripts as one string first, found Tensor"):
        ag.einsum(leaf((2, 3)), [0, 1], [1, 0])


# ---- A weight in lower precision ----


@pytest.mark.parametrize("change", ["-=", "[...]", "out="])
def test_linear_in_bfloat16_sees_every_change_of_the_weight(change):
    """A copy that was kept did not, after an update written by hand."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = Tensor(np.ones((2, 3), bfloat16))
    w = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    assert ag.linear(x, w).tolist() == [[3, 3], [3, 3]]
    g = np.ones((2, 3), np.float32)
    if change == "-=":
        w.data -= g
    elif change == "[...]":
        w.data[...] -= g
    else:
        np.subtract(w.data, g, out=w.data)
    assert ag.linear(x, w).tolist() == [[0, 0], [0, 0]]


# ---- Several layers as one product ----


def attend(x, weights):
    """k and v get their gradients from attention alone in the first sum; k from two consumers in both."""
    k, v = ag.fast.linear_heads(x, weights, heads=2)
    q = x.reshape(2, 3, 2, 2).swapaxes(1, 2)
    return (ag.scaled_dot_product_attention(q, k, v) + ag.scaled_dot_product_attention(k, k, q)).sum(axis=0)


@pytest.fixture
def written(monkeypatch):
    """Which gradients attention has written into the memory that their op offers: 0, 1 and 2 for q, k and v."""
    found = []
    plain = cpu.attention_backward

    def noting(*inputs):
        gradients = plain(*inputs)
        found.extend(i for i, place in enumerate(inputs[-1]) if place is not None and gradients[i] is place)
        return gradients

    monkeypatch.setattr(cpu, "attention_backward", noting)
    return found


def test_a_second_backward_pass_with_memory_of_its_own(written):
    x, weights = leaf((2, 3, 4)), [leaf((4, 4), 1), leaf((4, 4), 2)]
    y = attend(x, weights).sum()
    found = [ag.grad(y, [x, *weights], retain_graph=True) for _ in range(2)]
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first.data, second.data)
    assert written == [0, 2, 0, 2]  # k as a query, then v; the other gradients of k are added elsewhere
