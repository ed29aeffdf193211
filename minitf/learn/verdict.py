"""Have an answer checked by `judge.py` in another process, without loading NumPy in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from minitf.learn.exercise import Exercise

LIMIT_S = 20.0


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
    """Check an answer in another process, which is killed if it does not end `grace_s` after the limit."""
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "minitf.learn.judge", exercise.label, str(path), str(writer), str(limit_s)]
    folders = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[writer], env=environment)
    os.close(writer)
    try:
        status = process.wait(limit_s + grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return Verdict((), "", f"the answer did not end within {limit_s:g} s, and was stopped")
    except BaseException:  # Ctrl-C
        process.kill()
        process.wait()
        raise
    finally:
        with os.fdopen(reader, "rb") as file:
            os.set_blocking(file.fileno(), False)
            written = file.read() or b""
    if not written:
        return Verdict((), "", f"the answer ended the program that checks it, with status {status}")
    return Verdict(**json.loads(written))
