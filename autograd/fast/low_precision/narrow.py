"""Activations that the graph keeps in 16 bits, where `--precision bf16` has rounded them to bfloat16.

An op names the places of such arrays in what it saves.  The same numbers come back, to the bit.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import safety
from autograd.fast.recomputed import PackedArray, PackedSaved, Recomputable

Array = Any

NARROW_BYTES = 1 << 20  # smaller arrays are kept as they are, which gives the same bits


class NarrowArray(PackedArray):
    """An array of float32 in half the bytes; all ops that keep the output of an op share one object."""

    __slots__ = ("is_exact", "kept", "kernels", "since")

    def __init__(self, a: Array, kernels: Any):
        self.kept, self.is_exact = kernels.narrowed(a)
        self.kernels, self.since = kernels, safety.now()

    def unpack(self) -> Array:
        """Return the array."""
        return self.kernels.widened(self.kept)

    def factor(self) -> Array:
        """Return the bits."""
        return self.kept


def keep_narrow(op: Any, inputs: Sequence[Any], outputs: Sequence[Any], kernels: Any) -> None:
    """Have an op keep large activations in 16 bits, in the places of what it saves that `op.narrow` names."""
    saved = list(op._saved.saved if isinstance(op._saved, PackedSaved) else op._saved)
    made_by = [*zip(inputs, op._edges, strict=True), (outputs[0], op)]
    for place in op.narrow:
        a = saved[place] if place < len(saved) else None
        if isinstance(a, np.ndarray) and a.dtype == np.float32 and a.nbytes >= NARROW_BYTES:
            maker = next((node for x, node in made_by if getattr(x, "data", None) is a), None)
            narrow = _narrow_output(maker, a, kernels)
            if narrow.is_exact or op.factors_alone:
                saved[place] = narrow
    if any(type(a) is NarrowArray for a in saved):
        op._saved = PackedSaved(saved)


def _narrow_output(maker: Any, a: Array, kernels: Any) -> NarrowArray:
    """Return the `NarrowArray` of the output of `maker`: the one made before, unless the array was changed since."""
    if not isinstance(maker, Recomputable):
        return NarrowArray(a, kernels)
    found = maker.packed_output and maker.packed_output()
    if type(found) is not NarrowArray or safety.last_change(a) > found.since:
        found = NarrowArray(a, kernels)
        maker.packed_output = weakref.ref(found)
    return found
