"""Two observers of every op, on by default: who made it, and whether what it kept was changed since.

Without them, as in the plain code alone, nothing notices that an array was changed in place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from autograd import memory, modes
from autograd.engine import Op
from autograd.modes import Observer, state

Array = Any  # numpy.ndarray or cupy.ndarray
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class CallSites(Observer):
    """Notes when each op was made, and by which code of the user: the nearest stack frame outside this package."""

    def before_forward(self, op: Op, arrays: Sequence[Array]) -> None:
        if True in op.needs_gradient or state.observers:
            op.recorded_at = memory.clock.now
            frame = sys._getframe(2)
            while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
                frame = frame.f_back
            op.call_site = frame.f_code, frame.f_lasti


class ChangesInPlace(Observer):
    """Refuses a backward pass that would read an array which was changed in place after the op kept it."""

    def after_change(self, array: Array) -> None:
        memory.note_change(array)

    def before_backward(self, op: Op, g_outputs: Sequence[Array]) -> None:
        if memory.clock.now != op.recorded_at:  # else nothing at all was changed since
            memory.require_unchanged(op.saved_arrays, op.recorded_at, op)


def install() -> None:
    """Watch every op of the process from now on."""
    modes.install(CallSites())
    modes.install(ChangesInPlace())
