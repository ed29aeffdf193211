"""`minitf report RUN`: write report.html, the learning curves of a run, from its log, also while it is training."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.storage.run_directory import LOCK_NAME, RunDirectory
from minitf.system.files import os_errors_explained
from minitf.system.process import uninterrupted


def main(argv: Sequence[str]) -> None:
    """Write the page, and print its path."""
    parser = ArgumentParser(prog="minitf report", description="Write the learning curves of a run as a page.")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--output", type=Path, metavar="FILE", help="page to write; default: report.html in RUN")
    given = parser.parse_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.report.learning_curves import LogSeries
        from minitf.report.page import write_page
        from minitf.report.run_page import FINISHED, RUNNING, STOPPED, run_page
    directory = RunDirectory.open(given.run)
    output = given.output or directory.report_path
    config = directory.config()
    if not directory.log_path.exists():
        raise UserError(f"{given.run} has no log, as runs that were imported or packed; give one that was trained here")
    log = LogSeries(directory.log_path)
    log.read_on()
    finished = "bleu" in log.newest or log.number("step") >= config.max_steps
    status = RUNNING if is_training(directory) else FINISHED if finished else STOPPED
    write_page(output, run_page(log, config, str(given.run), status))
    print(output)


def is_training(directory: RunDirectory) -> bool:
    """Return whether a process holds the run's lock."""
    place = directory.path / LOCK_NAME
    if not place.exists():
        return False
    with os_errors_explained(f"look at {place}"):
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK)  # it might be a pipe
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
