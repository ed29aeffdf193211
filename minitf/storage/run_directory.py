"""The folder of a run: where its files are, who may write them, and its log.

    config.json          the resolved configuration
    environment.json     versions of what the run was started with
    vocabulary.model     the SentencePiece model
    data/                token ids, prepared from the texts
    checkpoints/         step-00001000.safetensors, …
    log.jsonl            one JSON object a line
    report.html          curves of the log, for a browser
    test.hypotheses      translations of the test text, once training is done
    lock                 held by the process that trains

Reading needs no lock: every file is whole at any time, but for the last line of the log, which may be under way.
"""

import fcntl
import json
import math
import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from minitf.config import RunConfig
from minitf.errors import UserError
from minitf.storage.config_file import load_config, save_config
from minitf.system.environment import changes, environment_facts
from minitf.system.files import atomic_write, os_errors_explained, parse_json, remove_leftovers

CONFIG_NAME = "config.json"
ENVIRONMENT_NAME = "environment.json"
VOCABULARY_NAME = "vocabulary.model"
DATA_NAME = "data"
CHECKPOINTS_NAME = "checkpoints"
LOG_NAME = "log.jsonl"
LOCK_NAME = "lock"
HYPOTHESES_NAME = "test.hypotheses"
REPORT_NAME = "report.html"
CONTENT_NAMES = (CONFIG_NAME, ENVIRONMENT_NAME, VOCABULARY_NAME, DATA_NAME, CHECKPOINTS_NAME, LOG_NAME, REPORT_NAME)


class RunDirectory:
    """The folder of one run, from `create`, `resume` (both hold its lock until `close`) or `open` (reads only)."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._lock: int | None = None

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> Self:
        """Make the folder of a new run and lock it.

        A run that never came to learn anything, because it failed or was killed before, is replaced.

        Raises: UserError where a run or parts of one are already, or another process is at work.
        """
        run = cls(path)
        with os_errors_explained(f"create the folder {path}"):
            run.path.mkdir(parents=True, exist_ok=True)
        run._acquire()
        try:
            run._refuse_content()
            run._remove_leftovers()
            run._write_environment()
            save_config(run.config_path, config)  # last: a folder with a configuration is a run
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def resume(cls, path: Path, config: RunConfig) -> Self:
        """Lock the folder of a run to go on with it; `config` is its own with what may change.

        Raises: UserError where no run is, or another process is at work.
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

    @classmethod
    def open(cls, path: Path) -> Self:
        """The folder of a run, to read; it may be training.

        Raises: UserError where no run is.
        """
        run = cls(path)
        with os_errors_explained(f"look into {path}"):
            is_folder, has_config = run.path.is_dir(), run.config_path.is_file()
        if not is_folder:
            raise UserError(f"{path} is no folder; give the folder of a training run, such as runs/tiny")
        if not has_config:
            raise UserError(f"{path} holds no run: {CONFIG_NAME} is missing; give the folder of a training run")
        return run

    # ---- Places ----

    @property
    def config_path(self) -> Path:
        return self.path / CONFIG_NAME

    @property
    def environment_path(self) -> Path:
        return self.path / ENVIRONMENT_NAME

    @property
    def vocabulary_path(self) -> Path:
        return self.path / VOCABULARY_NAME

    @property
    def data_path(self) -> Path:
        return self.path / DATA_NAME

    @property
    def checkpoints_path(self) -> Path:
        return self.path / CHECKPOINTS_NAME

    @property
    def log_path(self) -> Path:
        return self.path / LOG_NAME

    # ---- Content ----

    def config(self) -> RunConfig:
        """The run's configuration."""
        return load_config(self.config_path)

    @property
    def report_path(self) -> Path:
        return self.path / REPORT_NAME

    @property
    def hypotheses_path(self) -> Path:
        return self.path / HYPOTHESES_NAME

    def environment_changes(self) -> list[str]:
        """What differs from the environment the run was started in, a sentence each; its bits may differ then."""
        if not self.environment_path.exists():
            return [f"{ENVIRONMENT_NAME} has gone"]
        with os_errors_explained(f"read {self.environment_path}"):
            content = self.environment_path.read_bytes()
        try:
            before = parse_json(content)
            if not isinstance(before, dict):
                raise ValueError("it is not an object of names and values")
        except ValueError as error:
            raise UserError(f"{self.environment_path}: {error}") from error
        return changes(before, environment_facts())

    def _write_environment(self) -> None:
        text = json.dumps(environment_facts(), indent=2) + "\n"
        with atomic_write(self.environment_path) as file:
            file.write(text.encode())

    def _remove_leftovers(self) -> None:
        """Delete what killed processes left half-written; only for the holder of the lock."""
        with os_errors_explained(f"clean {self.path}"):
            remove_leftovers(self.path, "|".join(map(re.escape, (*CONTENT_NAMES, HYPOTHESES_NAME))))

    def _refuse_content(self) -> None:
        """Make room for a new run, unless there is one that has learned something, or what is not a run's at all."""
        found = [name for name in CONTENT_NAMES if (self.path / name).exists()]
        if not found:
            return
        if not self._is_ours() or (CONFIG_NAME not in found and found != [ENVIRONMENT_NAME]):
            raise UserError(f"{self.path} already holds {', '.join(found)}; empty it, or give another --output")
        if self._has_learned():
            raise UserError(
                f"{self.path} already holds a run; go on with --resume {self.path}, or give another --output"
            )
        self._clear()

    def _is_ours(self) -> bool:
        """Whether a run was created here, or had been begun to be, and not just something with files of these names."""
        try:
            if self.config_path.exists():
                self.config()
            return "minitf" in parse_json(self.environment_path.read_bytes())
        except (OSError, ValueError, TypeError):
            return False

    def _has_learned(self) -> bool:
        """Whether there is a line of a log, or anything in the folder for checkpoints."""
        with os_errors_explained(f"look into {self.path}"):
            has_log = self.log_path.exists() and self.log_path.stat().st_size > 0
            return has_log or (self.checkpoints_path.exists() and any(self.checkpoints_path.iterdir()))

    def _clear(self) -> None:
        with os_errors_explained(f"clear {self.path}"):
            for folder in (self.data_path, self.checkpoints_path):
                if folder.exists():
                    shutil.rmtree(folder)
            # in this order, so that what a killed process leaves of it is cleared by the next one
            for path in (
                self.report_path,
                self.log_path,
                self.vocabulary_path,
                self.config_path,
                self.environment_path,
            ):
                path.unlink(missing_ok=True)

    # ---- Lock ----

    def _acquire(self) -> None:
        """Hold the run's lock. The kernel drops it when this process ends, however it ends: no lock goes stale."""
        place = self.path / LOCK_NAME
        with os_errors_explained(f"lock {self.path}"):
            descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
            except BlockingIOError:
                holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
                os.close(descriptor)
                raise UserError(
                    f"{self.path} is in use by {holder}; wait until it has ended, or give another --output"
                ) from None
            except BaseException:
                os.close(descriptor)
                raise
        self._lock = descriptor

    def close(self) -> None:
        """Give the lock back. Its file stays: deleting it would let two processes lock two files of one name."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class RunLog:
    """A file of JSON lines to append to. A line is there whole or not at all: opening cuts off half a last line."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with os_errors_explained(f"open {path}"):
            self._file: int | None = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._cut(self._end_of_whole_lines(os.fstat(self._descriptor).st_size))

    @property
    def offset(self) -> int:
        """Bytes written: what a checkpoint remembers, for `truncate_to`."""
        return os.fstat(self._descriptor).st_size

    def append(self, record: dict[str, Any]) -> None:
        """Write one line. Numbers that JSON lacks become the strings "nan", "inf" and "-inf", which float() reads."""
        line = json.dumps(_without_non_finite(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        start = self.offset
        with os_errors_explained(f"write {self.path}"):
            try:
                written = 0
                while written < len(line):
                    written += os.write(self._descriptor, line[written:])
            except BaseException:
                self._cut(start)
                raise

    def sync(self) -> None:
        """Make all lines durable; before a checkpoint that remembers `offset`."""
        with os_errors_explained(f"write {self.path}"):
            os.fsync(self._descriptor)

    def truncate_to(self, offset: int, warn: Callable[[str], None]) -> None:
        """Drop the lines after `offset`, which a resumed run will write again. A log that is shorter is left alone."""
        size = self.offset
        if size < offset:
            warn(f"{self.path} has {size} bytes, but had {offset} at the checkpoint: some of its lines are lost")
        elif self._end_of_whole_lines(offset) != offset:
            raise UserError(f"{self.path} has no end of line at byte {offset}: it was edited; move it away to go on")
        else:
            with os_errors_explained(f"write {self.path}"):
                self._cut(offset)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _descriptor(self) -> int:
        if self._file is None:
            raise ValueError(f"the log {self.path} is closed")
        return self._file

    def _cut(self, offset: int) -> None:
        os.ftruncate(self._descriptor, offset)

    def _end_of_whole_lines(self, end: int) -> int:
        """The last place up to `end` where a line ends, or 0."""
        block = 1 << 16
        while end > 0:
            start = max(0, end - block)
            newline = os.pread(self._descriptor, end - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0


class NoLog:
    """The log of a process that leaves it to another one to write it."""

    offset = 0

    def append(self, record: dict[str, Any]) -> None:
        """Nothing."""

    def sync(self) -> None:
        """Nothing."""

    def truncate_to(self, offset: int, warn: Callable[[str], None]) -> None:
        """Nothing."""


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a log, without a last line that is still being written.

    Raises: UserError for a file that cannot be read and for a line that is no JSON object, with its number.
    """
    with os_errors_explained(f"read {path}"):
        lines = Path(path).read_bytes().split(b"\n")[:-1]
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            record = parse_json(line)
            if not isinstance(record, dict):
                raise ValueError("it is not an object of names and values")
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from error
        records.append(record)
    return records


def _without_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, dict):
        return {key: _without_non_finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_non_finite(part) for part in value]
    return value
