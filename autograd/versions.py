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
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def share_versions(inputs: Sequence[Any], outputs: Sequence[Tensor]) -> None:
    """Give outputs that are views of an input the version counter of that input."""
    for output in outputs:
        owner = owner_of(output.data)
        if owner is not output.data or any(isinstance(x, Tensor) and x.data is owner for x in inputs):
            for x in inputs:
                if isinstance(x, Tensor) and owner_of(x.data) is owner:
                    output.version = x.version


def versions_of_saved(saved: Sequence[Any], candidates: Sequence[Any]) -> tuple[tuple[list[int], int], ...]:
    """(counter, current value) of each Tensor among `candidates` whose memory is among the `saved` arrays."""
    owners = [owner_of(a) for a in saved if hasattr(a, "base")]
    tensors = [x for x in candidates if isinstance(x, Tensor)]
    return tuple([(t.version, t.version[0]) for t in tensors if any(owner_of(t.data) is owner for owner in owners)])
