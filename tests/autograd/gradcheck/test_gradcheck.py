"""The checker: it accepts right gradients, and tells what is wrong with each kind of wrong one."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, gradcheck, random
from autograd.gradcheck import GradcheckError, Options, gradient_error
from tests.helpers.ops import CENTRAL, COMPLEX, MODES, RNG, W, X, each_mode, message, op


def square_times(backward):
    """x² · w with the given backward pass."""
    return op(lambda x, w: x * x * w, backward)


def right(self, g):
    x, w = self.saved
    return 2 * x * w * g, x * x * g


# ---- What is right ----


@each_mode
def test_accepts_the_right_gradient(how):
    assert gradcheck(square_times(right), [X, W], **how) is True


def test_an_array_that_is_passed_twice_is_two_inputs():
    """One Tensor that is passed twice is one."""
    product = op(lambda a, b: a * b, lambda self, g: (g * self.saved[1], g * self.saved[0]))
    first_only = op(lambda a, b: a * b, lambda self, g: (g * self.saved[1], 0 * g))
    assert gradcheck(product, [X, X])
    assert "wrong gradient of input 1" in message(first_only, [X, X])
    x = Tensor(X, requires_grad=True)
    assert gradcheck(product, [x, x])
    assert "wrong gradient of input 0" in message(first_only, [x, x])


@pytest.mark.heavy
@pytest.mark.parametrize(
    "array",
    [
        np.float64(0.3),
        np.array(0.3),
        np.zeros((0, 3)),
        np.zeros((2, 0)),
        np.asfortranarray(X),
        X[:, ::-1],
        X.T,
        RNG.standard_normal((4, 6))[::2, 1::2],
        np.broadcast_to(X[0], (4, 3)),
        np.lib.stride_tricks.sliding_window_view(np.arange(5.0), 3),
    ],
    ids=["scalar", "0-d", "no rows", "empty", "by columns", "backwards", "transposed", "gaps", "repeated", "overlap"],
)  # fmt: skip
@each_mode
def test_any_array(array, how):
    assert gradcheck(lambda x: ag.exp(x) * x, array, **how)


def test_ops_see_the_layout_that_was_given():
    """A check of a non-contiguous array that copies it into a contiguous one checks something else."""
    strides = set()

    def function(x):
        strides.add(tuple(stride // x.data.itemsize for stride in x.data.strides))
        return x * 2

    gradcheck(function, np.zeros((4, 6))[::2, ::-2], options=Options(layouts=False, shapes=False, float32=False))
    ((rows, columns),) = strides
    assert rows >= -3 * columns > 3


@each_mode
def test_parameters_that_the_function_reaches_by_itself(how):
    """As a model does: func ignores what it is called with."""
    weight = Tensor(W.T.copy(), requires_grad=True)
    assert gradcheck(lambda _: ag.tanh(Tensor(X) @ weight), weight, **how)

    def half(self, g):
        (w,) = self.saved
        return g * w  # the factor 2 is missing

    wrong = op(lambda w: w * w, half)
    with pytest.raises(GradcheckError, match=r"0\.5 times the right one"):
        gradcheck(lambda _: wrong(weight), weight)


def test_leaves_no_trace():
    """Data, gradients, random numbers: all as before, after a success as after a failure."""
    x, data = Tensor(X.copy(), requires_grad=True), X.copy()
    x.grad = Tensor(np.ones(X.shape))
    array = x.data
    random.set_state((7, 3, 5))

    def function(x):
        random.set_state((1, 2, 3))
        return ag.dropout(x, 0.5)

    gradcheck(function, x)
    with pytest.raises(GradcheckError):
        gradcheck(square_times(lambda self, g: (g, g)), [x, W])
    assert x.data is array
    assert (array == data).all()
    assert (x.grad.data == 1).all()
    assert random.get_state() == (7, 3, 5)


def test_infinite_inputs_and_outputs():
    x = np.array([[0.3, -np.inf, 1.0], [-np.inf, -np.inf, -np.inf]])
    for how in MODES[:2]:
        assert gradcheck(ag.softmax, x, **how)
        assert gradcheck(lambda x: ag.masked_fill(x, np.eye(2, 3, dtype=bool), -np.inf), X, **how)


class Once(ag.Op):
    """y = x², whose backward pass overwrites what it kept."""

    def forward(self, x):
        self.save(x)
        return x * x

    def backward(self, g):
        (x,) = self.saved
        if self.freed or np.isnan(x).any():
            raise RuntimeError("a second backward pass")
        g_x = 2 * x * g
        self._saved = (np.full_like(x, np.nan),)
        return g_x


def test_an_op_that_refuses_a_second_backward_pass():
    assert gradcheck(lambda x: ag.apply(Once, x * 1), X)


def test_exact_in_complex_mode():
    assert gradient_error(lambda x: ag.exp(ag.tanh(x) / (2 + ag.square(x))), X, options=COMPLEX) < 1e-15
    assert 1e-12 < gradient_error(lambda x: ag.exp(ag.tanh(x) / (2 + ag.square(x))), X, options=CENTRAL) < 1e-8


# ---- What is wrong, and what is said about it ----


def test_message_names_input_index_numbers_and_cause():
    def two_off(self, g):
        x, w = self.saved
        g_w = x * x * g
        g_w[0, 1] *= 1.1
        g_w[1, 2] *= 3
        return 2 * x * w * g, g_w

    text = message(square_times(two_off), [X, W])
    value = X[1, 2] ** 2
    assert text.startswith(
        "wrong gradient of input 1: 2 of 36 derivatives differ, most that of the output[1, 2] by input 1[1, 2]:"
    )
    assert f"analytic   {3 * value:.6f}"[:-1] in text
    assert f"numerical  {value:.5f}"[:-1] in text
    assert "no known mistake" in text


CONSTANT_FACTORS = {
    "twice": (2, "2 times the right one: a term is counted twice, or a factor 1/2 is missing"),
    "half": (0.5, "0.5 times the right one: a factor 2 is missing"),
    "slightly more": (2.001, "2.001 times the right one: a term is counted twice"),
    "other": (0.8, "0.8 times the right one: a constant factor is wrong"),
    "sign": (-1, "the sign is wrong"),
    "mean": (1 / 3, "a mean where a sum is meant (1/3, the size of axis 1 of the input)"),
    "mean of all": (1 / 6, "a mean where a sum is meant (1/6, the number of elements of the input)"),
    "sum": (3, "a sum where a mean is meant, or a sum taken twice (3, the size of axis 1 of the input)"),
    "lost": (0, "the gradient is lost"),
}


@pytest.mark.parametrize(("factor", "cause"), CONSTANT_FACTORS.values(), ids=CONSTANT_FACTORS)
@each_mode
def test_constant_factors(factor, cause, how):
    def backward(self, g):
        (x,) = self.saved
        return factor * np.cos(x) * g

    assert cause in message(op(np.sin, backward), X, **how)


@pytest.mark.parametrize("shape", [(3, 3), (2, 3), (2, 3, 2)])
def test_transposed(shape):
    def transposed(self, g):
        (x,) = self.saved
        return np.swapaxes(np.cos(x) * g, 0, 1).reshape(x.shape)

    expected = "the values are right but transposed" if shape == (3, 3) else "in the order of the transposed array"
    x = np.random.default_rng(0).standard_normal(shape)
    text = message(op(np.sin, transposed), x)
    assert expected in text
    assert "axes 0 and 1 of the gradient are exchanged" in text


def test_nan_in_the_backward_pass():
    def divides_by_zero(self, g):
        with np.errstate(all="ignore"):
            return g * np.float64(0) / np.float64(0)

    for how in MODES:
        assert "divides by 0 or overflows" in message(op(np.sin, divides_by_zero), X, **how)


@pytest.mark.heavy
def test_a_large_input_is_searched_by_halves():
    """Too many derivatives to look at all: the wrong one must still be named."""

    def one_off(self, g):
        (x,) = self.saved
        g_x = np.cos(x) * g
        g_x[23, 45] += 10 * g[23, 45]
        return g_x

    x = np.random.default_rng(0).standard_normal((60, 50))
    evaluations = []

    def sine(x):
        evaluations.append(1)
        return np.sin(x)

    text = message(op(sine, one_off), x, fast=True)
    assert "a random sum of the outputs by the input[23, 45]" in text
    assert len(evaluations) < 1000
    twice = op(np.sin, lambda self, g: 2 * np.cos(self.saved[0]) * g)
    assert "2 times the right one: a term is counted twice" in message(twice, x, fast=True)
