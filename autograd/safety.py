"""Two observers of every op, on by default: who made it, and whether what it kept was changed in place since.

A clock counts all changes in place through a Tensor.  Code that needs an array unchanged remembers the time and later
compares it with the time of the last change of the array's memory.  Nothing is recorded for the many arrays that never
change.  Without the observers, as in the plain code alone, nothing notices a change.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

from numpy import ndarray

from autograd import observers
from autograd.modes import state
from autograd.observers import Observer

__all__ = ["CallSites"]

Array = Any  # numpy.ndarray or cupy.ndarray
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class _IsOurs(dict[str, bool]):
    """File name -> whether it is of this package: a look-up takes a third of the time of the comparison."""

    def __missing__(self, name: str) -> bool:
        self[name] = found = name.startswith(_HERE)
        return found


_is_ours = _IsOurs()


class CallSites(Observer):
    """Notes when each op was made, and by which code of the user: the nearest stack frame outside this package."""

    def before_forward(self, op: Any, arrays: Sequence[Array]) -> None:
        if True in op.needs_gradient or state.observers:
            op.recorded_at = clock.now
            frame = sys._getframe(2)
            code = frame.f_code
            while _is_ours[code.co_filename] and frame.f_back is not None:
                frame = frame.f_back
                code = frame.f_code
            op.call_site = code, frame.f_lasti


class ChangesInPlace(Observer):
    """Refuses a backward pass that would read an array which was changed in place after the op kept it."""

    def after_change(self, array: Array) -> None:
        note_change(array)

    def before_backward(self, op: Any, g_outputs: Sequence[Array]) -> None:
        if clock.now != op.recorded_at:  # else nothing at all was changed since
            require_unchanged(op.saved_arrays, op.recorded_at, op)


def install() -> None:
    """Watch every op of the process from now on."""
    observers.install(CallSites())
    observers.install(ChangesInPlace())


# ---- Changes in place ----


class _Clock:
    """The number of changes in this process so far."""

    now = 0


clock = _Clock()
_changes: dict[int, tuple[weakref.ref, int]] = {}  # time of the last change, by id of the array that owns the memory


def now() -> int:
    """Return the number of changes so far."""
    return clock.now


def owner_of(array: Any) -> Any:
    """Return the array that owns the memory of `array`, which may be a view."""
    base: Any = getattr(array, "base", None)
    while isinstance(base, ndarray) or hasattr(base, "__cuda_array_interface__"):
        array, base = base, base.base
    return array


def note_change(array: Any) -> None:
    """Note that elements of an array are changed now, with those of all views of its memory."""
    clock.now += 1
    owner = owner_of(array)
    key = id(owner)
    known = _changes.get(key)
    reference = known[0] if known is not None and known[0]() is owner else None
    if reference is None:
        reference = weakref.ref(owner, lambda gone: _forget(key, gone))
    _changes[key] = reference, clock.now


def _forget(key: int, gone: weakref.ref) -> None:
    if key in _changes and _changes[key][0] is gone:  # and not of another array in its place
        del _changes[key]


def last_change(array: Any) -> int:
    """Return the time of the last change of an array's memory, 0 if there was none."""
    owner = owner_of(array)
    known = _changes.get(id(owner))
    return known[1] if known is not None and known[0]() is owner else 0


def require_unchanged(arrays: Iterable[Any], since: int, who: Any) -> None:
    """Raises: RuntimeError if the memory of one of the arrays was changed after the time `since`"""
    if clock.now == since:
        return
    for array in arrays:
        if last_change(array) > since:
            raise RuntimeError(
                f"{who} needs for its backward pass an array that was changed in place after it was used; "
                "change a copy instead, or make the change after backward()"
            )
