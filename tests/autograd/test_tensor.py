"""Tensor: what may be assigned, copied and formatted, and what errors say."""

import copy
import pickle

import numpy as np
import pytest

import autograd as ag
from autograd import Op, Tensor, apply
from tests.helpers.leaves import leaf, random_leaf

# ---- The gradient ----


@pytest.mark.parametrize("value", [np.ones(2), [1.0, 1.0], 1.0])
def test_a_gradient_is_a_tensor(value):
    x = leaf(1.0, 2.0)
    with pytest.raises(TypeError, match=rf"found {type(value).__name__}; write Tensor\(g\)"):
        x.grad = value


@pytest.mark.parametrize("value", [np.ones(3), np.ones((1, 2)), np.ones(2, np.float32)])
def test_a_gradient_has_the_shape_and_dtype_of_its_tensor(value):
    x = leaf(1.0, 2.0)
    with pytest.raises(ValueError, match=r"\(2,\) float64; found \("):
        x.grad = Tensor(value)
    assert x.grad is None


def test_an_assigned_gradient_is_added_to():
    x = leaf(1.0, 2.0)
    x.grad = Tensor([1.0, 2.0])
    (x * 3).sum().backward()
    assert x.grad.tolist() == [4, 5]
    x.grad = None
    assert x.grad is None


def test_a_gradient_without_a_graph_says_how_to_get_one():
    x = leaf(2.0)
    (g,) = ag.grad(x * x * x, x)
    with pytest.raises(RuntimeError, match="compute it with create_graph=True"):
        ag.grad(g, x)


# ---- Copies ----


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickle.dumps])
def test_only_leaves_are_copied_and_pickled(copied):
    y = random_leaf(3) * 2
    with pytest.raises(RuntimeError, match=r"only leaf Tensors .* made by Multiply \(made at .*test_tensor.*x\.detach"):
        copied(y)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copied_leaf_is_a_leaf_of_its_own(copied):
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    other = copied(x)
    assert other.requires_grad
    assert other.grad.tolist() == x.grad.tolist() == [2, 4]
    (other * 3).sum().backward()
    assert other.grad.tolist() == [5, 7]
    assert x.grad.tolist() == [2, 4]
    assert not np.shares_memory(other.data, x.data)


# ---- Formats ----


def test_format_of_a_single_element():
    assert f"{leaf(1.23456):.3f} {Tensor(7):d} {Tensor(np.float32(0.5)):>6}" == "1.235 7    0.5"
    assert f"{leaf(1.0, 2.0)}" == str(leaf(1.0, 2.0))
    with pytest.raises(TypeError, match=r"format '\.3f' is for a single element, this Tensor has shape \(2,\)"):
        format(leaf(1.0, 2.0), ".3f")


# ---- Ops that return something else, and keywords ----


def op_returning(value):
    class Returning(Op):
        def forward(self, x):
            return value(x)

    return Returning


@pytest.mark.parametrize(
    ("value", "kind"), [(lambda x: [x, x], "list"), (lambda x: (x, None), "NoneType"), (lambda x: Tensor(x), "Tensor")]
)
def test_an_op_returns_arrays(value, kind):
    with pytest.raises(TypeError, match=rf"Returning\.forward returned {kind}; return an array, or a tuple of arrays"):
        apply(op_returning(value), random_leaf(2))


def test_numbers_that_an_op_returns_become_arrays():
    assert apply(op_returning(lambda x: 3.0), random_leaf(2)).data.shape == ()


class Scaled(Op):
    """y = factor · x, which differentiates x alone."""

    def forward(self, x, *, factor):
        return x * factor

    def backward(self, g_y):
        return g_y


def test_a_tensor_as_a_keyword_of_an_op_is_refused():
    """Its gradient would be lost without a word."""
    with pytest.raises(TypeError, match=r"Scaled got a Tensor as factor=.*by position, or its number by \.item"):
        apply(Scaled, random_leaf(2), factor=leaf(2.0))


# ---- Methods ----

METHODS = ["abs", "clone", "cumsum", "exp", "log", "max", "mean", "min", "prod", "sqrt", "std", "sum", "tanh", "var"]


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_the_functions(name):
    x = Tensor(np.random.default_rng(0).uniform(1, 2, (2, 3)), requires_grad=True)
    for arguments in [{}, *([{"axis": 1}] if name not in ("abs", "clone", "exp", "log", "sqrt", "tanh") else [])]:
        one, other = getattr(x, name)(**arguments), getattr(ag, name)(x, **arguments)
        np.testing.assert_array_equal(one.data, other.data)
        assert type(one.op) is type(other.op)


# ---- Nothing loses a gradient without a word ----


def test_the_graph_behind_a_result_is_not_cut():
    y = leaf(1.0, 2.0) * 2
    with pytest.raises(RuntimeError, match=r"would cut the graph behind it; write y = y\.detach\(\)"):
        y.requires_grad = False
    y.requires_grad = True


def test_a_complex_gradient_is_refused():
    with pytest.raises(TypeError, match="gradient is complex, the Tensor is float64"):
        leaf(1.0).backward(np.array([1 + 2j]))


@pytest.mark.parametrize(
    ("name", "instead"),
    [("view", r"x\.reshape"), ("unsqueeze", r"autograd\.expand_dims"), ("numel", r"x\.size"), ("wrong", "'wrong'$")],
)
def test_names_of_other_libraries_say_what_to_write(name, instead):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'.*{instead}|no attribute {instead}"):
        getattr(leaf(1.0), name)
    assert name not in dir(leaf(1.0))  # nor does a shell offer it


def test_grad_that_is_neither_of_tensors_nor_of_a_function_says_what_to_write():
    with pytest.raises(TypeError, match="write grad"):
        ag.grad(ag.sum, leaf(1.0))
    with pytest.raises(TypeError, match=r"or a function, grad\(function\)"):
        ag.grad(leaf(1.0))


# ---- NumPy's methods and operators ----


def test_operations_of_comparisons():
    x = leaf(1.0, 2.0, 3.0)
    inside = (x > 1) & ~(x > 2)
    assert inside.tolist() == [False, True, False]
    assert ((x < 2) | np.array([False, False, True])).tolist() == [True, False, True]
    assert ((x < 3) ^ (x < 2)).tolist() == [False, True, False]
    assert not inside.requires_grad
    assert (inside.any().item(), inside.all().item()) == (True, False)
    assert Tensor(np.eye(2, dtype=bool)).any(axis=1).tolist() == [True, True]


def test_methods_of_arrays():
    x = Tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    assert x.ravel().shape == (6,)
    assert x.clip(1, 4).tolist() == [[1, 1, 2], [3, 4, 4]]
    assert x.argmin(axis=1).tolist() == [0, 0]
    for name, arguments in (("repeat", (2, 1)), ("repeat", (2,)), ("repeat", ([1, 2], 0)), ("diagonal", (1,))):
        np.testing.assert_array_equal(getattr(x, name)(*arguments).data, getattr(x.data, name)(*arguments))
    copy = x.copy()
    assert not np.shares_memory(copy.data, x.data)
    assert copy.requires_grad
