"""Derivatives in other forms: pairs, gradients and Hessians, slopes, forward mode; float32; large numbers."""

import re
from pathlib import Path

import numpy as np
import pytest

import autograd as ag
from autograd import check_derivatives, check_elementwise, check_jvp, gradcheck
from autograd.gradcheck import GradcheckError, GradcheckWarning, NondifferentiableError, from_pair, from_torch, from_vjp
from tests.helpers.ops import X

RNG = np.random.default_rng(5)
A = RNG.standard_normal((4, 4))
A = A + A.T
POINT = RNG.standard_normal(4)
pytestmark = pytest.mark.filterwarnings("error::autograd.gradcheck.GradcheckWarning")


def said(check, *arguments, **keywords):
    with pytest.raises(GradcheckError) as caught:
        check(*arguments, **keywords)
    return str(caught.value)


# ---- The table of the documentation ----


def loss(x):
    return np.exp(0.1 * x @ A @ x)


def gradient(x):
    return 0.2 * loss(x) * A @ x


def hessian(x):
    return loss(x) * (0.2 * A + 0.04 * np.outer(A @ x, A @ x))


def layer(x):
    y = np.tanh(x)
    return y, lambda g: g * (1 - y * y)


def names_of_the_table():
    return {
        "ag": ag, "np": np, "x": X, "gradcheck": gradcheck, "from_vjp": from_vjp, "from_pair": from_pair,
        "from_torch": from_torch, "check_derivatives": check_derivatives, "check_elementwise": check_elementwise,
        "check_jvp": check_jvp, "f": np.sin, "vjp": lambda g, x: g * np.cos(x), "jvp": lambda x, v: v * np.cos(x),
        "loss": loss, "gradient": gradient, "hessian": hessian, "point": POINT, "points": np.linspace(-9, 9, 41),
        "slope": lambda x: 1 - np.tanh(x) ** 2, "second": lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2),
        "w": RNG.standard_normal((X.shape[-1], 2)), "matmul_vjp": lambda g, x, w: (g @ w.T, x.T @ g),
        "narrow": lambda x: x.astype("f") ** 2, "narrow_vjp": lambda g, x: 2 * g * x,
    }  # fmt: skip


LINES = re.findall(r"^\| .* \| `(.*)` \|$", Path("docs/gradients.md").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_table_has_all_forms():
    assert len(LINES) == 11


@pytest.mark.parametrize("line", LINES)
def test_each_line_of_the_table(line):
    values, gradients = {"w": A.copy()}, {}

    def affine(x):
        def backprop(g):
            gradients["w"] = gradients.get("w", 0) + x.T @ g
            return g @ values["w"].T

        return x @ values["w"], backprop

    names = names_of_the_table() | {"values": values, "gradients": gradients}
    if "params" in line:
        names |= {"layer": affine, "x": RNG.standard_normal((3, 4))}
    else:
        names["layer"] = layer
    if "torch" in line:
        names["torch"] = pytest.importorskip("torch", reason="PyTorch is not installed")
    assert eval(line, names) is True


# ---- Pairs ----


class Affine:
    """y = x w + b; `times` is a mistake in the gradient of w, `start` one in what gradients begin with."""

    def __init__(self, times=1.0, start=None, adds_up=True):
        self.times, self.start, self.adds_up = times, start, adds_up
        self.values, self.gradients, self.calls = {"w": A[:, :3].copy(), "b": A[0, :3].copy()}, {}, 0

    def __call__(self, x):
        self.calls += 1
        w = self.values["w"]

        def backprop(g):
            found = {"w": self.times * x.T @ g, "b": g.sum(0)}
            for name, value in found.items():
                before = self.gradients.get(name, 0 * value) if self.adds_up else 0 * value
                self.gradients[name] = before + value + (self.start(self.values[name]) if self.start else 0)
            return g @ w.T

        return x @ w + self.values["b"], backprop


INPUT = RNG.standard_normal((5, 4))


@pytest.mark.parametrize("adds_up", [True, False])
def test_the_parameters_of_a_pair(adds_up):
    right, wrong = Affine(adds_up=adds_up), Affine(times=5.0, adds_up=adds_up)
    assert gradcheck(from_pair(right, params=(right.values, right.gradients)), INPUT)
    assert gradcheck(from_pair(right, params=({**right.values}, right.gradients)), INPUT)  # the arrays, in another dict
    assert (right.values["w"] == A[:, :3]).all()
    text = said(gradcheck, from_pair(wrong, params=(wrong.values, wrong.gradients)), INPUT)
    assert "wrong gradient of the parameter 'w'" in text
    assert "5 times the right one" in text
    assert gradcheck(from_pair(wrong), INPUT)


def test_parameters_by_three_functions():
    layer = Affine(times=-1.0)
    three = {"weight": (lambda: layer.values["w"], lambda w: layer.values.update(w=w), lambda: layer.gradients["w"])}
    assert "wrong gradient of the parameter 'weight'" in said(gradcheck, from_pair(layer, params=three), INPUT)


def test_a_gradient_that_begins_with_the_weights():
    layer = Affine(start=lambda value: value, adds_up=False)
    text = said(gradcheck, from_pair(layer, params=(layer.values, layer.gradients)), INPUT)
    assert "for an incoming gradient of zeros it is not 0" in text
    assert "it returns the values of the parameter 'w'" in text


def test_a_pair_runs_forward_once_for_each_gradient():
    layer = Affine()
    y = from_pair(layer)(ag.Tensor(INPUT, requires_grad=True))
    ag.sum(y).backward()
    assert layer.calls == 1


# ---- Gradients and Hessians ----

GRADIENTS = {
    "half": (lambda x: gradient(x) / 2, "0.5 times the right one"),
    "n": (lambda x: 7 * gradient(x), "a sum where a mean is meant, over 7 samples, outputs or classes"),
    "1/n": (lambda x: gradient(x) / 7, "a mean where a sum is meant, over 7 samples"),
    "logarithm": (lambda x: gradient(x) * [1, 1, x[2], 1], "by element 2 is one by the logarithm of this element"),
    "sum": (lambda x: np.full(4, gradient(x).sum()), "each derivative is the sum of all of them"),
    "mean": (lambda x: np.full(4, gradient(x).mean()), "each derivative is the mean of all of them"),
    "sign": (lambda x: -gradient(x), "the sign is wrong"),
    "part": (lambda x: gradient(x) * [1, 0, 0, 1], "it is 0), all others are right: elements 1, 2"),
    "two": (
        lambda x: gradient(x) * [1.3, 1, 0.6, 1],
        "only the derivatives by the elements 0, 2 of the input are wrong",
    ),
    "decay of some": (lambda x: 2 * gradient(x) + 0.3 * x * [0, 0, 1, 1], "but for 0.3 times the element"),
    "decay": (lambda x: 2 * gradient(x) + 0.3 * x, "are 2 times the right ones, but for 0.3 times the element"),
}


@pytest.mark.parametrize(("wrong", "cause"), GRADIENTS.values(), ids=GRADIENTS)
def test_wrong_gradients(wrong, cause):
    assert cause in said(check_derivatives, loss, wrong, at=POINT)


def test_a_clipped_value():
    text = said(check_derivatives, lambda x: np.clip(x, -0.1, 0.1).sum() + x[0], lambda x: 1 + (np.arange(4) == 0),
                at=np.array([0.05, 0.5, -0.5, 0.01]))  # fmt: skip
    assert "a value that the function clips has a slope that is not 0" in text


BLOCK = np.ones((4, 4))
BLOCK[:2, 2:] = BLOCK[2:, :2] = 0
HESSIANS = {
    "zeros": (lambda x: hessian(x) * BLOCK, "a block of zeros off the diagonal, and its mirror image"),
    "one block": (lambda x: hessian(x) * np.where(np.arange(16).reshape(4, 4) < 8, BLOCK, 1), "a block of zeros"),
    "sign": (lambda x: -hessian(x), "the sign is wrong"),
    "twice": (lambda x: 2 * hessian(x), "2 times the right one"),
    "one element": (lambda x: hessian(x) + np.eye(4, k=3), "most that of the output[0] by the input[3]"),
}


@pytest.mark.parametrize(("wrong", "cause"), HESSIANS.values(), ids=HESSIANS)
def test_wrong_hessians(wrong, cause):
    assert check_derivatives(loss, lambda x: gradient(x).tolist(), hessian, at=POINT)
    text = said(check_derivatives, loss, gradient, wrong, at=POINT)
    assert text.startswith("the Hessian, compared with derivatives of the gradient, which is right: ")
    assert cause in text


def test_results_of_another_shape():
    with pytest.raises(TypeError, match=r"the gradient has shape \(3,\): return one of shape \(4,\)"):
        check_derivatives(loss, lambda x: x[:3], at=POINT)
    with pytest.raises(TypeError, match="return one number"):
        check_derivatives(np.sin, np.cos, at=POINT)
    with pytest.raises(TypeError, match="the derivative has shape"):
        check_elementwise(np.sin, lambda x: np.cos(x)[1:], at=POINT)


# ---- Element-wise functions ----

WIDE = np.concatenate([np.linspace(-30, 30, 121), [1e-8, -1e-5, 300.0]])


def test_elementwise_functions():
    assert check_elementwise(np.tanh, lambda x: 1 / np.cosh(x) ** 2, at=WIDE)
    assert check_elementwise(np.exp, np.exp, np.exp, at=WIDE)
    assert check_elementwise(lambda x: np.maximum(x, 0), lambda x: 1.0 * (x > 0), at=WIDE)
    assert check_elementwise(np.log, lambda x: 1 / x, lambda x: -1 / x**2, at=np.geomspace(1e-12, 1e12, 60))
    assert check_elementwise(np.sin, np.cos, at=np.array([1e8, 1e10, 1.7e9]))
    assert check_elementwise(lambda x: x * x + 1e-11 * np.sin(1e15 * x), lambda x: 2 * x, at=np.array([0, 1e5]))


def test_wrong_elementwise_functions():
    text = said(check_elementwise, np.exp, np.exp, lambda x: np.exp(x) * (1 + (x == 3)), at=WIDE)
    assert text.startswith(
        "the second derivative, compared with that of the first, which is right: wrong derivative at 1"
    )
    assert "x = 3:" in text
    assert "a factor 2 · x is missing" in said(
        check_elementwise, lambda x: np.sin(x * x), lambda x: np.cos(x * x), at=X
    )
    density = said(check_elementwise, lambda x: np.exp(-x * x), lambda x: -x * np.exp(-x * x), at=np.linspace(3, 9, 20))
    assert "0.5 times the right one" in density
    with pytest.raises(NondifferentiableError, match="not differentiable at x = 0: its slope is -1 to the left"):
        check_elementwise(np.abs, lambda x: np.where(x == 0, 5, np.sign(x)), at=np.linspace(-2, 2, 5))


# ---- Forward mode ----


def test_forward_mode():
    product = (np.matmul, lambda x, v: v[0] @ x[1] + x[0] @ v[1], [A, POINT])
    assert check_jvp(*product)
    assert check_jvp(np.sin, lambda v, x: v * np.cos(x), X)
    assert "by forward mode" in said(check_jvp, np.matmul, lambda x, v: v[0] @ x[1] - x[0] @ v[1], [A, POINT])
    both = said(check_jvp, np.sin, lambda x, v: v * np.cos(x), X, vjp=lambda g, x: 3 * g * np.cos(x))
    assert both.startswith("reverse mode disagrees with forward mode, which is right")
    bent = said(check_jvp, np.sin, lambda x, v: np.where(abs(v) == 1, v, v * abs(v)) * np.cos(x), X)
    assert "not linear in the direction" in bent


# ---- float32 ----


@pytest.mark.parametrize("fast", [False, True])
def test_functions_in_float32(fast):
    def square(x):
        return x.astype("f") ** 2

    assert gradcheck(from_vjp(square, lambda g, x: g * 2 * x), X, precision="float32", fast=fast)
    wrong = from_vjp(square, lambda g, x: g * 3 * x)
    assert "1.5 times the right one" in said(gradcheck, wrong, X, precision="float32", fast=fast)
    assert 'with precision="float32"' in said(gradcheck, wrong, X)
    assert gradcheck(lambda x: ag.softmax(ag.layer_norm(x, np.ones(3, "f"), np.zeros(3, "f"))), X, precision="float32")
    with pytest.raises(ValueError, match="precision='float16' is not one of"):
        gradcheck(ag.tanh, X, precision="float16")


def test_a_gradient_in_float32_rounds_as_it_adds_up():
    """Also where the function is 0, and so has no rounding of its own."""
    bias = from_vjp(lambda b: np.zeros((1000, 1), "f") + b, lambda g, b: g.sum(axis=0))
    assert gradcheck(bias, np.zeros(2), precision="float32", fast=True)


def test_float32_noise_in_a_function_in_float64():
    def noisy(x):
        return np.exp(x) * (1 + 6e-8 * np.sin(1e15 * x))

    assert gradcheck(from_vjp(noisy, lambda g, x: g * np.exp(x)), X)
    text = said(gradcheck, from_vjp(noisy, lambda g, x: 1.5 * g * np.exp(x)), X)
    assert "1.5 times" in text
    assert "less than float64 knows" in text


# ---- Large numbers, and numbers that are absorbed ----


def wave(period):
    k = 2 * np.pi / period
    return (lambda x: np.sin(k * x)), (lambda x: k * np.cos(k * x))


def test_steps_fit_the_function():
    seconds = 1.7e9 + RNG.uniform(0, 1000, 5)
    function, slope = wave(60)
    assert gradcheck(from_vjp(function, lambda g, x: g * slope(x)), seconds)
    for factor in (1.05, 0):
        assert "wrong gradient" in said(gradcheck, from_vjp(function, lambda g, x, c=factor: c * g * slope(x)), seconds)
    assert gradcheck(ag.sin, 1e8 * RNG.uniform(1, 2, 4), fast=True)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("factor", [0, 1])
def test_where_no_step_works(factor):
    function = from_vjp(np.sin, lambda g, x: factor * g * np.cos(x))
    with pytest.warns(GradcheckWarning, match="not reliable here"):
        gradcheck(function, 1e17 * RNG.uniform(1, 2, 4))


def test_additive_masks():
    hidden = np.where(np.arange(2)[:, None] == 1, -1e9, 0.0)
    for mask in (-1e9, hidden, np.where(np.arange(3) > 0, -1e9, 0.0)):
        assert gradcheck(lambda x, m=mask: ag.softmax(x + m, axis=-1), X)
