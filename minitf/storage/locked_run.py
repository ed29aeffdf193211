"""The folder of a run that this process writes: it is created or continued, and locked until it is closed."""

import json
import os
from contextlib import ExitStack
from pathlib import Path
from shlex import quote
from typing import Self

from minitf.config import RunConfig
from minitf.errors import UserError
from minitf.storage.run_directory import (
    CHECKPOINTS_NAME,
    CONFIG_NAME,
    DATA_NAME,
    ENVIRONMENT_NAME,
    IMPORTED_VOCABULARY_NAME,
    LOCK_NAME,
    LOG_NAME,
    REPORT_NAME,
    VOCABULARY_NAME,
    RunDirectory,
    save_config,
)
from minitf.system.environment import environment_facts
from minitf.system.files import os_errors_explained, parse_json, read_small_file
from minitf.system.writing import atomic_write, locked, remove, remove_leftovers

__all__ = ["LockedRun", "is_training"]

CONTENT_NAMES = (
    CONFIG_NAME,
    ENVIRONMENT_NAME,
    VOCABULARY_NAME,
    IMPORTED_VOCABULARY_NAME,
    DATA_NAME,
    CHECKPOINTS_NAME,
    LOG_NAME,
    REPORT_NAME,
)


LOCK_WAIT_S = 0.5
"""`is_training` holds the lock for an instant."""


class LockedRun(RunDirectory):
    """The folder of one run, from `create` or `resume`, which hold its lock until `close`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._lock = ExitStack()

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> Self:
        """Create and lock the folder of a new run.

        A run that ended before its first line of the log and its first checkpoint is replaced.

        Raises: UserError if the folder holds a run or files of a run's names, or another process holds the lock.
        """
        run = cls(path)
        with os_errors_explained(f"create the folder {path}"):
            run.path.mkdir(parents=True, exist_ok=True)
        run._acquire()
        try:
            run._make_room()
            run._remove_leftovers()
            run._write_environment()
            save_config(run.config_path, config)  # last: a folder with a configuration is a run
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def resume(cls, path: Path, config: RunConfig) -> Self:
        """Lock the folder of a run to continue it; `config` is its own with values that may change.

        Raises: UserError if there is no run, or another process holds the lock.
        """
        run = cls.open(path)
        run._acquire()
        try:
            run._remove_leftovers()
            save_config(run.config_path, config)
        except BaseException:
            run.close()
            raise
        return run

    def _write_environment(self) -> None:
        with atomic_write(self.environment_path) as file:
            file.write(json.dumps(environment_facts(), indent=2).encode() + b"\n")

    def _remove_leftovers(self) -> None:
        """Delete the partial files of killed processes; only for the holder of the lock."""
        with os_errors_explained(f"clean {self.path}"):
            remove_leftovers(self.path)

    def _make_room(self) -> None:
        """Clear the folder for a new run.  Raises: UserError if it holds results, or files of another program"""
        found = [name for name in CONTENT_NAMES if (self.path / name).exists()]
        if not found:
            return
        if not self._is_ours() or (CONFIG_NAME not in found and found != [ENVIRONMENT_NAME]):
            raise UserError(f"{self.path} already contains {', '.join(found)}; empty it, or give another --output")
        if self._has_learned():
            resume = f"--resume {quote(str(self.path))}"
            raise UserError(f"{self.path} already contains a run; continue it with {resume}, or give another --output")
        self._clear()

    def _is_ours(self) -> bool:
        """Return whether `create` made the files here, and not another program that uses the same names."""
        try:
            if self.config_path.exists():
                self.config()
            return "minitf" in parse_json(read_small_file(self.environment_path))
        except (OSError, ValueError, TypeError):
            return False

    def _has_learned(self) -> bool:
        """Return whether there is a line of a log, or any file in the folder of checkpoints."""
        with os_errors_explained(f"look into {self.path}"):
            has_log = self.log_path.exists() and self.log_path.stat().st_size > 0
            return has_log or (self.checkpoints_path.exists() and any(self.checkpoints_path.iterdir()))

    def _clear(self) -> None:
        with os_errors_explained(f"clear {self.path}"):
            # in this order, so that the next process can clear what a killed one leaves
            vocabularies = (VOCABULARY_NAME, IMPORTED_VOCABULARY_NAME)
            parts = (DATA_NAME, CHECKPOINTS_NAME, REPORT_NAME, LOG_NAME, *vocabularies)
            for name in (*parts, CONFIG_NAME, ENVIRONMENT_NAME):
                remove(self.path / name)

    def _acquire(self) -> None:
        """Take the run's lock, which the system releases when this process ends, however it ends."""
        if not self._lock.enter_context(locked(self.path / LOCK_NAME, wait_s=LOCK_WAIT_S)):
            self._lock.close()
            raise UserError(
                f"{self.path} is in use by another process; wait until it has ended, or give another --output"
            )

    def close(self) -> None:
        """Release the lock. Its file stays: deleting it would let two processes lock two files of one name."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_training(run: RunDirectory) -> bool:
    """Return whether a process holds the run's lock."""
    place = run.path / LOCK_NAME
    if not place.exists() or not os.access(place, os.W_OK):
        return False
    with locked(place, wait_s=0) as free:
        return not free
