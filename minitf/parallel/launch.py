"""`--devices`: this process becomes mpiexec, which starts the ranks of a job on this host."""

import os
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, files
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from minitf.errors import UserError


def launch(command: Sequence[str], size: int) -> NoReturn:
    """Replace this process by mpiexec, which runs `python *command` as `size` ranks and exits with their status.

    Ctrl-C and SIGTERM reach all ranks through mpiexec, and when one dies, it ends the others.

    Raises: UserError if mpi4py or mpiexec is missing
    """
    words, environment = job(command, size)
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # mpiexec would read standard input for rank 0
    os.execve(words[0], words, environment)


def job(command: Sequence[str], size: int) -> tuple[list[str], dict[str, str]]:
    """Return the command of `size` ranks that run `python *command`, and their environment.

    Raises: UserError if mpi4py or mpiexec is missing
    """
    mpiexec = find_mpiexec()
    if mpiexec is None or find_spec("mpi4py") is None:
        missing = "mpiexec" if mpiexec is None else "mpi4py"
        raise UserError(
            f"several processes need MPI, and {missing} is missing: pip install '.[parallel]' in the project's "
            "directory, or choose --devices none"
        )
    environment = {**os.environ}
    environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))  # the same code as in this process
    # OpenBLAS takes all cores when it is imported; each rank sets its share of them itself
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    if library := next(mpiexec.resolve().parent.parent.glob("lib/libmpi.so.*"), None):  # the one of this mpiexec
        environment.setdefault("MPI4PY_LIBMPI", str(library))
    python = [sys.executable, "-P", *(f"-W{option}" for option in sys.warnoptions)]
    return [str(mpiexec), "-n", str(size), *python, *command], environment


def find_mpiexec() -> Path | None:
    """Return the path of mpiexec: beside this Python, else that of the wheel `mpich`, else the one on PATH."""
    try:
        wheel = [Path(str(each.locate())) for each in files("mpich") or () if each.name == "mpiexec"]
    except PackageNotFoundError:
        wheel = []
    on_path = shutil.which("mpiexec")
    places = [Path(sys.executable).parent / "mpiexec", *wheel, *([Path(on_path)] if on_path else [])]
    return next((place for place in places if place.is_file()), None)
