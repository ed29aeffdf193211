"""The log of a run: a file of JSON lines."""

import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

from minitf.errors import UserError
from minitf.system.files import open_regular, os_errors_explained, parse_json_object

__all__ = ["parsed_lines"]

MAX_LINE_BYTES = 2**16
"""Size of a line of the log; a run writes lines of some hundred bytes."""

T = TypeVar("T")


class RunLog:
    """Append-only file of complete JSON lines; opening it cuts off an incomplete last line."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with os_errors_explained(f"open {path}"):
            self._file = open(path, "ab+", buffering=0)  # noqa: SIM115 (closed by `close`)
        if os.fstat(self._file.fileno()).st_nlink > 1:
            self.close()
            raise UserError(f"{path} has another name (a hard link), whose content would change; replace it by a copy")
        self._file.truncate(self._end_of_whole_lines(self.offset))

    @property
    def offset(self) -> int:
        """Size in bytes, which a checkpoint stores for `truncate_to`."""
        return os.fstat(self._file.fileno()).st_size

    def append(self, record: dict[str, Any]) -> None:
        """Write one line. Numbers that JSON lacks become the strings "nan", "inf" and "-inf", which `float` accepts."""
        line = json.dumps(_without_non_finite(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with os_errors_explained(f"write {self.path}"):
            start = self.offset
            try:
                written = 0
                while written < len(line):  # where the disk is nearly full, a part is written, and only the rest fails
                    written += self._file.write(line[written:])
            except BaseException:
                self._file.truncate(start)
                raise

    def sync(self) -> None:
        """Flush all lines to the disk; call before saving a checkpoint that stores `offset`."""
        with os_errors_explained(f"write {self.path}"):
            os.fsync(self._file.fileno())

    def truncate_to(self, offset: int, warn: Callable[[str], None]) -> None:
        """Delete the lines after `offset`, which a resumed run writes again. A shorter log is left as it is."""
        size = self.offset
        if size < offset:
            warn(f"{self.path} has {size} bytes, but had {offset} at the checkpoint: some of its lines are lost")
        elif self._end_of_whole_lines(offset) != offset:
            raise UserError(
                f"{self.path} has no end of line at byte {offset}: it was edited; move it to another place to continue"
            )
        else:
            with os_errors_explained(f"write {self.path}"):
                self._file.truncate(offset)

    def close(self) -> None:
        """Close the file; nothing happens the second time."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_of_whole_lines(self, end: int) -> int:
        """Return the last offset up to `end` at which a line ends, or 0."""
        block = 1 << 16
        while end > 0:
            start = max(0, end - block)
            self._file.seek(start)
            newline = self._file.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0


class NoLog:
    """The log of a non-zero rank: writes nothing."""

    offset = 0

    def append(self, record: dict[str, Any]) -> None:
        pass

    def sync(self) -> None:
        pass

    def truncate_to(self, offset: int, warn: Callable[[str], None]) -> None:
        pass


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


def _without_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, dict):
        return {key: _without_non_finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_non_finite(part) for part in value]
    return value
