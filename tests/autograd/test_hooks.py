"""Hooks of leaves, and gradients returned by grad()."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, grad
from autograd.observers import Observer, observe
from tests.helpers.leaves import leaf

# ---- Hooks ----


def test_post_accumulate_hook_sees_the_leaf_with_its_whole_grad():
    """The other leaf, nearer to the beginning, has none yet: the pass is still on its way."""
    x, w = leaf(2.0), leaf(3.0)
    w.grad = Tensor([1.0])
    seen = []
    remove = w.register_post_accumulate_grad_hook(lambda p: seen.append((p is w, p.grad.item(), x.grad)))
    middle = ag.exp(x)
    (middle * 0.0 + w * w).sum().backward()
    assert seen == [(True, 7.0, None)]
    assert x.grad is not None
    remove()
    (w * 1).sum().backward()
    assert len(seen) == 1


def test_post_accumulate_hook_is_for_what_accumulates():
    x = leaf(2.0)
    with pytest.raises(RuntimeError, match="only a leaf that requires a gradient"):
        (x * 2).register_post_accumulate_grad_hook(lambda p: None)
    with pytest.raises(RuntimeError, match="only a leaf that requires a gradient"):
        Tensor([1.0]).register_post_accumulate_grad_hook(lambda p: None)
    x.register_post_accumulate_grad_hook(lambda p: pytest.fail("nothing was added to x.grad"))
    ag.grad(x * 3, x)


# ---- grad() ----


def test_grad_returns_and_does_not_accumulate():
    x, w = leaf(2.0), leaf(3.0)
    g_x, g_w = ag.grad(x * w * w, [x, w])
    assert (g_x.item(), g_w.item()) == (9.0, 12.0)
    assert x.grad is None
    assert w.grad is None


def test_grad_of_intermediates():
    x = leaf(2.0)
    middle = ag.exp(x)
    y = middle * middle + x
    g_middle, g_x = ag.grad(y, [middle, x])
    np.testing.assert_allclose(g_middle.data, 2 * np.exp([2.0]))
    np.testing.assert_allclose(g_x.data, 2 * np.exp([4.0]) + 1)
    assert middle.grad is None


def test_grad_of_an_output_itself():
    x = leaf(2.0, 3.0)
    y = x * 2
    g = np.array([5.0, 6.0])
    (g_y,) = ag.grad(y, y, grad_outputs=g)
    assert g_y.tolist() == [5, 6]
    assert not np.shares_memory(g_y.data, g)


def test_grad_of_unused_inputs():
    x, unused = leaf(2.0), leaf(3.0)
    with pytest.raises(RuntimeError, match=r"\[1\].*allow_unused"):
        ag.grad(x * 2, [x, unused])
    g_x, g_unused = ag.grad(x * 2, [x, unused], allow_unused=True)
    assert g_x.item() == 2.0
    assert g_unused is None


def test_grad_errors():
    x = leaf(1.0, 2.0)
    with pytest.raises(ValueError, match="2 arrays for 1 outputs"):
        ag.grad(x * 2, x, grad_outputs=[np.ones(2), np.ones(2)])
    with pytest.raises(RuntimeError, match="input 1 of grad"):
        ag.grad((x * 2).sum(), [x, Tensor([1.0])])


def test_grad_runs_only_what_leads_to_its_inputs():
    """Not the ops below an intermediate Tensor: nobody has asked for these gradients."""
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * x * w
    side = w * w
    with observe(Counting()) as counting:
        (g,) = grad((h * side).sum(), h)
    np.testing.assert_array_equal(g.numpy(), side.numpy())
    assert counting.names == ["Sum", "Multiply"]
    with observe(Counting()) as counting:
        grad((h * h).sum(), h)
    assert counting.names == ["Sum", "Multiply"]


class Counting(Observer):
    """Names of the ops that a backward pass runs."""

    def __init__(self):
        self.names = []

    def before_backward(self, op, g_outputs):
        self.names.append(type(op).__name__)
