"""Callbacks around the calls of a model's modules, without cost while none is registered.

While somebody listens, the classes of the modules have a `__call__` that calls the listener; afterwards they have their
own again.  The alternative, a base class whose `__call__` runs a `forward`, would add a frame to every call and every
traceback.

A module is any object with a `children()` that yields (name, module) pairs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["ModuleListener", "listen"]


class ModuleListener:
    """Base class of objects whose methods are called around every call of a module."""

    def enter_module(self, name: str) -> None:
        """The module of this dotted name is about to run; the model itself is ""."""

    def leave_module(self, name: str) -> None:
        """The module has run, or raised an error."""


def named_modules(model: Any) -> dict[str, Any]:
    """All modules by dotted name, a shared one under its first name only; the model itself is "".

    Raises: TypeError for an object without `children()`
    """
    if not hasattr(model, "children"):
        raise TypeError(f"{type(model).__name__} has no children() to find its modules by; pass a Module")
    named: dict[str, Any] = {}
    seen: set[int] = set()

    def collect(prefix: str, module: Any) -> None:
        if id(module) not in seen:
            seen.add(id(module))
            named[prefix] = module
            for name, child in module.children():
                collect(f"{prefix}.{name}" if prefix else name, child)

    collect("", model)
    return named


@contextmanager
def listen(model: Any, listener: ModuleListener) -> Iterator[None]:
    """Context manager: call `listener` around all calls of `model` and its modules in this thread; None has none."""
    names = {} if model is None else {id(module): name for name, module in named_modules(model).items()}
    classes = {type(module) for module in named_modules(model).values()} if model is not None else set()
    homes = {home for each in classes if (home := _home_of_call(each)) is not None}
    originals = {home: vars(home)["__call__"] for home in homes}
    running: list[Any] = []
    for home, original in originals.items():
        home.__call__ = _heard(original, names, listener, running)
    try:
        yield
    finally:
        for home, original in originals.items():
            home.__call__ = original


def _home_of_call(module_class: type) -> Any:
    """Return the class or base class that defines `__call__`; None for a container without one."""
    return next((each for each in module_class.__mro__ if "__call__" in vars(each)), None)


def _heard(
    original: Callable[..., Any], names: dict[int, str], listener: ModuleListener, running: list[Any]
) -> Callable[..., Any]:
    """A `__call__` that calls the listener around `original`, once where it calls that of its base class."""
    thread = threading.get_ident()

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = names.get(id(self)) if threading.get_ident() == thread else None
        if name is None or (running and running[-1] is self):
            return original(self, *args, **kwargs)
        running.append(self)
        listener.enter_module(name)
        try:
            return original(self, *args, **kwargs)
        finally:
            listener.leave_module(name)
            running.pop()

    return call
