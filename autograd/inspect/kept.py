"""Whose bytes are they: memory that several nodes save is counted once, and a leaf's never."""

from __future__ import annotations

import weakref
from typing import Any

from autograd.engine import Op
from autograd.tensor import Tensor
from autograd.versions import owner_of


class KeptMemory:
    """Counts what the graph adds to the memory in use, node by node from the oldest."""

    def __init__(self) -> None:
        self._counted: dict[int, weakref.ref] = {}  # by id; the reference tells a reused id from a known array

    def added_by(self, op: Op) -> int:
        """Bytes that `op` saved and that neither a leaf nor an op counted before holds anyway."""
        leaves = {id(owner_of(edge[0].data)) for edge in op.edges if edge is not None and isinstance(edge[0], Tensor)}
        return sum(
            self._new_bytes(a) for a in op.saved_arrays if hasattr(a, "nbytes") and id(owner_of(a)) not in leaves
        )

    def _new_bytes(self, array: Any) -> int:
        owner = owner_of(array)
        known = self._counted.get(id(owner))
        if known is not None and known() is owner:
            return 0
        try:
            self._counted[id(owner)] = weakref.ref(owner)
        except TypeError:  # the memory of another library, or of bytes: not made by an op
            return 0
        return owner.nbytes
