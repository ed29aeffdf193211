"""Stopping when asked: SIGINT is Ctrl-C, SIGTERM comes from `kill` and batch systems, SIGHUP when a terminal closes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], None]


class TerminationInterrupt(KeyboardInterrupt):
    """SIGTERM or SIGHUP; Ctrl-C is a plain KeyboardInterrupt, and what tidies up after one does so after the other."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """128 + the signal's number, as a shell reports a process that a signal has ended: 130, 143 or 129."""
    return 128 + (interrupt.number if isinstance(interrupt, TerminationInterrupt) else signal.SIGINT)


def without_traceback() -> None:
    """Let SIGINT end the process at once, as SIGTERM does, until `interrupting` answers both.

    For a program's first line: Python's own handler would print a traceback of what is being imported just then, or
    being cleared away at the end.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as our parent may want it
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def interrupting() -> Iterator[None]:
    """Inside its `with` block, all three signals raise a KeyboardInterrupt, so that half-written files are removed."""
    previous = _handle(_interrupt)
    try:
        yield
    finally:
        _restore(previous)


class _Shelter:
    """Whether an interrupt has to wait, and the one that does."""

    depth = 0
    waiting: int | None = None


_shelter = _Shelter()


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Inside its `with` block nothing is interrupted; an interrupt that comes meanwhile is raised at the end.

    For what must not be left halfway: a library in C that is being imported prints a traceback of a KeyboardInterrupt
    and calls it an ImportError; the import system and ctypes call back from places where Python can but print it.
    """
    if threading.current_thread() is not threading.main_thread():  # which no signal interrupts
        yield
        return
    _shelter.depth += 1
    try:
        yield
    finally:
        _shelter.depth -= 1
        if _shelter.waiting is not None and not _shelter.depth:
            number, _shelter.waiting = _shelter.waiting, None
            _interrupt(number, None)


class StopRequest:
    """Inside its `with` block, the first signal only sets `received`; the second one interrupts at once."""

    def __init__(self, shared: bool = False) -> None:
        """
        shared: with other processes; all stop at the same step, at which they have agreed to
        """
        self.received: signal.Signals | None = None
        self._shared = shared
        self._agreed = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        self._previous = _handle(self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _restore(self._previous)

    def __bool__(self) -> bool:
        return bool(self._agreed) if self._shared else self.received is not None

    def agree(self, numbers: Iterable[int]) -> None:
        """Stop for the first signal that any process has received; 0 stands for none."""
        self._agreed = next(filter(None, [self._agreed, *numbers]), 0)

    @property
    def exit_status(self) -> int:
        """128 + the signal's number; 0 if none came."""
        number = self._agreed if self._shared else self.received
        return 128 + number if number else 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            _interrupt(number, frame)
        self.received = signal.Signals(number)
        _write(f"\n{self.received.name}: finishing this step and saving; once more to stop at once\n")


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _shelter.depth:
        _shelter.waiting = number
        return
    raise KeyboardInterrupt if number == signal.SIGINT else TerminationInterrupt(number)


def _handle(handler: Handler) -> dict[signal.Signals, Any]:
    """Install a handler; gives what was there. What our parent ignores, as `nohup` and `&` do, stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # only the main thread may, and only it is interrupted
    handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    return {each: signal.signal(each, handler) for each in handled}


def _restore(previous: dict[signal.Signals, Any]) -> None:
    for each, handler in previous.items():
        signal.signal(each, handler)


def _write(text: str) -> None:
    """Print from a handler: it may have interrupted a `print`, inside which Python's buffered files refuse another."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # closed, or its reader has gone
            os.write(sys.stderr.fileno(), text.encode())
