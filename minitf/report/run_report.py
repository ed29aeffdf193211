"""Update report.html of a run during training."""

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
from minitf.system.held_folder import check_place

SHARE = 0.005  # largest share of the time that is spent on the page
SOONEST_S = 2.0  # shortest time between two writes


class RunReport:
    """Context manager of a run's page: call `refresh` during training and `end` at its end.

    parameters: number of parameters of the model
    writes: whether this process writes the page; only rank 0 does
    The page shows the log, which is truncated to the checkpoint when a run resumes, and is written atomically.
    """

    def __init__(self, directory: RunDirectory, config: RunConfig, *, parameters: int, writes: bool = True):
        self.directory, self.config, self.parameters, self.writes = directory, config, parameters, writes
        self._log = LogSeries(directory.log_path)
        self._not_before = 0.0
        self._ended = False

    def refresh(self) -> None:
        """Write the page unless it was written a moment ago.  Raises: UserError if the file cannot be written."""
        if time.perf_counter() >= self._not_before:
            self._write(RUNNING)

    def end(self, status: str, note: str = "") -> None:
        """Write the page with its final status."""
        self._ended = True
        self._write(status, note)

    def _write(self, status: str, note: str = "") -> None:
        if not self.writes:
            return
        start = time.perf_counter()
        try:
            self._log.read_on()
        except UserError:
            check_place(self.directory.log_path)  # the log of another run, which has taken the place of this one
            raise
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
        with suppress(UserError):  # report the error that ended the block
            if isinstance(error, KeyboardInterrupt):
                self.end(STOPPED, "interrupted")
            else:
                self.end(FAILED, str(error))
