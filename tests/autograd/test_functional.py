"""Functions that turn functions into derivatives."""

from typing import NamedTuple

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 3))
X, V = RNG.standard_normal((2, 3))


def layer(x):
    return ag.tanh(A @ x)


def energy(x):
    return ag.sum(layer(x) * x)


JACOBIAN = (1 - np.tanh(A @ X) ** 2)[:, None] * A


def test_vjp():
    y, pull_back = ag.vjp(layer, X)
    np.testing.assert_array_equal(y.data, np.tanh(A @ X))
    for v in (V, np.ones(3)):  # as often as one likes
        (product,) = pull_back(v)
        np.testing.assert_allclose(product.data, v @ JACOBIAN, rtol=1e-14)
    assert not y.requires_grad
    assert not product.requires_grad


def test_jvp():
    y, tangent = ag.jvp(layer, (X,), (V,))
    np.testing.assert_array_equal(y.data, np.tanh(A @ X))
    np.testing.assert_allclose(tangent.data, JACOBIAN @ V, rtol=1e-14)
    assert not tangent.requires_grad


def test_jvp_of_a_constant_and_of_a_linear_function():
    _, tangents = ag.jvp(lambda x: (Tensor([1.0, 2.0]), 3 * x, ag.sign(x)), (X,), (V,))
    assert [t.data.tolist() for t in tangents] == [[0, 0], (3 * V).tolist(), [0, 0, 0]]


def test_grad_of_a_function_is_the_gradient_that_value_and_grad_gives():
    def f(x, v, power=2):
        return ag.sum(x**power * v)

    for argnums in (0, 1, -1, (0, 1)):
        expected = ag.value_and_grad(f, argnums)(X, V, power=3)[1]
        for gradient in (ag.grad(f, argnums), ag.grad(f, argnums=argnums)):
            found = gradient(X, V, power=3)
            pairs = zip(found, expected, strict=True) if isinstance(argnums, tuple) else [(found, expected)]
            assert all(np.array_equal(one.data, other.data) for one, other in pairs)
    np.testing.assert_allclose(ag.grad(lambda x: ag.grad(lambda y: y**3)(x))(2.0).data, 12.0)


def test_value_and_grad():
    value, gradient = ag.value_and_grad(lambda x, n: ag.sum(x**n), argnums=0)(X, 2)
    np.testing.assert_allclose(value.data, (X**2).sum(), rtol=1e-15)
    np.testing.assert_allclose(gradient.data, 2 * X, rtol=1e-15)
    _, (gx, gv) = ag.value_and_grad(lambda x, v: ag.sum(x * v), argnums=(0, 1))(X, V)
    assert (gx.tolist(), gv.tolist()) == (V.tolist(), X.tolist())
    _, gv = ag.value_and_grad(lambda x, v: ag.sum(x * v), argnums=-1)(X, V)
    assert gv.tolist() == X.tolist()
    with pytest.raises(RuntimeError, match=r"single element, found shape \(3,\)"):
        ag.value_and_grad(layer)(X)


def test_jacobian():
    np.testing.assert_allclose(ag.jacobian(layer)(X).data, JACOBIAN, rtol=1e-14)
    nested = ag.jacobian(lambda p: {"a": p["w"] @ X, "b": p["w"].sum()})({"w": A})
    assert (nested["a"]["w"].shape, nested["b"]["w"].shape) == ((3, 3, 3), (3, 3))
    assert ag.jacobian(lambda x: x[:0])(X).shape == (0, 3)
    by_both = ag.jacobian(lambda x, v: x * v, argnums=(0, 1))(X, V)
    np.testing.assert_array_equal(by_both[0].data, np.diag(V))
    np.testing.assert_array_equal(by_both[1].data, np.diag(X))


def test_hessian_and_its_product():
    hessian = ag.hessian(energy)(X).data
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-14)
    np.testing.assert_allclose(ag.hvp(energy, X, V).data, hessian @ V, rtol=1e-13)
    np.testing.assert_allclose(ag.jvp(ag.jacobian(energy), (X,), (V,))[1].data, hessian @ V, rtol=1e-13)
    np.testing.assert_array_equal(ag.hessian(lambda x: ag.sum(3 * x))(X).data, np.zeros((3, 3)))


def test_elementwise_grad_of_every_order():
    d = ag.sin
    for expected in (np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin):
        d = ag.elementwise_grad(d)
        np.testing.assert_allclose(d(X).data, expected(X), rtol=1e-13)


class Weights(NamedTuple):
    w: np.ndarray
    b: np.ndarray


def test_arguments_may_be_nested():
    weights = Weights(A, V)
    _, gradient = ag.value_and_grad(lambda p, z: ag.sum(ag.tanh(p.w @ z + p.b)))(weights, X)
    assert isinstance(gradient, Weights)
    assert (gradient.w.shape, gradient.b.shape) == ((3, 3), (3,))
    product = ag.hvp(lambda p: ag.sum(ag.tanh(p["w"] @ X + p["l"][0])), {"w": A, "l": [V]}, {"w": A, "l": [X]})
    assert (product["w"].shape, product["l"][0].shape) == ((3, 3), (3,))
    _, (t, u) = ag.jvp(lambda x: (x, [x * 2]), ([1.0, 2.0],), ([3.0, 4.0],))  # a list of numbers is an array
    assert (t.tolist(), u[0].tolist()) == ([3, 4], [6, 8])


def test_what_else_it_depends_on_gets_gradients():
    """A gradient penalty: the gradient with respect to the input is differentiated with respect to the weights."""
    weight = Tensor(A, requires_grad=True)
    _, g = ag.value_and_grad(lambda x: ag.sum(ag.tanh(weight @ x)))(X)
    (g * g).sum().backward()

    def penalty(a):
        s = 1 - np.tanh(a @ X) ** 2
        return ((s @ a) ** 2).sum()

    step = np.zeros((3, 3))
    step[1, 2] = 1e-6
    expected = (penalty(A + step) - penalty(A - step)) / 2e-6
    assert abs(weight.grad.data[1, 2] - expected) < 1e-8


def test_other_uses_of_the_argument_are_constant():
    x = Tensor(X, requires_grad=True)
    _, g = ag.value_and_grad(lambda inside: ag.sum(inside * x))(x)
    assert g.tolist() == X.tolist()


def test_without_recording_there_is_no_graph():
    weight = Tensor(A, requires_grad=True)
    with ag.no_grad():
        value, g = ag.value_and_grad(lambda x: ag.sum(ag.tanh(weight @ x)))(X)
    assert (value.requires_grad, g.requires_grad) == (False, False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ag.vjp(layer, X)[1](np.ones(2)), r"cotangent has shape \(2,\), its output has shape \(3,\)"),
        (lambda: ag.jvp(layer, (X,), (V, V)), "the tangent has 2 arrays, the primal 1"),
        (lambda: ag.jvp(layer, (X,), (np.ones(2),)), r"a tangent has shape \(2,\), its primal has shape \(3,\)"),
        (lambda: ag.hvp(energy, X, np.ones((3, 1))), r"a v has shape \(3, 1\), its x has shape \(3,\)"),
    ],
)
def test_what_does_not_fit(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_not_a_tensor_or_not_real():
    with pytest.raises(TypeError, match="the function returned float; return Tensors"):
        ag.vjp(lambda x: 1.0, X)
    with pytest.raises(TypeError, match="only floating-point Tensors can require a gradient"):
        ag.hessian(ag.sum)(np.arange(3))


# ---- Custom gradients ----


@ag.custom_gradient
def log1pexp(x):
    e = ag.exp(x)
    return ag.log(1 + e), lambda g: g * (1 - 1 / (1 + e))


def test_custom_gradient():
    x = Tensor([0.5, 800.0], requires_grad=True)
    with np.errstate(over="ignore"):
        log1pexp(x).sum().backward()  # the gradient of the formula would be NaN at 800
    assert x.grad.data[1] == 1
    np.testing.assert_allclose(x.grad.data[0], 1 / (1 + np.exp(-0.5)), rtol=1e-15)
    np.testing.assert_allclose(
        ag.hessian(lambda x: ag.sum(log1pexp(x) ** 3))(X).data,
        ag.hessian(lambda x: ag.sum(ag.softplus(x) ** 3))(X).data,
        rtol=1e-13,
    )


def test_custom_gradient_of_several_arguments_and_outputs():
    @ag.custom_gradient
    def both(a, b):
        return (a * b, a + b), lambda g_product, g_sum: (g_product * b + g_sum, None)

    a, b = Tensor(X, requires_grad=True), Tensor(V, requires_grad=True)
    product, total = both(a, b)
    (product.sum() + 2 * total.sum()).backward()
    np.testing.assert_array_equal(a.grad.data, V + 2)
    assert b.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="1 gradients for 2 inputs"):
        ag.custom_gradient(lambda a, b: (a * b, lambda g: g))(a, b).sum().backward()


def test_an_argument_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="argnums has 5, but the function was called with 2 arguments, from 0 on"):
        ag.value_and_grad(lambda x, y: (x * y).sum(), argnums=5)(np.ones(2), np.ones(2))
