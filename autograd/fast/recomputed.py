"""Large outputs that are computed again for the backward pass, instead of being kept for it.

An op may keep a large input that the op before can compute again cheaply, to the same bits, from what it keeps anyway:
the output of a layer norm from the normalised rows, that of attention from its weights.  The node then keeps an
`Again` in place of the array.  Activations that are bfloat16 are kept in 16 bits: see narrow.py.
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

AGAIN_BYTES = 4 << 20  # smaller outputs are kept: they do not fill a memory, and time is dearer
LONGEST = 4  # ops from one that computes its output again from what it saves, through views of it


class CanComputeAgain:
    """Mixin of ops that can compute their output again, by a method `again`, or keep less of what they save."""

    computes_again = ""  # from what: "saved", from what the op saved; of a view, from its "input"
    again_depth = 0  # ops from one that computes its large output again from what it saved; 0 if there is none
    shared_again: weakref.ref[Again] | None = None  # what all ops that would keep the output keep
    narrow: tuple[int, ...] = ()  # places in `saved` of activations, which may be kept in 16 bits
    factors_alone = False  # whether they are read as factors of products and by their sign alone, so if rounded, too

    @property
    def saved_factors(self) -> tuple[Any, ...]:
        """`saved`, with factors of products as the graph keeps them: where it narrowed them, the bits of bfloat16."""
        op: Any = self
        while not isinstance(op._saved, (tuple, WithSubstitutes)):
            op._saved(op)
        if isinstance(op._saved, tuple) or not op.kernels.in_bfloat16:
            return op.saved
        return tuple([a.factor() if isinstance(a, Substitute) else a for a in op._saved.saved])


class Substitute:
    """Stand-in that a node keeps in the place of an array."""

    __slots__ = ("__weakref__",)
    kept: Array  # the array that it keeps itself, if any

    def array(self) -> Array:
        """Return the array."""
        raise NotImplementedError

    def factor(self) -> Array:
        """Return the array for a product, which also takes the bits of bfloat16 as uint16."""
        return self.array()


class Again(Substitute):
    """The output of an op, computed when it is first needed; all ops that would keep it share one object.

    before: of an op that makes a view, that of its input
    """

    __slots__ = ("before", "op", "saved", "since", "value")

    def __init__(self, op: Op, before: Again | None):
        self.op: Any = op
        # which the node itself lets go of after its backward pass
        self.saved = op._saved.saved if isinstance(op._saved, WithSubstitutes) else op.saved
        self.before, self.value, self.since = before, None, safety.now()

    def array(self) -> Array:
        """Return the output."""
        if self.value is None:
            arrays = [a for a in self.saved if hasattr(a, "dtype")]
            safety.require_unchanged(arrays, self.since, self.op)
            inputs = _arrays(self.saved) if self.before is None else (self.before.array(),)
            self.value = self.op.again(*inputs)
            self.op = self.before = None
            self.saved = ()
        return self.value


class WithSubstitutes:
    """The saved arrays of a node that are not all kept as they are; a call with the node puts them in place."""

    def __init__(self, saved: Sequence[Any]):
        self.saved = saved

    @property
    def kept(self) -> tuple[Any, ...]:
        """The arrays that are kept meanwhile."""
        return tuple([a.kept if isinstance(a, Substitute) else a for a in self.saved if type(a) is not Again])

    def __call__(self, op: Any) -> None:
        op._saved = _arrays(self.saved)


def _arrays(saved: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([a.array() if isinstance(a, Substitute) else a for a in saved])


class RecomputedOutputs(Observer):
    """Has ops on the CPU keep no large input that the op before can compute again, nor activations in 32 bits.

    Outputs smaller than `AGAIN_BYTES` are kept, and views of more than `LONGEST` ops.
    """

    def after_record(self, op: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        can = isinstance(op, CanComputeAgain)
        for x, edge in zip(inputs, op._edges):  # noqa: B905
            if isinstance(edge, CanComputeAgain) and 0 < edge.again_depth < LONGEST:
                if can and op.computes_again == "input":
                    op.again_depth = edge.again_depth + 1
                if isinstance(op._saved, tuple):
                    saved = [_output_of(edge) if a is x.data else a for a in op._saved]
                    if any(type(a) is Again for a in saved):
                        op._saved = WithSubstitutes(saved)
        if can and op.computes_again == "saved" and op.backend is CPU and outputs[0].data.nbytes >= AGAIN_BYTES:
            # otherwise `checkpoint`, which keeps nothing, would run its function again at once
            op.again_depth = int(isinstance(op._saved, (tuple, WithSubstitutes)))
        if can and op.narrow and op.backend is CPU and isinstance(op._saved, (tuple, WithSubstitutes)):
            op.kernels.keep_narrow(op)


def _shared(op: Op) -> Again | None:
    reference = getattr(op, "shared_again", None)
    return reference and reference()


def _output_of(op: Any) -> Again:
    """Return what ops save in place of the output of `op`, which refers to it weakly, so that there is no cycle."""
    shared = _shared(op)
    if shared is None:
        shared = Again(op, _output_of(op._edges[0]) if op.again_depth > 1 else None)
        op.shared_again = weakref.ref(shared)
    return shared
