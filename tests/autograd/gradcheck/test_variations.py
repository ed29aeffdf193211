"""Gradients that are right at the inputs, and wrong under other circumstances; and right ones, which pass."""

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, apply, gradcheck
from autograd.gradcheck import GradcheckError, Options, gradient_error
from autograd.gradcheck.elsewhere import other_points
from tests.helpers.ops import W, X, message, op

FAST = pytest.mark.parametrize("how", [{}, {"fast": True}], ids=["full", "fast"])
ROOMY = np.random.default_rng(3).standard_normal((3, 4))

# ---- Buffers ----


def sine(forward, backward):
    return lambda x: apply(type("Sine", (Op,), {"forward": forward, "backward": backward}), x)


@FAST
def test_a_buffer_that_the_next_call_overwrites(how):
    buffer = np.empty(X.shape)

    def forward(self, x):
        buffer[...] = np.cos(x)
        return np.sin(x)

    text = message(sine(forward, lambda self, g: g * buffer), X, **how)
    assert "called at another point before the backward pass" in text
    assert "self.save" in text


def test_values_kept_from_the_first_call():
    kept = []

    def forward(self, x):
        kept.append(np.cos(x))
        return np.sin(x)

    text = message(sine(forward, lambda self, g: g * kept[0]), X)
    assert "wrong at another point" in text
    assert "keeps from the first call" in text


# ---- Frozen inputs ----


class Product(Op):
    """x · w, with whatever `slip` does if an input is frozen."""

    def forward(self, x, w, *, slip):
        self.slip = slip
        self.save(x, w)
        return x * w

    def backward(self, g):
        x, w = self.saved
        g_x, g_w = g * w, g * x
        return self.slip(self.needs_gradient, g_x, g_w)


@FAST
@pytest.mark.parametrize(
    ("slip", "frozen"),
    [
        (lambda needs, g_x, g_w: (g_x if needs[1] else g_x * 2, g_w), "input 1"),
        (lambda needs, g_x, g_w: (g_x, g_w if needs[0] else None), "input 0"),
        (lambda needs, g_x, g_w: (g_x, g_w) if all(needs[:2]) else (g_w, g_x), "input [01]"),
    ],
    ids=["x alone", "w alone", "exchanged"],
)
def test_wrong_only_when_another_input_is_frozen(slip, frozen, how):
    def right(needs, g_x, g_w):
        return g_x, g_w

    inputs = [Tensor(array.copy(), requires_grad=True) for array in (X, W)]
    assert gradcheck(lambda x, w: apply(Product, x, w, slip=right), inputs, **how)
    with pytest.raises(GradcheckError, match=rf"the gradient of input \d is wrong when {frozen} requires no gradient"):
        gradcheck(lambda x, w: apply(Product, x, w, slip=slip), inputs, **how)
    assert all(x.requires_grad for x in inputs)


@pytest.mark.parametrize(("left", "frozen"), [(1, "input 1 and input 2"), (2, "when input 0")])
def test_wrong_only_when_some_of_three_are_frozen(left, frozen):
    class Sum(Op):
        def forward(self, *xs):
            return sum(xs)

        def backward(self, g):
            return tuple([g * (2 if sum(self.needs_gradient) == left else 1)] * 3)

    assert f"{frozen} requires no gradient" in message(lambda *xs: apply(Sum, *xs), [X, W, X + W])


def test_directions_leave_infinite_elements_alone():
    finite = op(lambda x: np.where(np.isinf(x), 0, x), lambda self, g: g)
    assert gradcheck(finite, np.array([1.0, -np.inf, 2.0]), fast=True)


# ---- Layouts ----


LAYOUT_BUGS = {
    "memory order of x": (lambda x, g: np.cos(x.ravel("K")).reshape(x.shape) * g, "inputs"),
    "memory order of g": (lambda x, g: np.cos(x) * g.ravel("K").reshape(g.shape), "incoming gradient"),
    "wrong if g is strided": (lambda x, g: np.cos(x) * g * (1 if g.flags.forc else 2), "every second|negative|0"),
    "wrong if x is reversed": (lambda x, g: np.cos(x) * g * (-1 if min(x.strides) < 0 else 1), "negative strides"),
    "wrong if g is by columns": (lambda x, g: np.cos(x) * g * (1 + (g.flags.fnc)), "Fortran"),
    "wrong if g is repeated": (lambda x, g: np.cos(x) * g * (2 if 0 in g.strides else 1), "strides of 0, read-only"),
}


@pytest.mark.parametrize(("slope", "where"), LAYOUT_BUGS.values(), ids=LAYOUT_BUGS)
def test_wrong_only_in_some_layout(slope, where):
    function = op(np.sin, lambda self, g: slope(self.saved[0], g))
    with pytest.raises(GradcheckError, match=f"the gradient of the input is wrong for .*({where})"):
        gradcheck(function, ROOMY)
    assert gradcheck(function, ROOMY, options=Options(layouts=False))


def test_values_that_depend_on_the_layout():
    def in_memory_order(f, x):
        return f(x.ravel("K")).reshape(x.shape)

    function = op(lambda x: in_memory_order(np.sin, x), lambda self, g: in_memory_order(np.cos, self.saved[0]) * g)
    assert "the function gives other values for inputs in Fortran order" in message(function, ROOMY)


# ---- Other points ----


def test_elsewhere_false_stays_at_the_inputs():
    seen = set()
    gradcheck(lambda x: seen.add(round(float(x.data.sum()), 3)) or ag.tanh(x), X, options=Options(elsewhere=False))
    assert seen == {round(float(X.sum()), 3)}


def test_other_points_keep_layouts_and_infinities():
    x = np.asfortranarray(np.array([[1.0, -np.inf], [2.0, 3.0], [0.0, 5.0]]))
    points = [*other_points([x], np.random.default_rng(0))]
    assert (len(points), len(dict(points))) == (19, 15)  # some are drawn three times
    for _, (moved,) in points:
        assert (moved.strides, np.isinf(moved).sum()) == (x.strides, 1)


# ---- float32 ----


@FAST
@pytest.mark.parametrize(
    "function",
    [
        ag.tanh,
        lambda x: ag.exp(ag.softmax(x * 30)),
        lambda x: (x + 1e4) - 1e4,
        lambda x: ag.log_softmax(x) @ np.ones((3, 2)),
        lambda x: ag.layer_norm(x, np.ones(3), np.zeros(3)),
        lambda x: ag.sum(x * x * x, axis=0) - ag.sum(x, axis=0),
    ],
    ids=["tanh", "saturated", "cancellation", "a float64 constant", "layer norm", "sums"],
)
def test_rounding_to_float32_is_no_error(function, how):
    assert gradcheck(function, X, options=Options(float32=True), **how)


# ---- Multiples of the incoming gradient ----

NOT_LINEAR = {
    "absolute value": abs,
    "clipped": lambda g: np.clip(g, -1, 1),
    "positive part": lambda g: np.maximum(g, 0),
    "threshold": lambda g: np.where(abs(g) < 1e-1, 0, g),
}


@FAST
@pytest.mark.parametrize("bent", NOT_LINEAR.values(), ids=NOT_LINEAR)
def test_a_backward_pass_that_is_not_linear_in_the_incoming_gradient(bent, how):
    """Of one number as output: the random weight alone can be inside the part that is linear."""
    for seed in range(4):
        function = op(lambda x: (x**2).sum(), lambda self, g: bent(g) * 2 * self.saved[0])
        assert message(function, X, options=Options(seed=seed), **how)
    squares = op(lambda x: x**2, lambda self, g: np.clip(g, -3, 3) * 2 * self.saved[0])
    assert "not linear in the incoming gradient: for -1024 times" in message(squares, X, **how)


# ---- Tolerances ----


def test_tolerances_hold_at_other_points_too():
    nearly = op(np.sin, lambda self, g: (1 + 4e-4) * g * np.cos(self.saved[0]))
    assert gradcheck(nearly, X, rtol=1e-3, atol=1e-5)
    assert message(nearly, X, rtol=3e-4, atol=1e-5)
    shifted = op(np.sin, lambda self, g: g * np.cos(self.saved[0]) + 1e-4 * g)
    assert gradcheck(shifted, X, rtol=0.0, atol=2e-4)
    assert gradient_error(op(np.sin, lambda self, g: 2 * g * np.cos(self.saved[0])), X) > 0.1
