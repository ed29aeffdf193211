"""Kernels of the ops for each device.  All code that depends on the device is in this package.

`Backend` (reference.py) defines every fused kernel in plain array code, for NumPy and CuPy alike.  `CpuBackend`
(cpu.py), `CompiledCpuBackend` (compiled.py) and `CudaBackend` (cuda.py) override the kernels that can be faster.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from autograd.backend.cpu import CpuBackend
from autograd.backend.reference import Backend

__all__ = [
    "Backend",
    "CpuBackend",
    "as_array",
    "as_operand",
    "as_output",
    "backend_of",
    "get_backend",
    "is_floating",
    "set_kernels",
    "silent",
]

CPU = CpuBackend()


def backend_of(arrays: Iterable[Any]) -> Backend:
    """The backend of arrays: that of the GPU if one of them is on a GPU, else the CPU's."""
    cupy = sys.modules.get("cupy")  # without the import, there are no CuPy arrays
    if cupy is not None:
        for a in arrays:
            if isinstance(a, cupy.ndarray):
                from autograd.backend import cuda

                return cuda.backend_on(a.device.id)
    return CPU


def set_kernels(kernels: str) -> None:
    """Compute with "numpy" on the CPU from now on, in the whole process, or with kernels that "numba" compiles.

    Compiled kernels (layer norm, softmax, cross-entropy, Adam and others, in float32) take a fraction of the time of
    NumPy's, and differ by rounding.  Each is compiled when it is first called, in a second or a few, and kept on disk.

    Raises: ValueError without Numba, or for another name.
    """
    if kernels == "numpy":
        CPU.__class__ = CpuBackend  # the object stays: other modules hold it
    elif kernels == "numba":
        try:
            from autograd.backend.compiled import CompiledCpuBackend
        except ImportError as error:
            raise ValueError(
                f"compiled kernels need Numba, which cannot be imported ({error}); pip install '.[numba]' in the "
                "project's directory, or choose kernels=numpy"
            ) from None
        CPU.__class__ = CompiledCpuBackend
    else:
        raise ValueError(f"kernels={kernels!r} are not known; choose 'numpy' or 'numba'")


def get_backend(device: str = "cpu") -> Backend:
    """The backend of a device name: "cpu", "cuda" (the first GPU) or "cuda:N", which becomes this thread's device.

    Raises: ValueError for a device that this installation cannot use.
    """
    if device == "cpu":
        return CPU
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        raise ValueError(f"device {device!r} is not one of 'cpu', 'cuda', 'cuda:0', 'cuda:1', …")
    try:
        from autograd.backend import cuda
    except ImportError as error:
        raise ValueError(
            f"device {device!r} needs CuPy, which cannot be imported ({error}); with an NVIDIA GPU and a driver for "
            "CUDA 13, pip install '.[gpu]' in the project's directory; for CUDA 12, pip install cupy-cuda12x"
        ) from None
    try:
        count = cuda.device_count()
    except RuntimeError as error:
        raise ValueError(f"device {device!r} cannot be used: CuPy finds no NVIDIA GPU or no driver ({error})") from None
    index = int(match[1] or 0)
    if index >= count:
        raise ValueError(f"device {device!r} is not there: this computer has {count} GPU(s), counted from cuda:0")
    cuda.use(index)
    return cuda.backend_on(index)


def is_floating(dtype: Any) -> bool:
    """Is this a dtype of real numbers, which can have gradients?  NumPy itself does not know bfloat16."""
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


def as_output(backend: Backend, a: Any, op_class: type) -> Any:
    """What an op's forward pass returned, as an array: NumPy's reductions and 0-d arithmetic return scalars.

    Raises: TypeError for anything but an array or a number
    """
    if not isinstance(a, (np.generic, backend.xp.ndarray, float, int, complex)):
        raise TypeError(
            f"{op_class.__name__}.forward returned {type(a).__name__}; return an array, or a tuple of arrays, "
            "computed from the arrays that forward gets"
        )
    return backend.asarray(a)


def silent() -> np.errstate:
    """Context manager and decorator: NumPy computes with ∞ and NaN without warnings, as CuPy does."""
    return np.errstate(all="ignore")
