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


def test_a_mask_kept_from_the_first_call():
    """The mask of a point close by is the same; that of other points is not."""
    masks = {}

    def forward(self, x):
        masks.setdefault(x.shape, x > 0)
        return np.maximum(x, 0)

    assert "wrong at another point" in message(sine(forward, lambda self, g: g * masks[g.shape]), X)


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

    assert gradcheck(lambda x, w: apply(Product, x, w, slip=right), [X, W], **how)
    with pytest.raises(GradcheckError, match=rf"the gradient of input \d is wrong when {frozen} requires no gradient"):
        gradcheck(lambda x, w: apply(Product, x, w, slip=slip), [X, W], **how)


def test_wrong_only_when_all_others_are_frozen():
    class Sum(Op):
        def forward(self, *xs):
            return sum(xs)

        def backward(self, g):
            alone = sum(self.needs_gradient) == 1
            return tuple([g * (2 if alone else 1)] * 3)

    assert "input 1 and input 2 requires no gradient" in message(lambda *xs: apply(Sum, *xs), [X, W, X + W])


def test_frozen_inputs_require_a_gradient_again():
    inputs = [Tensor(X.copy(), requires_grad=True), Tensor(W.copy(), requires_grad=True)]
    assert gradcheck(ag.multiply, inputs)
    message(lambda x, w: apply(Product, x, w, slip=lambda n, a, b: (a if all(n[:2]) else -a, b)), inputs)
    assert all(x.requires_grad for x in inputs)


# ---- Layouts ----


LAYOUT_BUGS = {
    "memory order of x": (lambda x, g: np.cos(x.ravel("K")).reshape(x.shape) * g, "inputs"),
    "memory order of g": (lambda x, g: np.cos(x) * g.ravel("K").reshape(g.shape), "incoming gradient"),
    "wrong if g is strided": (lambda x, g: np.cos(x) * g * (1 if g.flags.forc else 2), "every second|negative|0"),
    "wrong if x is reversed": (lambda x, g: np.cos(x) * g * (-1 if min(x.strides) < 0 else 1), "negative strides"),
    "wrong if g is by columns": (lambda x, g: np.cos(x) * g * (1 + (g.flags.fnc)), "Fortran"),
    "wrong if g is repeated": (lambda x, g: np.cos(x) * g * (2 if 0 in g.strides else 1), "strides of 0, read-only"),
}


@FAST
@pytest.mark.parametrize(("slope", "where"), LAYOUT_BUGS.values(), ids=LAYOUT_BUGS)
def test_wrong_only_in_some_layout(slope, where, how):
    function = op(np.sin, lambda self, g: slope(self.saved[0], g))
    with pytest.raises(GradcheckError, match=f"the gradient of the input is wrong for .*({where})"):
        gradcheck(function, ROOMY, **how)
    assert gradcheck(function, ROOMY, options=Options(layouts=False), **how)


def test_values_that_depend_on_the_layout():
    def in_memory_order(f, x):
        return f(x.ravel("K")).reshape(x.shape)

    function = op(lambda x: in_memory_order(np.sin, x), lambda self, g: in_memory_order(np.cos, self.saved[0]) * g)
    assert "the function gives other values for inputs in Fortran order" in message(function, ROOMY)


def test_a_function_may_refuse_layouts():
    """A loud error is no wrong gradient."""

    def forward(x):
        if not x.flags.c_contiguous:
            raise ValueError("C order only")
        return np.sin(x)

    assert gradcheck(op(forward, lambda self, g: np.cos(self.saved[0]) * g), ROOMY)


# ---- Other points ----

BRANCHES = {
    "leaky relu, slope of the other side": (
        np.abs(X) + 0.1,
        lambda x: np.where(x > 0, x, 0.1 * x),
        lambda x: 1.0 + 0 * x,
    ),
    "clip, beyond the bound": (X / 10, lambda x: np.clip(x, -1, 1), lambda x: 1.0 + 0 * x),
    "huber, beyond the knee": (X / 3, lambda x: np.where(abs(x) < 1, x * x / 2, abs(x) - 0.5), lambda x: x),
    "a threshold at 5": (X, lambda x: np.where(x > 5, 3 * x, x), lambda x: 1.0 + 0 * x),
    "a slope that overflows": (100 * (abs(X) + 1), lambda x: np.logaddexp(0, x), lambda x: np.exp(x) / (1 + np.exp(x))),
    "between 0.5 and 1 only": (
        np.array([0.3]),
        lambda x: np.where((x > 0.5) & (x < 1), 2 * x, x),
        lambda x: 1.0 + 0 * x,
    ),
    "a bound at 50": (X, lambda x: np.clip(x, -50, 50), lambda x: 1.0 + 0 * x),
    "beside 0": (np.zeros(4), lambda x: np.where(x > 1, 3 * x, x), lambda x: 1.0 + 0 * x),
    "abs, without its sign": (np.abs(X) + 0.1, np.abs, lambda x: 1.0 + 0 * x),
}


@FAST
@pytest.mark.parametrize(("x", "forward", "slope"), BRANCHES.values(), ids=BRANCHES)
@pytest.mark.filterwarnings("error")
def test_wrong_beyond_a_kink(x, forward, slope, how):
    function = op(forward, lambda self, g: slope(self.saved[0]) * g)
    text = message(function, x, **how)
    assert "a branch of the function that the inputs do not reach" in text
    assert "analytic" in text
    assert gradcheck(function, x, options=Options(elsewhere=False), **how)


@FAST
@pytest.mark.parametrize(
    ("function", "x"),
    [
        (ag.log, np.abs(X) + 0.1),
        (ag.sqrt, np.abs(X) + 0.1),
        (lambda x: ag.power(x, 2.5), np.abs(X) + 0.1),
        (lambda x: ag.exp(100 * x), X),
        (lambda x: ag.relu(x) * ag.abs(x - 1) + ag.clip(x, -3, 3), X),
        (lambda x: ag.softmax(ag.layer_norm(x, np.ones(3), np.zeros(3))), X),
        (lambda x: ag.max(x, axis=1), X),
        (lambda x: ag.sum(x * x) * 1e8, X * 1e-3),
    ],
    ids=["log", "sqrt", "power", "overflow", "kinks", "normalisation", "max", "large"],
)
@pytest.mark.filterwarnings("error")
def test_right_gradients_pass_beyond_the_inputs(function, x, how):
    assert gradcheck(function, x, **how)


def test_a_function_may_refuse_other_points():
    def positive_only(x):
        if (x.data <= 0).any():
            raise ValueError("positive numbers only")
        return ag.log(x)

    assert gradcheck(positive_only, np.abs(X) + 0.1)


def test_elsewhere_false_stays_at_the_inputs():
    seen = set()

    def function(x):
        seen.add(round(float(x.data.sum()), 3))
        return ag.tanh(x)

    gradcheck(function, X, options=Options(elsewhere=False))
    assert seen == {round(float(X.sum()), 3)}


def test_other_points_keep_layouts_and_infinities():
    x = np.asfortranarray(np.array([[1.0, -np.inf], [2.0, 3.0], [0.0, 5.0]]))
    points = dict(other_points([x], np.random.default_rng(0)))
    assert len(points) == 15
    for (moved,) in points.values():
        assert moved.strides == x.strides
        assert np.isinf(moved).sum() == 1


# ---- float32 ----

NARROW_BUGS = {
    "another factor": lambda x, g: np.cos(x) * g * (1.01 if x.dtype == np.float32 else 1),
    "a little": lambda x, g: np.cos(x) * g * (1.001 if x.dtype == np.float32 else 1),
    "through float16": lambda x, g: (np.cos(x) * g).astype(np.float16) if x.dtype == np.float32 else np.cos(x) * g,
    "overflow": lambda x, g: np.cos(x) * g * 1e60 / x.dtype.type(1e60 if x.dtype == np.float64 else np.inf),
    "zeros": lambda x, g: np.cos(x) * g * (np.finfo(x.dtype).eps < 1e-10),
}


@FAST
@pytest.mark.parametrize("slope", NARROW_BUGS.values(), ids=NARROW_BUGS)
def test_wrong_only_in_float32(slope, how):
    function = op(np.sin, lambda self, g: slope(self.saved[0], g))
    assert gradcheck(function, X, options=Options(float32=False), **how)
    for options in (Options(float32=True), Options(elsewhere=False, float32=True), Options()):
        text = message(function, X, options=options, **how)
        assert text.startswith("wrong gradient of the input in float32, where it is right in float64")


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
