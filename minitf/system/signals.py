"""Signals that stop a program: SIGINT (Ctrl-C), SIGTERM (`kill`, batch systems) and SIGHUP (a closed terminal)."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REPEAT_S = 1.0  # a signal to all processes of a job reaches a rank twice: directly, and through the launcher
Handler = Callable[[int, FrameType | None], None]


class TerminationInterrupt(KeyboardInterrupt):
    """SIGTERM or SIGHUP, handled by all code that handles the KeyboardInterrupt of Ctrl-C."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """128 + the signal's number, as shells report a process that was ended by a signal: 130, 143 or 129."""
    return 128 + (interrupt.number if isinstance(interrupt, TerminationInterrupt) else signal.SIGINT)


def without_traceback() -> None:
    """Let SIGINT end the process at once, as SIGTERM does, until `interrupting` handles both.

    Call it in a program's first line: Python's own handler would print a traceback of the import in progress, or of the
    cleanup at the end.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if our parent made us ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def interrupting() -> Iterator[None]:
    """Context manager in which all three signals raise a KeyboardInterrupt, so that partial files are removed."""
    previous = _handle(_interrupt)
    try:
        yield
    finally:
        _restore(previous)


class _Deferral:
    """Nesting depth of `uninterrupted`, and the signal that arrived inside it."""

    depth = 0
    pending: int | None = None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Context manager that defers interrupts to its end.

    Imports need it: an extension module turns a KeyboardInterrupt during its import into a traceback and an
    ImportError, and from callbacks of the import system and of ctypes Python can only print it. The commands of
    `minitf.app` import everything that their work needs inside one such block.
    """
    if threading.current_thread() is not threading.main_thread():  # signals interrupt the main thread only
        yield
        return
    _Deferral.depth += 1
    try:
        yield
    finally:
        _Deferral.depth -= 1
        if _Deferral.pending is not None and not _Deferral.depth:
            number, _Deferral.pending = _Deferral.pending, None
            _interrupt(number, None)


class StopRequest:
    """Context manager in which the first signal only sets `received`, and the second one interrupts at once.

    If it is shared, the same signal within REPEAT_S does not count as a second one.
    """

    def __init__(self, shared: bool = False) -> None:
        """shared: all ranks stop at the same step, the one at which `agree` sets the signal"""
        self.received: signal.Signals | None = None
        self._received_s = 0.0
        self._shared = shared
        self._agreed = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        self._previous = _handle(self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        _restore(self._previous)

    def __bool__(self) -> bool:
        return bool(self._agreed) if self._shared else self.received is not None

    def agree(self, numbers: Iterable[int]) -> None:
        """Stop for the first signal in `numbers`, those that the ranks have received; 0: none."""
        self._agreed = next(filter(None, [self._agreed, *numbers]), 0)

    @property
    def exit_status(self) -> int:
        """128 + the signal's number; 0 if none was received."""
        number = self._agreed if self._shared else self.received
        return 128 + number if number else 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.received is not None:
            if not self._shared or number != self.received or now > self._received_s + REPEAT_S:
                _interrupt(number, frame)
            return
        self.received, self._received_s = signal.Signals(number), now
        _write(f"\n{self.received.name}: finishing this step and saving; once more to stop at once\n")


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _Deferral.depth:
        _Deferral.pending = number
        return
    raise KeyboardInterrupt if number == signal.SIGINT else TerminationInterrupt(number)


def _handle(handler: Handler) -> dict[signal.Signals, Any]:
    """Install a handler; return the previous ones. Signals that our parent ignores (`nohup`, `&`) stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # only the main thread may install handlers
    handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    return {each: signal.signal(each, handler) for each in handled}


def _restore(previous: dict[signal.Signals, Any]) -> None:
    for each, handler in previous.items():
        signal.signal(each, handler)


def _write(text: str) -> None:
    """Print from a handler, which may have interrupted a `print`: Python's buffered files are not reentrant."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # closed, or its reader has gone
            os.write(sys.stderr.fileno(), text.encode())
