"""Operations of Tensors that record nothing: conversions, comparisons, changes in place, told to observers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from autograd.backend import as_operand
from autograd.modes import is_grad_enabled
from autograd.tensor import Tensor, attach, note_change

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


def _raw(x: Any) -> Any:
    return x.data if isinstance(x, Tensor) else as_operand(x)


# ---- Changes in place ----


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """x[index] = value.  Raises: RuntimeError if a gradient would be wrong or lost"""
    _change_in_place(self, "x[...] = y", value)
    parts = [i.data if isinstance(i, Tensor) else i for i in (index if isinstance(index, tuple) else (index,))]
    index = tuple(parts) if isinstance(index, tuple) else parts[0]
    self.data[index] = _raw(value)


def _in_place(statement: str, operate: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        _change_in_place(self, statement, other)
        self.data[...] = operate(self.data[...], _raw(other))
        return self

    return method


def _change_in_place(x: Tensor, statement: str, value: Any) -> None:
    out_of_place = "use where, concatenate or stack" if "[" in statement else f"write x = x {statement[2]} y"
    if x.requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"{statement} would change in place a Tensor that requires a gradient; "
            f"{out_of_place} instead, or change it under no_grad()"
        )
    if isinstance(value, Tensor) and value.requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"{statement} would lose the gradient of y, because x does not record what is written into it; "
            f"{out_of_place} instead, or write y.detach() if no gradient is wanted"
        )
    note_change(x.data)


# ---- As arrays, numbers and text of Python ----

_A_NUMBER = (
    "a Python number has no graph; write autograd.exp(x) in the place of math.exp(x), autograd.stack in the place of "
    "array[i] = x, or x.item() if no gradient is wanted"
)


def to_array(self: Tensor, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
    """Convert to an array, for np.asarray and arrays of Tensors.  Raises: TypeError if a gradient would be lost"""
    if self.requires_grad and is_grad_enabled():
        raise TypeError(
            "a NumPy array of a Tensor that requires a gradient would lose its graph; join Tensors with "
            "autograd.stack or autograd.concatenate, or write x.data or x.detach() if no gradient is wanted"
        )
    return np.array(self.numpy(), dtype=dtype, copy=copy)


def to_float(self: Tensor) -> float:
    """Convert for math's functions and `array[i] = x`.  Warns: UserWarning if a gradient would be lost"""
    self._warn_of_lost_graph(_A_NUMBER)
    return float(self.data)


def to_int(self: Tensor) -> int:
    """Convert as `to_float` does."""
    self._warn_of_lost_graph(_A_NUMBER)
    return int(self.data)


def to_text(self: Tensor, spec: str) -> str:
    """format(x, ".3f") of a single element.  Raises: TypeError for several elements with a format"""
    if self.size != 1 and spec:
        raise TypeError(
            f"format {spec!r} is for a single element, this Tensor has shape {self.shape}; "
            "write np.array2string(x.data, precision=3), or format the elements of x.tolist()"
        )
    return format(self.item(), spec) if spec else str(self)


def reduce_ex(self: Tensor, protocol: Any) -> Any:
    """Support copy and pickle.  Raises: RuntimeError for the result of an op, whose graph cannot be copied"""
    if self.op is not None:
        raise RuntimeError(
            f"only leaf Tensors can be copied or pickled, this one was made by {self.op}; "
            "use x.detach(), or x.clone() for a copy with a graph"
        )
    return object.__reduce_ex__(self, protocol)


# ---- Comparisons: piecewise constant, so they return boolean Tensors without a graph, as do operations of these ----


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Tensor]:
    return lambda self, other: Tensor(compare(self.data, other.data if isinstance(other, Tensor) else other))


def any_of(self: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether any element along `axis` is true, without a gradient."""
    return Tensor(self.data.any(axis=axis, keepdims=keepdims))


def all_of(self: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along `axis` are true, without a gradient."""
    return Tensor(self.data.all(axis=axis, keepdims=keepdims))


_and, _or, _xor = map(_comparison, (operator.and_, operator.or_, operator.xor))
attach(
    __array__=to_array,
    __float__=to_float,
    __int__=to_int,
    __format__=to_text,
    __reduce_ex__=reduce_ex,
    tolist=lambda self: self.data.tolist(),
    __setitem__=setitem,
    __iadd__=_in_place("x += y", operator.iadd),
    __isub__=_in_place("x -= y", operator.isub),
    __imul__=_in_place("x *= y", operator.imul),
    __itruediv__=_in_place("x /= y", operator.itruediv),
    __eq__=_comparison(operator.eq),
    __ne__=_comparison(operator.ne),
    __lt__=_comparison(operator.lt),
    __le__=_comparison(operator.le),
    __gt__=_comparison(operator.gt),
    __ge__=_comparison(operator.ge),
    __and__=_and, __rand__=_and, __or__=_or, __ror__=_or, __xor__=_xor, __rxor__=_xor,
    __invert__=lambda self: Tensor(~self.data),
    __floordiv__=_comparison(operator.floordiv),
    __rfloordiv__=lambda self, other: Tensor(_raw(other) // self.data),
    any=any_of,
    all=all_of,
)  # fmt: skip
