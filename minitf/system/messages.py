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
    put(f"{printable(text)}\n")


def put(text: str) -> None:
    """Write a text to standard error; do nothing if it is closed or its reader has gone."""
    if sys.stderr is None:  # closed from the start
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # the rest of the buffer must not fail again when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Spell out control characters: text of a file must not move the cursor of a terminal, or rename its window."""
    return text.translate(CONTROLS)


def silent(text: str) -> None:
    """Print nothing: `say` of a non-zero rank."""


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
