"""Context managers for the ops of a block: whether they are recorded.  Observers of ops have observers.py."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any


class ThreadState(threading.local):
    """The modes of each thread; what a thread has not set is what the class has."""

    recording = True
    observers: tuple[Any, ...] = ()  # of the `with observe(…)` blocks, outermost first
    events: Any  # `Events` of observers.py, which sets it


state = ThreadState()


class Setting(ContextDecorator):
    """Context manager and decorator: one of the modes of this thread has another value inside."""

    def __init__(self, name: str, value: Any):
        self.name, self.value = name, value
        self.before: list[Any] = []

    def __enter__(self) -> Any:
        self.before.append(getattr(state, self.name))
        setattr(state, self.name, self.value)
        return self.value

    def __exit__(self, *_: object) -> None:
        setattr(state, self.name, self.before.pop())

    def _recreate_cm(self) -> Setting:
        return Setting(self.name, self.value)  # of its own for each call: calls may run in several threads

    def __call__(self, function: Callable) -> Any:
        if isgeneratorfunction(function) or iscoroutinefunction(function) or isasyncgenfunction(function):
            raise TypeError(
                f"no_grad() and enable_grad() cannot decorate {function.__name__}(), a generator or coroutine, "
                "whose body runs after the call; write `with` blocks inside it that contain no yield and no await"
            )
        return super().__call__(function)


def no_grad() -> Setting:
    """Context manager and decorator: ops inside are not recorded and save nothing."""
    return Setting("recording", False)


def enable_grad() -> Setting:
    """Context manager and decorator: record ops, also inside a `no_grad` block."""
    return Setting("recording", True)


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread now."""
    return state.recording
