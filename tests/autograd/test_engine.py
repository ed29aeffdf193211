"""The engine: order, accumulation, errors, several outputs, modes, watchers."""

import sys
import weakref

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, apply
from tests.helpers.leaves import leaf, random_leaf, without_garbage_collector

# ---- Values and intermediates used more than once ----


def test_many_diamonds_take_linear_time():
    """Two to the power of 200 paths, each node visited once."""
    x = leaf(1.0)
    y = x
    for _ in range(200):
        y = y * 0.5 + y * 0.5
    y.backward()
    assert x.grad.item() == 1.0


# ---- Long chains ----


@pytest.mark.heavy
def test_chain_of_10000_ops_runs_backward_and_is_freed():
    assert sys.getrecursionlimit() < 10_000
    with without_garbage_collector():
        x = leaf(1.0)
        y = x
        for _ in range(10_000):
            y = y + 0.5
        first = weakref.ref(y.op)
        y.backward()
        assert x.grad.item() == 1.0
        del y
        assert first() is None


# ---- Ops that are wrong ----


class WrongShape(Op):
    def forward(self, x):
        return x.sum(axis=0)

    def backward(self, g_y):
        return g_y


def test_gradient_of_a_wrong_shape_names_op_shapes_and_line():
    x = random_leaf(2, 3)
    line = sys._getframe().f_lineno + 1
    y = apply(WrongShape, x)
    with pytest.raises(RuntimeError) as caught:
        y.backward(np.ones(3))
    message = str(caught.value)
    assert "WrongShape" in message
    assert "(3,)" in message
    assert "(2, 3)" in message
    assert f"test_engine.py:{line}" in message
    assert x.grad is None


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_number_of_gradients_is_an_error(count):
    class NotTwo(Op):
        def forward(self, a, b):
            return a + b

        def backward(self, g_y):
            return (g_y,) * count

    with pytest.raises(RuntimeError, match=f"{count} gradients for 2 inputs"):
        apply(NotTwo, leaf(1.0), leaf(1.0)).backward()


def test_a_gradient_of_none_counts_as_zeros():
    class Constant(Op):
        def forward(self, x):
            return x * 0 + 1

        def backward(self, g_y):
            return (None,)

    x = leaf(1.0, 2.0)
    (apply(Constant, x) * x).sum().backward()
    assert x.grad.tolist() == [1, 1]


@pytest.mark.parametrize("slope", [lambda x: len(x), lambda x: x != 0, lambda x: 2 * x], ids=["len", "!=", "2 *"])
def test_an_array_that_reads_does_not_name_is_told(slope):
    class Square(Op):
        @staticmethod
        def forward(xp, x):
            return x * x

        @staticmethod
        def backward(xp, g, y, x):
            return g * slope(x)

    with pytest.raises(TypeError, match=r"reads an array of shape \(1,\) that `reads` of its op does not name"):
        apply(Square, leaf(3.0)).backward()


# ---- Leaves and dtypes ----


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, bool])
def test_integers_cannot_require_a_gradient(dtype):
    with pytest.raises(TypeError, match=f"this one is {np.dtype(dtype).name}; convert it"):
        Tensor(np.zeros(3, dtype), requires_grad=True)
    t = Tensor(np.zeros(3, dtype))
    with pytest.raises(TypeError, match="floating-point"):
        t.requires_grad = True


def test_each_gradient_has_its_inputs_dtype():
    a = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    b = Tensor(np.ones(3, np.float64), requires_grad=True)
    c = Tensor(np.ones((2, 1), np.float16), requires_grad=True)
    y = a * b + c
    assert y.dtype == np.float64
    y.sum().backward()
    assert [t.grad.dtype for t in (a, b, c)] == [np.float32, np.float64, np.float16]
    assert [t.grad.shape for t in (a, b, c)] == [(2, 3), (3,), (2, 1)]


def test_backward_needs_a_gradient_for_several_elements():
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*gradient="):
        (leaf(1.0, 2.0) * 2).backward()
    with pytest.raises(ValueError, match=r"gradient has shape \(3,\), the Tensor has shape \(2,\)"):
        (leaf(1.0, 2.0) * 2).backward(np.ones(3))
    with pytest.raises(RuntimeError, match="does not depend on any Tensor with requires_grad=True"):
        Tensor([1.0]).backward()


def test_backward_of_a_leaf():
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    g = np.array([3.0, 4.0])
    x.backward(g)
    assert x.grad.tolist() == [3, 4]
    assert not np.shares_memory(x.grad.data, g)


def test_requires_grad_may_be_switched_off():
    x, w = leaf(2.0), leaf(3.0)
    w.requires_grad = False
    (x * w).backward()
    assert x.grad.item() == 3.0
    assert w.grad is None


# ---- Several outputs ----


class SumAndDifference(Op):
    def forward(self, a, b):
        return a + b, a - b

    def backward(self, g_sum, g_difference):
        return g_sum + g_difference, g_sum - g_difference


@pytest.mark.parametrize("used", [0, 1])
def test_unused_output_counts_as_zeros(used):
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    apply(SumAndDifference, a, b)[used].backward(np.array([2.0, 3.0]))
    sign = 1 if used == 0 else -1
    assert a.grad.tolist() == [2, 3]
    assert b.grad.tolist() == [2 * sign, 3 * sign]


def test_outputs_that_are_integers_carry_no_gradient():
    class ValueAndPlace(Op):
        def forward(self, x):
            return x.max(), x.argmax()

        def backward(self, g_value, g_place):
            raise AssertionError("not needed here")

    value, place = apply(ValueAndPlace, leaf(1.0, 3.0))
    assert value.requires_grad
    assert not place.requires_grad
    assert isinstance(place.data, np.ndarray)


# ---- Modes ----


def test_no_grad_records_nothing():
    x = leaf(1.0)
    with ag.no_grad():
        assert not ag.is_grad_enabled()
        y = x * 2
        with ag.enable_grad():
            assert ag.is_grad_enabled()
            z = x * 3
        assert not ag.is_grad_enabled()
    assert ag.is_grad_enabled()
    assert y.op is None
    assert not y.requires_grad
    assert z.requires_grad


def test_no_grad_ends_with_an_exception():
    with pytest.raises(KeyError), ag.no_grad():
        raise KeyError
    assert ag.is_grad_enabled()


def test_backward_works_inside_no_grad():
    x = leaf(3.0)
    y = x * x
    with ag.no_grad():
        y.backward()
    assert x.grad.item() == 6.0


# ---- Warnings ----


def test_backward_does_not_warn():
    x = leaf(0.0, 1.0)
    with np.errstate(all="raise", under="ignore"):
        ag.sqrt(x).sum().backward()
        assert np.geterr()["divide"] == "raise"
    np.testing.assert_array_equal(x.grad.data, [np.inf, 0.5])


# ---- Observers ----


class Forgetful(Op):
    def forward(self, x):
        return x * 2

    def backward(self, g):
        g * 2


class PlainForgetful(Op):
    @staticmethod
    def forward(xp, x):
        return x * 2

    @staticmethod
    def backward(xp, g, y, x):
        g * 2


@pytest.mark.parametrize("op", [Forgetful, PlainForgetful])
def test_a_backward_without_return_is_an_error(op):
    y = apply(op, leaf(np.ones(2))).sum()
    with pytest.raises(RuntimeError, match=r"Forgetful .*backward returned None; return a gradient for each input"):
        y.backward(retain_graph=True)
