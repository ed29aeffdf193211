"""NumPy functions with a hand-written gradient, layers with a backprop, PyTorch functions, as functions of Tensors.

def softplus(x):
    return np.logaddexp(0, x)

def softplus_vjp(g, x):
    return g / (1 + np.exp(-x))

gradcheck(from_vjp(softplus, softplus_vjp), x)
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from autograd.engine import Op, apply
from autograd.tensor import Tensor

Array = np.ndarray
Function = Callable[..., Any]

GRADIENT_NAMES = {"g", "g_y", "gy", "dy", "dout", "grad", "grad_output", "gradient", "cotangent", "ct"}


class GradcheckWarning(UserWarning):
    """A check passes, and leaves something unchecked."""


class Wrapped(Op):
    """An op whose class has `value` and `pull_back` of all positional inputs, which `fill` makes of the arrays."""

    warned_of: ClassVar[set[int]]  # inputs whose gradients nothing is compared with

    def value(self, inputs: Sequence[Any]) -> Any:
        """The outputs: one, or a tuple of several."""
        raise NotImplementedError

    def pull_back(self, gs: tuple[Array, ...], inputs: Sequence[Any]) -> Any:
        """A gradient for each positional input, or for each array, or one alone."""
        raise NotImplementedError

    def forward(self, *arrays: Array, fill: Function, places: Sequence[int], keywords: dict[str, Any]) -> Any:
        self.fill, self.places, self.keywords = fill, places, keywords
        self.save(*arrays)
        outputs = self.value(fill(arrays))
        self.several = isinstance(outputs, (tuple, list))
        values = [np.asarray(y) for y in (outputs if self.several else [outputs])]
        if any(y.dtype == object for y in values):
            raise TypeError(
                f"the function returned {type(outputs).__name__}, which is not an array of numbers: return an "
                "array, a number or a tuple of them"
            )
        return tuple(values) if self.several else values[0]

    def unchecked(self) -> list[str]:
        """Shapes of what else the outputs depend on and could be differentiated by; call it after `forward`."""
        return []

    def backward(self, *gs: Array) -> Any:
        inputs = self.fill(self.saved)
        found = self.pull_back(gs, inputs)
        every = found if isinstance(found, (tuple, list)) else (found,)
        if len(every) == len(inputs):
            for k, (x, g) in enumerate(zip(inputs, every, strict=True)):
                if k not in self.warned_of and _is_unchecked(x, g):
                    self.warned_of.add(k)
                    warnings.warn(
                        f"input {k} is {x!r:.40}, which is passed on as it is: the gradient that was returned for it "
                        "is not checked; give an array of floating-point numbers",
                        GradcheckWarning,
                        stacklevel=2,
                    )
            every = [every[place] for place in self.places]
        elif len(every) != len(self.places):
            raise RuntimeError(
                f"vjp returned {len(every)} gradient(s) for {len(inputs)} inputs: return one for each, in their order, "
                "and None for an input without a gradient"
            )
        return tuple([None if g is None else np.asarray(g) for g in every])


def _is_unchecked(x: Any, g: Any) -> bool:
    """True for a gradient of a number, or of integers, with which nothing is compared."""
    is_number = type(x) in (int, float) or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "iu")
    return is_number and g is not None and bool(np.any(g))


def _callable(op: type[Wrapped], function: Function) -> Function:
    op.warned_of = set()

    def wrapped(*inputs: Any, **keywords: Any) -> Any:
        places = [k for k, x in enumerate(inputs) if isinstance(x, (Tensor, np.ndarray))]
        others = [None if k in places else x for k, x in enumerate(inputs)]

        def fill(arrays: Sequence[Any]) -> list[Any]:
            """All positional inputs, given those that are arrays."""
            filled = list(others)
            for place, a in zip(places, arrays, strict=True):
                filled[place] = a
            return filled

        return apply(op, *[inputs[k] for k in places], fill=fill, places=places, keywords=keywords)

    if hasattr(function, "__name__"):
        functools.update_wrapper(wrapped, function, updated=())
    return wrapped


# ---- NumPy ----


def from_vjp(function: Function, vjp: Function) -> Function:
    """Return a function of Tensors, from a function of NumPy arrays and its hand-written gradient.

    function(*inputs, **keywords): returns an array, a number, or a tuple of these.
    vjp(g, *inputs, **keywords): returns the gradient of (g * function(*inputs)).sum() by the input, and for several
        inputs a tuple of them, with None for an input without one.  `g` has the shape of the output; for a tuple of
        outputs, it is a tuple.  For an element-wise function with derivative `slope`, vjp is
        `lambda g, x: g * slope(x)`; for a function of one number as its result, `lambda g, x: g * gradient(x)`.

    Positional inputs may be Tensors, arrays or any other values, which are passed on as they are.

    Raises: TypeError if the names of vjp's parameters say that the gradient is the last
    """
    code = getattr(vjp, "__code__", None)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount] if code else ()
    if len(names) > 1 and names[-1] in GRADIENT_NAMES and names[0] not in GRADIENT_NAMES:
        raise TypeError(
            f"vjp is called with the incoming gradient first, and its parameters are ({', '.join(names)}): write "
            f"vjp({', '.join([names[-1], *names[:-1]])})"
        )

    class FromVjp(Wrapped):
        def value(self, inputs: Sequence[Any]) -> Any:
            return function(*inputs, **self.keywords)

        def pull_back(self, gs: tuple[Array, ...], inputs: Sequence[Any]) -> Any:
            return vjp(gs if self.several else gs[0], *inputs, **self.keywords)

    FromVjp.__name__ = FromVjp.__qualname__ = getattr(function, "__name__", type(function).__name__).strip("<>")
    return _callable(FromVjp, function)


def from_pair(layer: Function, params: Mapping[Any, Any] | tuple[dict, dict] | None = None) -> Function:
    """Return a function of Tensors, from a layer that returns its output and the function that goes back through it.

    layer(*inputs): returns (output, backprop).  backprop(g) returns the gradient by the input, for several inputs a
        tuple of them.  The forward pass runs once for each point that the gradient is asked at.
    params: parameters that `gradcheck` also differentiates by, as if they were further inputs: by name, three functions
        (get, set, gradient), or a pair of dicts that the layer uses, of values and of gradients by name.  The values
        are set for each call and back after it.  gradient() returns what the last backprop found; an array that
        backprop adds to is set to 0 before it.

    Raises: TypeError for anything but such a function
    """
    if not callable(layer) or callable(params):
        raise TypeError("from_pair takes one function, which returns (output, backprop); give backprop as its result")
    if isinstance(params, tuple):
        kept, gradients = params
        params = {name: (partial(kept.get, name), partial(kept.__setitem__, name), partial(gradients.get, name))
                  for name in kept}  # fmt: skip
    parameters = {name: _Parameter(*three) for name, three in (params or {}).items()}

    def with_values(values: Sequence[Array], call: Function) -> Any:
        before = [p.get() for p in parameters.values()]
        try:
            for parameter, value in zip(parameters.values(), values, strict=True):
                parameter.set(value)
            return call()
        finally:
            for parameter, value in zip(parameters.values(), before, strict=True):
                parameter.set(value)

    class FromPair(Wrapped):
        def value(self, inputs: Sequence[Any]) -> Any:
            count = len(inputs) - len(parameters)
            found = with_values(inputs[count:], lambda: layer(*inputs[:count]))
            if not isinstance(found, tuple) or len(found) != 2 or not callable(found[1]):
                raise TypeError(f"layer must return a pair (output, backprop), found {type(found).__name__}")
            output, self.backprop = found
            return output

        def pull_back(self, gs: tuple[Array, ...], inputs: Sequence[Any]) -> Any:
            values = inputs[len(inputs) - len(parameters) :]
            for parameter in parameters.values():
                parameter.clear()
            back = with_values(values, lambda: self.backprop(gs if self.several else gs[0]))
            back = back if isinstance(back, (tuple, list)) else (back,)
            found = [p.read(np.shape(value)) for p, value in zip(parameters.values(), values, strict=True)]
            return (*back, *found)

    FromPair.__name__ = FromPair.__qualname__ = getattr(layer, "__name__", type(layer).__name__).strip("<>")
    call = _callable(FromPair, layer)
    if not parameters:
        return call

    def wrapped(*inputs: Any) -> Any:
        return call(*inputs, *[p.value() for p in parameters.values()])

    wrapped.with_parameters = call, {name: p.value() for name, p in parameters.items()}  # type: ignore[attr-defined]
    return wrapped


@dataclass
class _Parameter:
    get: Function
    set: Function
    gradient: Function

    def value(self) -> Array:
        return np.array(self.get(), dtype=np.float64)

    def read(self, shape: tuple[int, ...]) -> Array:
        """The gradient, copied; zeros before the first pass."""
        try:
            found = self.gradient()
        except (KeyError, AttributeError):
            found = None
        return np.zeros(shape) if found is None else np.array(found)

    def clear(self) -> None:
        try:
            found = self.gradient()
        except (KeyError, AttributeError):
            return
        own = isinstance(found, np.ndarray) and not np.shares_memory(found, np.asarray(self.get()))
        if own and found.flags.writeable:
            found[...] = 0


# ---- PyTorch ----


def from_torch(function: Function) -> Function:
    """Return a function of Tensors, from a function of PyTorch tensors, whose gradients are those of PyTorch.

    function(*tensors, **keywords): returns a tensor, or tuples or dicts of them, of which all are checked; an
        nn.Module or the `apply` of a torch.autograd.Function will do.  Arrays become tensors of the same memory, or a
        copy if they are read-only or have negative strides, which PyTorch does not know.

    `gradcheck` also differentiates by the parameters of an nn.Module that require a gradient, as if they were further
    inputs.  They must be float64: `from_torch(module.double())`.  Each call gets copies of the module's buffers.

    Raises: ImportError without PyTorch
    """
    torch = _torch()
    wrapped: Any = _of_tensors(function)
    if isinstance(function, torch.nn.Module):
        parameters = {name: p for name, p in function.named_parameters() if p.requires_grad}
        names = list(parameters)

        def call(*values: Any, **keywords: Any) -> Any:
            count = len(values) - len(names)
            buffers = {name: buffer.clone() for name, buffer in function.named_buffers()}
            # a module's parameters are contiguous, and BatchNorm of PyTorch 2.13 relies on it: the checker's are not
            given = {**buffers, **{name: p.contiguous() for name, p in zip(names, values[count:], strict=True)}}
            return torch.func.functional_call(function, given, values[:count], keywords)

        wrapped.with_parameters = _of_tensors(call), parameters
    return wrapped


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("from_torch needs PyTorch: pip install torch") from error
    return torch


def _of_tensors(function: Function) -> Function:
    return _callable(type("FromTorch", (FromTorch,), {"function": staticmethod(function)}), function)


class FromTorch(Wrapped):
    """A function of PyTorch tensors, which a subclass names in `function`."""

    function: Function

    def value(self, inputs: Sequence[Any]) -> Any:
        torch = _torch()
        needs = self.fill(self.needs_gradient)
        self.tensors = [_tensor(a, need) for a, need in zip(inputs, needs, strict=True)]
        with torch.set_grad_enabled(any(self.needs_gradient)):
            outputs = self.function(*self.tensors, **self.keywords)
        self.results = tuple(_flat(outputs))
        for y in self.results:
            if not isinstance(y, torch.Tensor):
                raise TypeError(f"the function returned {type(y).__name__}; from_torch needs PyTorch's tensors")
        values = tuple([_array(y) for y in self.results])
        return values[0] if isinstance(outputs, torch.Tensor) else values

    def unchecked(self) -> list[str]:
        known = {id(x) for x in self.tensors}
        nodes = [y.grad_fn for y in self.results if y.grad_fn is not None]
        seen, found = set(nodes), []
        for node in nodes:  # grows
            leaf = getattr(node, "variable", None)
            if leaf is not None and id(leaf) not in known:
                found.append(f"{tuple(leaf.shape)} of PyTorch")
            fresh = {other for other, _ in node.next_functions if other is not None} - seen
            seen |= fresh
            nodes += fresh
        return found

    def pull_back(self, gs: tuple[Array, ...], inputs: Sequence[Any]) -> Any:
        torch = _torch()
        pairs = [(y, _tensor(g)) for y, g in zip(self.results, gs, strict=True) if y.requires_grad]
        places = [k for k, x in enumerate(self.tensors) if isinstance(x, torch.Tensor) and x.requires_grad]
        gradients: list[Array | None] = [None] * len(inputs)
        if pairs and places:
            found = torch.autograd.grad(
                [y for y, _ in pairs], [self.tensors[k] for k in places], [g for _, g in pairs],
                retain_graph=True, allow_unused=True,
            )  # fmt: skip
            for k, g in zip(places, found, strict=True):
                gradients[k] = None if g is None else _array(g)
        return gradients


def _flat(outputs: Any) -> list[Any]:
    """All that is in nested tuples, lists and dicts, as an LSTM or a language model returns them; None is left out."""
    if isinstance(outputs, Mapping):
        outputs = list(outputs.values())
    if isinstance(outputs, (tuple, list)):
        return [y for part in outputs for y in _flat(part)]
    return [] if outputs is None else [outputs]


def _tensor(a: Any, needs: bool = False) -> Any:
    if not isinstance(a, np.ndarray):
        return a
    usable = a.flags.writeable and all(stride >= 0 for stride in a.strides)
    return _torch().from_numpy(a if usable else a.copy()).requires_grad_(needs)


def _array(y: Any) -> Array:
    return y.detach().resolve_conj().resolve_neg().numpy()


def array_of_torch(x: Any, position: int | str, precision: str = "float64") -> Any:
    """Return the array of a PyTorch tensor; other tensors, and what is no tensor of PyTorch, as they are.

    Raises: TypeError for floating-point numbers of less precision
    """
    if not is_torch(x) or not x.is_floating_point():
        return x
    if x.element_size() < np.dtype(precision).itemsize:
        raise TypeError(
            f"{f'input {position}' if isinstance(position, int) else position} is {x.dtype}, in which small "
            "differences are lost to rounding: pass "
            + ("x.double()" if isinstance(position, int) else "from_torch(module.double())")
        )
    return x.detach().cpu().numpy()


def is_torch(x: Any) -> bool:
    """Return whether x is a PyTorch tensor; PyTorch is not imported."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "is_floating_point")
