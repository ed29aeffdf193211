"""Version counters: they detect that an array saved for a backward pass was changed in place.

A counter is a list of one number, shared by all Tensors that are views of the same memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograd.tensor import Tensor

Array = Any  # numpy.ndarray or cupy.ndarray


def owner_of(array: Array) -> Array:
    """The array that owns the memory of `array`, which may be a view."""
    base = getattr(array, "base", None)
    while base is not None:
        array, base = base, getattr(base, "base", None)
    return array


def share_versions(inputs: Sequence[Any], outputs: Sequence[Tensor]) -> None:
    """Give outputs that are views of an input, or an input's own array, the version counter of that input."""
    for output in outputs:
        owner = owner_of(output.data)
        for x in inputs:
            if isinstance(x, Tensor) and (x.data is owner or owner_of(x.data) is owner):
                output.version = x.version


def versions_of_saved(saved: Sequence[Any], candidates: Sequence[Any]) -> tuple[tuple[list[int], int], ...]:
    """(counter, current value) of each Tensor among `candidates` whose memory is among the `saved` arrays."""
    owners = {id(owner_of(a)) for a in saved}  # alive as long as `saved`
    tensors = [x for x in candidates if isinstance(x, Tensor) and id(owner_of(x.data)) in owners]
    return tuple([(x.version, x.version[0]) for x in tensors])
