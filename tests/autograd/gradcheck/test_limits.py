"""What the checker refuses to check: kinks, functions that misbehave, unsuitable arguments."""

import subprocess
import sys

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, apply, gradcheck, random
from autograd.gradcheck import NondifferentiableError, Options
from tests.helpers.ops import MODES, X, message, op

# ---- Points where there is no derivative ----

KINKS = {
    "relu at 0": (ag.relu, [np.array([1.0, 0.0, -1.0])], "[1]"),
    "abs at 0": (ag.abs, [np.array([[1.0, 2.0], [3.0, 0.0]])], "[1, 1]"),
    "max of equals": (lambda x: ag.max(x, axis=0), [np.array([1.0, 3.0, 3.0])], "[1]"),
    "maximum of equals": (ag.maximum, [np.array([1.0, 2.0]), np.array([0.0, 2.0])], "input 0[1]"),
    "minimum with a number": (lambda x: ag.minimum(x, 2.0), [np.array([1.0, 2.0])], "[1]"),
    "clip at its bound": (lambda x: ag.clip(x, -1, 1), [np.array([0.0, -1.0])], "[1]"),
    "edge of the domain": (ag.sqrt, [np.array([1.0, 0.0])], "[1]"),
    "vertical": (lambda x: ag.power(ag.square(x), 0.3), [np.array([1.0, 0.0])], "[1]"),
    "jump": (lambda x: x * Tensor(np.where(x.data > 0, 1.0, -1.0)) + Tensor(np.sign(x.data)), [np.zeros(1)], "[0]"),
}


@pytest.mark.parametrize(("function", "arrays", "place"), KINKS.values(), ids=KINKS)
@pytest.mark.parametrize("how", MODES[:2], ids=["full", "fast"])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # sqrt of -eps
def test_kinks(function, arrays, place, how):
    with pytest.raises(NondifferentiableError) as caught:
        gradcheck(function, arrays, **how)
    text = str(caught.value)
    assert place + " = " in text
    assert "move this input away" in text


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (ag.square, np.zeros(3)),
        (lambda x: 1000 * ag.square(x), np.zeros(3)),
        (ag.log, np.array([1e-4])),
        (ag.reciprocal, np.array([1e-3])),
        (lambda x: ag.sigmoid(1e4 * x), np.zeros(2)),
        (ag.relu, np.array([1e-4, -1e-4])),
        (ag.relu, np.array([1.0, 1e-7, -1.0])),
        (lambda x: ag.relu(x) + x * x, np.array([1.0, 1e-7, -1.0])),
        (lambda x: ag.exp(50 * x), np.ones(1)),
        (lambda x: ag.cross_entropy(x[None], [0], label_smoothing=0.1), np.array([0.7])),  # 0; its gradient, of 1 - 1
    ],
    ids=["turning point", "sharp turn", "steep", "steeper", "step", "near a kink", "nearer", "bent", "large", "zero"],
)
@pytest.mark.parametrize("how", MODES[:2], ids=["full", "fast"])
def test_bends_are_no_kinks(function, x, how):
    assert gradcheck(function, x, **how)


def test_nan_at_the_point():
    with pytest.raises(NondifferentiableError, match="NaN at this point"), pytest.warns(RuntimeWarning):
        gradcheck(ag.log, np.array([-1.0]))


# ---- Functions that misbehave ----


def test_random_functions():
    assert "autograd.random.set_state" in message(lambda x: ag.dropout(x, 0.5), X)
    rng = np.random.default_rng(0)
    assert "is random" in message(lambda x: x * rng.standard_normal(), X)

    def fixed(x):
        random.set_state((1, 0, 0))
        return ag.dropout(x, 0.5)

    assert gradcheck(fixed, X)
    assert "is random" in message(lambda x: ag.dropout(x, 1e-4), X)  # two calls agree, but the next may not


def test_changes_in_place():
    def forward(x):
        x *= 2
        return x.copy()

    assert "calling the function changes input 0" in message(op(forward, lambda self, g: 2 * g), X)

    def changes_saved(self, g):
        (x,) = self.saved
        result = np.cos(x) * g
        x += 1
        return result

    assert "the backward pass changes input 0 in place" in message(op(np.sin, changes_saved), X)

    def changes_gradient(self, g):
        g *= 2
        return g

    assert "incoming gradient" in message(op(lambda x: 2 * x, changes_gradient), X)

    class ChangesOutput(Op):
        def forward(self, x):
            y = np.exp(x)
            self.save(y)
            return y

        def backward(self, g):
            (y,) = self.saved
            y *= g
            return y.copy()

    assert "changes in place output 0" in message(lambda x: apply(ChangesOutput, x), X)


def test_backward_that_cannot_be_repeated():
    class Slope(Op):
        def forward(self, x):
            self.save(np.cos(x))
            return np.sin(x)

        def backward(self, g):
            (slope,) = self.saved
            slope *= g
            return slope.copy()

    assert "a second backward pass" in message(lambda x: apply(Slope, x), X)


def test_other_values_under_no_grad():
    assert "under no_grad" in message(lambda x: x * (2 if ag.is_grad_enabled() else 2.001), X)


def test_output_in_float32():
    assert "output 0 is float32" in message(lambda x: ag.astype(x, "float32"), X)


@pytest.mark.parametrize(
    "function",
    [lambda x: Tensor(x.data * 2), lambda x: x.detach() * 2, lambda x: Tensor(np.ones(2)), lambda x: x > 0],
    ids=["data", "detach", "constant", "comparison"],
)
def test_no_graph_is_no_success(function):
    assert "no output requires a gradient" in message(function, X)


# ---- What cannot be checked ----


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_inputs_are_refused(dtype):
    with pytest.raises(TypeError, match=r"input 1 is float(32|16).*astype\('float64'\)"):
        gradcheck(ag.add, [X, X.astype(dtype)])
    assert gradcheck(ag.add, [Tensor(X, requires_grad=True), Tensor(X.astype(dtype))])


@pytest.mark.parametrize("inputs", [[], [np.arange(3)], [Tensor(X)], [2.0], 2.0])
def test_nothing_to_differentiate(inputs):
    with pytest.raises(ValueError, match=r"no input can be differentiated \((|int64|float64|float)\)"):
        gradcheck(lambda *x: x[0] * 2, inputs)


def test_unusable_arguments():
    with pytest.raises(ValueError, match="mode='forward' is not one of 'auto', 'central', 'complex'"):
        Options(mode="forward")
    with pytest.raises(ValueError, match="tolerances must be at least 0"):
        gradcheck(ag.tanh, X, rtol=-1)
    with pytest.raises(ValueError, match="order=3: gradcheck knows the orders 1 and 2"):
        gradcheck(ag.tanh, X, order=3)
    with pytest.raises(ValueError, match="input 0 is the result of Tanh"):
        gradcheck(ag.tanh, ag.tanh(Tensor(X, requires_grad=True)))
    with pytest.raises(ValueError, match="contains NaN"):
        gradcheck(ag.tanh, np.array([np.nan]))
    with pytest.raises(TypeError, match="output 0 of the function is a ndarray"):
        gradcheck(lambda x: x.data, X)
    assert gradcheck(lambda x: x * 2, np.array([1e12]))


# ---- Its name, its documentation ----


@pytest.mark.heavy
def test_the_name_is_the_function_whatever_is_imported_first():
    for first in ("import autograd.gradcheck", "from autograd.gradcheck import GradcheckError"):
        code = f"{first}\nfrom autograd import gradcheck, tanh\nimport numpy\nassert gradcheck(tanh, numpy.ones(2))"
        subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
