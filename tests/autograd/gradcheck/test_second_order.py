"""gradcheck(order=2): right second derivatives pass, wrong ones and lost ones do not."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, gradcheck
from autograd.gradcheck import GradcheckError, from_vjp
from tests.helpers.marks import parametrize_some
from tests.helpers.ops import W, X, op

RIGHT = {
    "element-wise": (lambda x: ag.tanh(x) * ag.exp(x), [X]),
    "softmax": (ag.softmax, [X]),
    "a product": (lambda a, b: ag.tanh(a @ b), [X, W.T.copy()]),
    "layer norm": (lambda x: ag.layer_norm(x, np.ones(3), np.zeros(3)), [X]),
    "two outputs": (lambda x: (ag.sin(x), ag.sum(ag.exp(x))), [X]),
    "linear": (lambda x, y: 2 * x + y, [X, W]),
    "no slope at all": (ag.sign, [X]),
    "kinks elsewhere": (lambda x: ag.relu(x) * x, [X]),
    "an integer argument": (lambda x, rows: ag.tanh(x)[rows], [X, np.array([1, 0, 1])]),
}


@pytest.mark.parametrize(("function", "inputs"), RIGHT.values(), ids=RIGHT)
@parametrize_some("fast", [False, True])
def test_right_second_derivatives(function, inputs, fast):
    assert gradcheck(function, inputs, order=2, fast=fast)


def test_the_callers_parameters():
    weight = Tensor(W.T.copy(), requires_grad=True)
    assert gradcheck(lambda _: ag.tanh(Tensor(X) @ weight), weight, order=2)
    assert weight.requires_grad
    assert (weight.data == W.T).all()


def with_slope(function, slope):
    """A function with a gradient of its own."""

    @ag.custom_gradient
    def made(x):
        return function(x), lambda g: g * slope(x)

    return made


def test_a_slope_that_is_kept_as_a_constant():
    """Its first derivative is right, its second is lost."""
    kept = with_slope(lambda x: x * x * x, lambda x: 3 * x.detach() * x.detach())
    assert gradcheck(kept, X)
    with pytest.raises(GradcheckError, match=r"^second derivatives .*wrong gradient of input 0"):
        gradcheck(kept, X, order=2)
    assert gradcheck(with_slope(lambda x: x * x * x, lambda x: 3 * x * x), X, order=2)


def test_a_gradient_without_a_graph():
    """Not even of the incoming gradient."""

    @ag.custom_gradient
    def left(x):
        return x * x, lambda g: (2 * x * g).detach()

    assert gradcheck(left, X)
    with pytest.raises(GradcheckError, match="the gradient of input 0 has no graph"):
        gradcheck(left, X, order=2)


def test_an_op_whose_backward_pass_is_not_recorded_says_so():
    with pytest.raises(NotImplementedError, match="Made"):
        gradcheck(op(np.sin, lambda self, g: np.cos(self.saved[0]) * g), X, order=2)
    with pytest.raises(NotImplementedError, match=r"from_torch of torch\.autograd\.grad"):
        gradcheck(from_vjp(np.sin, lambda g, x: np.cos(x) * g), X, order=2)
