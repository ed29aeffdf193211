"""Ours in the form of the learner's: plain ops and parts of the model, whole or with one classic mistake.

A mistake is a text of our source and what stands there by mistake: the judge calls it by its name where an answer gives
what the changed source gives. So neither the checks nor the mistakes need a second solution.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any


def changed(thing: Any, texts: Sequence[str], helpers: Sequence[Any] = ()) -> Any:
    """A function or class, compiled from its source with texts replaced, in it or in the helpers that it calls.

    texts: a text, its replacement, another text, …

    Raises: LookupError for a text that does not occur
    """
    source = "\n\n".join(textwrap.dedent(inspect.getsource(each)) for each in (*helpers, thing))
    for right, wrong in zip(texts[::2], texts[1::2], strict=True):
        if right not in source:
            raise LookupError(f"{thing.__name__}: {right!r} does not occur in its source")
        source = source.replace(right, wrong)
    names = dict(vars(sys.modules[thing.__module__]), __name__="changed")  # no module of autograd: it registers no op
    exec(compile("from __future__ import annotations\n" + source, "changed", "exec"), names)
    return names[thing.__name__]


class OurOp:
    """A plain op of ours with what an op of the learner promises: a tuple of arrays, of one result."""

    def __init__(self, op: Any, **fixed: Any):
        """fixed: parameters that the learner's op does not have"""
        self.op, self.fixed, self.broadcasts, self.__name__ = op, fixed, op.broadcasts, op.__name__

    def forward(self, xp: Any, *inputs: Any, **parameters: Any) -> Any:
        y = self.op.forward(xp, *inputs, **parameters, **self.fixed)
        return y[0] if isinstance(y, tuple) else y

    def backward(self, xp: Any, g: Any, y: Any, *inputs: Any, **parameters: Any) -> tuple[Any, ...]:
        several = self.op.__name__ == "CrossEntropy"  # its second result has no gradient
        found = self.op.backward(xp, (g, None) if several else g, y, *inputs, **parameters, **self.fixed)
        return tuple([each() if callable(each) else each for each in (found if isinstance(found, tuple) else (found,))])


Named = Callable[[], Any]
"""Makes a wrong variant."""
