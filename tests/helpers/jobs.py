"""Jobs of several processes, started by the launcher or by mpiexec."""

import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKER = ROOT / "tests" / "helpers" / "parallel_worker.py"
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def why_no_mpi():
    """Why no job of mpiexec can run here; empty where it can."""
    if MPIEXEC is None or find_spec("mpi4py") is None:
        return "needs mpi4py and an MPI: pip install '.[mpi]' mpich"
    # in a process of its own: the import begins MPI
    done = subprocess.run([sys.executable, "-c", "import mpi4py.MPI"], capture_output=True, text=True, check=False)
    said = done.stderr.strip().rpartition("\n")[2]
    return f"mpi4py finds no MPI library: pip install mpich ({said})" if done.returncode else ""


needs_mpi = pytest.mark.skipif(bool(WHY_NO_MPI := why_no_mpi()), reason=WHY_NO_MPI)


def python(*words, **more):
    """A Python of a job, with warnings as errors; gives what it said and its exit status."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **more.pop("env", {})}
    before, folder = more.pop("before", []), more.pop("cwd", ROOT)
    done = subprocess.run(
        [*before, sys.executable, "-W", "error", *map(str, words)],
        capture_output=True, stdin=subprocess.DEVNULL, text=True, env=environment, cwd=folder, timeout=300, **more,
    )  # fmt: skip
    return done.stdout + done.stderr, done.returncode


def job(size, *words):
    """The worker program, started by the launcher; gives what it said and its exit status."""
    waits = str(words[0]).startswith(("stopped", "asleep", "deadlock"))  # others only if the machine is busy
    timeout_s = 2.0 if waits else 30.0
    code = "import sys; from minitf.parallel.launch import launch; "
    code += f"sys.exit(launch([{str(WORKER)!r}, *sys.argv[1:]], {size}, {timeout_s}))"
    return python("-c", code, *words)


def mpi(size, *words, program=WORKER):
    """A program started by mpiexec; gives what it said and its exit status."""
    return python(program, *words, before=[MPIEXEC, "-n", str(size)])


def alive(folder):
    """The processes of a job that are still there."""
    pids = [int(path.read_text()) for path in folder.glob("pid-*")]
    return [pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and " Z " not in proc_stat(pid)]


def proc_stat(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return " Z "


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
