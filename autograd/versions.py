"""Changes in place: each memory counts them, and an op notes the count of what it saves for its backward pass.

A counter is a list of one number, shared by all Tensors that look into the memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograd.tensor import Tensor

Array = Any  # numpy.ndarray or cupy.ndarray


def owner_of(array: Array) -> Array:
    """The array whose memory `array` looks into."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def share_versions(inputs: Sequence[Any], outputs: Sequence[Tensor]) -> None:
    """An output that is a view of an input counts changes together with it."""
    for output in outputs:
        owner = owner_of(output.data)
        if owner is not output.data or any(isinstance(x, Tensor) and x.data is owner for x in inputs):
            for x in inputs:
                if isinstance(x, Tensor) and owner_of(x.data) is owner:
                    output.version = x.version


def versions_of_saved(saved: Sequence[Any], candidates: Sequence[Any]) -> tuple[tuple[list[int], int], ...]:
    """The counters, with their present values, of those candidates that are Tensors and whose memory was saved."""
    owners = [owner_of(a) for a in saved if hasattr(a, "base")]
    tensors = [x for x in candidates if isinstance(x, Tensor)]
    return tuple([(t.version, t.version[0]) for t in tensors if any(owner_of(t.data) is owner for owner in owners)])
