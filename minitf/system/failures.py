"""Explanations of the errors that end a command."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

from minitf.errors import UserError, shortened
from minitf.system.files import explained


def explanation(error: Exception) -> str | None:
    """Return what to tell the user; None for an error of this program, which ends it with a traceback."""
    if isinstance(error, UserError):
        return _legible(error)
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        if name in ("", "autograd", "minitf"):
            return None
        return f"the package {name} is not installed for {sys.executable}; {_how_to_install()}"
    if isinstance(error, MemoryError):
        return lack_of_memory(error)
    return explained(_failed_action(error), error) if isinstance(error, OSError) else None


def lack_of_memory(error: MemoryError) -> str:
    """Explain a lack of memory."""
    details = f" ({error})" if str(error) else ""
    less = "a smaller --max-tokens-per-batch, --beam or model needs less"
    return f"not enough memory{details}; close other programs, or increase the limit of ulimit -v; {less}"


LONGEST_WORD = 1000  # of a message; a longer one is a value or path that a program has made up


def _legible(error: UserError) -> str:
    return re.sub(rf"\S{{{LONGEST_WORD + 1},}}", lambda word: shortened(word[0]), str(error))


def _failed_action(error: OSError) -> str:
    """Describe what failed with an error for which no caller had a better message."""
    if error.filename is not None:
        return f"use {error.filename}"
    if isinstance(error, FileNotFoundError):
        return "use the working directory"
    drop_output()
    return "write to standard output"  # errors of files have names


def drop_output() -> None:
    """Send what standard output still holds nowhere: Python would complain again as it ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _how_to_install() -> str:
    """State how to get the packages that this project needs."""
    folder = Path(__file__).parents[2]
    if (folder / ".venv" / "bin" / "python").exists() and sys.prefix != str(folder / ".venv"):
        return f"activate the environment that has it: . {folder}/.venv/bin/activate"
    return "run `pip install .` in the project's directory, in a virtual environment, or `make demo`, which makes one"
