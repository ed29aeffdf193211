"""Activations that the graph keeps in 16 bits, where `--precision bf16` has rounded them to bfloat16.

An op names the places of such arrays in what it saves.  The same numbers come back, to the bit.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from autograd import safety
from autograd.fast.recomputed import Substitute, WithSubstitutes

Array = Any

NARROW_BYTES = 1 << 20  # smaller arrays are kept as they are, which gives the same bits

_narrow: dict[int, tuple[weakref.ref, weakref.ref]] = {}  # by id of an array: the array, its `Narrow`


class Narrow(Substitute):
    """An array of float32 in half the bytes; all ops that keep it share one object."""

    __slots__ = ("is_exact", "kept", "kernels", "since")

    def __init__(self, a: Array, kernels: Any):
        self.kept, self.is_exact = kernels.narrowed(a)
        self.kernels, self.since = kernels, safety.now()

    def array(self) -> Array:
        """Return the array."""
        return self.kernels.widened(self.kept)

    def factor(self) -> Array:
        """Return the bits."""
        return self.kept


def keep_narrow(op: Any, kernels: Any) -> None:
    """Have an op keep large activations in 16 bits, in the places of what it saves that `op.narrow` names."""
    saved = list(op._saved.saved if isinstance(op._saved, WithSubstitutes) else op._saved)
    for place in op.narrow:
        a = saved[place] if place < len(saved) else None
        if isinstance(a, np.ndarray) and a.dtype == np.float32 and a.nbytes >= NARROW_BYTES:
            narrow = _narrow_of(a, kernels)
            if narrow.is_exact or op.factors_alone:
                saved[place] = narrow
    if any(type(a) is Narrow for a in saved):
        op._saved = WithSubstitutes(saved)


def _narrow_of(a: Array, kernels: Any) -> Narrow:
    """Return the `Narrow` of an array: the one that was made before, unless the array was changed since."""
    array, narrow = _narrow.get(id(a), (None, None))
    found = narrow() if narrow is not None and array is not None and array() is a else None
    if found is None or safety.last_change(a) > found.since:
        found, key = Narrow(a, kernels), id(a)
        _narrow[key] = weakref.ref(a, lambda _: _narrow.pop(key, None)), weakref.ref(found)
    return found
