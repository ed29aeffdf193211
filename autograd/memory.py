"""Which array owns the memory of another, and how often that memory was changed through Tensors."""

from __future__ import annotations

import weakref
from typing import Any


def owner_of(array: Any) -> Any:
    """The array that owns the memory of `array`, which may be a view."""
    base = getattr(array, "base", None)
    while base is not None:
        array, base = base, getattr(base, "base", None)
    return array


_versions: dict[int, tuple[weakref.ref, list[int]]] = {}  # by id of the array that owns the memory


def known_version(array: Any) -> list[int] | None:
    """The counter of the Tensors that users made of an array or of its views; None if there are none."""
    owner = owner_of(array)
    known = _versions.get(id(owner))
    return known[1] if known is not None and known[0]() is owner else None


def version_of_memory(array: Any) -> list[int]:
    """The counter of all Tensors that users made of one array or of its views, from now on."""
    version = known_version(array)
    if version is not None:
        return version
    owner, version = owner_of(array), [0]
    key = id(owner)
    try:
        _versions[key] = weakref.ref(owner, lambda _: _versions.pop(key, None)), version
    except TypeError:  # the owner is not an array, and has no weak references
        return version
    return version
