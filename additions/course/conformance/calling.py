"""Call functions of NumPy arrays, of PyTorch tensors and of this project's Tensors alike."""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from additions.course.conformance.table import NotGiven, Wrong
from autograd import Tensor, gradcheck, no_grad
from autograd.gradcheck import GradcheckError, Options, from_torch, from_vjp
from minitf.model.layers import Module

Array = np.ndarray
Library = Literal["numpy", "torch", "autograd"]


def library_of(function: Any) -> Library:
    """Return whose arrays a callable takes: PyTorch's for its modules and functions, Tensors for this project's."""
    torch = sys.modules.get("torch")
    owner = getattr(function, "__self__", function)
    module = getattr(function, "__module__", None) or ""
    if torch is not None and (isinstance(owner, torch.nn.Module) or module.startswith("torch")):
        return "torch"
    if isinstance(owner, Module) or module.startswith("autograd"):
        return "autograd"
    return "numpy"


def library_for(function: Any, *inputs: Any) -> Library:
    """`library_of`; of a function that refuses NumPy arrays, the library whose arrays it takes."""
    candidates: list[Library] = ["torch", "autograd"] if "torch" in sys.modules else ["autograd"]
    found = library_of(function)
    if found == "numpy":
        for candidate in (found, *candidates):
            with suppress(Exception), warnings.catch_warnings():  # of what was handed in
                warnings.simplefilter("ignore")
                if candidate == "numpy" and isinstance(function(*inputs), Tensor):
                    return "autograd"
                with suppress(Wrong):  # it takes these arrays, and changes them
                    called(function, candidate)(*inputs)
                return candidate
    return found


def repeatable(call: Callable[[], Array]) -> str:
    """Check that two calls give the same result; otherwise, nothing else can be checked."""
    if difference(call(), call()):
        raise Wrong("two calls with the same inputs give different results: is dropout on?  Call eval() first")
    return "two calls give the same result"


def called(function: Callable[..., Any], library: Library) -> Callable[..., Array]:
    """Return a function of NumPy arrays and other values, from one of another library's arrays; without gradients."""

    def call(*inputs: Any) -> Array:
        if library == "torch":
            import torch

            with torch.no_grad():
                return to_numpy(function(*[_to_torch(x) for x in inputs]))
        if library == "autograd":
            with no_grad():
                return to_numpy(function(*[_to_tensor(x) for x in inputs]))
        given = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
        y = to_numpy(function(*given))
        for i, (x, then) in enumerate(zip(given, inputs, strict=True)):
            if isinstance(x, np.ndarray) and not np.array_equal(x, then, equal_nan=x.dtype.kind == "f"):
                raise Wrong(f"the function changes its argument {i} in place (as x += … does); let it work on a copy")
        return y

    return call


def to_numpy(y: Any) -> Array:
    """Return the array of a result; the first one of a tuple, as of PyTorch's attention."""
    if isinstance(y, tuple) and y:
        y = y[0]
    if isinstance(y, Tensor):
        y = y.numpy()
    elif hasattr(y, "detach"):
        y = y.detach().cpu().numpy()
    y = np.asarray(y)
    if y.dtype.kind not in "fiub":
        raise TypeError(f"the result is of type {y.dtype}, expected an array of numbers")
    return y.copy()


def in_float64(module: Any) -> Any:
    """Return a copy of a module with float64 parameters, in evaluation mode; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(module, torch.nn.Module):
        return copy.deepcopy(module).double().eval()
    if isinstance(module, Module):
        module = copy.deepcopy(module)
        for parameter in module.parameters():
            parameter.data = parameter.data.astype(np.float64)
        return module.eval()
    return module


def shared_array(x: Any) -> Array:
    """Return the array of a parameter, in the parameter's own memory."""
    if isinstance(x, Tensor):
        return x.data
    return x.detach().numpy() if hasattr(x, "detach") else x


def _to_torch(x: Any) -> Any:
    import torch

    return torch.from_numpy(np.array(x)) if isinstance(x, np.ndarray) else x


def _to_tensor(x: Any) -> Any:
    return Tensor(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


def check_gradients(
    function: Callable[..., Any], library: Library, inputs: list[Array], vjp: Callable[..., Any] | None
) -> str:
    """Compare the gradients of `function` by its inputs with numerical derivatives."""
    if library == "torch":
        checked = from_torch(lambda *tensors: _first(function(*tensors)))
    elif library == "autograd":
        checked = function
    elif vjp is None:
        raise NotGiven("give vjp(g, *inputs), the gradients of (g * y).sum() by the inputs")
    else:
        checked = from_vjp(function, vjp)
    try:
        gradcheck(checked, inputs, fast=True, options=Options(mode="central", elsewhere=False, layouts=False))
    except GradcheckError as error:
        raise Wrong(" ".join(str(error).split())) from None
    return "as central differences"


def _first(y: Any) -> Any:
    return y[0] if isinstance(y, tuple) else y


def difference(a: Array, b: Array) -> float:
    """Return the largest |a - b|, infinity where only one is not a number."""
    if a.shape != b.shape:
        raise Wrong(f"the result has shape {a.shape}, expected {b.shape}")
    with np.errstate(invalid="ignore"):
        off = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0, abs(a - b))
    return float(np.nan_to_num(off, nan=np.inf).max(initial=0))


def rounding(*arrays: Array) -> float:
    """Bound the change caused by rounding in another order, in arrays of this size and type."""
    size = max([float(abs(a[np.isfinite(a)]).max(initial=1)) for a in arrays])
    return size * (2e-5 if any(a.dtype == np.float32 for a in arrays) else 1e-10)


# ---- Gradients of parameters -------------------------------------------------------------------------------------


STEP = 1e-6


def check_parameters(
    model: Any, library: Library, logits: Callable[..., Array], parts: Any, source: Array, target: Array
) -> str:
    """Compare d (g · logits) / d parameter, along one random direction in each parameter."""
    rng = np.random.default_rng(3)
    g = rng.standard_normal(logits(source, target).shape)
    parameters, gradients = _parameters_and_gradients(model, library, parts, source, target, g)
    if wrong_type := [name for name, a in parameters.items() if a.dtype != np.float64]:
        raise NotGiven(f"parameter {wrong_type[0]} is not float64: differences of float32 numbers are too inexact")
    worst = 0.0
    for name, array in parameters.items():
        if name not in gradients:
            raise Wrong(f"there is no gradient of {name}")
        direction = rng.standard_normal(array.shape)
        analytic = float((np.asarray(gradients[name]) * direction).sum())
        numerical, inexact = _slope(array, direction, lambda: float((g * logits(source, target)).sum()))
        off = abs(analytic - numerical)
        if not off <= 1e-5 * (1 + abs(numerical)) + inexact:
            factor = f", {analytic / numerical:.4g} times as much" if numerical else ""
            raise Wrong(f"the gradient of {name} along a random direction is {analytic:.6g}, by differences "
                        f"{numerical:.6g}{factor}")  # fmt: skip
        worst = max(worst, off / (1 + abs(numerical)))
    return f"of {len(parameters)} parameters as central differences, within {worst:.0e}"


def _slope(array: Array, direction: Array, value: Callable[[], float]) -> tuple[float, float]:
    """Return the central difference, and how much that of twice the step differs, as it does beside a kink."""
    before, ends = array.copy(), []
    try:
        for k in (1, -1, 2, -2):
            array[...] = before + k * STEP * direction
            ends.append(value())
    finally:
        array[...] = before
    near, wide = (ends[0] - ends[1]) / (2 * STEP), (ends[2] - ends[3]) / (4 * STEP)
    return near, 10 * abs(near - wide)


def _parameters_and_gradients(
    model: Any, library: Library, parts: Any, source: Array, target: Array, g: Array
) -> tuple[dict[str, Array], Mapping[str, Any]]:
    if parts.parameters is not None and parts.gradients is not None:
        return dict(parts.parameters), parts.gradients(source, target, g)
    if library == "torch" and hasattr(model, "named_parameters"):
        import torch

        named = dict(model.named_parameters())
        model.zero_grad()
        (model(torch.from_numpy(source), torch.from_numpy(target)) * torch.from_numpy(g)).sum().backward()
        return {name: shared_array(p) for name, p in named.items()}, _numbers(named)
    if isinstance(model, Module):
        own = model.named_parameters()
        for parameter in own.values():
            parameter.grad = None
        (model(source, target) * Tensor(g)).sum().backward()  # type: ignore[operator]
        return {name: p.data for name, p in own.items()}, _numbers(own)
    raise NotGiven("give parameters, a mapping of float64 arrays, and gradients(source, target, g)")


def _numbers(named: Mapping[str, Any]) -> dict[str, Array]:
    return {name: np.zeros(tuple(p.shape)) if p.grad is None else p.grad.numpy() for name, p in named.items()}
