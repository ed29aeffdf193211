"""Stopping when asked: Ctrl-C and SIGTERM let the step finish, so that the run can save and end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Inside its `with` block, the first signal only sets `received`; the second one stops at once."""

    def __init__(self, say: Callable[[str], None]):
        self.received: signal.Signals | None = None
        self._say = say
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        self._previous = {each: signal.signal(each, self._on_signal) for each in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for each, previous in self._previous.items():
            signal.signal(each, previous)

    def __bool__(self) -> bool:
        return self.received is not None

    @property
    def exit_status(self) -> int:
        """128 + the signal's number, as a shell reports it; 0 if none came."""
        return 0 if self.received is None else 128 + self.received

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise SystemExit(128 + number)
        self.received = signal.Signals(number)
        self._say(f"{self.received.name}: finishing this step and saving; once more to stop at once")
