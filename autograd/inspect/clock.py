"""A clock that gives every moment to exactly one row: that of the innermost thing that runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Literal

Phase = Literal["forward", "backward", "other"]


@dataclass
class Row:
    """What one kind of thing took; the times of all rows add up to the time on the clock."""

    name: str
    calls: int = 0  # of forward passes, or of what is neither forward nor backward
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    other_ms: float = 0.0  # neither forward nor backward
    saved_bytes: int = 0  # memory kept for the backward pass; what several ops keep is counted once
    flops: float = 0.0  # floating-point operations, forward and backward

    @property
    def total_ms(self) -> float:
        return self.forward_ms + self.backward_ms + self.other_ms

    def spend(self, phase: Phase, ms: float) -> None:
        """Count time in."""
        if phase == "forward":
            self.forward_ms += ms
        elif phase == "backward":
            self.backward_ms += ms
        else:
            self.other_ms += ms

    def add(self, other: Row) -> None:
        """Count all of another row in."""
        self.calls += other.calls
        self.forward_ms += other.forward_ms
        self.backward_ms += other.backward_ms
        self.other_ms += other.other_ms
        self.saved_bytes += other.saved_bytes
        self.flops += other.flops


@dataclass
class Slice:
    """A stretch of time with a name, for the trace; slices lie inside or beside each other."""

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
    """Begin and end things in any depth, between `pause` and `resume`: the time in between is the clock's own."""

    def __init__(self, outside: Row, own: Row) -> None:
        self.slices: list[Slice] = []
        self._outside, self._own = outside, own
        self._stack: list[_Running] = []
        self.start_s = self._last_s = time.perf_counter()

    def pause(self) -> float:
        """The time up to now goes to what runs; returns now."""
        now = time.perf_counter()
        ms = (now - self._last_s) * 1e3
        if self._stack:
            self._stack[-1].row.spend(self._stack[-1].phase, ms)
        else:
            self._outside.spend("other", ms)
        self._last_s = now
        return now

    def resume(self) -> None:
        """The time since `pause` was spent on keeping books."""
        now = time.perf_counter()
        self._own.spend("other", (now - self._last_s) * 1e3)
        self._last_s = now

    def begin(self, key: object, row: Row, phase: Phase, name: str, kind: str, details: dict[str, Any]) -> None:
        """From now on, time goes to `row`, until `end` of the same key or until something begins inside."""
        started = Slice(name, kind, self._last_s, details=details)
        self.slices.append(started)
        self._stack.append(_Running(key, row, phase, started))

    def end(self, key: object) -> Slice | None:
        """End what began under `key`, and what began inside it and was left by an error; None if nothing did."""
        if not any(running.key is key for running in self._stack):
            return None
        while True:
            running = self._stack.pop()
            running.slice.end_s = self._last_s
            if running.key is key:
                return running.slice

    def end_all(self) -> None:
        """End whatever runs."""
        for running in self._stack:
            running.slice.end_s = self._last_s
        self._stack.clear()
