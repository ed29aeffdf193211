"""Context managers for the ops of a block: whether they are recorded, and which watchers are called."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograd.engine import Op
    from autograd.tensor import Tensor

Array = Any  # numpy.ndarray or cupy.ndarray


class _ThreadState(threading.local):
    """The modes of each thread."""

    recording = True
    watchers: tuple[Watcher, ...] = ()  # of the `with watch(…)` blocks, outermost first


state = _ThreadState()


class _Setting(ContextDecorator):
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

    def _recreate_cm(self) -> _Setting:
        return _Setting(self.name, self.value)  # of its own for each call: calls may run in several threads

    def __call__(self, function: Any) -> Any:
        if isgeneratorfunction(function) or iscoroutinefunction(function) or isasyncgenfunction(function):
            raise TypeError(
                f"no_grad() and enable_grad() cannot decorate {function.__name__}(), a generator or coroutine, "
                "whose body runs after the call; write `with` blocks inside it that contain no yield and no await"
            )
        return super().__call__(function)


# ---- Recording ----


def no_grad() -> _Setting:
    """Context manager and decorator: ops inside are not recorded and save nothing."""
    return _Setting("recording", False)


def enable_grad() -> _Setting:
    """Context manager and decorator: record ops, also inside a `no_grad` block."""
    return _Setting("recording", True)


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread now."""
    return state.recording


# ---- Watching ----


class Watcher:
    """Base class of objects whose methods are called around every op, such as the profiler and `checkpoint`.

    Watchers nest: `before_…` methods are called from the outermost watcher to the innermost, `after_…` methods in the
    reverse order.
    """

    needs_arrays = True  # False: a gradient in `after_backward` may be a RowGradient

    def before_forward(self, op: Op, arrays: Sequence[Array]) -> None:
        """`op` is about to compute its outputs from `arrays`."""

    def after_forward(self, op: Op, outputs: Sequence[Array]) -> None:
        """`op` has computed `outputs`; the arrays that it saved are `op.saved_arrays`."""

    def after_error(self, op: Op) -> None:
        """The forward pass of `op` has raised an error, which the caller will get."""

    def after_record(self, op: Op, inputs: Sequence[Any]) -> None:
        """`op`, called with `inputs`, is now a node of the graph: its outputs require a gradient."""

    def before_backward_pass(self) -> None:
        """A backward pass begins."""

    def before_backward(self, op: Op, g_outputs: Sequence[Array]) -> None:
        """`op` is about to compute the gradients of its inputs from `g_outputs`."""

    def after_backward(self, op: Op, g_inputs: Sequence[Array | None]) -> None:
        """`op` has computed `g_inputs`; they are checked, and summed over broadcast axes."""

    def after_allocation(self, gradient: Array) -> None:
        """`gradient` is an array that the engine made: a sum of gradients, or an array of a RowGradient."""

    def after_leaf(self, leaf: Tensor, gradient: Array) -> None:
        """`gradient` is the complete gradient of `leaf` in this backward pass."""

    def after_backward_pass(self) -> None:
        """The backward pass has ended, perhaps in an error."""


@contextmanager
def watch(watcher: Watcher) -> Iterator[Watcher]:
    """Context manager: call `watcher` around every op of this thread, in addition to the watchers around it."""
    with _Setting("watchers", (*state.watchers, watcher)):
        yield watcher


@contextmanager
def backward_pass_watched() -> Iterator[None]:
    """Context manager and decorator: tell all watchers when a backward pass begins and ends."""
    watchers = state.watchers
    for watcher in watchers:
        watcher.before_backward_pass()
    try:
        yield
    finally:
        for watcher in reversed(watchers):
            watcher.after_backward_pass()
