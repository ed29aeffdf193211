"""NumPy functions with a hand-written gradient, layers with a backprop, PyTorch functions, as functions of Tensors.

def softplus(x):
    return np.logaddexp(0, x)

def softplus_vjp(g, x):
    return g / (1 + np.exp(-x))

gradcheck(from_vjp(softplus, softplus_vjp), x)
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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


def as_tuple(found: Any) -> tuple[Any, ...]:
    """Return several results as a tuple, and one as a tuple of one."""
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


class Wrapped(Op):
    """An op of `run(inputs)`, which returns the outputs and the function from their gradients and the inputs back.

    inputs: all positional ones, which `fill` makes of the arrays among them
    """

    run: ClassVar[Function]
    warned_of: ClassVar[set[int]]  # inputs whose gradients nothing is compared with
    unchecked: Callable[[], list[str]] = list
    """Shapes of what else the outputs depend on and could be differentiated by."""

    def forward(self, *arrays: Array, fill: Function, places: Sequence[int], keywords: dict[str, Any]) -> Any:
        self.fill, self.places, self.keywords = fill, places, keywords
        self.save(*arrays)
        outputs, self.back = self.run(fill(arrays))
        self.several = isinstance(outputs, (tuple, list))
        values = [np.asarray(y) for y in as_tuple(outputs)]
        if any(y.dtype == object for y in values):
            raise TypeError(
                f"the function returned {type(outputs).__name__}, which is not an array of numbers: return an "
                "array, a number or a tuple of them"
            )
        return tuple(values) if self.several else values[0]

    def backward(self, *gs: Array) -> Any:
        inputs = self.fill(self.saved)
        every: Sequence[Any] = as_tuple(self.back(gs if self.several else gs[0], inputs))
        if len(every) == len(inputs):
            for k, (x, g) in enumerate(zip(inputs, every, strict=True)):
                is_array = isinstance(x, (np.ndarray, np.generic))
                is_number = x.dtype.kind in "iuc" if is_array else type(x) in (int, float, complex, list)
                if is_number and k not in self.warned_of and g is not None and np.any(g):
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
        found = [None if g is None else np.asarray(g) for g in every]
        complex_ones = [g for g in found if g is not None and np.iscomplexobj(g)]
        if any(abs(g.imag).max(initial=0) > 1e-9 * abs(g).max(initial=0) for g in complex_ones):
            raise RuntimeError("the gradient that was returned is complex, and the input real: take its .real part")
        return tuple(found)


def _wrap(function: Function, run: Any) -> Function:
    """A function of Tensors by the op of `run(op, inputs)`, which has the name of `function`."""
    name = getattr(function, "__name__", type(function).__name__).strip("<>")
    op = type(name, (Wrapped,), {"run": run, "warned_of": set()})

    def wrapped(*inputs: Any, **keywords: Any) -> Any:
        places = [k for k, x in enumerate(inputs) if isinstance(x, (Tensor, np.ndarray))]
        others = [None if k in places else x for k, x in enumerate(inputs)]

        def fill(arrays: Sequence[Any]) -> list[Any]:
            """All positional inputs, given those that are arrays."""
            given = iter(arrays)
            return [next(given) if k in places else x for k, x in enumerate(others)]

        return apply(op, *[inputs[k] for k in places], fill=fill, places=places, keywords=keywords)

    return functools.update_wrapper(wrapped, function, updated=())


def names_of(function: Function) -> list[str]:
    """Return the names of the positional parameters; none of a callable without a signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


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
    names = names_of(vjp)
    if len(names) > 1 and names[-1] in GRADIENT_NAMES and names[0] not in GRADIENT_NAMES:
        raise TypeError(
            f"vjp is called with the incoming gradient first, and its parameters are ({', '.join(names)}): write "
            f"vjp({', '.join([names[-1], *names[:-1]])})"
        )

    def run(op: Wrapped, inputs: Sequence[Any]) -> tuple[Any, Function]:
        keywords = op.keywords  # not the op, which would refer to itself
        return function(*inputs, **keywords), lambda g, inputs: vjp(g, *inputs, **keywords)

    return _wrap(function, run)


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
    parameters = params or {}

    def run(op: Wrapped, inputs: Sequence[Any]) -> tuple[Any, Function]:
        count = len(inputs) - len(parameters)
        with _holding(parameters, inputs[count:]):
            found = layer(*inputs[:count], **op.keywords)
        if not isinstance(found, tuple) or len(found) != 2 or not callable(found[1]):
            raise TypeError(f"layer must return a pair (output, backprop), found {type(found).__name__}")
        output, backprop = found

        def back(g: Any, inputs: Sequence[Any]) -> Any:
            for get, _, gradient in parameters.values():
                old = _last(gradient)
                if isinstance(old, np.ndarray) and old.flags.writeable and not np.shares_memory(old, np.asarray(get())):
                    old[...] = 0
            with _holding(parameters, inputs[count:]):
                every = as_tuple(backprop(g))
            found = [_last(gradient) for _, _, gradient in parameters.values()]
            return (*every, *[np.zeros(np.shape(value)) if g is None else np.array(g)
                             for g, value in zip(found, inputs[count:], strict=True)])  # fmt: skip

        return output, back

    call = _wrap(layer, run)

    def values() -> dict[Any, Array]:
        return {name: np.array(get(), dtype=np.float64) for name, (get, _, _) in parameters.items()}

    def wrapped(*inputs: Any) -> Any:
        return call(*inputs, *values().values())

    wrapped.with_parameters = call, values()  # type: ignore[attr-defined]
    return wrapped


@contextmanager
def _holding(parameters: Mapping[Any, Any], values: Sequence[Array]) -> Iterator[None]:
    """Context manager: the parameters have other values, as do the arrays they were, which the layer may hold too."""
    before = [get() for get, _, _ in parameters.values()]
    contents = [np.array(array) for array in before]

    def put_all(values: Sequence[Array], contents: Sequence[Array]) -> None:
        for (_, put, _), array, value, content in zip(parameters.values(), before, values, contents, strict=True):
            if isinstance(array, np.ndarray) and array.flags.writeable and array.shape == content.shape:
                array[...] = content.real
            put(value)

    try:
        put_all(values, values)
        yield
    finally:
        put_all(before, contents)


def _last(gradient: Function) -> Any:
    """The gradient that the last backprop found; None before the first."""
    try:
        return gradient()
    except (KeyError, AttributeError):
        return None


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
    try:
        import torch
    except ImportError as error:
        raise ImportError("from_torch needs PyTorch: pip install torch") from error
    wrapped: Any = _wrap(function, functools.partialmethod(_run_torch, function))
    if isinstance(function, torch.nn.Module):
        parameters = {name: p for name, p in function.named_parameters() if p.requires_grad}
        names = list(parameters)

        def call(*values: Any, **keywords: Any) -> Any:
            count = len(values) - len(names)
            buffers = {name: buffer.clone() for name, buffer in function.named_buffers()}
            # a module's parameters are contiguous, and BatchNorm of PyTorch 2.13 relies on it: the checker's are not
            given = {**buffers, **{name: p.contiguous() for name, p in zip(names, values[count:], strict=True)}}
            return torch.func.functional_call(function, given, values[:count], keywords)

        wrapped.with_parameters = _wrap(call, functools.partialmethod(_run_torch, call)), parameters
    return wrapped


def _run_torch(op: Wrapped, function: Function, inputs: Sequence[Any]) -> tuple[Any, Function]:
    """The outputs of a function of PyTorch tensors, and its backward pass."""
    import torch

    needs = op.fill(op.needs_gradient)
    tensors = [_tensor(a, need) for a, need in zip(inputs, needs, strict=True)]
    with torch.set_grad_enabled(any(op.needs_gradient)):
        outputs = function(*tensors, **op.keywords)
    results = _flat(outputs)
    for y in results:
        if not isinstance(y, torch.Tensor):
            raise TypeError(f"the function returned {type(y).__name__}; from_torch needs PyTorch's tensors")

    def back(gs: Any, inputs: Sequence[Any]) -> Any:
        gradients: list[Array | None] = [None] * len(inputs)
        pairs = [(y, _tensor(g)) for y, g in zip(results, as_tuple(gs), strict=True) if y.requires_grad]
        places = [k for k, x in enumerate(tensors) if isinstance(x, torch.Tensor) and x.requires_grad]
        if pairs and places:
            found = torch.autograd.grad(
                [y for y, _ in pairs], [tensors[k] for k in places], [g for _, g in pairs],
                retain_graph=True, allow_unused=True,
            )  # fmt: skip
            for k, g in zip(places, found, strict=True):
                gradients[k] = None if g is None else _array(g)
        return gradients

    op.unchecked = lambda: _other_leaves(results, tensors)
    values = [_array(y) for y in results]
    return values[0] if isinstance(outputs, torch.Tensor) else values, back


def _other_leaves(results: Sequence[Any], tensors: Sequence[Any]) -> list[str]:
    """Shapes of the leaves of PyTorch's graph that are not among the tensors."""
    known = {id(x) for x in tensors}
    nodes = [y.grad_fn for y in results if y.grad_fn is not None]
    seen, found = set(nodes), []
    for node in nodes:  # grows
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in known:
            found.append(f"{tuple(leaf.shape)} of PyTorch")
        fresh = {other for other, _ in node.next_functions if other is not None} - seen
        seen |= fresh
        nodes += fresh
    return found


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
    import torch

    usable = a.flags.writeable and all(stride >= 0 for stride in a.strides)
    return torch.from_numpy(a if usable else a.copy()).requires_grad_(needs)


def _array(y: Any) -> Array:
    return y.detach().resolve_conj().resolve_neg().numpy()


def is_torch(x: Any) -> bool:
    """Return whether x is a PyTorch tensor; PyTorch is not imported."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "is_floating_point")
