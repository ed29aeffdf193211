"""How many processes train, and which one this is: `--devices`, the launcher's and mpiexec's environment variables."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from minitf.config.options import shown
from minitf.errors import UserError

MAX_PROCESSES = 1024
WORKER_VARIABLE = "MINITF_WORKER"
"""Set by the launcher of `--devices` in each process that it starts."""

RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")  # MPICH and its relatives, Open MPI, any with PMIx
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


def parse_devices(devices: str) -> tuple[str, int]:
    """Parse `--devices`: `8` -> ("cuda", 8), `cpu:4` -> ("cpu", 4).  Raises: UserError for any other text."""
    match = re.fullmatch(r"(cpu:)?([0-9]{1,4})", devices)
    if not match or not 1 <= int(match[2]) <= MAX_PROCESSES:
        raise UserError(
            f"devices={shown(devices)} is not a number of devices; choose 8 for eight GPUs of this host, or cpu:4 for "
            f"four processes on its CPU, at most {MAX_PROCESSES:,}"
        )
    return "cpu" if match[1] else "cuda", int(match[2])


def is_worker() -> bool:
    """True in a process that the launcher of `--devices` has started."""
    return WORKER_VARIABLE in os.environ


def is_single_process() -> bool:
    """True unless the launcher of `--devices` or mpiexec has started this process as one of several."""
    return not is_worker() and (announced_rank() is None or announced_size() == 1)


def announced_rank() -> int | None:
    """Rank of this process in an MPI job, from mpiexec's environment variables; None outside of one."""
    return _first_number(RANK_VARIABLES)


def announced_size() -> int | None:
    """Number of processes of the MPI job, from mpiexec's environment variables."""
    return _first_number(SIZE_VARIABLES)


def _first_number(names: tuple[str, ...]) -> int | None:
    found = [os.environ[name] for name in names if re.fullmatch("[0-9]{1,9}", os.environ.get(name, ""))]
    return int(found[0]) if found else None


@contextmanager
def rank_zero_output() -> Iterator[None]:
    """Context manager: of the processes that mpiexec has started, only rank 0 prints output and user errors."""
    if not announced_rank():
        yield
        return
    with redirect_stdout(io.StringIO()):
        try:
            yield
        except UserError as error:
            raise SystemExit(error.exit_status) from None
