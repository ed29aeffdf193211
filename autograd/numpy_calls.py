"""NumPy's functions called with Tensors, and attributes of other libraries' arrays.

A function that this package has too is computed by it, with a gradient: `np.sin(x)`, `np.sum(x, axis=0)`, and operators
with an array on the left. A function whose result has no gradient, and any function of Tensors without one, gets the
arrays. Every other call is refused, because its result would have no graph.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from autograd import ops
from autograd.backend import as_operand
from autograd.modes import is_grad_enabled
from autograd.tensor import Tensor

_COMPARISONS = {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}

_WITHOUT_GRADIENT = {  # functions of shapes and dtypes, comparisons, positions, texts and files
    np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj, np.shares_memory,
    np.may_share_memory, np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.array_equal, np.array_equiv,
    np.allclose, np.isclose, np.all, np.any, np.argmax, np.argmin, np.argsort, np.argpartition, np.argwhere, np.nonzero,
    np.flatnonzero, np.count_nonzero, np.searchsorted, np.digitize, np.histogram_bin_edges, np.array_repr, np.array_str,
    np.array2string, np.save, np.savez, np.savez_compressed, np.savetxt, np.isnan, np.isinf, np.isfinite, np.signbit,
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
}  # fmt: skip

_SIGNS = {np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/", np.power: "**", np.matmul: "@"}
_OTHER_NAMES = {"absolute": "abs", "true_divide": "divide", "amax": "max", "amin": "min", "positive": "clone"}
_SIMILAR = {"fabs": "abs", "float_power": "power", "concat": "concatenate", "copy": "clone", "ravel": "reshape"}
"""Functions of this package to name where NumPy's differ, in their dtype or the like."""

_ARGUMENTS = {"a": "x", "array": "x", "arr": "x", "ary": "x", "m": "x", "a_min": "min", "a_max": "max"}
"""NumPy's names of arguments, and ours."""
_DEFAULTS = {"out": None, "dtype": None, "where": True}
"""Arguments of ufuncs that change nothing."""
_BY_NAME = {"keepdims", "ddof", "constant_values"}
"""Arguments that stand in another place in NumPy's functions."""

_IN_PYTORCH = {"dim": "axis", "keepdim": "keepdims"}

_ATTRIBUTES = {  # of other libraries' arrays, and what they are here
    "cpu": "x.to('cpu'), or x.numpy()", "cuda": "x.to('cuda')", "dim": "x.ndim", "double": "x.astype('float64')",
    "float": "x.astype('float32')", "gather": "autograd.take_along_axis", "half": "x.astype('float16')",
    "numel": "x.size", "permute": "x.transpose(...)", "requires_grad_": "x.requires_grad = True", "t": "x.T",
    "type": "x.astype(dtype)", "unsqueeze": "autograd.expand_dims(x, axis)", "view": "x.reshape(...)",
}  # fmt: skip


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of an operator's function, by our op.  Raises: TypeError, which names our op, otherwise"""
    kwargs = {name: value for name, value in kwargs.items() if value is not _DEFAULTS.get(name, ...)}
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    if "out" in kwargs or (method == "at" and isinstance(inputs[0], Tensor)):
        sign = _SIGNS.get(ufunc)
        instead = f"write x = x {sign} y in the place of x {sign}= y" if sign else "leave out= out"
        raise TypeError(
            f"np.{name} would write a Tensor into an array, or into a Tensor, which records no gradient; "
            f"{instead}, or use y.data if no gradient is wanted"
        )
    if method == "__call__" and not kwargs:
        if ufunc in _COMPARISONS:
            return Tensor(ufunc(*[x.data if isinstance(x, Tensor) else as_operand(x) for x in inputs]))
        if (op := _op(ufunc)) is not None:
            return op(*inputs)
    if ufunc not in _WITHOUT_GRADIENT and _loses_gradient((inputs, kwargs)):
        raise _refusal(name)
    return getattr(ufunc, method)(*_arrays(inputs), **_arrays(kwargs))


def call_function(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a NumPy function by our function, or of arrays if no gradient is lost.

    Raises: TypeError, which names our function, for arguments that it does not have, for a Tensor that NumPy would
        write into, and for a function that we lack and a Tensor that requires a gradient
    """
    name = f"{function.__module__.removeprefix('numpy').removeprefix('.')}.{function.__name__}".lstrip(".")
    if isinstance(kwargs.get("out"), Tensor):
        raise TypeError(f"np.{name} would write into a Tensor, which records no gradient; leave out= out")
    op = None if function in _WITHOUT_GRADIENT else _op(function)
    if op is not None and (bound := _bound(op, args, kwargs)) is not None:
        return op(*bound.args, **bound.kwargs)
    if function not in _WITHOUT_GRADIENT and _loses_gradient((args, kwargs)):
        raise _refusal(name)
    return function(*_arrays(args), **_arrays(kwargs))


def _op(function: Any) -> Callable[..., Any] | None:
    """Return the function of this package that computes what a function of NumPy does."""
    name = _OTHER_NAMES.get(function.__name__, function.__name__)
    return getattr(ops, name) if getattr(np, function.__name__, None) is function and name in ops.__all__ else None


def _bound(op: Callable[..., Any], args: Any, kwargs: Any) -> inspect.BoundArguments | None:
    """Return the arguments of our function for those of NumPy's; None if it has no such argument, or another order."""
    signature = inspect.signature(op)
    named = {_ARGUMENTS.get(name, name): value for name, value in kwargs.items()}
    named = {name: value for name, value in named.items() if value is not None or name in signature.parameters}
    try:
        by_place = signature.bind_partial(*args).arguments
        return None if _BY_NAME & by_place.keys() else signature.bind(*args, **named)
    except TypeError:
        return None


def _refusal(name: str) -> TypeError:
    ours = _OTHER_NAMES.get(name, _SIMILAR.get(name, name))
    do = f"write autograd.{ours}" if ours in ops.__all__ else "compose it from autograd's functions, or write an Op"
    return TypeError(f"np.{name} of a Tensor would not be differentiated; {do} (or pass x.data: no gradient)")


def _arrays(x: Any) -> Any:
    """`x` with an array in place of every Tensor, in lists, tuples and dicts as well; NumPy cannot write into them."""
    if isinstance(x, Tensor):
        array = x.numpy().view()
        array.flags.writeable = False
        return array
    if isinstance(x, dict):
        return {key: _arrays(value) for key, value in x.items()}
    return type(x)([_arrays(value) for value in x]) if type(x) in (list, tuple) else x


def _loses_gradient(x: Any) -> bool:
    """Is there a Tensor in `x` whose graph would be lost?"""
    if isinstance(x, Tensor):
        return x.requires_grad and is_grad_enabled()
    values = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return any(_loses_gradient(value) for value in values)


def _lacks(name: str, instead: str, x: Tensor) -> NoReturn:
    raise AttributeError(f"'Tensor' object has no attribute {name!r}; write {instead}", name=name, obj=x)


def _naming_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which answers PyTorch's names of arguments with its own."""

    @functools.wraps(function)
    def named(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError:
            for name in _IN_PYTORCH.keys() & kwargs:
                raise TypeError(f"{function.__name__}() has no argument {name!r}; write {_IN_PYTORCH[name]}=") from None
            raise

    return named


def install() -> None:
    """Have NumPy's functions ask here when they are called with Tensors; have error messages say what to write."""
    for name, instead in _ATTRIBUTES.items():
        setattr(Tensor, name, property(functools.partial(_lacks, name, instead)))
    Tensor.__dir__ = lambda x: [name for name in object.__dir__(x) if name not in _ATTRIBUTES]  # type: ignore[assignment, method-assign]
    for name in ops.__all__:
        function = getattr(ops, name)
        if "axis" in function.__code__.co_varnames[: function.__code__.co_argcount]:
            named = _naming_arguments(function)
            for place in (ops, sys.modules["autograd"], Tensor):
                if getattr(place, name, None) is function:
                    setattr(place, name, named)
    Tensor.__array_ufunc__ = lambda self, ufunc, method, *inputs, **kwargs: call_ufunc(ufunc, method, inputs, kwargs)
    Tensor.__array_function__ = lambda self, function, types, args, kwargs: call_function(function, args, kwargs)  # type: ignore[attr-defined]
