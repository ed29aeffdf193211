"""Lines that a person types at a terminal, with a prompt, line editing and a history."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module

from minitf.errors import UserError
from minitf.system.process import say

PROMPT = "> "


def typed_lines(errors: str = "strict") -> Iterator[str]:
    """Iterate over the lines that are typed until Ctrl-D.

    Python's `readline`, where there is one, lets `input` edit a line and bring back earlier ones.

    errors: "strict" or "replace", of bytes that are not in the terminal's encoding

    Raises: UserError for such bytes
    """
    with suppress(ImportError):  # a Windows console edits lines itself
        import_module("readline")
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors=errors)
    say("one sentence a line; the arrow keys edit it and bring back earlier ones; Ctrl-D, or Ctrl-C, ends")
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
                "terminal to it, or read such bytes as U+FFFD with --errors replace"
            ) from None
        yield line
