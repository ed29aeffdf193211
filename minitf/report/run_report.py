"""Keeps report.html of a run up to date while it trains."""

from __future__ import annotations

import time
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from minitf.errors import UserError
from minitf.report.page import write_page
from minitf.report.run_page import FAILED, RUNNING, STOPPED, run_page
from minitf.report.series import LogSeries
from minitf.storage.run_directory import RunLog

if TYPE_CHECKING:
    from minitf.training.run import Run

SHARE = 0.005  # of the time, at most, goes into the page
SOONEST_S = 2.0  # between two writes


class RunReport:
    """`with RunReport(run) as report`: `refresh` now and then, `end` in the end.

    The page is made from the log, which a resumed run has cut to its checkpoint, so it never shows what was undone. It
    appears whole or not at all.
    """

    def __init__(self, run: Run):
        self.run = run
        self._log = LogSeries(run.directory.log_path)
        self._is_ours = isinstance(run.log, RunLog)  # only the process that writes the log writes the page
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
        if not self._is_ours:
            return
        start = time.perf_counter()
        directory = self.run.directory
        self._log.read_on()
        parameters = self.run.model.parameter_count()
        text = run_page(self._log, self.run.config, str(directory.path), status, note=note, parameters=parameters)
        write_page(directory.report_path, text)
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
