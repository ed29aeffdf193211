"""What a `with` block changes about the ops inside: whether they are recorded, and who watches them go by."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograd.engine import Op
    from autograd.tensor import Tensor

Array = Any  # numpy.ndarray or cupy.ndarray


class _ThreadState(threading.local):
    """What holds in the thread that entered the blocks, and in no other."""

    recording = True
    watchers: tuple[Watcher, ...] = ()  # from the outermost `with watch(…)` to the innermost


state = _ThreadState()


@contextmanager
def _set_state(name: str, value: Any) -> Iterator[Any]:
    before = getattr(state, name)
    setattr(state, name, value)
    try:
        yield value
    finally:
        setattr(state, name, before)


# ---- Recording ----


def no_grad():
    """Context manager (and decorator): ops inside are not recorded and save nothing."""
    return _set_state("recording", False)


def enable_grad():
    """Context manager (and decorator): record again inside a `no_grad` block."""
    return _set_state("recording", True)


def is_grad_enabled() -> bool:
    """Are ops recorded at this point of this thread?"""
    return state.recording


# ---- Watching ----


class Watcher:
    """Sees every op go by; the base of anomaly detection, the profiler and `checkpoint`.  Does nothing by itself.

    Watchers nest: the outermost is the first to see what is about to happen, and the last to see what has happened.
    """

    def before_forward(self, op: Op, arrays: Sequence[Array]) -> None:
        """`op` is about to compute its outputs from `arrays`."""

    def after_forward(self, op: Op, outputs: Sequence[Array]) -> None:
        """`op` has computed `outputs`; what it saved is in `op.saved_arrays`."""

    def after_error(self, op: Op) -> None:
        """The forward pass of `op` has ended in an error, which goes on to the caller."""

    def after_record(self, op: Op, inputs: Sequence[Any]) -> None:
        """`op`, called with `inputs`, is a node of the graph now: its outputs require a gradient."""

    def before_backward_pass(self) -> None:
        """A walk back through a graph begins."""

    def before_backward(self, op: Op, g_outputs: Sequence[Array]) -> None:
        """`op` is about to turn `g_outputs` into the gradients of its inputs."""

    def after_backward(self, op: Op, g_inputs: Sequence[Array | None]) -> None:
        """`op` has computed `g_inputs`, checked and summed over broadcast axes."""

    def after_leaf(self, leaf: Tensor, gradient: Array) -> None:
        """All that this pass sends to `leaf` has arrived, and adds up to `gradient`."""

    def after_backward_pass(self) -> None:
        """The walk is over, or has ended in an error."""


@contextmanager
def watch(watcher: Watcher) -> Iterator[Watcher]:
    """Context manager: `watcher` sees every op of this thread inside the block, besides those that watch already."""
    with _set_state("watchers", (*state.watchers, watcher)):
        yield watcher


@contextmanager
def backward_pass_watched() -> Iterator[None]:
    """Context manager: a backward pass, of which all who watch hear the beginning and the end."""
    watchers = state.watchers
    for watcher in watchers:
        watcher.before_backward_pass()
    try:
        yield
    finally:
        for watcher in reversed(watchers):
            watcher.after_backward_pass()
