"""Large outputs that are computed again for the backward pass, instead of being kept for it.

An op may save a large input that the op before can compute again cheaply, to the same bits, from what it saves anyway:
the output of a layer norm from the normalised rows, that of attention from its weights.  The engine then keeps an
`Again` in place of the array.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

Array = Any

AGAIN_BYTES = 4 << 20  # smaller outputs are kept: they do not fill a memory, and time is dearer
LONGEST = 4  # ops from one that computes its output again from what it saves, through views of it


class Again:
    """The output of an op, computed when it is first needed; all ops that would save it share one object.

    before: of an op that makes a view, that of its input
    """

    __slots__ = ("__weakref__", "before", "op", "value")

    def __init__(self, op: Any, before: Again | None):
        self.op, self.before, self.value = op, before, None

    def array(self) -> Array:
        """The output."""
        if self.value is None:
            self.value = self.op.again() if self.before is None else self.op.again(self.before.array())
            self.op = self.before = None
        return self.value


def keep_less(op: Any, inputs: Sequence[Any]) -> None:
    """Note whether `op` can compute its output again, and keep no large input that the op before can compute again."""
    if op.computes_again == "saved":
        op._again_depth = 1
    for x, edge in zip(inputs, op._edges):  # noqa: B905
        if 0 < getattr(edge, "_again_depth", 0) < LONGEST:
            if op.computes_again == "input":
                op._again_depth = edge._again_depth + 1
            if x.data.nbytes >= AGAIN_BYTES:
                op._saved = tuple([_output_of(edge) if a is x.data else a for a in op._saved])


def _output_of(op: Any) -> Again:
    """What all ops that would save the output of `op` keep; `op` refers to it weakly, so that there is no cycle."""
    shared = op._again and op._again()
    if shared is None:
        shared = Again(op, _output_of(op._edges[0]) if op._again_depth > 1 else None)
        op._again = weakref.ref(shared)
    return shared


def settle(op: Any) -> None:
    """Before what `op` saved is freed, compute its output for ops that may still need it: those not visited yet."""
    shared = op._again and op._again()
    if shared is not None:
        shared.array()
