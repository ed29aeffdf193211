"""What a person watches: one line on a terminal, plain lines elsewhere. No one has to: training goes on unwatched."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from minitf.system.signals import uninterrupted

Say = Callable[[str], None]
"""A function that prints a line for the user, such as `say`."""


def say(text: str) -> None:
    """Print a line on standard error. Where that is closed, or its reader has gone, nobody hears it."""
    if sys.stderr is None:  # closed from the start; print(file=None) would write to standard output
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # what is left in the buffer must not fail again when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def silent(text: str) -> None:
    """What `say` is to a process that another one speaks for."""


class Progress:
    """A bar over the steps of a run on standard error; `say` prints a line above it.

    Where standard error is no terminal, the bar is left out and `update` prints a line for every record.
    """

    def __init__(self, total: int, start: int):
        with uninterrupted():
            from tqdm import tqdm

        self._on_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = tqdm(
            total=total,
            initial=start,
            unit="step",
            dynamic_ncols=True,
            disable=not self._on_terminal,
            bar_format="{percentage:3.0f}% |{bar:20}| {n_fmt}/{total_fmt} {postfix}",
        )

    def say(self, text: str) -> None:
        """Print a line without disturbing the bar."""
        if not self._on_terminal:
            say(text)
            return
        with self._bar.external_write_mode(file=sys.stderr):
            say(text)

    def step(self) -> None:
        """One step is done."""
        self._bar.update(1)

    def update(self, record: dict[str, Any], remaining_s: float) -> None:
        """Show the figures of a log record and the time left."""
        text = (
            f"loss {record['loss']:.3f}  ppl {record['perplexity']:.2f}  "
            f"{record['target_tokens_per_s']:,.0f} tokens/s  "
            f"lr {record['learning_rate']:.2e}  {clock(remaining_s)} left"
        )
        if self._on_terminal:
            self._bar.set_postfix_str(text)
        else:
            say(f"step {record['step']:,}  {text}")

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.close()


class Silence(Progress):
    """The progress of a process that another one speaks for."""

    def __init__(self) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def step(self) -> None:
        pass

    def update(self, record: dict[str, Any], remaining_s: float) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass


def clock(seconds: float) -> str:
    """75.2 -> "1:15"; hours where there are any; "?" for a time that nobody knows yet."""
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
