"""Which module of a model is running: costs nothing unless someone listens.

While someone does, the classes of the model's modules have a `__call__` that tells so, and gets out of the way of all
other instances and threads; afterwards they have their own again.  The alternative, a base class whose `__call__` runs
a `forward`, would put one more frame into every call and every traceback, for a tool that is rarely on.

A module is any object with a `children()` that yields (name, module) pairs.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class ModuleListener:
    """Hears of every call of a module; does nothing by itself."""

    def enter_module(self, name: str) -> None:
        """The module of this dotted name begins to run; the model itself is ""."""

    def leave_module(self, name: str) -> None:
        """It has ended, perhaps in an error."""


class _Listening(threading.local):
    """Who listens in this thread to which modules, by their ids."""

    def __init__(self) -> None:
        self.listeners: dict[int, tuple[tuple[str, ModuleListener], ...]] = {}
        self.innermost: Any = None  # the module that runs at present: a `__call__` that calls its parent's is one call


_listening = _Listening()
_lock = threading.Lock()
_replaced: dict[type, tuple[Callable[..., Any], int]] = {}  # the `__call__` of a class, and how many want it replaced


def named_modules(model: Any) -> dict[str, Any]:
    """Every module under its dotted name, a shared one once, under its first; the model itself is "".

    Raises: TypeError for an object without `children()`
    """
    if not hasattr(model, "children"):
        raise TypeError(f"{type(model).__name__} has no children() to find its modules by; give a Module")
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
    """Context manager: `listener` hears of all calls of `model` and its modules in this thread."""
    named = named_modules(model)
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
    """The class, itself or a parent, that defines `__call__`; None for a mere container."""
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
