"""Functions of NumPy arrays with a hand-written gradient, and functions of PyTorch tensors, as functions of Tensors.

def softplus(x):
    return np.logaddexp(0, x)

def softplus_vjp(g, x):
    return g / (1 + np.exp(-x))

gradcheck(from_vjp(softplus, softplus_vjp), x)
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd.engine import Op, apply
from autograd.tensor import Tensor

Array = np.ndarray
Function = Callable[..., Any]

GRADIENT_NAMES = {"g", "g_y", "gy", "dy", "dout", "grad", "grad_output", "gradient", "cotangent", "ct"}


def from_vjp(function: Function, vjp: Function) -> Function:
    """A function of Tensors, from a function of NumPy arrays and its hand-written gradient.

    function(*inputs, **keywords): returns an array, a number, or a tuple of these.
    vjp(g, *inputs, **keywords): returns the gradient of (g * function(*inputs)).sum() by the input, and for several
        inputs a tuple of them, with None for an input without one.  `g` has the shape of the output; for a tuple of
        outputs, it is a tuple.  For an element-wise function with derivative `slope`, vjp is
        `lambda g, x: g * slope(x)`; for a function of one number as its result, `lambda g, x: g * gradient(x)`.

    Positional inputs may be Tensors, arrays or any other values, which are passed on as they are.
    """
    _check_order(function, vjp)
    name = getattr(function, "__name__", type(function).__name__)

    class FromVjp(_Wrapped):
        @staticmethod
        def value(arrays: Sequence[Any], keywords: dict[str, Any], needs: Sequence[bool]) -> tuple[Any, Any]:
            return function(*arrays, **keywords), None

        def gradients(self, gs: tuple[Array, ...], inputs: Sequence[Any]) -> Any:
            return vjp(gs if self.several else gs[0], *inputs, **self.keywords)

    FromVjp.__name__ = FromVjp.__qualname__ = name.strip("<>")
    return _callable(FromVjp, function)


def _check_order(function: Function, vjp: Function) -> None:
    """Raises: TypeError if the names of vjp's parameters say that the gradient is the last"""
    names, inputs = _parameters(vjp), _parameters(function)
    if len(names) < 2 or names[0] in GRADIENT_NAMES or names[1:] == inputs:
        return
    if names[:-1] == inputs or (names[-1] in GRADIENT_NAMES and names[-1] not in inputs):
        raise TypeError(
            f"vjp is called with the incoming gradient first, and its parameters are ({', '.join(names)}): write "
            f"vjp({', '.join([names[-1], *names[:-1]])})"
        )


def _parameters(function: Function) -> list[str]:
    """The names of positional parameters without a default; none for a callable without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in positional and p.default is p.empty]


def from_torch(function: Function) -> Function:
    """A function of Tensors, from a function of PyTorch tensors, whose gradients are those of PyTorch.

    function(*tensors, **keywords): returns a tensor or a tuple of them; an nn.Module or the `apply` of a
        torch.autograd.Function will do.  Arrays become tensors of the same memory, or a copy if they are read-only or
        have negative strides, which PyTorch does not know.  Only the inputs are differentiated: for the parameters of a
        module, make them inputs by torch.func.functional_call.

    Raises: ImportError without PyTorch
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("from_torch needs PyTorch: pip install torch") from error

    def tensor(a: Any, needs: bool) -> Any:
        if not isinstance(a, np.ndarray):
            return a
        usable = a.flags.writeable and all(stride >= 0 for stride in a.strides)
        return torch.from_numpy(a if usable else a.copy()).requires_grad_(needs)

    def array(y: Any) -> Array:
        return y.detach().resolve_conj().resolve_neg().numpy()

    class FromTorch(_Wrapped):
        @staticmethod
        def value(arrays: Sequence[Any], keywords: dict[str, Any], needs: Sequence[bool]) -> tuple[Any, Any]:
            tensors = [tensor(a, needed) for a, needed in zip(arrays, needs, strict=True)]
            with torch.set_grad_enabled(any(needs)):
                outputs = function(*tensors, **keywords)
            several = isinstance(outputs, (tuple, list))
            every = tuple(outputs) if several else (outputs,)
            for y in every:
                if not isinstance(y, torch.Tensor):
                    raise TypeError(f"the function returned {type(y).__name__}; from_torch needs PyTorch's tensors")
            values = tuple([array(y) for y in every])
            return values if several else values[0], (tensors, every)

        def gradients(self, gs: tuple[Array, ...], inputs: Sequence[Any]) -> Any:
            tensors, outputs = self.kept
            pairs = [(y, tensor(g, False)) for y, g in zip(outputs, gs, strict=True) if y.requires_grad]
            wanted = [x for x in tensors if isinstance(x, torch.Tensor) and x.requires_grad]
            found = iter(
                torch.autograd.grad(
                    [y for y, _ in pairs], wanted, [g for _, g in pairs], retain_graph=True, allow_unused=True
                )
                if pairs
                else [None] * len(wanted)
            )
            gradients = [next(found) if isinstance(x, torch.Tensor) and x.requires_grad else None for x in tensors]
            return tuple([None if g is None else array(g) for g in gradients])

    return _callable(FromTorch, function)


class _Wrapped(Op):
    """An op whose class has `value` and `gradients`; `template` has all positional inputs, None for each array."""

    kept: Any = None

    @staticmethod
    def value(arrays: Sequence[Any], keywords: dict[str, Any], needs: Sequence[bool]) -> tuple[Any, Any]:
        """The outputs for all positional inputs, and what `gradients` needs of them."""
        raise NotImplementedError

    def gradients(self, gs: tuple[Array, ...], inputs: Sequence[Any]) -> Any:
        """A gradient for each positional input, or one alone."""
        raise NotImplementedError

    def forward(self, *arrays: Array, template: Sequence[Any], places: Sequence[int], keywords: dict[str, Any]) -> Any:
        self.template, self.places, self.keywords = template, places, keywords
        self.save(*arrays)
        needs = [False] * len(template)
        for place, needed in zip(places, self.needs_gradient, strict=True):
            needs[place] = needed
        outputs, self.kept = self.value(self._inputs(arrays), keywords, needs)
        self.several = isinstance(outputs, (tuple, list))
        values = [np.asarray(y) for y in (outputs if self.several else [outputs])]
        for y in values:
            if y.dtype == object:
                raise TypeError(
                    f"the function returned {type(outputs).__name__}, which is not an array of numbers: return an "
                    "array, a number or a tuple of them"
                )
        return tuple(values) if self.several else values[0]

    def backward(self, *gs: Array) -> Any:
        inputs = self._inputs(self.saved)
        found = self.gradients(gs, inputs)
        every = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(every) == len(self.places) < len(inputs):
            return tuple([None if g is None else np.asarray(g) for g in every])  # for the arrays alone
        if len(every) != len(inputs):
            raise RuntimeError(
                f"vjp returned {len(every)} gradient(s) for {len(inputs)} inputs: return one for each, in their order, "
                "and None for an input without a gradient"
            )
        return tuple([None if every[place] is None else np.asarray(every[place]) for place in self.places])

    def _inputs(self, arrays: Sequence[Array]) -> list[Any]:
        inputs = list(self.template)
        for place, a in zip(self.places, arrays, strict=True):
            inputs[place] = a
        return inputs


def _callable(op: type[_Wrapped], function: Function) -> Function:
    def wrapped(*inputs: Any, **keywords: Any) -> Any:
        places = [k for k, x in enumerate(inputs) if isinstance(x, (Tensor, np.ndarray))]
        template = [None if k in places else x for k, x in enumerate(inputs)]
        return apply(op, *[inputs[k] for k in places], template=template, places=places, keywords=keywords)

    if hasattr(function, "__name__"):
        functools.update_wrapper(wrapped, function, updated=())
    return wrapped
