"""Derivatives of every order: the backward pass recorded, and differentiated again."""

import gc
import weakref
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, apply
from autograd.engine import run_backward
from autograd.modes import Observer, observe
from tests.cases import all_cases

CASES = list(all_cases())


def leaf(*values):
    return Tensor(np.array(values, dtype=np.float64), requires_grad=True)


def derivative(function, x, order):
    """The derivative of an elementwise function; zeros where it has become constant."""
    x = Tensor(np.asarray(x, np.float64), requires_grad=True)
    y = function(x)
    for _ in range(order):
        (y,) = ag.grad(y.sum(), x, create_graph=True, allow_unused=True)
        if y is None:
            return np.zeros(x.shape)
    return y.data


STEP = 3e-5  # short: a kink of ReLU between the points would spoil the differences
DIFFERENCES = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))  # of eighth order


def outputs_of(function: Any, leaves: list[Tensor]) -> list[Tensor]:
    ys = function(*leaves)
    return [y for y in (ys if isinstance(ys, tuple) else (ys,)) if y.requires_grad]


def second_order_error(function: Any, arrays: list[np.ndarray], rng: np.random.Generator) -> float:
    """The relative error of the derivative, along a random direction, of the gradients of `function`.

    The gradients are functions of the inputs and of the cotangents: the direction is one of both.
    """
    leaves = [Tensor(a, requires_grad=True) for a in arrays]
    ys = outputs_of(function, leaves)
    if not ys:
        return 0.0
    cotangents = [rng.standard_normal(y.shape) for y in ys]
    gs = [Tensor(g, requires_grad=True) for g in cotangents]
    gradients = ag.grad(ys, leaves, gs, create_graph=True, allow_unused=True)
    weights = [rng.standard_normal(a.shape) for a in arrays]
    terms = [(g * w).sum() for g, w in zip(gradients, weights, strict=True) if g is not None]
    variables = [*leaves, *gs]
    found = ag.grad(sum(terms[1:], terms[0]), variables, allow_unused=True) if terms else [None] * len(variables)
    direction = [rng.standard_normal(x.shape) for x in variables]
    slope = sum(float((d.data * v).sum()) for d, v in zip(found, direction, strict=True) if d is not None)

    def first_order(distance: float) -> float:
        moved = [x.data + distance * v for x, v in zip(variables, direction, strict=True)]
        leaves = [Tensor(a, requires_grad=True) for a in moved[: len(arrays)]]
        run_backward(outputs_of(function, leaves), moved[len(arrays) :])
        return sum(float((x.grad.data * w).sum()) for x, w in zip(leaves, weights, strict=True) if x.grad is not None)

    expected = sum(c * (first_order(n * STEP) - first_order(-n * STEP)) for n, c in DIFFERENCES) / STEP
    return abs(slope - expected) / max(1.0, abs(expected))


@pytest.fixture(params=["plain", "fast"])
def ops(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr("autograd.engine.implementations", {})


# ---- Every op ----


@pytest.mark.heavy
@pytest.mark.parametrize("op", sorted({case.op for case in CASES}))
def test_second_derivatives(op, ops):
    for case in CASES:
        if case.op == op:
            function, arrays = case.make(np.random.default_rng(3))
            assert second_order_error(function, arrays, np.random.default_rng(4)) < 1e-9, str(case)


def test_every_op_is_differentiated_twice():
    assert {case.op for case in CASES} >= set(Op.registry)


THIRD = {
    "sin": (ag.sin, lambda x: -np.cos(x)),
    "tanh": (ag.tanh, lambda x: (1 - np.tanh(x) ** 2) * (6 * np.tanh(x) ** 2 - 2)),
    "power": (lambda x: x**3.5, lambda x: 3.5 * 2.5 * 1.5 * x**0.5),
    "erf": (ag.erf, lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x) * (4 * x * x - 2)),
    "x softmax": (
        lambda x: ag.softmax(ag.stack([x, 0 * x], axis=0), axis=0)[0],  # the sigmoid
        lambda x: (s := 1 / (1 + np.exp(-x))) * (1 - s) * (1 - 6 * s + 6 * s * s),
    ),
}


@pytest.mark.parametrize("name", THIRD)
def test_third_derivatives(name):
    function, expected = THIRD[name]
    x = np.array([0.3, 0.9, 2.1])
    np.testing.assert_allclose(derivative(function, x, 3), expected(x), rtol=1e-12)


# ---- Where differences cannot be taken, or formulas have no value ----


def test_the_sigmoid_has_a_turning_point_at_0():
    """Its formula with |x| has none: what differentiates the formula and not the function gets 0 for the slope."""
    assert derivative(ag.sigmoid, [0.0], 1) == 0.25
    assert derivative(ag.sigmoid, [0.0], 2) == 0
    assert derivative(ag.softplus, [0.0], 2) == 0.25
    assert derivative(ag.silu, [0.0], 2) == 0.5
    np.testing.assert_allclose(derivative(ag.gelu, [0.0], 2), 2 / np.sqrt(2 * np.pi), rtol=1e-15)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 4.0])
def test_powers_at_0(exponent):
    x = np.array([0.0, 2.0])
    expected = exponent * (exponent - 1) * x ** max(exponent - 2, 0)
    np.testing.assert_array_equal(derivative(lambda x: ag.power(x, Tensor(exponent)), x, 2), expected)
    np.testing.assert_array_equal(derivative(lambda x: x**exponent, x, 2), expected)


def test_equal_elements_have_no_curvature_in_their_spread():
    assert np.array_equal(derivative(lambda x: ag.std(x), [1.0, 1.0, 1.0], 2), np.zeros(3))


@pytest.mark.parametrize("function", [lambda x: ag.softmax(x) ** 2, lambda x: ag.logsumexp(x, -1)])
def test_a_masked_row_has_no_curvature(function):
    x = Tensor([[-np.inf, -np.inf], [0.5, -np.inf]], requires_grad=True)
    (g,) = ag.grad(function(x).sum(), x, create_graph=True)
    (h,) = ag.grad((g * g).sum(), x)
    assert h.tolist() == [[0, 0], [0, 0]]


def test_a_product_with_zeros():
    x = leaf(0.0, 0.0, 3.0, 4.0)
    hessian = ag.hessian(ag.prod)(x.data)
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = 12
    np.testing.assert_array_equal(hessian.data, expected)


# ---- The graph of a gradient ----


def test_gradients_by_backward_have_a_graph():
    x = leaf(2.0)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.tolist() == [12]
    (g,) = ag.grad(x.grad.sum(), x)
    assert g.tolist() == [12]
    x.zero_grad()


def test_a_gradient_is_a_function_of_the_cotangent():
    x, v = leaf(2.0, 3.0), leaf(1.0, 1.0)
    (g,) = ag.grad(x * x, x, v, create_graph=True)
    (slope,) = ag.grad(g.sum(), v)
    assert slope.tolist() == [4, 6]


def test_the_graph_is_kept_for_the_second_order_and_freed_on_request():
    x = leaf(2.0)
    y = (x**3).sum()
    (g,) = ag.grad(y, x, create_graph=True)
    ag.grad(g.sum(), x)
    y = (x**3).sum()
    ag.grad(y, x, create_graph=True, retain_graph=False)
    with pytest.raises(RuntimeError, match="a second time"):
        ag.grad(y, x)


def test_no_cycle_keeps_a_graph():
    x = leaf(2.0, 3.0)
    gc.collect()
    gc.disable()
    try:
        y = ag.tanh(x) * x
        (g,) = ag.grad(y.sum(), x, create_graph=True)
        (h,) = ag.grad(g.sum(), x, create_graph=True)
        alive = [weakref.ref(op) for op in (y.op, g.op, h.op)]
        del y, g, h
        assert [reference() for reference in alive] == [None] * 3
    finally:
        gc.enable()


def test_hooks_see_and_change_gradients_with_a_graph():
    x = leaf(2.0)
    y = x * x
    x.register_hook(lambda g: g * 3)
    y.register_hook(lambda g: g * y.detach())  # of the middle
    (g,) = ag.grad((y * y).sum(), x, create_graph=True)
    assert g.tolist() == [2 * 4 * 4 * 4 * 3]  # 2 y · y · 2 x · 3
    (h,) = ag.grad(
        g.sum(), x
    )  # of 2 y · 4 · 2 x · 3: (3 · 2 y · 4 · 2 + 3 · 2 · 4 · 2 x · 4, by the hook of y, · 2 x) · 3
    assert h.tolist() == [(192 + 96 * 4 * 4) * 3]


def test_an_intermediate_and_several_outputs():
    x = leaf(1.0, 2.0, 3.0)
    m = x * x
    a, b, _ = ag.split(m, 3)
    gradients = ag.grad([(a * b).sum(), b.sum()], [m, x], create_graph=True)
    assert [g.tolist() for g in gradients] == [[4, 2, 0], [8, 8, 0]]
    (h,) = ag.grad(gradients[1].sum(), x)
    assert h.tolist() == [2 * 4 + 4 * 2 * 1, 4 * 1 * 2 + 2 * (1 + 1), 0]


def test_what_changed_in_place_is_noticed():
    x = leaf(2.0)
    y = x * x
    with ag.no_grad():
        x += 1.0
    with pytest.raises(RuntimeError, match="changed in place"):
        ag.grad(y, x, create_graph=True)


def test_a_checkpoint_is_run_again():
    x = leaf(0.5, -1.0)

    def f(x):
        return ag.tanh(x * x) * x

    expected = derivative(f, x.data, 2)
    (g,) = ag.grad(ag.checkpoint(f, x).sum(), x, create_graph=True)
    (h,) = ag.grad(g.sum(), x)
    np.testing.assert_array_equal(h.data, expected)


class Cube(Op):
    """In the form that keeps what it likes."""

    def forward(self, x):
        self.save(x * x)
        return x**3

    def backward(self, g):
        return 3 * g * self.saved[0]


def test_what_cannot_be_recorded_says_so():
    x = leaf(2.0)
    y = apply(Cube, x)
    with pytest.raises(NotImplementedError, match=r"gradient of Cube \(made at .*write forward\(xp, \*inputs\)"):
        ag.grad(y, x, create_graph=True)
    (g,) = ag.grad(y, x)
    assert g.tolist() == [12]


class Wild(Op):
    """With a function that no op corresponds to."""

    reads = "x"

    @staticmethod
    def forward(xp, x):
        return xp.arctan(x)

    @staticmethod
    def backward(xp, g, y, x):
        return g * xp.cos(xp.arctan(x)) ** 2


def test_a_function_without_an_op_is_named():
    x = leaf(2.0)
    with pytest.raises(NotImplementedError, match=r"xp\.arctan of a Tensor"):
        ag.grad(apply(Wild, x), x, create_graph=True)


def test_a_constant_gradient_has_no_derivative():
    x = leaf(2.0)
    (g,) = ag.grad((3 * x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not depend on any Tensor"):
        ag.grad(g.sum(), x)
    assert ag.grad(g.sum(), x, allow_unused=True) == (None,)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_observers_hear_of_a_pass_from_its_beginning_to_its_end(create_graph, fails):
    class Heard(Observer):
        def __init__(self):
            self.said = []

        def before_backward_pass(self):
            self.said.append("begins")

        def before_backward(self, op, g_outputs):
            self.said.append("node")
            if fails:
                raise ArithmeticError

        def after_backward_pass(self):
            self.said.append("ends")

    x = Tensor([2.0], requires_grad=True)
    y = x * x
    with observe(Heard()) as heard, pytest.raises(ArithmeticError) if fails else nullcontext():
        y.backward(np.ones(1), create_graph=create_graph)
    assert heard.said == ["begins", "node", "ends"]
