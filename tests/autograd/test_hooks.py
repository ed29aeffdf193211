"""Hooks and retained gradients, and gradients returned by grad()."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, grad, modes
from autograd.modes import Observer, current_modes, observe
from tests.helpers.leaves import leaf

# ---- Hooks ----


def test_hooks_see_the_whole_gradient_once():
    x, seen = leaf(1.0, 2.0), []
    middle = x * 2
    x.register_hook(lambda g: seen.append(g.tolist()))
    middle.register_hook(lambda g: seen.append(g.tolist()))
    (middle * 3 + middle * middle + x).sum().backward()
    assert seen == [[3 + 4, 3 + 8], [2 * 7 + 1, 2 * 11 + 1]]
    assert x.grad.tolist() == seen[1]


def test_a_hook_may_change_its_gradient_in_place():
    x, w, start = leaf(1.0, 2.0), leaf(1.0, 2.0), np.ones(2)
    x.register_hook(lambda g: g.__imul__(5))
    (x + w).backward(start)
    assert (x.grad.tolist(), w.grad.tolist(), start.tolist()) == ([5, 5], [1, 1], [1, 1])


def test_hook_replaces_the_gradient():
    x = leaf(1.0)
    middle = x * 2
    middle.register_hook(lambda g: g * 10.0)
    x.register_hook(lambda g: g.data + 1)
    (middle * 3).backward()
    assert x.grad.item() == 3 * 10 * 2 + 1


def test_hooks_run_in_order_and_can_be_removed():
    x = leaf(1.0)
    x.register_hook(lambda g: g + 1.0)
    remove = x.register_hook(lambda g: g * 10.0)
    (x * 1).backward()
    assert x.grad.item() == 20.0
    remove()
    remove()  # does nothing
    x.zero_grad()
    (x * 1).backward()
    assert x.grad.item() == 2.0


def test_hook_must_keep_the_shape():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g[:1])
    with pytest.raises(ValueError, match=r"hook returned shape \(1,\) for a gradient of shape \(2,\)"):
        (x * 1).sum().backward()


def test_hook_on_what_gets_no_gradient_is_an_error():
    with pytest.raises(RuntimeError, match="never be called"):
        Tensor([1.0]).register_hook(lambda g: None)


def test_hook_of_one_output_of_several():
    x, seen = leaf(1.0, 2.0, 3.0), {}
    a, b = ag.split(x, [1])
    a.register_hook(lambda g: seen.update(a=g.tolist()))
    b.register_hook(lambda g: seen.update(b=g.tolist()))
    (b * 2).sum().backward()
    assert seen == {"a": [0], "b": [2, 2]}
    assert x.grad.tolist() == [0, 2, 2]


def test_what_a_hook_keeps_does_not_change_with_a_later_backward():
    x, kept = leaf(1.0), []
    x.register_hook(lambda g: kept.append(g))
    (x * 3 + x * 1).backward()
    (x * 5).backward()
    assert [g.item() for g in kept] == [4.0, 5.0]
    assert x.grad.item() == 9.0


def test_retain_grad_keeps_the_gradient_of_an_intermediate():
    x = leaf(1.0, 2.0)
    middle, other = x * 2, x * 5
    middle.retain_grad()
    (middle * middle + other).sum().backward()
    np.testing.assert_array_equal(middle.grad.data, [4.0, 8.0])
    assert other.grad is None


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


def test_a_hook_keeps_the_dtype():
    x = Tensor(np.ones(3, np.float32), requires_grad=True)
    x.register_hook(lambda g: Tensor(g.numpy().astype(np.float64) * 2))
    y = x * 1
    y.register_hook(lambda g: g.numpy().astype(np.float64))
    y.sum().backward()
    assert x.grad.dtype == np.float32
    np.testing.assert_array_equal(x.grad.numpy(), 2)


def test_a_hook_that_returns_no_array_is_an_error():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: 2.0)
    with pytest.raises(TypeError, match="a gradient hook returned float; return a Tensor, an array or None"):
        x.sum().backward()


def test_grad_runs_only_what_leads_to_its_inputs():
    """Neither the ops below an intermediate Tensor nor their hooks: nobody has asked for these gradients."""
    seen = []
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x.register_hook(lambda g: seen.append("x"))
    below = x * x
    below.register_hook(lambda g: seen.append("below"))
    h = below * w
    side = w * w
    side.register_hook(lambda g: seen.append("side"))
    (g,) = grad((h * side).sum(), h)
    np.testing.assert_array_equal(g.numpy(), side.numpy())
    assert seen == []
    with observe(Counting()) as counting:
        grad((h * h).sum(), h)
    assert counting.names == ["Sum", "Multiply"]


def test_observers_nest():
    class Noting(Observer):
        def before_forward(self, op, *arrays):
            seen.append(self)

        after_error = before_forward

    seen, outer, inner, before = [], Noting(), Noting(), current_modes()
    with observe(outer), observe(inner), pytest.raises(ValueError, match="reshape"):
        leaf(1.0).reshape(2)
    assert seen == [outer, inner, inner, outer]
    assert current_modes() is before
    with ag.no_grad():  # an open block, which an observer of the process sees, too
        modes.install(outer)
        leaf(1.0) * 2
    modes.installed.remove(outer)
    before.events.call(modes.installed)
    assert seen[4:] == [outer]


class Counting(Observer):
    """Names of the ops that a backward pass runs."""

    def __init__(self):
        self.names = []

    def before_backward(self, op, g_outputs):
        self.names.append(type(op).__name__)
