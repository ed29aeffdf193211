"""Version counters: they detect that an array saved for a backward pass was changed in place.

A counter is a list of one number, shared by all Tensors that are views of the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograd.memory import owner_of
from autograd.tensor import Tensor

Array = Any  # numpy.ndarray or cupy.ndarray


def version_of(array: Array, tensors: Sequence[Any]) -> list[int] | None:
    """The counter of the first Tensor among `tensors` that shares memory with `array`; None if there is none."""
    owner = array if getattr(array, "base", None) is None else owner_of(array)
    for x in tensors:
        if isinstance(x, Tensor) and (x.data is owner or (x.data.base is not None and owner_of(x.data) is owner)):
            return x.version
    return None


def versions_of_saved(saved: Sequence[Any], tensors: Sequence[Any]) -> tuple[tuple[list[int], int], ...]:
    """(counter, current value) of each saved array that shares memory with one of `tensors`."""
    found = []
    for array in saved:
        version = version_of(array, tensors)
        if version is not None:
            found.append((version, version[0]))
    return tuple(found)
