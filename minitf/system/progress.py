"""The progress of a run on standard error: a bar on a terminal, plain lines elsewhere; and durations in words."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Any, Self

from minitf.system.process import Say, put, say, silent

__all__ = ["clock"]


def clock(seconds: float) -> str:
    """Format a duration: 75.2 -> "1:15"; with hours from one hour on; "?" for infinity."""
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def duration(seconds: float) -> str:
    """Format a duration in words: "50 s", "45 min", "6 h 30 min", "3 d 4 h"; "?" for infinity."""
    if seconds == float("inf"):
        return "?"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(minutes / 60)
    return f"{hours // 24} d {hours % 24} h"


REDRAW_S = 0.1  # shortest time between two drawings of the bar
NARROWEST, WIDEST = 5, 24  # columns of the bar between its ends
NOTEBOOK_COLUMNS = 100
NARROWEST_TERMINAL = 20  # columns: with fewer, lines are printed


class Progress:
    """A line on the terminal that shows how far a run is, below the lines that `say` prints.

    Where standard error is not a terminal, or one without a size, there is no such line, and `update` prints a line for
    every record. With `shown=False`, neither is shown.  tell: prints the lines of `say`; default: on standard error
    """

    def __init__(self, total: int, start: int, shown: bool = True, tell: Say | None = None):
        self.bleu: float | None = None  # of the last validation that measured it
        self._total, self._step = total, start
        self._share = start / total
        self._say = tell or (say if shown else silent)
        self._shown = shown
        self._on_terminal = shown and terminal_columns() >= NARROWEST_TERMINAL
        self._left = ""
        self._figures: list[str] = []
        self._drawn, self._drawn_at_s = "", -math.inf

    def say(self, text: str) -> None:
        """Print a line, above the bar."""
        if self._on_terminal:
            put(f"\r{' ' * len(self._drawn)}\r")
            self._drawn = ""
        self._say(text)
        self._draw()

    def step(
        self, share: float | None = None, remaining_s: float | None = None, means: dict[str, Any] | None = None
    ) -> None:
        """Count one step.

        share: of the run, from 0 to 1, that is done; default: steps over all steps
        remaining_s: the remaining time; default: that of the last `step` or `update`
        means: figures as `update` has them, since its last record
        """
        self._step += 1
        if remaining_s is not None:
            self._left = f"{clock(remaining_s)} left"
        if means is not None:
            self._set_figures(means)
        self._share = self._step / self._total if share is None else share
        if time.monotonic() - self._drawn_at_s >= REDRAW_S:
            self._draw()

    def update(self, record: dict[str, Any], remaining_s: float) -> None:
        """Show the figures of a log record and the remaining time."""
        self._left = f"{clock(remaining_s)} left"
        self._set_figures(record)
        if self._on_terminal:
            self._draw()
        elif self._shown:
            self._say("  ".join([f"step {record['step']:,}", *self._figures, self._left]))

    def _set_figures(self, record: dict[str, Any]) -> None:
        self._figures = [f"loss {record['loss']:.3f}", f"ppl {record['perplexity']:.2f}"]
        if self.bleu is not None:
            self._figures.append(f"BLEU {self.bleu:.1f}")
        self._figures += [f"{record['target_tokens_per_s']:,.0f} tokens/s", f"lr {record['learning_rate']:.1e}"]

    def _draw(self) -> None:
        if not self._on_terminal:
            return
        columns = terminal_columns() - 1  # the last column would move the cursor to the next line
        text = bar_line(self._left, self._share, f"{self._step:,}/{self._total:,}", self._figures, columns)
        put(f"\r{text.ljust(min(len(self._drawn), columns))}")
        self._drawn, self._drawn_at_s = text, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._draw()
        if self._drawn:
            put("\n")


def bar_line(left: str, share: float, steps: str, figures: list[str], columns: int) -> str:
    """The remaining time, the share that is done, and as many of the other figures as fit, each whole; then the bar."""
    share = min(max(share, 0.0), 1.0)
    parts = [left, f"{math.floor(100 * share)} %", steps, *figures]
    parts = [part for part in parts if part]
    between = "  " if len("  ".join(parts)) <= columns else " "
    while len(between.join(parts)) > columns and len(parts) > 1:
        parts.pop()
    text = between.join(parts)[:columns]
    width = min(columns - len(text) - len(" ||"), WIDEST)
    if width < NARROWEST:
        return text
    full = round(width * share)
    mark = "█" if sys.stderr is not None and str(sys.stderr.encoding).lower().startswith("utf") else "#"
    return f"{text} |{mark * full}{' ' * (width - full)}|"


def terminal_columns() -> int:
    """Return the width of the terminal that standard error is; 0 if it is none, or says nothing of its size."""
    if type(sys.stderr).__module__ == "ipykernel.iostream":
        return NOTEBOOK_COLUMNS  # Jupyter's stream obeys carriage returns, and has no size
    try:
        if sys.stderr is None or not sys.stderr.isatty():
            return 0
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        return 0
