"""Arguments of ops that are not differentiated: what they may be, and what an error says otherwise."""

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
