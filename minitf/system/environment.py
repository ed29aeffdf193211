"""Software and hardware: versions, the ranks of a job, and additions, which register by entry points of pyproject.toml.

Groups:
    minitf.commands   name of the command -> function(argv)
    minitf.corpora    public: module with find(name, folder, say), the texts of a public corpus (run/start.py)
    minitf.formats    modules with is_foreign(path), read_foreign(path), vocabulary_of(bytes, name) and
                      part(class): models of other programs
    minitf.reports    class that `minitf train` tells of its progress (app/train.py)
"""

import functools
import io
import operator
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from minitf.errors import UserError

__all__ = ["sum_left_to_right"]

VERSION = "0.2.0"
"""The version of this project; pyproject.toml reads it from here."""


def environment_facts() -> dict[str, str]:
    """Versions of this project, Python, NumPy, its matrix library, the system and the processor; of Numba, if used."""
    from importlib.metadata import version

    import numpy as np  # deferred, as importlib.metadata, which takes 30 ms: `--help` needs neither

    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    fast = sys.modules.get("autograd.fast")
    kernels = "numpy" if fast is None else fast.cpu_kernels().kernels
    compiled = {} if kernels == "numpy" else {kernels: version(kernels)}
    return {
        "minitf": VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": np.__version__,
        "blas": f"{blas.get('name', 'unknown')} {blas.get('version', 'unknown')}",
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cores": str(os.cpu_count()),
        **compiled,
    }


def available_bytes(cgroup: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> int | None:
    """Memory that this process can take, within the limits of Linux's control groups (version 2); None if unknown."""
    found = []
    with suppress(OSError, StopIteration, ValueError):
        line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))
        found.append(1024 * int(line.split()[1]))
        group = Path(root, next(line[4:] for line in Path(cgroup).read_text().splitlines() if line.startswith("0::")))
        for folder in (group, *group.parents):
            if folder.is_relative_to(root) and (folder / "memory.max").exists():
                limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
                if limit != "max":
                    found.append(int(limit) - int(used))
    return min(found, default=None)


def sum_left_to_right(values: Iterable[float]) -> float:
    """Add `values` one after the other; the built-in `sum` compensates rounding errors since Python 3.12."""
    return functools.reduce(operator.add, values, 0.0)


# ---- Ranks ----

RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")  # MPICH and its relatives, Open MPI, any with PMIx
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


def announced(names: tuple[str, ...]) -> int | None:
    """Rank of this process, or number of processes, from mpiexec's environment variables; None outside an MPI job."""
    found = [os.environ[name] for name in names if re.fullmatch("[0-9]{1,9}", os.environ.get(name, ""))]
    return int(found[0]) if found else None


def is_single_process() -> bool:
    """True unless mpiexec has started this process as one of several."""
    return announced(RANK_VARIABLES) is None or announced(SIZE_VARIABLES) == 1


@contextmanager
def rank_zero_output() -> Iterator[None]:
    """Context manager: of the processes that mpiexec has started, only rank 0 prints output and user errors."""
    if not announced(RANK_VARIABLES):
        yield
        return
    with redirect_stdout(io.StringIO()):
        try:
            yield
        except UserError as error:
            raise SystemExit(error.exit_status) from None


@cache
def registered(group: str) -> dict[str, Any]:
    """Return the entry points of a group by name; importing importlib.metadata takes 30 ms, so only when asked."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=group)}


def is_installed(module: str) -> bool:
    """Return whether a module, such as additions.course, is there, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is its package
        return False


def load(group: str, name: str, what: str, addition: str) -> Any:
    """Import what is registered under a name.

    what: names it in the error, such as "minitf learn"
    Raises: UserError if `addition`, which has it, is not installed
    """
    found = load_or_none(group, name)
    if found is None:
        where = "in the folder of this project's source"
        raise UserError(f"{what} is in {addition}, which is not installed; run `pip install .` {where}")
    return found


def load_or_none(group: str, name: str) -> Any | None:
    """Import what is registered under a name; None if nothing is, or its folder is gone."""
    entry = registered(group).get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        if error.name is None or not f"{entry.module}.".startswith(f"{error.name}."):
            raise  # a package that the addition needs
        return None
