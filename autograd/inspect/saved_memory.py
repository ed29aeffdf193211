"""Attribute saved memory to graph nodes: shared memory is counted once, that of leaves not at all."""

from __future__ import annotations

import weakref
from typing import Any

from autograd.engine import Op
from autograd.memory import owner_of
from autograd.tensor import Tensor


class SavedMemory:
    """Counter of the memory that the nodes of a graph save, to be asked for each node from the oldest to the newest."""

    def __init__(self) -> None:
        self._counted: dict[int, weakref.ref] = {}  # by id; the reference distinguishes a reused id

    def added_by(self, op: Op) -> int:
        """Bytes that `op` saved and that neither a leaf nor an op counted before holds."""
        for edge in op.edges:
            if edge is not None and isinstance(edge[0], Tensor):
                self._new_bytes(edge[0].data)  # of a leaf: counted as known, for its views too
        return sum(self._new_bytes(a) for a in op.saved_arrays if hasattr(a, "nbytes"))

    def _new_bytes(self, array: Any) -> int:
        owner = owner_of(array)
        known = self._counted.get(id(owner))
        if known is not None and known() is owner:
            return 0
        try:
            self._counted[id(owner)] = weakref.ref(owner)
        except TypeError:  # memory of another library, or a bytes object: not allocated by an op
            return 0
        return owner.nbytes
