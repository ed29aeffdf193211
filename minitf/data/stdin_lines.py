"""Lines of standard input, and whether the next one has already arrived."""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Iterator

from minitf.system.files import os_errors_explained

READ_BYTES = 1 << 16


class StdinLines:
    """Iterator over the raw lines of a file descriptor, each with its `\\n`, as `lines_of` expects them.

    Python's buffered files cannot tell whether reading the next line would block; a translator needs to know, in order
    to answer a person line by line and a file by the thousand.
    """

    def __init__(self, descriptor: int, longest: int = 1 << 60):
        """
        longest: bytes of a line, of which no more are kept
        """
        self._descriptor = descriptor
        self._longest = longest
        self._lines: deque[bytes] = deque()
        self._begun: list[bytes] = []  # parts of a line whose end has not arrived
        self._begun_bytes = 0
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while True:
            while not (self._lines or self._ended):
                self._read()
            if not self._lines:
                return
            yield self._lines.popleft()

    def must_wait(self) -> bool:
        """Whether reading the next line, or the end, would block. Reads what has arrived."""
        while not (self._lines or self._ended):
            if not select.select([self._descriptor], [], [], 0)[0]:
                return True
            self._read()
        return False

    def _read(self) -> None:
        with os_errors_explained("read standard input"):
            data = os.read(self._descriptor, READ_BYTES)
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._lines.append(b"".join([*self._begun, part, b"\n"]))
            self._begun, self._begun_bytes = [], 0
        if rest:
            self._begun.append(rest)
            self._begun_bytes += len(rest)
            if self._begun_bytes > self._longest:  # a line too long is handed on as it is, and refused
                self._lines.append(b"".join(self._begun))
                self._begun, self._begun_bytes = [], 0
        if not data:
            self._ended = True
            if self._begun:
                self._lines.append(b"".join(self._begun))
