"""`python -m minitf.report RUN`: write report.html of a run anew from its log, whether or not it is training."""

from __future__ import annotations

import argparse
import fcntl
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from minitf.app.cli import run_command
from minitf.report.page import write_page
from minitf.report.run_page import FINISHED, RUNNING, STOPPED, run_page
from minitf.report.series import LogSeries
from minitf.storage.run_directory import LOCK_NAME, RunDirectory
from minitf.system.files import os_errors_explained


def main(argv: Sequence[str]) -> None:
    """Write the page that the command line asks for, and say where it is."""
    parser = argparse.ArgumentParser(prog="python -m minitf.report", description=__doc__)
    parser.add_argument("run", type=Path, help="folder of a training run")
    parser.add_argument("--output", type=Path, help="file to write; default: report.html in that folder")
    given = parser.parse_args(argv)
    directory = RunDirectory.open(given.run)
    output = given.output or directory.report_path
    config = directory.config()
    log = LogSeries(directory.log_path)
    log.read_on()
    if is_training(directory):
        status = RUNNING
    else:
        status = FINISHED if "bleu" in log.newest or log.newest.get("step", 0) >= config.max_steps else STOPPED
    write_page(output, run_page(log, config, str(given.run), status))
    print(output)


def is_training(directory: RunDirectory) -> bool:
    """Does a process hold the run's lock?"""
    place = directory.path / LOCK_NAME
    if not place.exists():
        return False
    with os_errors_explained(f"look at {place}"):
        descriptor = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


if __name__ == "__main__":
    sys.exit(run_command(main))
