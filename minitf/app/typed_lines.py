"""Lines typed at a terminal, with a prompt, line editing and history."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from minitf.errors import UserError
from minitf.system.process import say

__all__ = ["typed_lines"]

PROMPT = "> "


def typed_lines() -> Iterator[str]:
    """Yield the lines typed until Ctrl-D.

    Python's `readline`, if available, provides line editing and history for `input`.

    Raises: UserError for bytes that are not in the terminal's encoding
    """
    with suppress(ImportError):  # a Windows console edits lines itself
        import_module("readline")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="strict")
    say("type one sentence per line; arrow keys edit the line and recall earlier ones; Ctrl-D or Ctrl-C quits")
    number = 0
    while True:
        number += 1
        try:
            line = input(PROMPT)
        except EOFError:
            say("")  # the shell's prompt begins a line
            return
        except UnicodeDecodeError as error:
            raise UserError(
                f"standard input, line {number}: {error.reason} for the terminal's encoding, {error.encoding}; set the "
                "terminal to it"
            ) from None
        yield line
