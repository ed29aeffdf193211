"""NumPy's functions called with Tensors, and attributes of other libraries' arrays.

Operators, which NumPy computes with its own functions if an array is on the left, are this package's ops; a function
whose result has no gradient gets the arrays; any other function is refused, because its result would have no graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd import ops
from autograd.backend import as_operand
from autograd.modes import is_grad_enabled
from autograd.tensor import Tensor, other_names

_OPERATORS: dict[Any, Callable[[Any, Any], Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.power: operator.pow,
    np.matmul: operator.matmul,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
}

_WITHOUT_GRADIENT = {  # functions of shapes and dtypes, comparisons, positions, texts and files
    np.shape, np.ndim, np.size, np.result_type, np.can_cast, np.iscomplexobj, np.isrealobj, np.shares_memory,
    np.may_share_memory, np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.array_equal, np.array_equiv,
    np.allclose, np.isclose, np.all, np.any, np.argmax, np.argmin, np.argsort, np.argpartition, np.argwhere, np.nonzero,
    np.flatnonzero, np.count_nonzero, np.searchsorted, np.digitize, np.histogram_bin_edges, np.array_repr, np.array_str,
    np.array2string, np.save, np.savez, np.savez_compressed, np.savetxt,
}  # fmt: skip

_SIGNS = {np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/", np.power: "**", np.matmul: "@"}
_OTHER_NAMES = {"absolute": "abs", "fabs": "abs", "true_divide": "divide", "float_power": "power", "amax": "max"}

_ATTRIBUTES = {  # of other libraries' arrays, and what they are here
    "cpu": "x.numpy()",
    "dim": "x.ndim",
    "double": "x.astype('float64')",
    "float": "x.astype('float32')",
    "gather": "autograd.take_along_axis",
    "half": "x.astype('float16')",
    "numel": "x.size",
    "permute": "x.transpose(...)",
    "masked_fill": "autograd.masked_fill",
    "requires_grad_": "x.requires_grad = True",
    "softmax": "autograd.softmax(x, axis)",
    "t": "x.T",
    "to": "x.astype(dtype), or model.to(device)",
    "type": "x.astype(dtype)",
    "unsqueeze": "autograd.expand_dims(x, axis)",
    "view": "x.reshape(...)",
}


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of an operator's function, by our op.  Raises: TypeError, which names our op, for any other call"""
    if ufunc in _OPERATORS and method == "__call__" and not kwargs:
        left, right = inputs
        return _OPERATORS[ufunc](left if isinstance(left, Tensor) else _operand(left), right)
    if kwargs.get("out") is not None:
        sign = _SIGNS.get(ufunc)
        instead = f"write x = x {sign} y in the place of x {sign}= y" if sign else "leave out= out"
        raise TypeError(
            f"np.{ufunc.__name__} would write a Tensor into an array, which records no gradient; "
            f"{instead}, or use y.data if no gradient is wanted"
        )
    raise _refusal(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")


def call_function(function: Any, args: Any, kwargs: Any) -> Any:
    """Return the result of a NumPy function that takes arrays for Tensors without losing a gradient.

    Raises: TypeError for a function that this package has, and for any other with a Tensor that requires a gradient
    """
    if function not in _WITHOUT_GRADIENT and (_ours(function.__name__) or _loses_gradient((args, kwargs))):
        raise _refusal(f"{function.__module__.removeprefix('numpy').removeprefix('.')}.{function.__name__}".lstrip("."))
    return function(*_arrays(args), **_arrays(kwargs))


def _refusal(name: str) -> TypeError:
    ours = _ours(name)
    do = f"write autograd.{ours}" if ours else "compose it from autograd's functions, or write an Op"
    return TypeError(f"np.{name} of a Tensor would not be differentiated; {do} (or pass x.data: no gradient)")


def _ours(name: str) -> str | None:
    """Return the name of the function of this package that does what NumPy's function `name` does."""
    name = _OTHER_NAMES.get(name, name)
    return name if name in ops.__all__ else None


def _operand(x: Any) -> Any:
    """`x`, which is no Tensor, such that Python's operators call a Tensor's: scalars as numbers, arrays as Tensors."""
    x = as_operand(x)
    return Tensor(x) if hasattr(x, "dtype") else x


def _arrays(x: Any) -> Any:
    """`x` with an array in place of every Tensor, in lists, tuples and dicts as well."""
    if isinstance(x, Tensor):
        return x.numpy()
    if isinstance(x, dict):
        return {key: _arrays(value) for key, value in x.items()}
    return type(x)([_arrays(value) for value in x]) if type(x) in (list, tuple) else x


def _loses_gradient(x: Any) -> bool:
    """Is there a Tensor in `x` whose graph would be lost?"""
    if isinstance(x, Tensor):
        return x.requires_grad and is_grad_enabled()
    values = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
    return any(_loses_gradient(value) for value in values)


def install() -> None:
    """Have NumPy's functions ask here when they are called with Tensors; have error messages say what to write."""
    other_names.update(_ATTRIBUTES)
    Tensor.__array_ufunc__ = lambda self, ufunc, method, *inputs, **kwargs: call_ufunc(ufunc, method, inputs, kwargs)
    Tensor.__array_function__ = lambda self, function, types, args, kwargs: call_function(function, args, kwargs)  # type: ignore[attr-defined]
