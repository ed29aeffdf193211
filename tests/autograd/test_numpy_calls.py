"""NumPy's functions, and arrays that are more or less than plain ones, in the place of Tensors."""

import contextlib
import math
import operator
import re
from pathlib import Path

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from tests.helpers.leaves import leaf, random_leaf

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul]
UFUNCS = [np.add, np.subtract, np.multiply, np.divide, np.power, np.matmul]
# ---- Operators with an array on the left ----


@pytest.mark.parametrize("places", ["left", "right", "both"])
@pytest.mark.parametrize("operate", [*OPERATORS, *UFUNCS], ids=lambda f: f.__name__)
def test_operators_and_their_functions_have_the_gradients_of_tensors(operate, places):
    rng = np.random.default_rng(0)
    a, x = rng.uniform(1, 2, (3, 3)), Tensor(rng.uniform(1, 2, (3, 3)), requires_grad=True)
    left, right = {"left": (x, a), "right": (a, x), "both": (x, x)}[places]
    operator_of_tensors = OPERATORS[[*OPERATORS, *UFUNCS].index(operate) % len(OPERATORS)]
    y, expected = operate(left, right), operator_of_tensors(*[v if v is x else Tensor(v) for v in (left, right)])
    np.testing.assert_array_equal(y.data, expected.data)
    g = rng.standard_normal((3, 3))
    np.testing.assert_array_equal(ag.grad(y, x, g)[0].data, ag.grad(expected, x, g)[0].data)


@pytest.mark.parametrize(
    ("operate", "sign"),
    [(operator.iadd, "+"), (operator.isub, "-"), (operator.imul, "*"), (operator.itruediv, "/"), (operator.ipow, "**")],
)
def test_a_tensor_is_not_written_into_an_array(operate, sign):
    a = np.ones(3)
    with pytest.raises(TypeError, match=re.escape(f"write x = x {sign} y in the place of x {sign}= y, or use y.data")):
        operate(a, random_leaf(3))
    assert a.tolist() == [1, 1, 1]


# ---- Functions ----

MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
X, A, B = leaf(1.0, 2.0, 3.0), Tensor(2.0, requires_grad=True), Tensor(3.0, requires_grad=True)
REFUSED = {  # what the message must name
    "np.sum of a list": (lambda: np.sum([A, B]), "autograd.stack"),
    "np.fabs": (lambda: np.fabs(X), "autograd.abs"),
    "np.ravel": (lambda: np.ravel(X), "autograd.reshape"),
    "np.sum(initial=)": (lambda: np.sum(X, initial=1.0), "autograd.sum"),
    "np.sum(dtype) by place": (lambda: np.sum(X, 0, "float32"), "autograd.sum"),
    "np.max(out) by place": (lambda: np.max(X, 0, None), "autograd.max"),
    "np.concatenate(dtype=)": (lambda: np.concatenate([X, X], dtype="float32"), "autograd.concatenate"),
    "np.sum(out=) of a Tensor": (lambda: np.sum(np.ones(3), out=Tensor(0.0)), "leave out= out"),
    "np.add(out=) of a Tensor": (lambda: np.add(1.0, 2.0, out=Tensor(0.0)), "write x = x + y"),
    "np.add.at of a Tensor": (lambda: np.add.at(Tensor([1.0]), [0], 1.0), "into a Tensor"),
    "np.copyto": (lambda: np.copyto(np.zeros(3), X), "np.copyto"),
    "np.add.at": (lambda: np.add.at(np.zeros(3), [0, 1, 2], X), "np.add.at"),
    "np.add.reduce": (lambda: np.add.reduce(X), "np.add.reduce"),
    "np.sum(where=)": (lambda: np.sum(np.ones(3), where=X), "np."),
    "np.vectorize": (lambda: np.vectorize(abs)(X), "x.detach"),
    "np.array": (lambda: np.array([A, B]), "autograd.stack"),
    "np.asarray": (lambda: np.asarray(X), "x.detach"),
    "an array of objects": (lambda: np.array([A, B], dtype=object), "autograd.stack"),
    "assignment": (lambda: np.zeros(3).__setitem__(slice(None), X), "x.data"),
    "a masked array on the left": (lambda: MASKED * X, "x.data"),
    "a list of Tensors": (lambda: ag.sum([A * A, B * B]), "autograd.stack"),
    "a list on the right": (lambda: X * [A, B, A], "autograd.stack"),
    "a tuple on the left": (lambda: (A, B, A) * X, "autograd.stack"),
    "Tensor of a list": (lambda: Tensor([A, B]), "autograd.stack"),
    "a list in a list of arrays": (lambda: ag.concatenate([[A], [B]]), "autograd.stack"),
    "a complex number": (lambda: X * 1j, "complex128"),
    "a complex array": (lambda: X * np.array([1j, 1, 1]), "complex128"),
    "complex": (lambda: X.astype(complex), "complex128"),
    "a choice": (lambda: ag.where([True, False, True], X, 1j), "complex128"),
    "text": (lambda: X.astype("U"), "U"),
    "None": (lambda: Tensor(None), "autograd.stack"),
    "a set": (lambda: X * {1.0}, "autograd.stack"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_lose_a_gradient_is_refused(name):
    function, needed = REFUSED[name]
    with pytest.raises(TypeError) as caught:
        function()
    assert needed in str(caught.value)


ONE, OTHER = (np.random.default_rng(seed).uniform(0.2, 0.9, (3, 3)) for seed in (0, 1))
ALL_UFUNCS = sorted({value.__name__: value for value in vars(np).values() if isinstance(value, np.ufunc)}.items())
OF_TENSORS = [  # functions that are computed here, with a gradient
    "absolute", "add", "cos", "divide", "exp", "expm1", "log", "log1p", "log2", "matmul", "maximum", "minimum",
    "multiply", "negative", "positive", "power", "reciprocal", "remainder", "sign", "sin", "sqrt", "square", "subtract",
    "tan", "tanh", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
]  # fmt: skip
NAMED = r"^np\.\w+(\.\w+)? .*(autograd|x\.data|y\.data)"


def slope(function):
    """The derivative of `function` at ONE along a direction, and the direction."""
    v, h = np.random.default_rng(2).standard_normal((3, 3)), 1e-6
    up, down = (np.asarray(function(ONE + sign * h * v), float) for sign in (1, -1))
    return (up - down) / (2 * h), v


def require_right(result, expected, function, x):
    """The result has the numbers of NumPy's, and, if these change with ONE, the numbers of `x`, the gradient."""
    change, v = slope(function)
    np.testing.assert_allclose(getattr(result, "data", result), expected, rtol=1e-12)
    if not isinstance(result, Tensor):
        assert not change.any(), "the gradient is lost"
        return
    if result.requires_grad:
        g = np.random.default_rng(3).standard_normal(result.shape)
        np.testing.assert_allclose((ag.grad(result, x, g)[0].data * v).sum(), (g * change).sum(), rtol=1e-5, atol=1e-8)
    else:
        assert not change.any(), "the gradient is lost"


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:'where' used without 'out'")
@pytest.mark.parametrize(("name", "ufunc"), ALL_UFUNCS)
def test_every_ufunc_at_every_position_is_right_or_names_what_to_write(name, ufunc):
    x = Tensor(ONE, requires_grad=True)
    calls = [(x,)] if ufunc.nin == 1 else [(x, OTHER), (OTHER, x), (x, x), (x, 2.0), (0.5, x)]
    for call in calls:
        arrays = [ONE if value is x else value for value in call]
        try:
            expected = ufunc(*arrays)
        except (TypeError, ValueError):  # of integers, times, or matrices alone
            with pytest.raises((TypeError, ValueError)):
                ufunc(*call)
            continue
        moving = lambda a, call=call: ufunc(*[a if value is x else value for value in call])  # noqa: E731
        if name in OF_TENSORS:
            require_right(ufunc(*call), expected, moving, x)
            continue
        with contextlib.suppress(TypeError):
            require_right(ufunc(*call), expected, moving, x)
            continue
        with pytest.raises(TypeError, match=NAMED):
            ufunc(*call)
    for changed in ({"out": np.zeros((3, 3))}, {"where": ONE > 0.5}, {"dtype": "float32"}):
        try:
            ufunc(*[ONE if value is x else value for value in calls[0]], **changed)
        except (TypeError, ValueError):  # which it does not have
            continue
        if "out" not in changed and not slope(lambda a: np.asarray(ufunc(*[a] * ufunc.nin)))[0].any():
            continue  # it has no gradient
        with pytest.raises(TypeError, match=NAMED):
            ufunc(*calls[0], **changed)


FUNCTIONS = {  # the functions used most, by whether they are computed here or refused
    "right": [
        lambda x: np.sum(x), lambda x: np.sum(x, axis=0, keepdims=True), lambda x: np.sum(a=x, axis=(0, 1)),
        lambda x: np.mean(x, 1), lambda x: np.prod(x, axis=1), lambda x: np.max(x, axis=0), lambda x: np.min(x),
        lambda x: np.amax(x), lambda x: np.amin(x, axis=1), lambda x: np.std(x, axis=0, ddof=1), lambda x: np.var(x),
        lambda x: np.cumsum(x, axis=1), lambda x: np.clip(x, 0.3, 0.6), lambda x: np.clip(x, a_min=0.3, a_max=None),
        lambda x: np.reshape(x, (9,)), lambda x: np.transpose(x, (1, 0)), lambda x: np.swapaxes(x, 0, 1),
        lambda x: np.expand_dims(x, 0), lambda x: np.squeeze(x[:1]), lambda x: np.broadcast_to(x, (2, 3, 3)),
        lambda x: np.concatenate([x, OTHER, x], axis=1), lambda x: np.stack((x, x)), lambda x: np.split(x, 3)[1],
        lambda x: np.repeat(x, 2, axis=0), lambda x: np.take(x, [2, 0, 0], axis=1), lambda x: np.tril(x, -1),
        lambda x: np.take_along_axis(x, np.array([[0], [2], [1]]), 1), lambda x: np.triu(x),
        lambda x: np.where(ONE > 0.5, x, 0.0), lambda x: np.einsum("ij,kj->ik", x, x), lambda x: np.pad(x, 1),
        lambda x: np.pad(x, ((0, 1), (2, 0)), constant_values=0.5), lambda x: np.diagonal(x, 1),
        lambda x: np.dot(x, x), lambda x: np.outer(x, x), lambda x: np.tile(x, 2), lambda x: np.flip(x, 0),
        lambda x: np.roll(x, 1), lambda x: np.sort(x, axis=0), lambda x: np.isnan(x),
        lambda x: np.argmax(x, axis=1), lambda x: np.logical_not(x), lambda x: np.zeros_like(x),
    ],
    "refused": [
        lambda x: np.median(x), lambda x: np.percentile(x, 30), lambda x: np.quantile(x, 0.3), lambda x: np.average(x),
        lambda x: np.vdot(x, x), lambda x: np.inner(x, x), lambda x: np.sort(x, kind="heapsort"),
        lambda x: np.tensordot(x, x), lambda x: np.kron(x, x), lambda x: np.trace(x), lambda x: np.diag(x),
        lambda x: np.moveaxis(x, 0, 1), lambda x: np.ravel(x), lambda x: np.vstack([x, x]), lambda x: np.hstack([x, x]),
        lambda x: np.column_stack([x, x]),
        lambda x: np.rot90(x), lambda x: np.unique(x), lambda x: np.round(x, 1),
        lambda x: np.diff(x), lambda x: np.gradient(x), lambda x: np.cross(x, x), lambda x: np.ptp(x),
        lambda x: np.cumprod(x), lambda x: np.nan_to_num(x), lambda x: np.copy(x), lambda x: np.array_split(x, 2),
        lambda x: np.atleast_2d(x), lambda x: np.linalg.inv(x), lambda x: np.linalg.norm(x), lambda x: np.linalg.det(x),
        lambda x: np.linalg.solve(x, x), lambda x: np.fft.fft(x), lambda x: np.histogram(x), lambda x: np.trapezoid(x),
        lambda x: np.linalg.diagonal(x), lambda x: np.linalg.matmul(x, x), lambda x: np.apply_along_axis(sum, 0, x),
        lambda x: np.sum(x, where=ONE > 0.5), lambda x: np.reshape(x, 9, order="F"), lambda x: np.mean(x, dtype=float),
        lambda x: np.pad(x, 1, mode="edge"), lambda x: np.take(x, 9, mode="wrap"), lambda x: np.std(x, correction=1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("call", FUNCTIONS["right"])
def test_functions_that_this_package_has_are_computed_by_it(call):
    x = Tensor(ONE, requires_grad=True)
    require_right(call(x), call(ONE), call, x)


@pytest.mark.parametrize("call", FUNCTIONS["refused"])
def test_other_functions_and_arguments_are_refused_for_a_tensor_with_a_gradient(call):
    with pytest.raises(TypeError, match=r"^np\.\S+ .*(autograd\.|x\.data)"):
        call(Tensor(ONE, requires_grad=True))
    found, expected = call(Tensor(ONE)), call(ONE)
    for one, other in zip(*((v if isinstance(v, (tuple, list)) else [v]) for v in (found, expected)), strict=True):
        np.testing.assert_array_equal(np.asarray(getattr(one, "data", one)), other)


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda x: x.sum(dim=0), "write axis="), (lambda x: ag.softmax(x, dim=0), "write axis="),
        (lambda x: ag.stack([x, x], dim=1), "write axis="), (lambda x: x.max(0, keepdim=True), "write keepdims="),
    ],
)  # fmt: skip
def test_pytorch_s_names_of_arguments_are_answered_with_ours(call, instead):
    with pytest.raises(TypeError, match=instead):
        call(leaf(1.0, 2.0))


def test_numpy_does_not_write_into_a_tensor():
    x = Tensor([1.0, 2.0])
    for write in (lambda: np.copyto(x, 0.0), lambda: np.put(x, 0, 5.0), lambda: np.fill_diagonal(Tensor(ONE), 1.0)):
        with pytest.raises((TypeError, ValueError)):
            write()
    assert x.tolist() == [1, 2]


def test_without_a_gradient_to_lose_numpy_gets_the_array():
    x = Tensor([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(np.block([[x, x]]), [[1, 2, 3, 1, 2, 3]])
    np.testing.assert_array_equal(np.array([x, x]), [[1, 2, 3], [1, 2, 3]])
    with ag.no_grad():
        assert np.dot(X, X) == 14
        np.testing.assert_array_equal(np.asarray(X), [1, 2, 3])


def test_functions_without_a_gradient_take_any_tensor():
    assert np.shape(X) == (3,)
    assert np.ndim(X) == 1
    assert np.allclose(X, [1, 2, 3])
    assert np.array_equal(X, X)
    assert np.array_repr(X) == "array([1., 2., 3.])"


# ---- Subclasses of ndarray, and other arrays ----


def test_a_memory_map_is_read_where_it_lies(tmp_path):
    np.arange(6.0).tofile(tmp_path / "numbers")
    mapped = np.memmap(tmp_path / "numbers", dtype=float, mode="r+", shape=(2, 3))
    w = Tensor(mapped, requires_grad=True)
    assert np.shares_memory(w.data, mapped)
    y = (w * w).sum() + (w * mapped).sum()
    y.backward()
    np.testing.assert_array_equal(w.grad.data, 3 * np.arange(6.0).reshape(2, 3))
    z = (w * w).sum()
    with ag.no_grad():
        w += 1.0
    assert mapped[0, 0] == 1
    with pytest.raises(RuntimeError, match="changed in place"):
        z.backward()


@pytest.mark.parametrize(
    "function",
    [
        lambda: Tensor(MASKED),
        lambda: X * MASKED,
        lambda: (X * 2).backward(MASKED),
        lambda: Tensor(np.zeros(3)).__setitem__(slice(None), MASKED),
        lambda: Tensor(np.zeros(3)).__iadd__(MASKED),
    ],
)
def test_masked_elements_are_refused(function):
    with pytest.raises(TypeError, match=r"masked elements .*autograd\.where"):
        function()


def test_a_masked_array_without_masked_elements_is_a_plain_array():
    x = leaf(1.0, 2.0, 3.0)
    y = x * np.ma.array([1.0, 2.0, 3.0])
    assert type(y.data) is np.ndarray
    y.sum().backward()
    assert x.grad.tolist() == [1, 2, 3]


def test_other_objects_with_an_array_are_arrays():
    class Column:
        __array_priority__ = 1000

        def __array__(self, dtype=None, copy=None):
            return np.array([1.0, 2.0, 3.0])

    x = leaf(1.0, 2.0, 3.0)
    assert type(Tensor(Column()).data) is np.ndarray
    (x * Column()).sum().backward()
    assert x.grad.tolist() == [1, 2, 3]


LOSING = {  # what makes of a Tensor something that has no graph
    "float": lambda x: float(x),
    "int": lambda x: int(x),
    "math.exp": lambda x: math.exp(x),
    "array[i] = x": lambda x: np.zeros(3).__setitem__(0, x),
    "%": lambda x: "%.1f" % x,  # noqa: UP031
    "Tensor": lambda x: Tensor(x),
}


@pytest.mark.parametrize("lose", LOSING.values(), ids=LOSING)
def test_a_warning_where_a_gradient_would_be_lost(lose):
    x = ag.Tensor(2.0, requires_grad=True)
    for leaf_or_result in (x, x * 2):
        with pytest.warns(UserWarning, match="x requires a gradient, and .* no graph; write") as caught:
            lose(leaf_or_result)
        assert [Path(warning.filename) for warning in caught] == [Path(__file__)]
    with ag.no_grad():
        lose(x)
    lose(x.detach())
    x.item()
