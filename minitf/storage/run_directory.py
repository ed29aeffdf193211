"""The folder of a run: the paths of its files, its configuration and its lock.

    config.json          the resolved configuration
    environment.json     versions of what the run was started with
    vocabulary.model     the SentencePiece model; vocabulary.json instead in an imported run
    data/                token ids, prepared from the texts
    checkpoints/         step-00001000.safetensors, …
    log.jsonl            one JSON object per line
    report.html          curves of the log, for a browser
    test.hypotheses      translations of the test text, once training is done
    lock                 held by the process that trains

Reading needs no lock: every file is complete at any time, except for the last line of the log.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import is_dataclass
from pathlib import Path
from shlex import quote
from typing import Self

from minitf.config import RunConfig
from minitf.config.options import from_plain, to_plain
from minitf.config.removed import without_removed
from minitf.errors import UserError
from minitf.system.environment import environment_facts
from minitf.system.files import (
    atomic_write,
    locked,
    os_errors_explained,
    parse_json,
    read_json_object,
    read_small_file,
    remove,
    remove_leftovers,
    require_no_links,
)

__all__ = ["CHECKPOINTS_NAME", "LOCK_NAME", "RunDirectory", "save_config"]

CONFIG_NAME = "config.json"
ENVIRONMENT_NAME = "environment.json"
VOCABULARY_NAME = "vocabulary.model"
IMPORTED_VOCABULARY_NAME = "vocabulary.json"
DATA_NAME = "data"
CHECKPOINTS_NAME = "checkpoints"
LOG_NAME = "log.jsonl"
LOCK_NAME = "lock"
HYPOTHESES_NAME = "test.hypotheses"
REPORT_NAME = "report.html"
WEIGHTS_OF_OTHERS = ("model.safetensors", "model.bin", "pytorch_model.bin")
"""Files that stand beside the config.json of a model of Hugging Face or CTranslate2."""
CONTENT_NAMES = (DATA_NAME, CHECKPOINTS_NAME, REPORT_NAME, LOG_NAME, VOCABULARY_NAME, IMPORTED_VOCABULARY_NAME,
                 CONFIG_NAME, ENVIRONMENT_NAME)  # fmt: skip
"""The content of a run, in the order in which the next process can clear what a killed one has not cleared."""
LOCK_WAIT_S = 0.5
"""Whoever asks whether a run is training holds the lock for an instant."""


class RunDirectory(AbstractContextManager["RunDirectory"]):
    """The folder of one run: from `open` to read it, from `create` or `resume`, which hold its lock until `close`."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._lock = ExitStack()
        self.config_path = self.path / CONFIG_NAME
        self.environment_path = self.path / ENVIRONMENT_NAME
        self.data_path = self.path / DATA_NAME
        self.checkpoints_path = self.path / CHECKPOINTS_NAME
        self.log_path = self.path / LOG_NAME
        self.report_path = self.path / REPORT_NAME
        self.hypotheses_path = self.path / HYPOTHESES_NAME

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the folder of a run for reading; the run may be training.

        Raises: UserError if there is no run, and where it holds a link or a pipe.
        """
        run = cls(path)
        with os_errors_explained(f"look into {path}"):
            is_folder, has_config = run.path.is_dir(), run.config_path.is_file()
        if not is_folder:
            text = f" (a text: --input {quote(str(path))})" if run.path.is_file() else ""
            raise UserError(f"{path} is not a directory{text}; give the directory of a training run, such as runs/tiny")
        if not has_config:
            raise UserError(f"{path} contains no run: {CONFIG_NAME} is missing; give the directory of a training run")
        if any((run.path / name).is_file() for name in WEIGHTS_OF_OTHERS):
            raise UserError(
                f"{path} is a model of another program, not a run; make a run of it with: minitf import "
                f"{quote(str(path))} RUN"
            )
        require_no_links(run.path)
        return run

    @property
    def vocabulary_path(self) -> Path:
        """The vocabulary, or where a vocabulary that is learned is written."""
        imported = self.path / IMPORTED_VOCABULARY_NAME
        return imported if imported.exists() else self.path / VOCABULARY_NAME

    def config(self, warn: Callable[[str], object] = lambda message: None) -> RunConfig:
        """Read the run's configuration.  warn: told of settings of an earlier version that have no effect any more"""
        return load_config(self.config_path, warn=warn)

    def environment_changes(self) -> list[str]:
        """Describe the differences to the environment that the run was started in, one sentence each."""
        if not self.environment_path.exists():
            return [f"{ENVIRONMENT_NAME} has gone"]
        before, now = read_json_object(self.environment_path), environment_facts()
        return [
            f"{name} was {before.get(name, 'not recorded')} and is {now.get(name, 'not recorded')}"
            for name in {**before, **now}
            if before.get(name) != now.get(name)
        ]

    @classmethod
    def create(cls, path: Path, config: RunConfig) -> Self:
        """Create and lock the folder of a new run.

        A run that ended before its first line of the log and its first checkpoint is replaced.

        Raises: UserError if the folder holds a run or files of a run's names, or another process holds the lock.
        """
        run = cls(path)
        with os_errors_explained(f"create the folder {path}"):
            run.path.mkdir(parents=True, exist_ok=True)
        with run._acquired():
            run._make_room()
            save_config(run.environment_path, environment_facts())
            save_config(run.config_path, config)  # last: a folder with a configuration is a run
        return run

    @classmethod
    def resume(cls, path: Path, config: RunConfig) -> Self:
        """Lock the folder of a run to continue it; `config` is its own with values that may change.

        Raises: UserError if there is no run, or another process holds the lock.
        """
        run = cls.open(path)
        with run._acquired():
            save_config(run.config_path, config)
        return run

    def _make_room(self) -> None:
        """Clear the folder for a new run.  Raises: UserError if it holds results, or files of another program"""
        with os_errors_explained(f"clear {self.path}"):
            found = [name for name in CONTENT_NAMES if (self.path / name).exists()]
            if not found:
                return
            try:
                ours = "minitf" in read_json_object(self.environment_path)
                if found != [ENVIRONMENT_NAME]:
                    self.config()
            except UserError:
                ours = False
            if not ours:
                raise UserError(f"{self.path} already contains {', '.join(found)}; empty it, or give another --output")
            has_log = self.log_path.exists() and self.log_path.stat().st_size > 0
            if has_log or (self.checkpoints_path.exists() and any(self.checkpoints_path.iterdir())):
                how = f"continue it with --resume {quote(str(self.path))}"
                raise UserError(f"{self.path} already contains a run; {how}, or give another --output")
            for name in found:
                remove(self.path / name)

    @contextmanager
    def _acquired(self) -> Iterator[None]:
        """Take the run's lock, which the system releases when this process ends, however it ends; keep it if the block
        succeeds. Partial files of killed processes are deleted."""
        if not self._lock.enter_context(locked(self.path / LOCK_NAME, wait_s=LOCK_WAIT_S)):
            self._lock.close()
            raise UserError(
                f"{self.path} is in use by another process; wait until it has ended, or give another --output"
            )
        try:
            with os_errors_explained(f"clean {self.path}"):
                for folder, _, _ in os.walk(self.path, topdown=False):
                    remove_leftovers(Path(folder))
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock. Its file stays: deleting it would let two processes lock two files of one name."""
        self._lock.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def save_config(path: Path, config: object) -> None:
    """Write a configuration, or a dict, as JSON, completely or not at all."""
    plain = to_plain(config) if is_dataclass(config) else config
    with atomic_write(path) as file:
        file.write(json.dumps(plain, indent=2).encode() + b"\n")


def load_config(
    path: Path, *, resuming: bool = False, warn: Callable[[str], object] = lambda message: None
) -> RunConfig:
    """Read the configuration that `save_config` wrote, here or in an earlier version.

    resuming: refuse settings of an earlier version that training depended on

    Raises: UserError for a file that cannot be read, is not JSON, has an unknown key or an invalid value.
    """
    content = read_small_file(path)
    try:
        plain = parse_json(content)
        try:
            return from_plain(RunConfig, plain)
        except UserError:  # perhaps of an earlier version
            run = path.parent.absolute()
            plain = without_removed(plain, resuming=resuming, warn=lambda text: warn(f"{path}: {text}"), run=run)
            return from_plain(RunConfig, plain)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
