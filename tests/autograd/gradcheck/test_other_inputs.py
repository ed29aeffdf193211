"""Gradients that are right for the inputs of a check: shapes, indices, points, dtypes that these do not show."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, gradcheck
from autograd.gradcheck import GradcheckError, GradcheckWarning, Options, from_vjp
from studies.benchmarks.checked_functions import RIGHT, WRONG, Checked
from tests.helpers.marks import parametrize_some
from tests.helpers.ops import W, X, message, op

SAID = {
    "broadcast": "a mean where a sum is meant|wrong for other broadcasts|takes other broadcasts",
    "size 1": "axes of size 1, of shape",
    "0-d": r"arrays of shape \(\)",
    "empty": "wrong for empty arrays",
    "region": "a branch of the function that the inputs do not reach",
    "overflow": "1000 (added to|subtracted from) the inputs",
    "tiny": "0.0001 times the inputs|1e-08 times the inputs",
    "zeros": "about half of them 0",
    "indices": "repeated indices in input 1",
    "f(x, x)": "one Tensor for input 0 and input 1",
    "large": "larger arrays, of shape",
    "float32": "in float32",
    "activation": "times a factor of its own",
    "outputs": "backward uses the incoming gradient of output 1 for that of output 0|from output 1 is lost",
    "numerical": "1.01|1 % |analytic",
    "three axes": "one more axis, of shape",
    "two rows": "axes of size 2, of shape",
    "zero cotangent": "for an incoming gradient of zeros it is not 0",
    "whole numbers": "whole numbers other than 0",
    "ends": r"indices from 0 to \d in input 1|axes of size 2",
    "mask": "input 1 all True|wrong gradient",
    "far": "wrong gradient of the input",
    "in float32": "1.5 times|1.1 times|between 1.0",
}


def checked(case: Checked) -> bool:
    function = from_vjp(case.function, case.vjp)
    closed = [Tensor(a, requires_grad=True) for a in case.closed]
    return gradcheck(lambda *inputs: function(*inputs, *closed), list(case.inputs))


def first_of_each_kind(cases):
    kinds = [case.kind for case in cases]
    return [kinds.index(kind) for kind in kinds]


@parametrize_some("case", WRONG, keep=first_of_each_kind(WRONG), ids=lambda case: f"{case.kind}: {case.name}")
def test_wrong_ones_are_found(case):
    if case.closed:
        with pytest.warns(GradcheckWarning, match=r"1 Tensor\(s\) that require a gradient .* \(of .*pass them too"):
            assert checked(case)
        return
    with pytest.raises(GradcheckError, match=SAID.get(case.kind)):
        checked(case)


@parametrize_some("case", RIGHT, keep=first_of_each_kind(RIGHT), ids=lambda case: f"{case.kind}: {case.name}")
@pytest.mark.filterwarnings("error::autograd.gradcheck.GradcheckWarning")
def test_right_ones_are_not_flagged(case):
    assert checked(case)


# ---- What a function may refuse ----


def refuses(condition):
    """sin, for the arrays that it takes."""

    def forward(x):
        if condition(x):
            raise ValueError("not these")
        return np.sin(x)

    return op(forward, lambda self, g: np.cos(self.saved[0]) * g)


REFUSED = {
    "other shapes": lambda x: x.shape != (2, 3),
    "numbers": lambda x: not x.size or not x.ndim,
    "large arrays": lambda x: x.size > 6,
    "other layouts": lambda x: not x.flags.c_contiguous,
    "large numbers": lambda x: abs(x).max(initial=0) > 3,
}


@pytest.mark.parametrize("condition", REFUSED.values(), ids=REFUSED)
def test_a_function_may_refuse_what_it_was_not_given(condition):
    """A loud error is no wrong gradient."""
    assert gradcheck(refuses(condition), X)


def test_a_backward_pass_of_a_fixed_shape_is_a_refusal():
    assert gradcheck(op(lambda x: x.sum(), lambda self, g: np.full((2, 3), g)), X)


def test_a_squeeze_that_stops_the_backward_pass():
    """It takes any size but 1; an op that takes one size alone is not blamed."""
    squeezed = op(lambda x: 2 * x, lambda self, g: 2 * np.squeeze(g))
    assert "takes axes of size 1, of shape (1, 3), and its backward pass does not" in message(squeezed, X)


def test_a_closed_over_array_keeps_an_axis():
    """x * W broadcasts an x of fewer rows, which nobody meant."""
    assert gradcheck(op(lambda x: x * W, lambda self, g: g * W), X)


def test_closed_over_targets_fix_the_number_of_rows():
    """One row would be broadcast against all targets."""
    targets = np.array([2, 0])

    def rows(x):
        return np.arange(len(x)), targets

    def slope(g, x):
        g_x = np.zeros_like(x)
        g_x[rows(x)] = g / len(x)
        return g_x

    assert gradcheck(from_vjp(lambda x: x[rows(x)].sum() / len(x), slope), X)


def test_a_bias_is_a_vector():
    """Its gradient is the sum over rows; that of a column, for which forward would do, is not asked for."""
    assert gradcheck(op(lambda x, b: x + b, lambda self, g: (g, g.sum(0))), [X, W[0]])


def test_permutations_stay_permutations_and_equal_places_are_left_alone():
    order = np.array([2, 0, 1])
    assert gradcheck(from_vjp(lambda x, i: x[:, i], lambda g, x, i: (g[:, np.argsort(i)], None)), [X, order])

    def scatter(x, i):
        y = np.zeros((5, 3))
        y[i] = x
        return y

    assert gradcheck(from_vjp(scatter, lambda g, x, i: (g[i], None)), [X, np.array([3, 1])])


def test_increasing_integers_stay_so():
    """Of offsets and of the numbers of segments, a step of 1 and equal neighbours are as good as others."""

    def begins(ids):
        _, first, which = np.unique(ids, return_index=True, return_inverse=True)
        return 1 + first[which]

    def scaled(x, ids):
        return x.reshape(6) * (1 + np.searchsorted(ids, ids))

    vjp = from_vjp(scaled, lambda g, x, ids: (g * begins(ids), None))
    assert gradcheck(vjp, [X.reshape(-1), np.array([0, 0, 1, 1, 2, 4])])
    sums = from_vjp(np.add.reduceat, lambda g, x, i: (np.repeat(g, np.diff([*i, len(x)])), None))
    assert gradcheck(sums, [X.reshape(-1), np.array([0, 1, 3])])


def test_inputs_far_from_each_other():
    def softmax(x, shift):
        e = np.exp(x - shift(x, -1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    @np.errstate(all="ignore")
    def vjp(g, x):
        y = softmax(x, np.mean)
        return y * (g - (g * y).sum(-1, keepdims=True))

    assert "1000 added or subtracted at random" in message(from_vjp(lambda x: softmax(x, np.max), vjp), X)


def test_shapes_false_omits_them():
    for case in WRONG:
        if case.kind in ("size 1", "0-d", "empty", "indices", "f(x, x)", "large"):
            assert gradcheck(from_vjp(case.function, case.vjp), list(case.inputs), options=Options(shapes=False))


def test_the_callers_tensors_are_read_as_they_are():
    """A function that reads its Tensors by itself finds the given inputs in them while others are tried."""
    weight = Tensor(W.copy(), requires_grad=True)
    seen = []

    def function(x, _):
        seen.append(weight.data.copy())
        return x * weight

    assert gradcheck(function, [Tensor(X.copy(), requires_grad=True), weight])
    assert (weight.data == W).all()
    assert any(a.shape != W.shape for a in seen) is False


# ---- Numbers that rounding hides ----


def test_a_reference_that_proves_nothing_is_said_so():
    """|x| is not analytic; a small step sees the rounding beside 1e8, and a large one many waves."""
    function = op(
        lambda x: abs(1 + ((1e-5 * np.sin(1e5 * x) + 1e8) - 1e8)), lambda self, g: np.cos(1e5 * self.saved[0]) * g
    )
    with pytest.warns(GradcheckWarning, match="the reference derivative is not reliable here"):
        assert gradcheck(function, X)


@pytest.mark.parametrize("size", [1e-5, 1e-10])
@pytest.mark.parametrize(
    ("function", "slope"),
    [(np.log, lambda x: 1 / x), (np.sqrt, lambda x: 0.5 / np.sqrt(x)), (lambda x: 1 / x, lambda x: -1 / x**2)],
    ids=["log", "sqrt", "reciprocal"],
)
def test_functions_that_change_within_a_step(function, slope, size):
    x = size * (abs(X) + 0.5)
    assert gradcheck(op(function, lambda self, g: slope(self.saved[0]) * g), x)
    for mode in ("auto", "central"):
        wrong = op(function, lambda self, g: 1.01 * slope(self.saved[0]) * g)
        assert "1.01 times the right one" in message(wrong, x, options=Options(mode=mode))


def test_an_output_of_more_axes_than_the_inputs_does_not_fill_the_memory():
    sizes = []

    def product(a, b, c):
        y = a * b * c
        sizes.append(y.size)
        return y

    assert gradcheck(product, [X[:1, :3].reshape(shape) for shape in ((3, 1, 1), (1, 3, 1), (1, 1, 3))])
    assert 1_000_000 < max(sizes) < 3_000_000


# ---- What the function reaches by itself ----


@pytest.mark.filterwarnings("error::autograd.gradcheck.GradcheckWarning")
def test_constants_are_not_told():
    weight = Tensor(W)
    assert gradcheck(lambda x: x * weight + ag.exp(x), X)
    assert gradcheck(lambda x: (x * 1, Tensor(W, requires_grad=False)), X)


# ---- What is said ----


def test_a_random_backward_pass_is_called_random():
    rng = np.random.default_rng(0)
    text = message(op(np.sin, lambda self, g: np.cos(self.saved[0]) * g * rng.random()), X)
    assert text.startswith("the backward pass is random")


def test_the_output_whose_gradient_is_used_wrongly():
    def pair(slope):
        def vjp(g, x):
            return g[0] * np.cos(x) + g[1] * slope(x)

        return from_vjp(lambda x: (np.sin(x), np.tanh(x)), vjp)

    assert gradcheck(pair(lambda x: 1 - np.tanh(x) ** 2), X)
    text = message(pair(lambda x: 1 - np.tanh(x)), X)
    assert "only the part of backward for output 1 is wrong; in this part, every value is" in text
    exchanged = from_vjp(lambda x: (np.sin(x), np.exp(x)), lambda g, x: g[1] * np.cos(x) + g[0] * np.exp(x))
    assert "uses the incoming gradient of output 0 for that of output 1" in message(exchanged, X)


def test_digits_of_float32():
    text = message(from_vjp(np.sin, lambda g, x: g * np.cos(x).astype(np.float32)), X)
    assert "right to the 7 digits of float32" in text
    assert "7 digits" not in message(from_vjp(np.sin, lambda g, x: g * np.cos(x) * (1 + 1e-5 * W)), X)


def test_another_epsilon():
    def normalise(x, eps=1e-5):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)

    def vjp(g, x, eps):
        y, scale = normalise(x, eps), 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
        return scale * (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True))

    assert gradcheck(from_vjp(normalise, lambda g, x: vjp(g, x, 1e-5)), X)
    for eps in (0.0, 1e-6, 1e-4):
        assert "is the ε of the forward pass" in message(from_vjp(normalise, lambda g, x, e=eps: vjp(g, x, e)), X)
