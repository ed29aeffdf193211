"""Tensor: an array, its gradient, and the op that made it.  The operators call `autograd.ops`."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from autograd.backend import as_array, as_operand, is_floating
from autograd.memory import version_of_memory
from autograd.modes import is_grad_enabled

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from autograd.engine import Op

TensorLike: TypeAlias = (
    "Tensor | np.ndarray[Any, Any] | np.generic | float | Sequence[float] | Sequence[Sequence[float]]"
)
"""What an op takes: a Tensor, which may get a gradient, or an array, number or list, which gets none."""
TensorOrArray: TypeAlias = "Tensor | np.ndarray[Any, Any]"
"""What an op takes that reads shapes first.  Arrays of CuPy, which has no types, pass everywhere."""


def _raw(x: Any) -> Any:
    return x.data if isinstance(x, Tensor) else as_operand(x)


def _one_tuple(numbers: tuple[Any, ...]) -> Any:
    """The arguments of a method that takes its numbers one by one or as one sequence."""
    return numbers[0] if len(numbers) == 1 and not isinstance(numbers[0], int) else numbers


def _in_place(statement: str, operate: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        self._change_in_place(statement, other)
        self.data[...] = operate(self.data[...], _raw(other))
        return self

    return method


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Tensor, Any], Tensor]:
    return lambda self, other: Tensor(compare(self.data, other.data if isinstance(other, Tensor) else other))


class Tensor:
    """A multi-dimensional array that records the ops applied to it, so that gradients can be computed.

    `data` is a NumPy or CuPy array (lists and scalars become NumPy arrays, an array is not copied).  A Tensor created
    by the user with `requires_grad=True` is a leaf: `backward()` on a result adds to its `grad`, a Tensor of the same
    shape and dtype.

    Raises: TypeError for requires_grad=True with data that is not floating point.
    """

    __slots__ = (
        "__weakref__",
        "_edge",
        "_grad",
        "_reduced",
        "_requires_grad",
        "data",
        "grad_hooks",
        "hooks",
        "version",
    )
    data: Any
    _grad: Tensor | None
    hooks: list[Callable] | None
    grad_hooks: list[Callable] | None
    version: list[int]
    _requires_grad: bool
    _edge: Op | tuple[Op, int] | None  # the node that made this Tensor; with an index, unless it is its first output
    _reduced: tuple[Any, Any, int] | None  # a copy in lower precision, of what data, at what version

    def __init__(self, data: TensorLike, requires_grad: bool = False, dtype: DTypeLike | None = None):
        source = data
        if isinstance(source, Tensor):
            data = source.data
        self.data = as_array(data, dtype)
        self._edge = None
        if isinstance(source, Tensor) and self.data is source.data:
            self.version = source.version  # one memory, one count of its changes
        elif self.data is source or self.data.base is not None:
            self.version = version_of_memory(self.data)
        self.requires_grad = requires_grad

    if not TYPE_CHECKING:  # to a type checker, it would make every misspelt attribute right

        def __getattr__(self, name: str) -> Any:
            """The value of a slot that was never set: making a Tensor sets only what every Tensor needs."""
            if name == "version":  # counts in-place changes; shared by all views of one memory
                self.version = [0]
                return self.version
            if name in ("_grad", "hooks", "grad_hooks", "_reduced"):
                return None
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")

        # ---- Attributes ----

    @property
    def op(self) -> Op | None:
        """The node that made this Tensor; None for a leaf."""
        return self._edge[0] if isinstance(self._edge, tuple) else self._edge

    @property
    def index(self) -> int:
        """Which output of `op` this Tensor is."""
        return self._edge[1] if isinstance(self._edge, tuple) else 0

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for this Tensor."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and not is_floating(self.data.dtype):
            raise TypeError(
                f"only floating-point Tensors can require a gradient, this one is {self.data.dtype}; "
                "convert it first, for example Tensor(x, dtype='float32')"
            )
        self._requires_grad = bool(value)

    @property
    def is_leaf(self) -> bool:
        """Whether this Tensor was created by the user and not by an op."""
        return self.op is None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        text = repr(self.data)
        inner = text[text.find("(") + 1 : text.rfind(")")] if "(" in text else text
        made = f", op={type(self.op).__name__}" if self.op is not None else ""
        return f"Tensor({inner}{made}{', requires_grad=True' if self.requires_grad and self.op is None else ''})"

    # ---- Conversions ----

    def numpy(self) -> NDArray[Any]:
        """The data as a NumPy array: the same memory on the CPU, a copy from a GPU."""
        return self.data if isinstance(self.data, np.ndarray) else self.data.get()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """For np.asarray and arrays of Tensors.  Raises: TypeError if a gradient would be lost"""
        if self._requires_grad and is_grad_enabled():
            raise TypeError(
                "a NumPy array of a Tensor that requires a gradient would lose its graph; join Tensors with "
                "autograd.stack or autograd.concatenate, or write x.data or x.detach() if no gradient is wanted"
            )
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs) -> Any:
        return numpy_calls.call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs) -> Any:
        return numpy_calls.call_function(function, args, kwargs)

    def item(self) -> Any:
        """The element of a Tensor of size 1, as a Python number."""
        return self.data.item()

    def tolist(self) -> Any:
        return self.data.tolist()

    def detach(self) -> Tensor:
        """A Tensor of the same data without a graph; ops that saved the data still notice in-place changes."""
        return new_tensor(self.data, self.version)

    def __float__(self) -> float:
        return float(self.data)

    def __int__(self) -> int:
        return int(self.data)

    def __bool__(self) -> bool:
        return bool(self.data)

    def __format__(self, spec: str) -> str:
        """format(x, ".3f") of a single element.  Raises: TypeError for several elements with a format"""
        if self.size != 1 and spec:
            raise TypeError(
                f"format {spec!r} is for a single element, this Tensor has shape {self.shape}; "
                "write np.array2string(x.data, precision=3), or format the elements of x.tolist()"
            )
        return format(self.item(), spec) if spec else str(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For copy and pickle.  Raises: RuntimeError for the result of an op, whose graph they cannot copy"""
        if self._edge is not None:
            raise RuntimeError(
                f"only leaf Tensors can be copied or pickled, this one was made by {self.op}; "
                "use x.detach(), or x.clone() for a copy with a graph"
            )
        return super().__reduce_ex__(protocol)

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise TypeError("cannot iterate over a 0-d Tensor")
        return (self[i] for i in range(len(self)))

    # ---- Gradients ----

    def backward(
        self, gradient: TensorLike | None = None, *, retain_graph: bool = False, create_graph: bool = False
    ) -> None:
        """Add d(self)/d(leaf), weighted by `gradient`, to the `grad` of every leaf that this Tensor depends on.

        `gradient` has this Tensor's shape and may be omitted for a single element.  The graph is freed unless
        `retain_graph`.

        Raises: RuntimeError if the graph was freed, `gradient` is missing or a saved array was changed in place;
        ValueError if `gradient` has the wrong shape; NotImplementedError for create_graph=True.
        """
        differentiate.refuse_create_graph(create_graph)
        engine.run_backward([self], [differentiate.starting_gradient(self, gradient)], retain_graph=retain_graph)

    @property
    def grad(self) -> Tensor | None:
        """The sum of the gradients that backward passes have added, None before the first.

        Raises: on assignment, TypeError for anything but a Tensor or None; ValueError for another shape or dtype
        """
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"grad must be a Tensor or None, found {type(value).__name__}; write Tensor(g)")
            if (value.shape, value.dtype) != (self.shape, self.dtype):
                raise ValueError(
                    f"grad must have the shape and dtype of its Tensor, {self.shape} {self.dtype}; "
                    f"found {value.shape} {value.dtype}"
                )
        self._grad = value

    def zero_grad(self) -> None:
        """Set `grad` to None."""
        self.grad = None

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call `hook(gradient)` when the gradient of this Tensor is complete; a returned Tensor replaces it.

        Returns a function that removes the hook.
        """
        if not self.requires_grad:
            raise RuntimeError("register_hook on a Tensor that does not require a gradient would never be called")
        if self.op is None:
            hooks = self.hooks = self.hooks if self.hooks is not None else []
        else:
            self.op.hooks = self.op.hooks if self.op.hooks is not None else {}
            hooks = self.op.hooks.setdefault(self.index, [])
        hooks.append(hook)
        return lambda: hooks.remove(hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Callable[[], None]:
        """Call `hook(self)` when a backward pass has added the complete gradient of this leaf to its `grad`.

        Other leaves may not have theirs yet.  Returns a function that removes the hook.
        """
        if not (self.requires_grad and self.op is None):
            raise RuntimeError("only a leaf that requires a gradient accumulates one in its grad; use register_hook")
        hooks = self.grad_hooks = self.grad_hooks if self.grad_hooks is not None else []
        hooks.append(hook)
        return lambda: hooks.remove(hook)

    def retain_grad(self) -> None:
        """Also add the gradient of this intermediate Tensor to its `grad`."""
        if self.op is None:
            return
        reference = weakref.ref(self)  # the node must not refer to its own output: that would be a cycle

        def keep(gradient: Tensor) -> None:
            tensor = reference()
            if tensor is not None:
                total = gradient.data if tensor.grad is None else tensor.grad.data + gradient.data
                tensor.grad = Tensor(total.copy())

        self.register_hook(keep)

    # ---- A copy in lower precision, for matrix products ----

    def reduced_to(self, dtype: Any) -> Any:
        """The data as `dtype`: the copy that `reduced` was set to, or a new one.

        A copy made here is not used again: after `w.data -= g`, which counts no change, it would be out of date.
        """
        copy = self.reduced
        if copy is None or copy.dtype != dtype:
            copy = self.data.astype(dtype)
            self.keep_reduced(copy)
        return copy

    def keep_reduced(self, copy: Any) -> None:
        """Keep a copy as memory for the next one: `last_reduced`."""
        self._reduced = copy, self.data, -1

    @property
    def reduced(self) -> Any:
        """The copy in lower precision, None if it was not set or the data changed since.

        Set it where the data changes, as an optimizer does.  Changes made by writing into `data` are not counted: set
        it to None, or change the Tensor itself under `no_grad`.
        """
        if self._reduced is None or self._reduced[1] is not self.data or self._reduced[2] != self.version[0]:
            return None
        return self._reduced[0]

    @reduced.setter
    def reduced(self, copy: Any) -> None:
        self._reduced = None if copy is None else (copy, self.data, self.version[0])

    @property
    def last_reduced(self) -> Any:
        """The copy that was last made or set, perhaps out of date: memory for the next one, None if there is none."""
        return None if self._reduced is None else self._reduced[0]

    # ---- In-place changes: counted, so that a backward pass that needs the old values raises an error ----

    def _change_in_place(self, statement: str, value: Any) -> None:
        out_of_place = "use where, concatenate or stack" if "[" in statement else f"write x = x {statement[2]} y"
        if self.requires_grad and is_grad_enabled():
            raise RuntimeError(
                f"{statement} would change in place a Tensor that requires a gradient; "
                f"{out_of_place} instead, or change it under no_grad()"
            )
        if isinstance(value, Tensor) and value.requires_grad and is_grad_enabled():
            raise RuntimeError(
                f"{statement} would lose the gradient of y, because x does not record what is written into it; "
                f"{out_of_place} instead, or write y.detach() if no gradient is wanted"
            )
        self.version[0] += 1

    def __setitem__(self, index: Any, value: Any) -> None:
        self._change_in_place("x[...] = y", value)
        parts = [i.data if isinstance(i, Tensor) else i for i in (index if isinstance(index, tuple) else (index,))]
        index = tuple(parts) if isinstance(index, tuple) else parts[0]
        self.data[index] = _raw(value)

    __iadd__ = _in_place("x += y", operator.iadd)
    __isub__ = _in_place("x -= y", operator.isub)
    __imul__ = _in_place("x *= y", operator.imul)
    __itruediv__ = _in_place("x /= y", operator.itruediv)

    # ---- Operators ----

    def __add__(self, other: TensorLike) -> Tensor:
        return ops.add(self, other)

    def __radd__(self, other: TensorLike) -> Tensor:
        return ops.add(other, self)

    def __sub__(self, other: TensorLike) -> Tensor:
        return ops.subtract(self, other)

    def __rsub__(self, other: TensorLike) -> Tensor:
        return ops.subtract(other, self)

    def __mul__(self, other: TensorLike) -> Tensor:
        return ops.multiply(self, other)

    def __rmul__(self, other: TensorLike) -> Tensor:
        return ops.multiply(other, self)

    def __truediv__(self, other: TensorLike) -> Tensor:
        return ops.divide(self, other)

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return ops.divide(other, self)

    def __pow__(self, other: TensorLike) -> Tensor:
        return ops.power(self, other)

    def __rpow__(self, other: TensorLike) -> Tensor:
        return ops.power(other, self)

    def __matmul__(self, other: TensorLike) -> Tensor:
        return ops.matmul(self, other)

    def __rmatmul__(self, other: TensorLike) -> Tensor:
        return ops.matmul(other, self)

    def __neg__(self) -> Tensor:
        return ops.negative(self)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return ops.abs(self)

    def __getitem__(self, index: Any) -> Tensor:
        return ops.getitem(self, index)

    # Comparisons are piecewise constant: they return boolean Tensors without a graph

    __hash__ = object.__hash__
    __eq__ = _comparison(operator.eq)  # type: ignore[assignment]
    __ne__ = _comparison(operator.ne)  # type: ignore[assignment]
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)

    # ---- Methods of NumPy arrays ----

    @property
    def T(self) -> Tensor:  # noqa: N802
        """All axes reversed."""
        return ops.transpose(self)

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        return ops.reshape(self, _one_tuple(shape))

    def transpose(self, *axes: int | Sequence[int]) -> Tensor:
        return ops.transpose(self, _one_tuple(axes) or None)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        return ops.swapaxes(self, axis1, axis2)

    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Tensor:
        return ops.squeeze(self, axis)

    def astype(self, dtype: DTypeLike) -> Tensor:
        return ops.astype(self, dtype)

    def flatten(self, start_axis: int = 0, end_axis: int = -1) -> Tensor:
        """The axes from `start_axis` to `end_axis`, all by default, as one."""
        if self.ndim == 0:
            return ops.reshape(self, (1,))
        start, end = start_axis % self.ndim, end_axis % self.ndim + 1
        return ops.reshape(self, (*self.shape[:start], math.prod(self.shape[start:end]), *self.shape[end:]))

    def clone(self) -> Tensor:
        return ops.clone(self)

    def exp(self) -> Tensor:
        return ops.exp(self)

    def log(self) -> Tensor:
        return ops.log(self)

    def sqrt(self) -> Tensor:
        return ops.sqrt(self)

    def tanh(self) -> Tensor:
        return ops.tanh(self)

    def abs(self) -> Tensor:
        return ops.abs(self)

    def cumsum(self, axis: int | None = None) -> Tensor:
        return ops.cumsum(self, axis)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        return ops.prod(self, axis=axis, keepdims=keepdims)

    def std(self, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
        return ops.std(self, axis=axis, ddof=ddof, keepdims=keepdims)

    def argmax(self, axis: int | None = None, keepdims: bool = False) -> Tensor:
        return ops.argmax(self, axis=axis, keepdims=keepdims)

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        return ops.sum(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        return ops.mean(self, axis=axis, keepdims=keepdims)

    def var(self, axis: int | tuple[int, ...] | None = None, ddof: int = 0, keepdims: bool = False) -> Tensor:
        return ops.var(self, axis=axis, ddof=ddof, keepdims=keepdims)

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        return ops.max(self, axis=axis, keepdims=keepdims)

    def min(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Tensor:
        return ops.min(self, axis=axis, keepdims=keepdims)


def new_tensor(data: Any, version: list[int] | None) -> Tensor:
    """A Tensor of an array, without the constructor's checks; `version` is the counter of the memory it shares."""
    tensor = object.__new__(Tensor)
    tensor.data, tensor._requires_grad, tensor._edge = data, False, None
    tensor.version = [0] if version is None else version
    return tensor


# An import circle, here because Tensor has operators: they call the ops, and these need Tensor, defined by now
from autograd import differentiate, engine, numpy_calls, ops  # noqa: E402
