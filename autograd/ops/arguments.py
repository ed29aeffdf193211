"""Arguments of ops: what those that are not differentiated may be, and the dtype that operands ask for."""

from __future__ import annotations

from typing import Any

from autograd.backend import as_array
from autograd.memory import known_version
from autograd.tensor import Tensor, new_tensor


def number(name: str, x: Any) -> float:
    """`x` as a Python number.  Raises: TypeError for a Tensor, whose gradient would be lost"""
    if isinstance(x, Tensor):
        raise TypeError(f"{name} must be a number, found a Tensor, which would get no gradient; write {name}.item()")
    return float(x)


def tensors(**named: Any) -> list[Tensor]:
    """The arguments as Tensors: lists and arrays as constants.

    Raises: TypeError for None
    """
    for name, x in named.items():
        if x is None:
            raise TypeError(f"{name} must be a Tensor or an array, found None")
    return [x if isinstance(x, Tensor) else _constant(as_array(x)) for x in named.values()]


def _constant(array: Any) -> Tensor:
    return new_tensor(array, known_version(array))


def array_of(x: Any) -> Any:
    """The array of a Tensor, or `x` as an array."""
    return x.data if isinstance(x, Tensor) else as_array(x)


def refuse_list(axis: Any) -> None:
    """Raises: TypeError if `axis` is a list: several axes are a tuple, as in NumPy"""
    if isinstance(axis, list):
        raise TypeError(f"axis={axis} is a list; write a tuple, axis={tuple(axis)}")


def keep_bfloat16(y: Any, *operands: Any) -> Any:
    """y in bfloat16 if all operands that are arrays have it: with a Python number, NumPy widens it to float32."""
    dtypes = [x.dtype for x in operands if hasattr(x, "dtype")]
    if dtypes and all(dtype.name == "bfloat16" for dtype in dtypes):
        return y.astype(dtypes[0], copy=False)
    return y
