"""A clock that assigns every moment to exactly one row: that of the innermost activity, such as an op or a module."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Phase = Literal["forward", "backward", "other"]


@dataclass
class Row:
    """Time and costs of one kind of activity; the times of all rows add up to the clock's."""

    name: str
    calls: int = 0  # of forward passes and other activities, without backward passes
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    other_ms: float = 0.0  # neither forward nor backward
    saved_bytes: int = 0  # memory saved for the backward pass; shared memory is counted once
    flops: float = 0.0  # floating-point operations, forward and backward

    @property
    def total_ms(self) -> float:
        return self.forward_ms + self.backward_ms + self.other_ms

    def spend(self, phase: Phase, ms: float) -> None:
        """Add time."""
        if phase == "forward":
            self.forward_ms += ms
        elif phase == "backward":
            self.backward_ms += ms
        else:
            self.other_ms += ms

    def add(self, other: Row) -> None:
        """Add all of another row."""
        self.calls += other.calls
        self.forward_ms += other.forward_ms
        self.backward_ms += other.backward_ms
        self.other_ms += other.other_ms
        self.saved_bytes += other.saved_bytes
        self.flops += other.flops


@dataclass
class Slice:
    """A time span with a name, for the trace; two slices are nested or disjoint."""

    name: str
    kind: str
    start_s: float
    end_s: float = 0.0
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Running:
    key: object
    row: Row
    phase: Phase
    slice: Slice


class Clock:
    """Begin and end nested activities between `pause` and `resume`; the time in between is the profiler's own."""

    def __init__(self, outside: Row, own: Row) -> None:
        self.slices: list[Slice] = []
        self._outside, self._own = outside, own
        self._stack: list[_Running] = []
        self.start_s = self._last_s = time.perf_counter()

    def pause(self) -> float:
        """Assign the time until now to the running activity; return now."""
        now = time.perf_counter()
        ms = (now - self._last_s) * 1e3
        if self._stack:
            self._stack[-1].row.spend(self._stack[-1].phase, ms)
        else:
            self._outside.spend("other", ms)
        self._last_s = now
        return now

    def resume(self) -> None:
        """Assign the time since `pause` to the profiler."""
        now = time.perf_counter()
        self._own.spend("other", (now - self._last_s) * 1e3)
        self._last_s = now

    def begin(self, key: object, row: Row, phase: Phase, name: str, kind: str, details: dict[str, Any]) -> None:
        """Assign time to `row` from now on, until `end` of the same key, without the activities that begin inside."""
        started = Slice(name, kind, self._last_s, details=details)
        self.slices.append(started)
        self._stack.append(_Running(key, row, phase, started))

    def end(self, key: object) -> Slice | None:
        """End the activity `key`, and those inside it that raised an error; None if it is not running."""
        if not any(running.key is key for running in self._stack):
            return None
        while True:
            running = self._stack.pop()
            running.slice.end_s = self._last_s
            if running.key is key:
                return running.slice

    def end_all(self) -> None:
        """End all activities."""
        for running in self._stack:
            running.slice.end_s = self._last_s
        self._stack.clear()

    def write_trace(self, path: str | Path) -> None:
        """Write all slices in the trace event format, for chrome://tracing and ui.perfetto.dev.

        A slice is a complete event ("ph": "X") with times in microseconds, from which viewers infer the nesting.
        """
        where = {"pid": os.getpid(), "tid": threading.get_ident()}
        events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", **where, "args": {"name": "profile"}}]
        for each in self.slices:
            start_us, length_us = (each.start_s - self.start_s) * 1e6, (each.end_s - each.start_s) * 1e6
            times = {"ts": round(start_us, 3), "dur": round(length_us, 3)}
            events.append({"ph": "X", "name": each.name, "cat": each.kind, **times, **where, "args": each.details})
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False)
        Path(path).write_text(text, encoding="utf-8")
