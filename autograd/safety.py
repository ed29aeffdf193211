"""An observer of every op, on by default: who made it, and whether what it kept was changed in place since.

The clock by which nodes are ordered counts changes in place through a Tensor, too.  Code that needs an array unchanged
remembers the time, a node its `order`, and later compares it with the time of the last change of the array's memory.
Nothing is noted for the many arrays that never change.  A change that NumPy makes, of values or of an index, is not
seen: to copy each index array would take 5 % of x[index], and more than x[index] itself for a long one.  Without the
observer, as in the plain code alone, nothing notices a change.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable, Sequence
from sys import _getframe
from typing import Any

from numpy import ndarray

from autograd import modes
from autograd.modes import Observer
from autograd.tensor import clock

__all__ = ["CallSites", "owner_of"]

Array = Any  # numpy.ndarray or cupy.ndarray
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class _IsOurs(dict[str, bool]):
    """File name -> whether it is of this package: a look-up takes a third of the time of the comparison."""

    def __missing__(self, name: str) -> bool:
        self[name] = ours = name.startswith(_HERE)
        return ours


_is_ours = _IsOurs()


def note_call_site(op: Any, inputs: Any, outputs: Any = None) -> None:
    """Note in `op` which code of the user made it: the nearest stack frame outside this package."""
    try:  # each frame that is asked for is made; one of our classes that the user applies has the line of their caller
        frame = _getframe(3 if op.is_ours else 2)
    except ValueError:  # at the bottom of the stack
        frame = _getframe(2)
    code = frame.f_code
    while _is_ours[code.co_filename] and (caller := frame.f_back) is not None:
        frame, code = caller, caller.f_code
    op.call_site = code, frame.f_lasti


class CallSites(Observer):
    """Notes by which code of the user each op was made."""

    before_forward = staticmethod(note_call_site)  # type: ignore[assignment]  # nothing else is asked for


class Safety(Observer):
    """Notes the same of ops that are recorded, as messages of a backward pass name them, and changes in place.

    Refuses a backward pass that would read an array which was changed in place after the op kept it.
    """

    after_record = staticmethod(note_call_site)

    def after_change(self, array: Array) -> None:
        note_change(array)

    def before_backward(self, op: Any, g_outputs: Sequence[Array]) -> None:
        if op.order < _latest_change:  # else nothing at all was changed since
            require_unchanged(op.saved_arrays, op.order, op)


def install() -> None:
    """Watch every op of the process from now on."""
    modes.install(Safety())


# ---- Changes in place ----


_latest_change = 0  # of any array; 0 before the first
_changes: dict[int, tuple[weakref.ref, int]] = {}  # time of the last change, by id of the array that owns the memory


def now() -> int:
    """Return the time: changes from now on are later."""
    return next(clock)


def owner_of(array: Any) -> Any:
    """Return the array that owns the memory of `array`, which may be a view."""
    base: Any = getattr(array, "base", None)
    while isinstance(base, ndarray) or hasattr(base, "__cuda_array_interface__"):
        array, base = base, base.base
    return array


def note_change(array: Any) -> None:
    """Note that elements of an array are changed now, with those of all views of its memory."""
    global _latest_change
    _latest_change = next(clock)
    owner = owner_of(array)
    key = id(owner)
    known = _changes.get(key)
    reference = known[0] if known is not None and known[0]() is owner else None
    if reference is None:
        reference = weakref.ref(owner, lambda gone: _forget(key, gone))
    _changes[key] = reference, _latest_change


def _forget(key: int, gone: weakref.ref) -> None:
    if key in _changes and _changes[key][0] is gone:  # and not of another array in its place
        del _changes[key]


def last_change(array: Any) -> int:
    """Return the time of the last change of an array's memory, 0 if there was none."""
    owner = owner_of(array)
    known = _changes.get(id(owner))
    return known[1] if known is not None and known[0]() is owner else 0


def changed(arrays: Iterable[Any], since: int) -> bool:
    """Whether the memory of one of the arrays was changed after the time `since`."""
    return _latest_change > since and any(last_change(array) > since for array in arrays)  # nothing was, mostly


def require_unchanged(arrays: Iterable[Any], since: int, who: Any) -> None:
    """Raises: RuntimeError if the memory of one of the arrays was changed after the time `since`"""
    if changed(arrays, since):
        raise RuntimeError(
            f"{who} needs for its backward pass an array that was changed in place after it was used; "
            "change a copy instead, or make the change after backward()"
        )
