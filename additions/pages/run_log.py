"""What others see of a run while it trains: its log, and whether a process still trains it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from minitf.errors import UserError
from minitf.storage.run_directory import LOCK_NAME, RunDirectory
from minitf.system.files import locked, open_regular, os_errors_explained, parse_json_object

MAX_LINE_BYTES = 2**16
"""Size of a line of the log; a run writes lines of some hundred bytes."""

T = TypeVar("T")


def is_training(run: RunDirectory) -> bool:
    """Return whether a process holds the run's lock."""
    place = run.path / LOCK_NAME
    if not place.exists() or not os.access(place, os.W_OK):
        return False
    with locked(place, wait_s=0) as free:
        return not free


def read_log(path: Path) -> list[dict[str, Any]]:
    """Read the records of a log, except for an incomplete last line.

    Raises: UserError for a file that cannot be read and for a line that is too long or not a JSON object, with its
    number.
    """
    return [record for record, _ in parsed_lines(path, parse_json_object)]


def parsed_lines(
    path: Path, parse: Callable[[bytes], T], offset: int = 0, first_number: int = 1
) -> Iterator[tuple[T, int]]:
    """Yield what `parse` makes of each complete line of a log after `offset`, and the offset of the line's end.

    first_number: of the line at `offset`

    Raises: UserError for a file that cannot be read, and for a line of more than MAX_LINE_BYTES or for which `parse`
    raises a ValueError, with its number.
    """
    with os_errors_explained(f"read {path}"), open_regular(Path(path)) as file:
        file.seek(offset)
        number = first_number
        while (line := file.readline(MAX_LINE_BYTES + 1)).endswith(b"\n") or len(line) > MAX_LINE_BYTES:
            try:
                if len(line) > MAX_LINE_BYTES:
                    raise ValueError(f"it has more than {MAX_LINE_BYTES:,} bytes, which no run writes; remove the line")
                record = parse(line)
            except ValueError as error:
                raise UserError(f"{path}, line {number}: {error}") from error
            offset += len(line)
            number += 1
            yield record, offset
