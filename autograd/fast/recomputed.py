"""Arrays that the graph keeps in another form: large outputs that are computed again, and activations in 16 bits.

An op may keep a large input that the op before can compute again cheaply, to the same bits, from what it keeps anyway:
the output of a layer norm from the normalised rows, that of attention from its weights.  The node then keeps a
`RecomputedArray` in place of the array.  Activations that `--precision bf16` has rounded to bfloat16 on a CPU are kept
in 16 bits, as a `NarrowArray`: the same numbers come back, to the bit.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import observers, safety
from autograd.backend import CPU
from autograd.engine import Op
from autograd.observers import Observer
from autograd.ops import shape

Array = Any

LARGE_BYTES = 4 << 20  # smaller outputs are kept: they do not fill a memory, and time is dearer
LONGEST = 4  # ops from one that computes its output again from what it saved, through views of it
NARROW_BYTES = 1 << 20  # smaller activations are kept as they are, which gives the same bits
VIEWS = (shape.Reshape, shape.SwapAxes)  # which are recomputed from a recomputed input


class Recomputable:
    """Mixin of ops that can compute their output again, by a method `recompute`, or keep less of what they save."""

    recomputes = False  # whether `recompute` has the output from what the op saved
    narrow: tuple[int, ...] = ()  # places in `saved` of activations, which may be kept in 16 bits
    factors_alone = False  # whether they are read as factors of products and by their sign alone, so if rounded, too
    kernels: Any
    backend: Any
    _saved: Any
    recompute_depth: int
    packed_output: Any

    @property
    def saved_factors(self) -> tuple[Any, ...]:
        """`saved`, with factors of products as the graph keeps them: where it narrowed them, the bits of bfloat16."""
        op: Any = self
        while not isinstance(op._saved, (tuple, PackedSaved)):
            op._saved(op)
        if isinstance(op._saved, tuple) or not op.kernels.in_bfloat16:
            return op.saved
        return tuple([a.kept if type(a) is NarrowArray else _unpacked(a) for a in op._saved.saved])


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


class NarrowArray:
    """An array of float32 in half the bytes; all ops that keep the output of an op share one object."""

    __slots__ = ("__weakref__", "is_exact", "kept", "kernels", "since")

    def __init__(self, a: Array, kernels: Any):
        self.kept, self.is_exact = kernels.narrowed(a)
        self.kernels, self.since = kernels, safety.now()

    def unpack(self) -> Array:
        """Return the array."""
        return self.kernels.widened(self.kept)


class PackedSaved:
    """The saved arrays of a node that are not all kept as they are; a call with the node puts them in place."""

    def __init__(self, saved: Sequence[Any]):
        self.saved = saved

    @property
    def kept(self) -> tuple[Any, ...]:
        """The arrays that are kept meanwhile."""
        return tuple([a.kept if type(a) is NarrowArray else a for a in self.saved if type(a) is not RecomputedArray])

    def __call__(self, op: Any) -> None:
        op._saved = tuple([_unpacked(a) for a in self.saved])


def _unpacked(a: Any) -> Any:
    return a.unpack() if isinstance(a, (RecomputedArray, NarrowArray)) else a


class RecomputedOutputs(Observer):
    """Has ops on the CPU keep no large input that the op before can compute again, nor activations in 32 bits.

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
        if isinstance(op, Recomputable) and op.backend is CPU and isinstance(op._saved, (tuple, PackedSaved)):
            # otherwise `checkpoint`, which keeps nothing, would run its function again at once
            if op.recomputes and outputs[0].data.nbytes >= LARGE_BYTES:
                op.recompute_depth, self.some = 1, True
            if op.narrow and op.kernels.in_bfloat16:
                _keep_narrow(op, inputs, outputs)


def recompute_large_outputs() -> None:
    """Keep less in the graphs of this process from now on, by `RecomputedOutputs`.

    Every op then takes a little longer, so only programs call this, never an import.
    """
    if not any(isinstance(each, RecomputedOutputs) for each in observers.installed):
        observers.install(RecomputedOutputs())


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
    shared = _packed_output(op)
    if type(shared) is not RecomputedArray:
        shared = RecomputedArray(op, _output_of(op._edges[0]) if op.recompute_depth > 1 else None)
        op.packed_output = weakref.ref(shared)
    return shared


def _packed_output(op: Any) -> RecomputedArray | NarrowArray | None:
    return op.packed_output() if hasattr(op, "packed_output") else None


def _keep_narrow(op: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Have an op keep large activations in 16 bits, in the places of what it saves that `op.narrow` names."""
    saved = list(op._saved.saved if isinstance(op._saved, PackedSaved) else op._saved)
    made_by = [*zip(inputs, op._edges, strict=True), (outputs[0], op)]
    for place in op.narrow:
        a = saved[place] if place < len(saved) else None
        if isinstance(a, np.ndarray) and a.dtype == np.float32 and a.nbytes >= NARROW_BYTES:
            maker = next((node for x, node in made_by if getattr(x, "data", None) is a), None)
            narrow = _narrow_output(maker, a, op.kernels)
            if narrow.is_exact or op.factors_alone:
                saved[place] = narrow
    if any(type(a) is NarrowArray for a in saved):
        op._saved = PackedSaved(saved)


def _narrow_output(maker: Any, a: Array, kernels: Any) -> NarrowArray:
    """Return the `NarrowArray` of the output of `maker`: the one made before, unless the array was changed since."""
    if not isinstance(maker, Recomputable):
        return NarrowArray(a, kernels)
    found = _packed_output(maker)
    if type(found) is not NarrowArray or safety.last_change(a) > found.since:
        found = NarrowArray(a, kernels)
        maker.packed_output = weakref.ref(found)
    return found
