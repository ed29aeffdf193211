"""Context managers for the ops of a block: whether they are recorded, and by whom they are observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import Any

__all__ = ["Observer", "observe"]

Array = Any  # numpy.ndarray or cupy.ndarray


@dataclass(slots=True)
class Modes:
    """The modes of a thread or asynchronous task."""

    events: Any  # `Events` of the observers of the process, and of these
    observers: tuple[Any, ...] = ()  # of the `with observe(…)` blocks, outermost first
    recording: bool = True


class Setting(ContextDecorator):
    """Context manager and decorator: some of the modes of this thread have other values inside."""

    def __init__(self, **values: Any):
        self.values = values
        self.before: list[Modes] = []

    def __enter__(self) -> None:
        self.before.append(current_modes())
        _modes.set(replace(self.before[-1], **self.values))

    def __exit__(self, *_: object) -> None:
        _modes.set(self.before.pop())

    def _recreate_cm(self) -> Setting:
        return Setting(**self.values)  # of its own for each call: calls may run in several threads

    def __call__(self, function: Callable) -> Any:
        if isgeneratorfunction(function) or iscoroutinefunction(function) or isasyncgenfunction(function):
            raise TypeError(
                f"no_grad() and enable_grad() cannot decorate {function.__name__}(), a generator or coroutine, "
                "whose body runs after the call; write `with` blocks inside it that contain no yield and no await"
            )
        return super().__call__(function)


def no_grad() -> Setting:
    """Context manager and decorator: ops inside are not recorded and save nothing."""
    return Setting(recording=False)


def enable_grad() -> Setting:
    """Context manager and decorator: record ops, also inside a `no_grad` block."""
    return Setting(recording=True)


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread now."""
    return current_modes().recording


# ---- Observers: objects whose methods are called around every op ----


class Observer:
    """Base class of objects whose methods are called around every op, such as the profiler and `checkpoint`.

    Observers nest: `before_…` methods are called from the outermost observer to the innermost, `after_…` methods in the
    reverse order.  `op` is the `Op` of the call, the node of the graph if the call is recorded.
    """

    def before_forward(self, op: Any, arrays: Sequence[Array]) -> None:
        """`op` is about to compute its outputs from `arrays`."""

    def after_forward(self, op: Any, outputs: Sequence[Array]) -> None:
        """`op` has computed `outputs`; it is not recorded yet."""

    def after_error(self, op: Any) -> None:
        """The forward pass of `op` has raised an error, which the caller will get."""

    def after_record(self, op: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """`op`, called with `inputs`, is now a node of the graph; the arrays that it keeps are `op.saved_arrays`."""

    def before_backward_pass(self) -> None:
        """A backward pass begins."""

    def before_backward(self, op: Any, g_outputs: Sequence[Array]) -> None:
        """`op` is about to compute the gradients of its inputs from `g_outputs`."""

    def after_backward(self, op: Any, g_inputs: Sequence[Array | None]) -> None:
        """`op` has computed `g_inputs`; they are checked, and summed over broadcast axes."""

    def after_allocation(self, gradient: Array) -> None:
        """`gradient` is an array that the engine made: a sum of gradients."""

    def after_change(self, array: Array) -> None:
        """Elements of `array` were changed in place, through a Tensor or by an optimizer."""

    def after_leaf(self, leaf: Any, gradient: Array) -> None:
        """`gradient` is the complete gradient of `leaf` in this backward pass."""

    def after_backward_pass(self) -> None:
        """The backward pass has ended, perhaps in an error."""


EVENTS = tuple([name for name in vars(Observer) if not name.startswith("_")])


class Events:
    """The methods to call for each event: those that the observers define."""

    __slots__ = EVENTS

    def __init__(self, observers: Sequence[Observer]):
        self.call(observers)

    def call(self, observers: Sequence[Observer]) -> None:
        """Have the methods of these observers called, in place of those so far."""
        for event in EVENTS:
            methods = [getattr(o, event) for o in observers if getattr(type(o), event) is not getattr(Observer, event)]
            setattr(self, event, tuple(methods if event.startswith("before") else methods[::-1]))


installed: list[Observer] = []
"""The observers of the process."""
_of_the_process = Modes(Events(()))
_modes = ContextVar("modes", default=_of_the_process)
current_modes = _modes.get  # in a fifth of the time of an attribute of a `threading.local`


def install(observer: Observer) -> None:
    """Call `observer` around every op of every thread from now on, before the observers of any block."""
    installed.append(observer)
    _of_the_process.events.call(installed)  # which the blocks that are open in all threads have, too


@contextmanager
def observe(observer: Observer) -> Iterator[Observer]:
    """Context manager: call `observer` around every op of this thread, in addition to the observers around it."""
    observers = (*current_modes().observers, observer)
    with Setting(observers=observers, events=Events([*installed, *observers])):
        yield observer
