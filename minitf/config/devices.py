"""How many processes are to train, and which one this is: what the command line and mpiexec's environment say."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from minitf.errors import UserError

MAX_PROCESSES = 1024
RANK_NAMES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")  # MPICH and its kin, Open MPI, anything with PMIx
SIZE_NAMES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


def parse_devices(devices: str) -> tuple[str, int]:
    """`8` -> ("cuda", 8), `cpu:4` -> ("cpu", 4).

    Raises: UserError for anything else.
    """
    match = re.fullmatch(r"(cpu:)?([0-9]{1,4})", devices)
    if not match or not 1 <= int(match[2]) <= MAX_PROCESSES:
        raise UserError(
            f"devices={devices!r} is no number of devices; choose 8 for eight GPUs of this host, or cpu:4 for four "
            f"processes on its CPU, at most {MAX_PROCESSES:,}"
        )
    return "cpu" if match[1] else "cuda", int(match[2])


def announced_rank() -> int | None:
    """Which process of an MPI job this is, as mpiexec says it in the environment; None without one."""
    return _first_number(RANK_NAMES)


def announced_size() -> int | None:
    """How many processes mpiexec says that there are."""
    return _first_number(SIZE_NAMES)


def _first_number(names: tuple[str, ...]) -> int | None:
    found = [os.environ[name] for name in names if os.environ.get(name, "").isdecimal()]
    return int(found[0]) if found else None


@contextmanager
def one_voice() -> Iterator[None]:
    """What every process started by mpiexec would say alike inside the block, rank 0 says alone."""
    if not announced_rank():
        yield
        return
    with redirect_stdout(io.StringIO()):
        try:
            yield
        except UserError as error:
            raise SystemExit(error.exit_status) from None
