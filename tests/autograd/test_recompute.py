"""checkpoint(): the same gradients to the last bit, from less memory."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, checkpoint, random
from tests.helpers.leaves import nodes_behind, random_leaf, saved_bytes, without_garbage_collector


def plain(fn, *args, **kwargs):
    return fn(*args, **kwargs)


class Net:
    """Linear, gelu, dropout, linear, with parameters that a function closes over."""

    def __init__(self, width=8, inner=32):
        self.up, self.down = random_leaf(inner, width, seed=1), random_leaf(width, inner, seed=2)
        self.gain, self.shift = random_leaf(width, seed=3), random_leaf(width, seed=4)

    def __call__(self, x):
        hidden = ag.dropout(ag.gelu(ag.linear(x, self.up)), 0.3)
        return ag.fast.dropout_add_layer_norm(ag.linear(hidden, self.down), x, self.gain, self.shift, p=0.2)

    @property
    def parameters(self):
        return [self.up, self.down, self.gain, self.shift]


def loss_and_gradients(run, x_requires_grad=True):
    """Three calls of one net with shared parameters, one of them under `run`, and a use outside."""
    random.manual_seed(5)
    net = Net()
    x = Tensor(np.random.default_rng(0).standard_normal((4, 8)), requires_grad=x_requires_grad)
    y = net(run(net, run(net, x)))
    y = ag.dropout(y, 0.1) + ag.linear(ag.linear(x, net.up), net.down)
    loss = ag.sum(y * np.random.default_rng(9).standard_normal(y.shape))
    loss.backward()
    return loss.item(), [p.grad.numpy() for p in net.parameters] + ([x.grad.numpy()] if x_requires_grad else [])


@pytest.mark.parametrize("x_requires_grad", [True, False], ids=["inputs too", "parameters only"])
def test_gradients_are_the_same_bits(x_requires_grad):
    loss, gradients = loss_and_gradients(plain, x_requires_grad)
    loss_again, gradients_again = loss_and_gradients(checkpoint, x_requires_grad)
    assert loss == loss_again
    assert all(np.abs(g).max() > 0 for g in gradients)
    for g, again in zip(gradients, gradients_again, strict=True):
        assert g.tobytes() == again.tobytes()


def test_nested_calls_give_the_same_bits():
    def nested(fn, x):
        return checkpoint(lambda x: fn(checkpoint(fn, checkpoint(fn, x))), x)

    def flat(fn, x):
        return fn(fn(fn(x)))

    _, expected = loss_and_gradients(flat)
    _, found = loss_and_gradients(nested)
    for g, again in zip(expected, found, strict=True):
        assert g.tobytes() == again.tobytes()


# ---- Memory ----


def deep(run, x, net, depth=12):
    for _ in range(depth):
        x = run(net, x)
    return x


@pytest.mark.heavy
def test_peak_memory_is_that_of_one_part():
    """12 calls: the plain peak holds what 12 calls save, the other 12 arguments and what one call saves."""
    net = Net(64, 512)
    x = Tensor(np.random.default_rng(0).standard_normal((128, 64)), requires_grad=True)
    one_call = saved_bytes(net(x))

    def peak(run):
        y = ag.sum(deep(run, x, net))  # once before: the first gradients stay
        y.backward()
        gc.collect()
        tracemalloc.start()
        try:
            y = ag.sum(deep(run, x, net))
            y.backward()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    before, after = peak(plain), peak(checkpoint)
    assert before > 12 * one_call
    assert after < before - 10 * one_call  # the temporary arrays of ops stand in both
    assert after > one_call  # which must be there once


def test_the_graph_dies_by_reference_counting():
    with without_garbage_collector():
        net, x = Net(), random_leaf(4, 8)
        for run_backward in (False, True):
            y = checkpoint(lambda x: checkpoint(net, net(x)), x)
            nodes = [weakref.ref(op) for op in nodes_behind(y)]
            assert len(nodes) > 8
            if run_backward:
                y.backward(np.ones(y.shape))
            del y
            assert all(node() is None for node in nodes)


def test_a_backward_pass_lets_go_of_the_arguments_while_the_result_lives():
    with without_garbage_collector():
        net, x = Net(), random_leaf(4, 8)
        middle = net(x)
        array = weakref.ref(middle.data)
        y = checkpoint(net, middle)
        del middle
        assert array() is not None
        y.backward(np.ones(y.shape))
        assert array() is None


# ---- Random numbers ----


def test_the_random_state_is_not_moved_by_the_second_run():
    random.manual_seed(1)
    random.begin_step(7)
    net = Net()
    y = checkpoint(net, random_leaf(4, 8))
    assert random.get_state() == (1, 7, 2)
    random.begin_step(8)
    y.backward(np.ones(y.shape))
    assert random.get_state() == (1, 8, 0)


def test_the_second_run_draws_the_rows_of_the_first():
    """The graph of rows 5, 6, … of a batch is walked after the rows of another have been computed."""
    random.manual_seed(1)
    gradients = []
    for run in (lambda net, x: net(x), checkpoint):
        net, x = Net(), random_leaf(4, 8)
        random.begin_step(7, first_row=5)
        y = run(net, x)
        random.begin_step(8, first_row=2)
        y.backward(np.ones(y.shape))
        assert random.get_first_row() == 2
        gradients.append(x.grad.data)
    random.set_first_row(0)
    np.testing.assert_array_equal(*gradients)


# ---- Edges ----


def test_closures_over_intermediate_tensors_get_their_gradients():
    x, w = random_leaf(3, 3), random_leaf(3, 3, seed=1)

    def gradients(run):
        x.grad = w.grad = None
        middle = ag.tanh(x)  # not an argument
        ag.sum(run(lambda w: ag.exp(middle * w) * middle, w) * middle).backward()
        return x.grad.data.tobytes(), w.grad.data.tobytes()

    assert gradients(checkpoint) == gradients(plain)


def test_no_grad_inside_stays_without_gradient():
    x, w = random_leaf(3), random_leaf(3, seed=1)

    def fn(x):
        with ag.no_grad():
            frozen = ag.exp(w)
        return ag.exp(x) * frozen

    ag.sum(checkpoint(fn, x)).backward()
    assert w.grad is None
    np.testing.assert_array_equal(x.grad.data, np.exp(x.data) * np.exp(w.data))


def test_retained_graph_gives_the_gradient_twice_from_one_second_run():
    calls = []
    x = random_leaf(3)
    y = ag.sum(checkpoint(lambda x: calls.append(1) or ag.exp(x), x))
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.data, 2 * np.exp(x.data))
    assert len(calls) == 2
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


# ---- What would give a wrong gradient is an error ----


def test_a_parameter_changed_before_the_backward_pass_is_an_error():
    bias = random_leaf(3)  # of an addition: no node saves it, only the second run reads it
    x = random_leaf(3, seed=1)
    y = checkpoint(lambda x: ag.exp(x + bias), x)
    with ag.no_grad():
        bias += 1.0
    with pytest.raises(RuntimeError, match=r"checkpoint\(\) needs .* changed in place"):
        y.backward(np.ones(3))


@pytest.mark.parametrize("shape", [(3,), ()])
def test_an_array_changed_before_the_backward_pass_is_an_error(shape):
    constant = np.ones(shape)
    x = random_leaf(3)
    y = checkpoint(lambda x: (x * constant).sum(), x)
    constant += 1
    with pytest.raises(RuntimeError, match=r"checkpoint: an array that Multiply .* was changed since the first run"):
        y.backward()
    constant -= 1
    y.backward()
    np.testing.assert_array_equal(x.grad.data, np.ones(3))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (lambda x: ag.exp(ag.exp(ag.exp(x))), r"has an extra op: Exp \(made at .*test_recompute"),
        (lambda x: ag.exp(x), "lacks an op: Exp saving"),
        (lambda x: ag.exp(ag.tanh(x)), r"Tanh \(made at .* in place of Exp saving"),
        (lambda x: ag.exp(ag.exp(x[:2])), r"GetItem \(made at"),
    ],
)
def test_a_second_run_that_differs_is_an_error(second, message):
    calls = []

    def fn(x):
        calls.append(1)
        return ag.exp(ag.exp(x)) if len(calls) == 1 else second(x)

    x = random_leaf(3)
    y = checkpoint(fn, x)
    with pytest.raises(RuntimeError, match=message):
        y.backward(np.ones(3))
    assert x.grad is None


def test_backward_inside_is_an_error():
    x = random_leaf(3)

    def fn(x):
        ag.sum(ag.exp(x)).backward()
        return x

    with pytest.raises(RuntimeError, match="inside a function given to checkpoint"):
        checkpoint(fn, x)
    y = checkpoint(ag.exp, x)  # nothing is left over from the errors
    y.backward(np.ones(3))
