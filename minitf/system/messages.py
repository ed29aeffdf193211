"""Messages on standard error, which need not be open."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

Say = Callable[[str], None]
"""Print a line for the user."""


def say(text: str) -> None:
    """Print a line on standard error; do nothing if it is closed or its reader has gone."""
    if sys.stderr is None:  # closed from the start; print(file=None) would write to standard output
        return
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # the rest of the buffer must not fail again when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def silent(text: str) -> None:
    """Print nothing: `say` of a non-zero rank."""


def clock(seconds: float) -> str:
    """Format a duration: 75.2 -> "1:15"; with hours from one hour on; "?" for infinity."""
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
