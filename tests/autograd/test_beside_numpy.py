"""NumPy's operators and functions called with Tensors, and arrays that are more or less than plain ones."""

import math
import operator
from pathlib import Path

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from tests.helpers.leaves import leaf, random_leaf

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.matmul]

# ---- Operators with an array on the left ----


@pytest.mark.parametrize("places", ["left", "right", "both"])
@pytest.mark.parametrize("operate", OPERATORS, ids=lambda f: f.__name__)
def test_operators_have_the_gradients_of_tensors(operate, places):
    rng = np.random.default_rng(0)
    a, x = rng.uniform(1, 2, (3, 3)), Tensor(rng.uniform(1, 2, (3, 3)), requires_grad=True)
    left, right = {"left": (x, a), "right": (a, x), "both": (x, x)}[places]
    y, expected = operate(left, right), operate(*[v if v is x else Tensor(v) for v in (left, right)])
    np.testing.assert_array_equal(y.data, expected.data)
    g = rng.standard_normal((3, 3))
    np.testing.assert_array_equal(ag.grad(y, x, g)[0].data, ag.grad(expected, x, g)[0].data)


@pytest.mark.parametrize("operate", [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow])
def test_a_tensor_is_not_written_into_an_array(operate):
    a = np.ones(3)
    with pytest.raises(TypeError):
        operate(a, random_leaf(3))
    assert a.tolist() == [1, 1, 1]


# ---- Functions ----

MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
X, A, B = leaf(1.0, 2.0, 3.0), Tensor(2.0, requires_grad=True), Tensor(3.0, requires_grad=True)
REFUSED = {  # what the message must name
    "np.sum of a list": (lambda: np.sum([A, B]), "autograd.stack"),
    "np.sin": (lambda: np.sin(X), "ufuncs"),
    "np.sum": (lambda: np.sum(X), "sum"),
    "np.concatenate": (lambda: np.concatenate([X, X]), "autograd.concatenate"),
    "np.dot": (lambda: np.dot(X, X), "x.detach"),
    "np.linalg.norm": (lambda: np.linalg.norm(X), "x.detach"),
    "np.add(out=) of a Tensor": (lambda: np.add(1.0, 2.0, out=Tensor(0.0)), "ufuncs"),
    "np.add.at of a Tensor": (lambda: np.add.at(Tensor([1.0]), [0], 1.0), ""),
    "np.copyto": (lambda: np.copyto(np.zeros(3), X), "x.detach"),
    "np.add.at": (lambda: np.add.at(np.zeros(3), [0, 1, 2], X), "ufuncs"),
    "np.add.reduce": (lambda: np.add.reduce(X), "ufuncs"),
    "np.sum(where=)": (lambda: np.sum(np.ones(3), where=X), ""),
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


def test_numpy_does_not_write_into_a_tensor():
    x = Tensor([1.0, 2.0])
    for write in (lambda: np.copyto(x, 0.0), lambda: np.put(x, 0, 5.0)):
        with pytest.raises((TypeError, ValueError)):
            write()
    assert x.tolist() == [1, 2]


def test_without_a_gradient_to_lose_numpy_gets_the_array():
    x = Tensor([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(np.block([[x, x]]), [[1, 2, 3, 1, 2, 3]])
    np.testing.assert_array_equal(np.array([x, x]), [[1, 2, 3], [1, 2, 3]])
    with ag.no_grad():
        np.testing.assert_array_equal(np.asarray(X), [1, 2, 3])


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
