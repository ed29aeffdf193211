"""Functions of NumPy arrays and of PyTorch tensors, with their gradients, as functions of Tensors."""

import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, gradcheck
from autograd.gradcheck import GradcheckError, GradcheckWarning, Options, from_pair, from_torch, from_vjp
from tests.helpers.ops import W, X, message


def affine(x, w, scale=1.0):
    return scale * (x @ w.T)


# ---- NumPy ----


def test_inputs_that_are_no_arrays_and_integer_arrays():
    def pick(x, rows, axis, name):
        assert name == "rows"
        return np.take(x, rows, axis)

    def pick_vjp(g, x, rows, axis, name):
        g_x = np.zeros_like(x)
        np.add.at(g_x, rows, g)
        return g_x, None, None, None

    rows = np.array([0, 1, 1])
    assert gradcheck(from_vjp(pick, pick_vjp), [X, rows, 0, "rows"])
    assert gradcheck(from_vjp(pick, lambda *a: pick_vjp(*a)[:2]), [X, rows, 0, "rows"])  # of the arrays alone


def test_it_is_a_function_of_tensors_like_any_other():
    function = from_vjp(np.sin, lambda g, x: g * np.cos(x))
    x = Tensor(X, requires_grad=True)
    y = function(x * 2)
    assert type(y.op).__name__ == "sin"
    ag.sum(y).backward()
    np.testing.assert_allclose(x.grad.data, 2 * np.cos(2 * X))
    assert isinstance(function(X), Tensor)
    assert function.__name__ == "sin"
    with ag.no_grad():
        assert function(x).op is None
    node = weakref.ref(y.op)
    del y
    assert node() is None  # no reference cycle is left


@pytest.mark.parametrize(
    ("vjp", "said"),
    [
        (lambda g, x, w: g @ w, r"returned 1 gradient\(s\) for 2 inputs"),
        (lambda g, x, w: (g @ w, g.T @ x, None), r"returned 3 gradient\(s\) for 2 inputs"),
        (lambda g, x, w: (g, g.T @ x), r"gradient of shape \(2, 2\) for input 0 of shape \(2, 3\)"),
        (lambda g, x, w: ((g @ w).T, g.T @ x), r"the gradient is transposed"),
        (lambda g, x, w: (g @ w, (g.T @ x).reshape(-1)), r"not brought back to the shape of the input"),
        (lambda g, x, w: (g @ w, g.T @ x * (1 + 1j)), r"complex, and the input real: take its \.real part"),
    ],
    ids=["too few", "too many", "of g", "transposed", "flat", "complex"],
)
def test_gradients_that_do_not_fit(vjp, said):
    with pytest.raises(GradcheckError, match=said):
        gradcheck(from_vjp(affine, vjp), [X, W])


def test_a_function_that_returns_no_numbers():
    with pytest.raises(TypeError, match="not an array of numbers: return an array") as found:
        gradcheck(from_vjp(lambda x: None, lambda g, x: g), X)
    assert not hasattr(found.value, "__notes__")  # such as that it needs from_vjp


def test_the_gradient_comes_first():
    with pytest.raises(TypeError, match=r"the incoming gradient first, .*: write vjp\(g, x"):
        from_vjp(np.sin, lambda x, g: g * np.cos(x))
    assert gradcheck(from_vjp(lambda x, w: x * w, lambda g, *inputs: (g * inputs[1], g * inputs[0])), [X, W])
    assert gradcheck(from_vjp(np.sin, lambda a, b: a * np.cos(b)), X)


# ---- What gradcheck says to functions of other libraries ----


@pytest.mark.parametrize(
    "function", [lambda x: np.asarray(x) ** 2, lambda x: float(np.asarray(x).sum())], ids=["converted", "number"]
)
def test_numpy_functions(function):
    with pytest.raises(TypeError, match=r"from_vjp\(function, vjp\).*autograd\.exp for np\.exp"):
        gradcheck(function, X)


def test_other_errors_stay_what_they_are():
    def fails(x):
        raise TypeError("nonsense")

    with pytest.raises(TypeError, match="nonsense"):
        gradcheck(fails, X)
    with pytest.raises(ValueError, match="not enough values"):
        gradcheck(lambda x: [a for a, b in [(1,)]], X)


# ---- PyTorch ----


def test_without_pytorch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="from_torch needs PyTorch: pip install torch"):
        from_torch(abs)


class Linear:
    """A module of PyTorch, made of autograd as all that follows."""

    weight = Tensor(W, requires_grad=True)

    def named_parameters(self):
        return [("weight", self.weight)]

    def named_buffers(self):
        return []


@pytest.fixture
def stand_in(monkeypatch):
    """As much of PyTorch as from_torch uses, so that it is tested without."""
    as_it_is = {"resolve_conj": Tensor.detach, "resolve_neg": Tensor.detach, "contiguous": lambda x: x}
    graph = {"grad_fn": property(lambda y: y.op), "variable": property(lambda x: x), "next_functions": ()}
    for name, value in {**as_it_is, **graph, "requires_grad_": lambda x, on: Tensor(x.data, requires_grad=on)}.items():
        monkeypatch.setattr(Tensor, name, value, raising=False)
    nodes = property(lambda op: [edge or (None, 0) for edge in op.edges])
    monkeypatch.setattr(ag.Op, "next_functions", nodes, raising=False)
    torch = SimpleNamespace(
        Tensor=Tensor, from_numpy=Tensor, set_grad_enabled=lambda on: ag.enable_grad() if on else ag.no_grad(),
        autograd=SimpleNamespace(grad=ag.grad), nn=SimpleNamespace(Module=Linear),
        func=SimpleNamespace(functional_call=lambda module, given, inputs, _: inputs[0] @ given["weight"].T),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)


def test_functions_modules_and_closed_over_parameters(stand_in):
    assert gradcheck(from_torch(lambda x: (ag.sin(x), ag.exp(x))), X)
    assert gradcheck(from_torch(Linear()), X)
    with pytest.warns(GradcheckWarning, match=r"on 1 Tensor.*\(2, 3\) of PyTorch"):
        gradcheck(from_torch(lambda x: x * Linear.weight * Linear.weight), X)
    with pytest.raises(TypeError, match="needs PyTorch's tensors"):
        gradcheck(from_torch(lambda x: (x.detach().numpy(), x)), X)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def test_torch_functions(torch):
    assert gradcheck(from_torch(torch.sin), X, options=Options(float32=True))
    assert gradcheck(from_torch(torch.nn.functional.silu), X, options=Options(float32=True))
    assert gradcheck(from_torch(lambda x, w: (x @ w.T, x.sum())), [X, W], fast=True)
    assert gradcheck(from_torch(lambda x, n: torch.nn.functional.layer_norm(x, (n,))), [X, 3])
    assert gradcheck(from_torch(lambda x: x[:, [0, 0, 2]]), X[:, ::-1])
    assert gradcheck(from_torch(torch.nn.Softmax(dim=1)), X)


def test_wrong_torch_functions(torch):
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x.cos() * g

    text = message(from_torch(Sine.apply), X)
    assert "every value is 2 times the right one" in text
    assert "the gradient is lost" in message(from_torch(lambda x: x.detach() * 2), X)


def test_torch_functions_without_a_wrapper(torch):
    for function in (torch.sin, lambda x: torch.from_numpy(x.data).sin()):
        with pytest.raises(TypeError, match=r"check autograd\.gradcheck\.from_torch\(function\)"):
            gradcheck(function, X)


@pytest.fixture
def scaled_weight(torch):
    """A linear layer whose weight gradient is `times` too large."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, times):
            ctx.save_for_backward(x, weight)
            ctx.times = times
            return x @ weight.T

        @staticmethod
        def backward(ctx, g):
            x, weight = ctx.saved_tensors
            return g @ weight, ctx.times * g.T @ x, None

    class Linear(torch.nn.Linear):
        times = 1.0

        def forward(self, x):
            return Product.apply(x, self.weight, self.times) + self.bias

    torch.manual_seed(0)
    return Linear(3, 2).double()


@pytest.mark.parametrize("fast", [False, True])
def test_the_parameters_of_a_module_are_checked(scaled_weight, fast):
    function = from_torch(scaled_weight)
    assert gradcheck(function, X, fast=fast)
    scaled_weight.times = 7.0
    text = message(function, X, fast=fast)
    assert "wrong gradient of the parameter 'weight'" in text
    assert "by the parameter 'weight'[" in text
    assert "every value is 7 times the right one" in text


def test_frozen_parameters_of_a_module_are_not(scaled_weight):
    scaled_weight.times = 7.0
    scaled_weight.weight.requires_grad_(False)
    assert gradcheck(from_torch(scaled_weight), X)


def test_modules_that_share_parameters_and_keep_statistics(torch):
    class Autoencoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.norm = torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)
            self.decoder = torch.nn.Linear(3, 3)
            self.decoder.weight = self.encoder.weight

        def forward(self, x):
            return self.decoder(self.norm(self.encoder(x)).tanh())

    module = Autoencoder().double()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    assert gradcheck(from_torch(module), np.random.default_rng(0).standard_normal((5, 3)))
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_wrapped_module_is_a_function_of_its_inputs(torch):
    module = torch.nn.Linear(3, 2).double()
    x = Tensor(X, requires_grad=True)
    ag.sum(from_torch(module)(x)).backward()
    np.testing.assert_allclose(x.grad.data, np.tile(module.weight.detach().numpy().sum(0), (2, 1)))
    assert module.weight.grad is None


def test_torch_tensors_as_inputs(torch):
    def scaled(x, factor):
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, factor):
                return x * factor

            @staticmethod
            def backward(ctx, g):
                return g * factor, None

        return Scale.apply(x, factor)

    x = torch.from_numpy(X).clone()
    factor = torch.full((3,), 2.0, dtype=torch.float64)
    assert gradcheck(from_torch(torch.sin), x)
    assert gradcheck(from_torch(lambda x, rows: x[rows]), [x, torch.tensor([0, 1, 1])])
    assert gradcheck(from_torch(scaled), [x.requires_grad_(), factor])
    assert "is lost" in message(from_torch(scaled), [x.detach(), factor])


def test_float32_of_torch(torch):
    with pytest.raises(TypeError, match=r"input 0 is torch\.float32, .*: pass x\.double\(\)"):
        gradcheck(from_torch(torch.sin), torch.ones(2))
    with pytest.raises(
        TypeError, match=r"the parameter 'weight' is torch\.float32, .*from_torch\(module\.double\(\)\)"
    ):
        gradcheck(from_torch(torch.nn.Linear(3, 2)), X)


def test_parameters_that_a_function_closes_over_are_reported(torch):
    module = torch.nn.Linear(3, 2).double()
    with pytest.warns(GradcheckWarning, match=r"\(2, 3\) of PyTorch.*or a module itself to from_torch"):
        gradcheck(from_torch(lambda x: module(x)), X)


@pytest.mark.parametrize("b", [0.3, np.array([1, 2, 3])], ids=["a number", "integers"])
def test_a_gradient_that_nothing_is_compared_with_is_told_once(b):
    wrong = from_vjp(lambda x, b: x * b, lambda g, x, b: (g * b, 7 * (g * x).sum()))
    with pytest.warns(GradcheckWarning, match="input 1 is .* not checked; give an array of floating") as warned:
        assert gradcheck(wrong, [np.array([0.5, -1.0, 2.0]), b])
    assert len(warned) == 1
    without = from_vjp(lambda x, b: x * b, lambda g, x, b: (g * b, None))
    assert gradcheck(without, [np.array([0.5, -1.0, 2.0]), b])


def test_a_pair_is_one_function_that_returns_both():
    for layer in ((np.sin, np.cos), lambda x: np.sin(x)):
        with pytest.raises(TypeError, match=r"from_pair takes one function|must return a pair \(output, backprop\)"):
            gradcheck(from_pair(layer), np.ones(3))
    with pytest.raises(TypeError, match="takes one function"):
        from_pair(np.sin, np.cos)
