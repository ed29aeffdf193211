"""Callbacks around the calls of a model's modules, without cost while none is registered.

While somebody listens, the classes of the modules have a `__call__` that calls the listeners of the instance and
thread, if there are any; afterwards they have their own again.  The alternative, a base class whose `__call__` runs a
`forward`, would add a frame to every call and every traceback.

A module is any object with a `children()` that yields (name, module) pairs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class ModuleListener:
    """Base class of objects whose methods are called around every call of a module."""

    def enter_module(self, name: str) -> None:
        """The module of this dotted name is about to run; the model itself is ""."""

    def leave_module(self, name: str) -> None:
        """The module has run, or raised an error."""


class _Listening(threading.local):
    """The listeners of each thread, by the ids of the modules."""

    def __init__(self) -> None:
        self.listeners: dict[int, tuple[tuple[str, ModuleListener], ...]] = {}
        self.innermost: Any = None  # the running module: a `__call__` that calls its base class's is one call


_listening = _Listening()
_lock = threading.Lock()
_replaced: dict[type, tuple[Callable[..., Any], int]] = {}  # original `__call__` of a class, number of listeners


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
    named = {} if model is None else named_modules(model)
    before = _listening.listeners
    heard = dict(before)
    for name, module in named.items():
        heard[id(module)] = (*heard.get(id(module), ()), (name, listener))
    homes = {home for module in named.values() if (home := _home_of_call(type(module))) is not None}
    for home in homes:
        _replace_call(home)
    _listening.listeners = heard
    try:
        yield
    finally:
        _listening.listeners = before
        for home in homes:
            _restore_call(home)


def _home_of_call(module_class: type) -> type | None:
    """Return the class or base class that defines `__call__`; None for a container without one."""
    return next((each for each in module_class.__mro__ if "__call__" in vars(each)), None)


def _replace_call(home: type) -> None:
    with _lock:
        original, count = _replaced.get(home, (vars(home)["__call__"], 0))
        _replaced[home] = original, count + 1
        if count:
            return

        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            listeners = _listening.listeners.get(id(self))
            if not listeners or _listening.innermost is self:
                return original(self, *args, **kwargs)
            outer, _listening.innermost = _listening.innermost, self
            for name, listener in listeners:
                listener.enter_module(name)
            try:
                return original(self, *args, **kwargs)
            finally:
                for name, listener in reversed(listeners):
                    listener.leave_module(name)
                _listening.innermost = outer

        home.__call__ = call  # type: ignore[method-assign]


def _restore_call(home: type) -> None:
    with _lock:
        original, count = _replaced.pop(home)
        if count > 1:
            _replaced[home] = original, count - 1
        else:
            home.__call__ = original  # type: ignore[method-assign]
