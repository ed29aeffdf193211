"""Errors that a user can correct, and functions that format their messages."""

import difflib
from collections.abc import Iterable
from typing import ClassVar

__all__ = ["UserError", "nearest", "shortened"]


class UserError(ValueError):
    """Invalid input. The message is one sentence that names the input and says what to do.

    Command lines print `error: …` and exit with `exit_status`, without a traceback.
    """

    exit_status: ClassVar[int] = 2


def shortened(text: str, most: int = 200) -> str:
    """Omit the middle of a long text: `aaa… (5,000 characters) …aaa`."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}… ({len(text):,} characters) …{text[-most // 4 :]}"


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return `; did you mean a or b?`, or an empty string if no valid name is close."""
    close = difflib.get_close_matches(name, list(valid), n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else ""
