"""Have an answer checked by `judge.py` in another process, without loading NumPy in this one.

The answer and the checks share that process. What an answer prints or writes to any descriptor is not taken for a
verdict, which begins with random characters that only the two processes know; an answer that searches the memory of its
process for them, or replaces the checks, is not detected.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from additions.course.exercise import Exercise

LIMIT_S = 20.0
MEMORY_BYTES = 2**30
"""Addresses that an answer may take, beyond those of the judge."""


@dataclass(frozen=True)
class Verdict:
    """passed, failed: descriptions of the checks that passed and failed; message: what is wrong, "" if nothing."""

    passed: tuple[str, ...]
    failed: str = ""
    message: str = ""

    @property
    def is_right(self) -> bool:
        return not self.message


def judge_file(exercise: Exercise, path: Path, limit_s: float = LIMIT_S, grace_s: float = 10.0) -> Verdict:
    """Check an answer to an exercise."""
    return judge("additions.course.judge", exercise.label, path, limit_s, grace_s)


def judge(program: str, label: str, path: Path, limit_s: float = LIMIT_S, grace_s: float = 10.0) -> Verdict:
    """Have `program` check an answer in another process, which is killed if it does not end `grace_s` after the limit.

    It imports nothing from the working directory. It is killed with all processes that it has started.
    """
    secret = secrets.token_hex()
    command = [sys.executable, "-P", "-m", program, label, str(path), str(limit_s)]
    folders = [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(os.path.isabs, folders))}
    run = _run_group if hasattr(os, "killpg") else _run_alone  # which Windows lacks
    try:
        written, status = run(command, environment, secret, limit_s + grace_s)
    except subprocess.TimeoutExpired:
        return Verdict((), "", f"the answer did not end within {limit_s:g} s, and was stopped")
    start, _, verdict = written.partition(secret.encode())
    if start or not verdict:
        how = f"with status {status}" + (", and wrote to the pipe reserved for the verdict" if start else "")
        return Verdict((), "", f"the answer ended the program that checks it, {how}")
    return Verdict(**json.loads(verdict.partition(b"\n")[0]))


def _run_group(command: list[str], environment: dict[str, str], secret: str, limit_s: float) -> tuple[bytes, int]:
    """Return what the judge writes to a pipe, and its exit status.  Raises: subprocess.TimeoutExpired"""
    reader, writer = os.pipe()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, pass_fds=[writer], env=environment, start_new_session=True
    )
    os.close(writer)
    try:
        with suppress(BrokenPipeError):
            process.communicate(f"{secret} {writer}".encode(), limit_s)
    finally:  # also after Ctrl-C
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        with os.fdopen(reader, "rb") as file:
            os.set_blocking(file.fileno(), False)
            written = file.read() or b""
    return written, process.returncode


def _run_alone(command: list[str], environment: dict[str, str], secret: str, limit_s: float) -> tuple[bytes, int]:
    """Return the same through a file, for Windows; processes that the answer has started outlive it."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "verdict"
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
        try:
            with suppress(BrokenPipeError):
                process.communicate(f"{secret} {place}".encode(), limit_s)
        finally:
            process.kill()
            process.wait()
        return place.read_bytes() if place.exists() else b"", process.returncode
