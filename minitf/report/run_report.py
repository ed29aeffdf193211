"""Keeps report.html of a run up to date while it trains."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from minitf.config import RunConfig
from minitf.errors import UserError
from minitf.report.page import write_page
from minitf.report.run_page import FAILED, RUNNING, STOPPED, run_page
from minitf.report.series import LogSeries
from minitf.storage.run_directory import RunDirectory

SHARE = 0.005  # of the time, at most, goes into the page
SOONEST_S = 2.0  # between two writes


class RunReport:
    """`with RunReport(…) as report`: `refresh` now and then, `end` in the end.

    parameters: of the model; writes: false in all processes but the one that writes the log
    The page is made from the log, which a resumed run has cut to its checkpoint, so it never shows what was undone. It
    appears whole or not at all.
    """

    def __init__(self, directory: RunDirectory, config: RunConfig, *, parameters: int, writes: bool = True):
        self.directory, self.config, self.parameters, self.writes = directory, config, parameters, writes
        self._log = LogSeries(directory.log_path)
        self._not_before = 0.0
        self._ended = False

    def refresh(self) -> None:
        """Write the page anew, unless that was done a moment ago.  Raises: UserError where the system refuses."""
        if time.perf_counter() >= self._not_before:
            self._write(RUNNING)

    def end(self, status: str, note: str = "") -> None:
        """Write the page for the last time."""
        self._ended = True
        self._write(status, note)

    def _write(self, status: str, note: str = "") -> None:
        if not self.writes:
            return
        start = time.perf_counter()
        self._log.read_on()
        name = str(self.directory.path)
        text = run_page(self._log, self.config, name, status, note=note, parameters=self.parameters)
        write_page(self.directory.report_path, text)
        now = time.perf_counter()
        self._not_before = now + max(SOONEST_S, (now - start) / SHARE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or self._ended:
            return
        with suppress(UserError):  # the error that brought us here is the one to report
            if isinstance(error, KeyboardInterrupt):
                self.end(STOPPED, "interrupted")
            else:
                self.end(FAILED, str(error))
