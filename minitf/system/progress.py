"""The progress of a run on standard error: one line, drawn again, on a terminal, and lines elsewhere; durations."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Any, Self

from minitf.system.process import Say, put, say, silent

__all__ = ["clock"]

REDRAW_S = 0.1
"""Shortest time between two drawings of the line."""


def clock(seconds: float) -> str:
    """Format a duration: 75.2 -> "1:15"; with hours from one hour on; "?" for infinity."""
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """A line on the terminal that shows how far a run is, below the lines that `say` prints.

    Where standard error is no terminal, `update` prints a line for every record. With `shown=False`, neither is shown.
    tell: prints the lines of `say`; default: on standard error
    """

    def __init__(self, total: int, start: int, shown: bool = True, tell: Say | None = None):
        self.bleu: float | None = None  # of the last validation that measured it
        self._total, self._step = total, start
        self._say = tell or (say if shown else silent)
        self._shown = shown
        self._on_terminal = shown and sys.stderr is not None and sys.stderr.isatty()
        self._drawn, self._drawn_at_s = "", -math.inf

    def say(self, text: str) -> None:
        """Print a line, in the place of the one that is drawn again by the next step."""
        if self._drawn:
            put(f"\r{' ' * len(self._drawn)}\r")
            self._drawn = ""
        self._say(text)

    def step(self, share: float, remaining_s: float, means: dict[str, Any]) -> None:
        """Count one step.

        share: of the run that is done, from 0 to 1
        means: figures as `update` has them, since its last record
        """
        self._step += 1
        if self._on_terminal and time.monotonic() - self._drawn_at_s >= REDRAW_S:
            left = f"{clock(remaining_s)} left"
            text = "  ".join([left, f"{100 * share:.0f} %", f"{self._step:,}/{self._total:,}", *self._figures(means)])
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            text = text[: columns - 1]  # the last column would move to the next line
            put(f"\r{text.ljust(len(self._drawn))}")
            self._drawn, self._drawn_at_s = text, time.monotonic()

    def update(self, record: dict[str, Any], remaining_s: float) -> None:
        """Show the figures of a log record and the remaining time, where there is no terminal."""
        if self._shown and not self._on_terminal:
            self._say("  ".join([f"step {record['step']:,}", *self._figures(record), f"{clock(remaining_s)} left"]))

    def _figures(self, record: dict[str, Any]) -> list[str]:
        figures = [f"loss {record['loss']:.3f}", f"ppl {record['perplexity']:.2f}"]
        if self.bleu is not None:
            figures.append(f"BLEU {self.bleu:.1f}")
        return [*figures, f"{record['target_tokens_per_s']:,.0f} tokens/s", f"lr {record['learning_rate']:.1e}"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            put("\n")
