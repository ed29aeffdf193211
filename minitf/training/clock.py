"""The clock of a run."""

from __future__ import annotations

import math
import time


class Clock:
    """Seconds spent in the training loop, over all resumptions, and the time limit of the run."""

    def __init__(self, elapsed_s: float, max_minutes: float | None, shared: bool = False):
        """
        elapsed_s: time spent before this start
        shared: show the time set by `follow` instead of this process's, so that all ranks come to the same decisions
        """
        self._before_s = elapsed_s
        self._start_s = time.perf_counter()
        self._limit_s = math.inf if max_minutes is None else max_minutes * 60
        self._followed_s = elapsed_s if shared else None

    @property
    def elapsed_s(self) -> float:
        return self.own_s if self._followed_s is None else self._followed_s

    @property
    def own_s(self) -> float:
        """Elapsed time by the clock of this process."""
        return self._before_s + time.perf_counter() - self._start_s

    def follow(self, elapsed_s: float) -> None:
        """Set the elapsed time of a shared clock: rank 0's."""
        self._followed_s = elapsed_s

    @property
    def is_up(self) -> bool:
        """True once the time limit is reached."""
        return self.elapsed_s >= self._limit_s

    def remaining_s(self, step: int, max_steps: int) -> float:
        """Estimate the seconds left, from the mean time of a step and the time limit."""
        by_steps = (max_steps - step) * self.elapsed_s / step if step else math.inf
        return max(0.0, min(by_steps, self._limit_s - self.elapsed_s))
