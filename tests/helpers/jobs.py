"""Jobs of several processes, started by mpiexec."""

import os
import subprocess
import sys
import time
from pathlib import Path

from minitf.parallel.launch import job

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "tests" / "helpers" / "parallel_worker.py"


def python(*words, before=(), env=None, cwd=ROOT):
    """A Python with warnings as errors; gives what it said and its exit status."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **(env or {})}
    return run([*before, sys.executable, "-W", "error", *map(str, words)], environment, cwd)


def mpi(size, *words, program=WORKER, env=None):
    """A program started by mpiexec; gives what it said and its exit status."""
    command, environment = job(["-W", "error", str(program), *map(str, words)], size)
    return run(command, {**environment, "PYTHONPATH": str(ROOT), **(env or {})}, ROOT)


def run(command, environment, folder):
    done = subprocess.run(
        command, capture_output=True, stdin=subprocess.DEVNULL, text=True, env=environment, cwd=folder, timeout=300
    )
    return done.stdout + done.stderr, done.returncode


def alive(folder):
    """The processes of a job that are still there."""
    pids = [int(path.read_text()) for path in folder.glob("pid-*")]
    return [pid for pid in pids if not is_gone(pid)]


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
