"""Wrong derivatives in other libraries: what they offer, in the forms that `autograd.gradcheck` takes, a few lines each.

    PYTHONPATH=. PYTHON studies/recipes/hunt.py statsmodels [--only TEXT]

PYTHON is one that has the library; this project needs only NumPy there.  One line is printed for each derivative that
is wrong, and how many were right, had a kink or were not taken.  To add a library, write a function that yields names
and checks, and name it in `LIBRARIES`.
"""

from __future__ import annotations

import argparse
import inspect
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from autograd.gradcheck import (
    GradcheckError,
    NondifferentiableError,
    check_derivatives,
    check_elementwise,
    check_jvp,
    from_pair,
    gradcheck,
)

Checks = Iterator[tuple[str, Callable[[], Any]]]


def statsmodels() -> Checks:
    """Log-likelihoods with score and Hessian; link functions."""
    from statsmodels.discrete import count_model, discrete_model, truncated_model
    from statsmodels.genmod.families import links

    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(80), 0.5 * rng.standard_normal((80, 2))])
    counts = rng.poisson(np.exp(x @ [0.8, 0.3, -0.4]) * rng.gamma(2, 0.5, 80))
    for module in (discrete_model, count_model, truncated_model):
        for name, kind in vars(module).items():
            if name.startswith("_") or not inspect.isclass(kind) or kind.__module__ != module.__name__:
                continue
            for what, y in (("counts", counts), ("positive counts", counts + 1), ("0 and 1", (counts > 1).astype(int))):
                try:
                    model = kind(y, x)
                    at = rng.uniform(0.1, 0.6, len(model.exog_names))
                    model.loglike(at)
                except Exception:  # not a model of these data
                    continue
                yield f"{name}, {what}", partial(check_derivatives, model.loglike, model.score, model.hessian, at=at)
                break
    p = np.array([0.05, 0.3, 0.5, 0.8, 0.97])
    for name in links.__all__ if hasattr(links, "__all__") else dir(links):
        try:
            link = getattr(links, name)()
            z = np.asarray(link(p))
        except Exception:  # not a link
            continue
        yield f"{name}: deriv", partial(check_elementwise, link, link.deriv, link.deriv2, at=p)
        inverse = partial(check_elementwise, link.inverse, link.inverse_deriv, link.inverse_deriv2, at=z)
        yield f"{name}: inverse_deriv", inverse


def sklearn() -> Checks:
    """Kernels' gradients by log(theta), and log-likelihoods of processes; the loss of a perceptron."""
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels
    from sklearn.neural_network import MLPRegressor

    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((6, 2)), rng.standard_normal((6, 2))
    tried = [kernels.RBF([1.3, 0.4]), kernels.RationalQuadratic(1.2, 0.7), kernels.ExpSineSquared(1.1, 2.3),
             kernels.DotProduct(0.8), kernels.RBF(0.5) * kernels.ConstantKernel(2) + kernels.WhiteKernel(0.3),
             kernels.Exponentiation(kernels.RBF(0.9), 3), *(kernels.Matern(1.3, nu=n) for n in (0.5, 1.5, 2.5))]  # fmt: skip
    for kernel in tried:
        values = lambda theta, k=kernel: k.clone_with_theta(theta)(x)  # noqa: E731
        along = lambda theta, v, k=kernel: k.clone_with_theta(theta)(x, eval_gradient=True)[1] @ v  # noqa: E731
        yield f"{kernel}", partial(check_jvp, values, along, kernel.theta)
        process = GaussianProcessRegressor(kernel + kernels.WhiteKernel(0.2), optimizer=None).fit(x, y)
        likelihood = process.log_marginal_likelihood
        gradient = lambda theta, f=likelihood: f(theta, eval_gradient=True)[1]  # noqa: E731
        yield f"likelihood, {kernel}", partial(check_derivatives, likelihood, gradient, at=process.kernel_.theta)
    layers = [x, *(np.empty((6, n)) for n in (3, 2))]  # which the loss writes into, as it does into the buffers
    for alpha in (0.0, 0.1):
        model = MLPRegressor(hidden_layer_sizes=(3,), activation="tanh", solver="lbfgs", alpha=alpha, max_iter=1).fit(
            x, y
        )
        buffers = [[np.empty_like(w) for w in ws] for ws in (model.coefs_, model.intercepts_)]
        both = lambda w, m=model, b=buffers: m._loss_grad_lbfgs(w, x, y, None, layers, layers[1:], *b)  # noqa: E731
        weights = np.concatenate([w.ravel() for w in (*model.coefs_, *model.intercepts_)])
        loss, gradient = (lambda w, f=both, k=k: f(w.copy())[k] for k in range(2))
        yield f"MLPRegressor, alpha={alpha}", partial(check_derivatives, loss, gradient, at=weights)


def astropy() -> Checks:
    """Models' fit_deriv, the derivatives of evaluate by each parameter."""
    from astropy.modeling import functional_models, physical_models, powerlaws

    rng = np.random.default_rng(1)
    points = rng.uniform(0.2, 3, (2, 8))
    for module in (functional_models, physical_models, powerlaws):
        for name in module.__all__:
            kind = getattr(module, name)
            if getattr(kind, "fit_deriv", None) is None:
                continue
            model = kind()
            x = points[: model.n_inputs]
            at = model.parameters + rng.uniform(0.1, 0.9, len(model.parameters))
            values = lambda p, m=model, x=x: m.evaluate(*x, *p)  # noqa: E731
            along = lambda p, v, m=model, x=x: sum(d * w for d, w in zip(m.fit_deriv(*x, *p), v, strict=True))  # noqa: E731
            yield name, partial(check_jvp, values, along, at)


def thinc() -> Checks:
    """Layers that return their output and its backprop."""
    from thinc import api

    x = np.random.default_rng(1).standard_normal((4, 6)).astype("f")
    for name in ("Linear", "Relu", "Gelu", "Dish", "Mish", "Swish", "HardSwish", "Sigmoid", "Softmax", "Maxout"):
        layer = getattr(api, name)(6, 6).initialize(X=x, Y=x)
        pair = from_pair(lambda x, layer=layer: layer(x, True))
        yield name, partial(gradcheck, pair, x, precision="float32")


def torch() -> Checks:
    """Functions of PyTorch's own register of tests, with its samples, at random points, and with zeros."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.set_num_threads(1)
    for op in op_db:
        if not op.supports_autograd or torch.float64 not in op.supported_dtypes("cpu") or op.name.startswith("_"):
            continue
        for number, sample in enumerate(op.sample_inputs("cpu", torch.float64, requires_grad=True)):
            x = sample.input
            if (
                number == 5
                or not isinstance(x, torch.Tensor)
                or not 0 < x.numel() <= 40
                or x.layout is not torch.strided
            ):
                break

            def function(x: Any, op: Any = op, sample: Any = sample) -> Any:
                return sample.output_process_fn_grad(op.gradcheck_wrapper(op.op, x, *sample.args, **sample.kwargs))

            name = f"{op.name} {op.variant_test_name}".strip()
            for what, at in _points(x.detach().numpy()):
                for order, check in _compositions(torch.func, torch.tensor, function, at):
                    yield f"{name}, sample {number}{what}: {order}", check


def jax() -> Checks:
    """Functions of jax.numpy, jax.nn and jax.scipy of one array, at random points, and with zeros."""
    import jax

    jax.config.update("jax_enable_x64", True)
    for module in (jax.numpy, jax.numpy.linalg, jax.nn, jax.scipy.special, jax.scipy.linalg):
        for name, function in sorted(vars(module).items()):
            if name.startswith("_") or not callable(function) or isinstance(function, type):
                continue
            for what, at in _points(np.random.default_rng(0).uniform(0.2, 0.9, (3, 3))):
                for order, check in _compositions(jax, jax.numpy.asarray, function, at):
                    yield f"{module.__name__}.{name}{what}: {order}", check


def _points(x: np.ndarray) -> list[tuple[str, np.ndarray]]:
    rng = np.random.default_rng(4)
    zeros = np.where(np.arange(x.size).reshape(x.shape) % 3 == 1, 0.0, x)
    return [("", x), (", moved", x + 0.5 * rng.standard_normal(x.shape)), (", some zeros", zeros)]


def _compositions(library: Any, array: Callable, function: Callable, at: np.ndarray) -> Checks:
    """A weighted sum of a function's outputs: its gradient by reverse and forward mode, its Hessian by both over both."""
    try:
        y = function(array(at))
        w = array(np.random.default_rng(3).standard_normal(tuple(y.shape)))
        (w * y).sum().item()
    except Exception:  # not a function of one array of these numbers that returns one of real numbers
        return
    modes = {"reverse": library.jacrev, "forward": library.jacfwd}

    def number(x: Any) -> Any:
        return (w * function(x)).sum()

    def of_array(f: Callable) -> Callable:
        return lambda x: np.asarray(f(array(x)))

    for inner, first in modes.items():
        for outer, second in modes.items():
            gradient = first(number)
            derivatives = map(of_array, (number, gradient, second(gradient)))
            yield f"{outer} over {inner}", partial(check_derivatives, *derivatives, at=at)


LIBRARIES = {f.__name__: f for f in (statsmodels, sklearn, astropy, thinc, torch, jax)}


def hunt(library: str, only: str = "") -> Counter[str]:
    """Print what is wrong; how many checks were right, wrong, not differentiable or not taken, by the error's kind."""
    counts: Counter[str] = Counter()
    for name, check in LIBRARIES[library]():
        if only not in name:
            continue
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check()
            counts["right"] += 1
        except NondifferentiableError:
            counts["not differentiable here"] += 1
        except GradcheckError as error:
            counts["wrong"] += 1
            cause = re.search(r"likely cause: (.*)", str(error))
            print(f"{name}: {str(error).splitlines()[0]} {cause[1] if cause else ''}".rstrip(), flush=True)
        except Exception as error:  # whatever the library says that it does not do
            counts[f"not taken: {type(error).__name__}"] += 1
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("--only", default="", metavar="TEXT", help="only checks with TEXT in their name")
    args = parser.parse_args()
    for what, number in hunt(args.library, args.only).most_common():
        print(f"{number:6,} {what}")
