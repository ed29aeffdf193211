"""Joining the group of a job, and leaving it: with all other ranks, or by ending the job."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from autograd.devices import device_count, get_backend
from minitf.errors import UserError
from minitf.parallel.group import Group, MpiGroup
from minitf.parallel.nccl import NcclGroup
from minitf.system.process import exit_status


@contextmanager
def join(kind: str) -> Iterator[Group]:
    """Join the other ranks of this job, each with its share of the cores, and leave together with them.

    kind: "cpu", or "cuda" for one GPU per rank
    An error inside the `with` block is reported once, and ends all ranks.
    """
    group = MpiGroup(import_mpi())
    prefix = "" if group.rank == 0 else f"rank {group.rank}: "
    try:
        if kind == "cpu":
            yield group
        else:
            yield group_of_gpus(group, kind)
        group.barrier("the end of the run", after_rank_0=True)  # which may still score translations
    except UserError as error:
        group.abort(f"error: {prefix}{error}", error.exit_status)
    except KeyboardInterrupt as interrupt:
        group.abort("interrupted" if group.rank == 0 else None, exit_status(interrupt))
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        group.abort(f"error: {prefix}{type(error).__name__}: {error}", 1)


def import_mpi() -> Any:
    """Import mpi4py's MPI.

    Raises: UserError if mpi4py or the MPI library is missing.
    """
    try:
        from mpi4py import MPI  # initialises MPI
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"this is one process of several, but mpi4py cannot be used ({str(error).splitlines()[0]}); "
            "pip install '.[parallel]' in the project's directory"
        ) from None
    return MPI


def group_of_gpus(group: MpiGroup, kind: str) -> Group:
    """Return a group of the same ranks with a GPU each.

    Raises: UserError if there are fewer GPUs
    """
    if kind != "cuda" and group.local_size > 1:
        raise UserError(
            f"device={kind!r} would be shared by {group.local_size} processes of this host; choose --device cuda, "
            "which gives each its own"
        )
    # a batch system may show each process its own GPU alone (CUDA_VISIBLE_DEVICES), which is then cuda:0 in all of them
    device = kind if kind != "cuda" else f"cuda:{0 if device_count() == 1 else group.local_rank}"
    try:
        backend = get_backend(device)
    except ValueError as error:
        raise UserError(f"{error}; choose fewer --devices, or --devices cpu:N") from None
    return NcclGroup(group, backend, device)
