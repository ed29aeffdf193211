"""Arrays that the graph keeps in another form: large outputs that are computed again, and activations in 16 bits.

An op may keep a large input that the op before can compute again cheaply, to the same bits, from what it keeps anyway:
the output of a layer norm from the normalised rows, that of attention from its weights.  The node then keeps a
`RecomputedArray` in place of the array.  Activations that are rounded to bfloat16 are kept in 16 bits: see narrow.py.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from autograd import safety
from autograd.backend import CPU
from autograd.engine import Op
from autograd.observers import Observer

Array = Any

LARGE_BYTES = 4 << 20  # smaller outputs are kept: they do not fill a memory, and time is dearer
LONGEST = 4  # ops from one that computes its output again from what it saved, through views of it


class Recomputable:
    """Mixin of ops that can compute their output again, by a method `recompute`, or keep less of what they save."""

    recomputes_from = ""  # "saved", what the op saved; of a view, its "input"
    recompute_depth = 0  # ops from one that computes its large output again from what it saved; 0 if there is none
    packed_output: weakref.ref[PackedArray] | None = None  # what all ops that would keep the output keep
    narrow: tuple[int, ...] = ()  # places in `saved` of activations, which may be kept in 16 bits
    factors_alone = False  # whether they are read as factors of products and by their sign alone, so if rounded, too

    @property
    def saved_factors(self) -> tuple[Any, ...]:
        """`saved`, with factors of products as the graph keeps them: where it narrowed them, the bits of bfloat16."""
        op: Any = self
        while not isinstance(op._saved, (tuple, PackedSaved)):
            op._saved(op)
        if isinstance(op._saved, tuple) or not op.kernels.in_bfloat16:
            return op.saved
        return tuple([a.factor() if isinstance(a, PackedArray) else a for a in op._saved.saved])


class PackedArray:
    """The stand-in that a node keeps in the place of an array."""

    __slots__ = ("__weakref__",)
    kept: Array  # the array that it keeps itself, if any

    def unpack(self) -> Array:
        """Return the array."""
        raise NotImplementedError

    def factor(self) -> Array:
        """Return the array for a product, which also takes the bits of bfloat16 as uint16."""
        return self.unpack()


class RecomputedArray(PackedArray):
    """The output of an op, computed when it is first needed; all ops that would keep it share one object.

    before: of an op that makes a view, that of its input
    """

    __slots__ = ("before", "op", "saved", "since", "value")

    def __init__(self, op: Op, before: RecomputedArray | None):
        self.op: Any = op
        # which the node itself lets go of after its backward pass
        self.saved = op._saved.saved if isinstance(op._saved, PackedSaved) else op.saved
        self.before, self.value, self.since = before, None, safety.now()

    def unpack(self) -> Array:
        """Return the output."""
        if self.value is None:
            arrays = [a for a in self.saved if hasattr(a, "dtype")]
            safety.require_unchanged(arrays, self.since, self.op)
            inputs = _unpacked(self.saved) if self.before is None else (self.before.unpack(),)
            self.value = self.op.recompute(*inputs)
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
        return tuple(
            [a.kept if isinstance(a, PackedArray) else a for a in self.saved if type(a) is not RecomputedArray]
        )

    def __call__(self, op: Any) -> None:
        op._saved = _unpacked(self.saved)


def _unpacked(saved: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([a.unpack() if isinstance(a, PackedArray) else a for a in saved])


class RecomputedOutputs(Observer):
    """Has ops on the CPU keep no large input that the op before can compute again, nor activations in 32 bits.

    Outputs smaller than `LARGE_BYTES` are kept, and views of more than `LONGEST` ops.
    """

    def after_record(self, op: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        for edge in op._edges:
            if isinstance(edge, Recomputable) and edge.recompute_depth:
                _keep_less_of_inputs(op, inputs)
                break
        can_keep_less = isinstance(op, Recomputable)
        if can_keep_less and op.backend is CPU and isinstance(op._saved, (tuple, PackedSaved)):
            # otherwise `checkpoint`, which keeps nothing, would run its function again at once
            if op.recomputes_from == "saved" and outputs[0].data.nbytes >= LARGE_BYTES:
                op.recompute_depth = 1
            if op.narrow:
                op.kernels.keep_narrow(op, inputs, outputs)


def _keep_less_of_inputs(op: Any, inputs: Sequence[Any]) -> None:
    for x, edge in zip(inputs, op._edges, strict=True):
        if isinstance(edge, Recomputable) and 0 < edge.recompute_depth < LONGEST:
            if isinstance(op, Recomputable) and op.recomputes_from == "input":
                op.recompute_depth = edge.recompute_depth + 1
            if isinstance(op._saved, tuple):
                saved = [_output_of(edge) if a is x.data else a for a in op._saved]
                if any(type(a) is RecomputedArray for a in saved):
                    op._saved = PackedSaved(saved)


def _output_of(op: Any) -> RecomputedArray:
    """Return what ops save in place of the output of `op`, which refers to it weakly, so that there is no cycle."""
    shared = op.packed_output and op.packed_output()
    if type(shared) is not RecomputedArray:
        shared = RecomputedArray(op, _output_of(op._edges[0]) if op.recompute_depth > 1 else None)
        op.packed_output = weakref.ref(shared)
    return shared
