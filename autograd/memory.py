"""The time of the last change in place of an array's memory through a Tensor.

A clock counts all changes.  Code that needs an array unchanged remembers the time and later compares it with the time
of the last change.  Nothing is recorded for the many arrays that never change.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from numpy import ndarray


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
