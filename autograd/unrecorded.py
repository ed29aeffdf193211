"""Methods of Tensors that record nothing: conversions, comparisons, changes in place, and hooks of gradients."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from autograd.backend import as_operand
from autograd.modes import is_grad_enabled
from autograd.tensor import Tensor, attach, note_change

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


Hook = Callable[[Tensor], Tensor | None]


def _raw(x: Any) -> Any:
    return x.data if isinstance(x, Tensor) else as_operand(x)


# ---- Changes in place ----


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """x[index] = value.  Raises: RuntimeError if a gradient would be wrong or lost"""
    _change_in_place(self, "x[...] = y", value)
    parts = index if isinstance(index, tuple) else (index,)
    self.data[tuple([i.data if isinstance(i, Tensor) else i for i in parts])] = _raw(value)


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


# ---- Hooks: functions that a backward pass calls with the gradients of given Tensors ----


class Hooks(list[Hook]):
    """The hooks of one Tensor, in the order in which they were registered."""

    def run(self, g: Tensor) -> Tensor:
        """Pass a gradient, or a copy, which hooks may change, through the hooks; the result has its shape and dtype.

        Raises: TypeError for a hook that returns neither an array nor None, ValueError for another shape
        """
        g = g if g.requires_grad else Tensor(g.data.copy())  # other nodes may have the same array
        for hook in list(self):
            replaced = hook(g)
            if replaced is None:
                continue
            if not hasattr(replaced, "shape"):
                raise TypeError(
                    f"a gradient hook returned {type(replaced).__name__}; return a Tensor, an array or None"
                )
            new = replaced if isinstance(replaced, Tensor) else Tensor(replaced)
            if new.shape != g.shape:
                raise ValueError(f"a gradient hook returned shape {new.shape} for a gradient of shape {g.shape}")
            g = new if new.dtype == g.dtype else new.astype(g.dtype)
        return g


def register_hook(self: Tensor, hook: Hook) -> Callable[[], None]:
    """Call `hook(gradient)` when the gradient of this Tensor is complete; a returned Tensor replaces it.

    Returns a function that removes the hook.  Raises: RuntimeError for a Tensor that does not require a gradient
    """
    if not self.requires_grad:
        raise RuntimeError("register_hook on a Tensor that does not require a gradient would never be called")
    if self.op is None:
        hooks = self.hooks = Hooks() if self.hooks is None else self.hooks
    else:
        self.op.hooks = self.op.hooks if self.op.hooks is not None else {}
        hooks = self.op.hooks.setdefault(self.index, Hooks())
    return _added(hooks, hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> Callable[[], None]:
    """Call `hook(self)` when a backward pass has added the complete gradient of this leaf to its `grad`.

    Other leaves may not have theirs yet.  Returns a function that removes the hook.
    Raises: RuntimeError for anything but a leaf that requires a gradient
    """
    if not (self.requires_grad and self.op is None):
        raise RuntimeError("only a leaf that requires a gradient accumulates one in its grad; use register_hook")
    hooks = self.grad_hooks = self.grad_hooks if self.grad_hooks is not None else []
    return _added(hooks, hook)


def _added(hooks: list, hook: Callable) -> Callable[[], None]:
    """Add a hook; return the function that removes it.  As in PyTorch, it does nothing when it is called again."""
    hooks.append(hook)
    left = [hook]
    return lambda: hooks.remove(left.pop()) if left else None


def retain_grad(self: Tensor) -> None:
    """Add the gradient of this intermediate Tensor to its `grad`, too."""
    if self.op is None:
        return
    retained = (self.op.hooks or {}).get(self.index, ())
    if any(getattr(hook, "retains", None) == self.index for hook in retained):  # it is retained already
        return
    reference = weakref.ref(self)  # the node must not refer to its own output: that would be a cycle

    def keep(gradient: Tensor) -> None:
        tensor = reference()
        if tensor is not None:
            total = gradient.data if tensor.grad is None else tensor.grad.data + gradient.data
            tensor.grad = Tensor(total.copy())

    keep.retains = self.index  # type: ignore[attr-defined]
    self.register_hook(keep)


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
    register_hook=register_hook,
    register_post_accumulate_grad_hook=register_post_accumulate_grad_hook,
    retain_grad=retain_grad,
)  # fmt: skip
