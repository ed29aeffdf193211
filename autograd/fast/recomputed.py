"""Large outputs that are computed again for the backward pass, instead of being kept for it.

An op may keep a large input that the op before can compute again cheaply, to the same bits, from what it keeps anyway:
the output of a layer norm from the normalised rows, that of attention from its weights.  The node then keeps an
`Again` in place of the array.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from autograd import memory
from autograd.backend import CPU
from autograd.engine import Op
from autograd.modes import Observer

Array = Any

AGAIN_BYTES = 4 << 20  # smaller outputs are kept: they do not fill a memory, and time is dearer
LONGEST = 4  # ops from one that computes its output again from what it saves, through views of it


class CanComputeAgain:
    """Mixin of ops that can compute their output again, by a method `again`."""

    computes_again = ""  # from what: "saved", from what the op saved; of a view, from its "input"
    again_depth = 0  # ops from one that computes its large output again from what it saved; 0 if there is none
    shared_again: weakref.ref[Again] | None = None  # what all ops that would keep the output keep


class Again:
    """The output of an op, computed when it is first needed; all ops that would keep it share one object.

    before: of an op that makes a view, that of its input
    """

    __slots__ = ("__weakref__", "before", "op", "saved", "since", "value")

    def __init__(self, op: Op, before: Again | None):
        self.op: Any = op
        self.saved = (
            op._saved if isinstance(op._saved, tuple) else op.saved
        )  # which the node itself lets go of after its backward pass
        self.before, self.value, self.since = before, None, memory.now()

    def array(self) -> Array:
        """Return the output."""
        if self.value is None:
            arrays = [a for a in self.saved if hasattr(a, "dtype")]
            memory.require_unchanged(arrays, self.since, self.op)
            self.value = self.op.again(*self.saved) if self.before is None else self.op.again(self.before.array())
            self.op = self.before = None
            self.saved = ()
        return self.value


class _WithAgains:
    """The saved arrays of a node that include outputs of other ops; calling it computes these outputs."""

    def __init__(self, op: Op, saved: Sequence[Any]):
        self.op, self.saved = weakref.ref(op), saved

    @property
    def kept(self) -> tuple[Any, ...]:
        """The arrays that are kept meanwhile."""
        return tuple([a for a in self.saved if type(a) is not Again])

    def __call__(self) -> None:
        op = self.op()
        if op is not None:
            op._saved = tuple([a.array() if type(a) is Again else a for a in self.saved])


class RecomputedOutputs(Observer):
    """Has ops on the CPU keep no large input that the op before can compute again.

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
                        op._saved = _WithAgains(op, saved)
        if can and op.computes_again == "saved" and op.backend is CPU and outputs[0].data.nbytes >= AGAIN_BYTES:
            op.again_depth = int(isinstance(op._saved, tuple))  # `checkpoint` would run its function again at once


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
