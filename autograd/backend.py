"""The array modules that compute, and the conversion of what users pass to their arrays.

`numpy` and `cupy` have the same functions, so the ops are written once, for `xp`.  Everything else that depends on the
device is in `autograd/fast`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from autograd.devices import fault_of_gpu

__all__ = ["backend_of", "is_floating"]

Array = Any  # numpy.ndarray or cupy.ndarray


class Backend:
    """A device.  This one is the CPU, with NumPy."""

    kind = "cpu"
    xp: Any = np

    def asarray(self, a: Any) -> Array:
        """`a` as an array on this device: 0-d arrays from scalars, arrays as they are."""
        return self.xp.asarray(a)

    def to_host(self, a: Array) -> np.ndarray:
        """`a` as a NumPy array."""
        return a

    def causal_mask(self, queries: int, keys: int) -> Array:
        """True where a query may attend: at keys up to its own position; not to be changed.  Shapes: -> bool [T, S]"""
        return self.xp.tri(queries, keys, dtype=bool)


class GpuBackend(Backend):
    """An NVIDIA GPU, with CuPy."""

    kind = "cuda"

    def __init__(self, index: int):
        import cupy

        self.xp, self.index = cupy, index

    def to_host(self, a: Array) -> np.ndarray:
        return a.get()


CPU = Backend()
make_gpu_backend: Callable[[int], Backend] = GpuBackend  # `autograd.fast` has one with CUDA kernels
_gpus: dict[int, Backend] = {}


def gpu_backend(index: int) -> Backend:
    """The backend of a GPU, which must be the current device of every thread that computes on it."""
    if index not in _gpus:
        _gpus[index] = make_gpu_backend(index)
    return _gpus[index]


def get_backend(device: str = "cpu") -> Backend:
    """The backend of a device name: "cpu", "cuda" (the first GPU) or "cuda:N", which becomes this thread's device.

    Raises: ValueError for a device that this installation cannot use.
    """
    if device == "cpu":
        return CPU
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        raise ValueError(f"device {device!r} is not one of 'cpu', 'cuda', 'cuda:0', 'cuda:1', …")
    index = int(match[1] or 0)
    try:
        fault = fault_of_gpu(index)
        if fault is None:
            sys.modules["cupy"].cuda.Device(index).use()
            return gpu_backend(index)
    except (ImportError, RuntimeError) as error:
        fault = f"cannot be used: {type(error).__name__}: {error}"
    raise ValueError(f"device {device!r} {fault}")


def backend_of(arrays: Iterable[Any]) -> Backend:
    """The backend of arrays: that of the GPU if one of them is on a GPU, else the CPU's."""
    cupy = sys.modules.get("cupy")  # without the import, there are no CuPy arrays
    if cupy is not None:
        for a in arrays:
            if isinstance(a, cupy.ndarray):
                return gpu_backend(a.device.id)
    return CPU


# ---- What users pass, as arrays ----


def is_floating(dtype: Any) -> bool:
    """Whether this is a dtype of real numbers, which can have gradients.  NumPy itself does not know bfloat16."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def as_operand(x: Any) -> Any:
    """An argument that is not a Tensor as an op takes it: lists as arrays, NumPy scalars as Python scalars.

    The dtype of a NumPy scalar overrides an array's (`float32_array * np.float64(2)` is float64); a Python number takes
    that of the array.

    Raises: TypeError as `as_array`
    """
    if type(x) in _NUMBERS:
        return x
    return x.item() if isinstance(x, np.generic) else as_array(x)


_NUMBERS = {float, int, bool, complex, type(None)}  # None is an operand left out, such as a bound of clip


def as_array(x: Any, dtype: Any = None) -> Any:
    """`x` as a NumPy or CuPy array, not copied if it is one already; a subclass of ndarray as the plain array.

    A matrix would be multiplied by the rules of matrices, and the mask of a masked array has no gradient.

    Raises: TypeError for a masked array with masked elements, and for Python objects that are not numbers
    """
    if type(x) is not np.ndarray:
        cupy = sys.modules.get("cupy")
        if cupy is not None and isinstance(x, cupy.ndarray):
            return x if dtype is None else x.astype(dtype, copy=False)
        if isinstance(x, np.ndarray) and isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
            raise TypeError(
                "a masked array with masked elements has no gradient; "
                "write autograd.where(x.mask, value, x.data), or x.filled(value)"
            )
    array = np.asarray(x, dtype)
    if array.dtype.hasobject:
        kind = "an array of Python objects" if isinstance(x, np.ndarray) else type(x).__name__
        raise TypeError(
            f"found {kind}; expected a Tensor, an array or a list of numbers, or a number. "
            "Join Tensors with autograd.stack or autograd.concatenate"
        )
    return array


def beside_bfloat16(operands: list[Any]) -> list[Any]:
    """Python numbers beside bfloat16 arrays as bfloat16, which NumPy would widen to float32; others as they are."""
    arrays = [x for x in operands if hasattr(x, "dtype")]
    if not arrays or arrays[0].dtype.kind != "V" or not all(x.dtype.name == "bfloat16" for x in arrays):
        return operands
    return [arrays[0].dtype.type(x) if type(x) is float else x for x in operands]


def keep_bfloat16(y: Any, *operands: Any) -> Any:
    """y in bfloat16 if all operands that are arrays have it: with a Python number, NumPy widens it to float32."""
    dtypes = [x.dtype for x in operands if hasattr(x, "dtype")]
    if dtypes and all(dtype.name == "bfloat16" for dtype in dtypes):
        return y.astype(dtypes[0], copy=False)
    return y


def widened(x: Array) -> tuple[Array, Any]:
    """x in the dtype to compute in, and the dtype of the result: float16 and bfloat16 are computed in float32.

    Integers give float64, as in NumPy's division; complex numbers, which gradcheck passes, stay complex.
    """
    if x.dtype.kind in "biu":
        return x.astype(np.float64), np.dtype(np.float64)
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x, x.dtype


def keep_where(xp: Any, x: Array, keep: Array) -> Array:
    """x where `keep`, else 0, also where x is infinite or NaN.  Shapes: x [...], keep bool broadcastable to it"""
    return xp.where(keep, x, xp.zeros((), x.dtype))


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum `g` over the axes along which an array of `shape` was broadcast: the transpose of broadcasting."""
    if g.shape == shape:
        return g
    lead = g.ndim - len(shape)
    repeated = [lead + i for i, n in enumerate(shape) if n == 1 and g.shape[lead + i] != 1]
    return g.sum(axis=(*range(lead), *repeated), keepdims=True).reshape(shape)


def constant(x: Any) -> Any:
    """x as a constant, for what cancels out of a result, such as the maximum that keeps exp from overflowing."""
    return x.data if hasattr(x, "requires_grad") else x


def silent() -> np.errstate:
    """Context manager and decorator: NumPy computes with ∞ and NaN without warnings, as CuPy does."""
    return np.errstate(all="ignore")
