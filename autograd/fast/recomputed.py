"""Arrays that the graph does not keep as they are: large outputs, computed again, and weights in lower precision.

An op may keep a large input that the op before can compute again cheaply, to the same bits, from what it keeps anyway:
the output of a layer norm from the normalised rows, that of attention from its weights.  The node then keeps a
`RecomputedArray` in place of the array.

A copy of weights in lower precision, which the products of mixed precision read, belongs to a leaf Tensor, as its
attribute `low` (`Parameter` of minitf has one).  An optimizer that changes the leaf writes the copy in the same pass.
What changes the leaf through a Tensor makes the copy out of date, so that it is not read; writing into `Tensor.data`
does not.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from autograd import modes, safety
from autograd.backend import CPU
from autograd.engine import Op
from autograd.modes import Observer
from autograd.ops import shape

Array = Any

LARGE_BYTES = 4 << 20  # smaller outputs are kept: they do not fill a memory, and time is dearer
LONGEST = 4  # ops from one that computes its output again from what it saved, through views of it
VIEWS = (shape.Reshape, shape.SwapAxes)  # which are recomputed from a recomputed input


class RecomputedArray:
    """The output of an op, computed when it is first needed; all ops that would keep it share one object.

    before: of an op that makes a view, that of its input
    """

    __slots__ = ("__weakref__", "before", "op", "saved", "since", "value")

    def __init__(self, op: Op, before: RecomputedArray | None):
        self.op: Any = op
        # which the node itself lets go of after its backward pass
        self.saved = op._saved.saved if isinstance(op._saved, PackedSaved) else op.saved
        self.before, self.value, self.since = before, None, safety.now()

    def unpack(self) -> Array:
        """Return the output."""
        if self.value is None:
            if self.before is not None:
                self.value = self.op.forward(self.op.xp, self.before.unpack(), **self.op.parameters)
            else:
                safety.require_unchanged([a for a in self.saved if hasattr(a, "dtype")], self.since, self.op)
                self.value = self.op.recompute(*map(_unpacked, self.saved))
            self.op = self.before = None
            self.saved = ()
        return self.value


class PackedSaved:
    """The saved arrays of a node that are not all kept as they are; a call with the node puts them in place."""

    def __init__(self, saved: Sequence[Any]):
        self.saved = saved

    @property
    def kept(self) -> tuple[Any, ...]:
        """The arrays that are kept meanwhile."""
        return tuple([a for a in self.saved if type(a) is not RecomputedArray])

    def __call__(self, op: Any) -> None:
        op._saved = tuple([_unpacked(a) for a in self.saved])


def _unpacked(a: Any) -> Any:
    return a.unpack() if isinstance(a, RecomputedArray) else a


class RecomputedOutputs(Observer):
    """Has ops on the CPU keep no large input that the op before can compute again.

    Outputs smaller than `LARGE_BYTES` are kept, and views of more than `LONGEST` ops.  Of a node whose output can be
    computed again, `recompute_depth` counts the ops from one that does so from what it saved, and `packed_output`
    refers to what all ops that would keep the output keep.
    """

    some = False  # whether there was a large output that can be computed again: else there is little to look for

    def after_record(self, op: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        for edge in op._edges if self.some else ():
            if isinstance(edge, Op) and getattr(edge, "recompute_depth", None):
                _keep_less_of_inputs(op, inputs)
                break
        large = getattr(op, "recomputes", False) and outputs[0].data.nbytes >= LARGE_BYTES
        # not of `checkpoint`, which keeps nothing, and would run its function again at once
        if large and op.backend is CPU and isinstance(op._saved, (tuple, PackedSaved)):
            op.recompute_depth, self.some = 1, True


def recompute_large_outputs() -> None:
    """Keep less in the graphs of this process from now on, by `RecomputedOutputs`.

    Every op then takes a little longer, so only programs call this, never an import.
    """
    if not any(isinstance(each, RecomputedOutputs) for each in modes.installed):
        modes.install(RecomputedOutputs())


def _keep_less_of_inputs(op: Any, inputs: Sequence[Any]) -> None:
    for x, edge in zip(inputs, op._edges, strict=True):
        if 0 < getattr(edge, "recompute_depth", 0) < LONGEST:
            if type(op) in VIEWS:
                op.recompute_depth = edge.recompute_depth + 1
            if isinstance(op._saved, tuple):
                saved = [_output_of(edge) if a is x.data else a for a in op._saved]
                if any(type(a) is RecomputedArray for a in saved):
                    op._saved = PackedSaved(saved)


def _output_of(op: Any) -> RecomputedArray:
    """Return what ops save in place of the output of `op`, which refers to it weakly, so that there is no cycle."""
    shared = op.packed_output() if hasattr(op, "packed_output") else None
    if shared is None:
        shared = RecomputedArray(op, _output_of(op._edges[0]) if op.recompute_depth > 1 else None)
        op.packed_output = weakref.ref(shared)
    return shared


# ---- Copies in lower precision ----


class LowPrecision:
    """The copy of an array, and up to which change of it the copy is up to date."""

    __slots__ = ("copy", "since", "source")

    def __init__(self, source: Array, copy: Array):
        self.source, self.copy, self.since = source, copy, -1

    def note_written(self) -> None:
        """Say that the copy now has the numbers of the array."""
        safety.note_change(self.copy)
        self.since = safety.now()

    def is_current(self, array: Array) -> bool:
        """Whether this is a copy of the array as it is."""
        return array is self.source and safety.last_change(array) <= self.since


def in_precision_of(x: Array, leaf: Any, a: Array) -> Array:
    """Return the array of a leaf in the precision of x, if x is bfloat16 and it is not.

    leaf: None where no gradient is wanted; then there is no copy to be found
    """
    if a.dtype == x.dtype or x.dtype.name != "bfloat16":
        return a
    low = getattr(leaf, "low", None)
    return low.copy if low is not None and low.is_current(a) else a.astype(x.dtype)


def all_in_precision_of(x: Array, leaves: Sequence[Any], arrays: Sequence[Array]) -> list[Array]:
    """`in_precision_of` of several arrays."""
    return [in_precision_of(x, leaf, a) for leaf, a in zip(leaves, arrays, strict=True)]
