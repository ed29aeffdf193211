"""Joining the group of a job, and leaving it: with all other ranks, or by aborting the job."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from autograd.devices import device_count, get_backend
from minitf.config import RunConfig
from minitf.config.devices import parse_devices
from minitf.errors import UserError
from minitf.parallel.group import Group
from minitf.parallel.heartbeat import Heartbeat
from minitf.parallel.launch import WorkerSpec, exit_with_launcher
from minitf.parallel.mpi import MpiGroup, import_mpi
from minitf.parallel.nccl import NcclGroup
from minitf.parallel.shared_memory import SharedMemoryGroup
from minitf.system.environment import announced_rank
from minitf.system.process import exit_status


@contextmanager
def join(config: RunConfig) -> Iterator[Group]:
    """Join the group of the launcher or of mpiexec, with this rank's share of the cores and its GPU.

    An error inside the `with` block is reported once, by name of the rank, and aborts the job.
    """
    spec = WorkerSpec.of_this_process()
    group = _join_mpi(20.0) if spec is None else _join_launcher(spec)
    heartbeat = group.heartbeat
    try:
        kind = parse_devices(config.devices)[0] if spec is not None and config.devices else config.device
        yield _with_device(group, kind)
    except UserError as error:
        heartbeat.fail(f"failed: {error}", error.exit_status)
        raise SystemExit(error.exit_status) from None
    except KeyboardInterrupt as interrupt:
        heartbeat.fail(None, exit_status(interrupt))
        raise
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)  # now: the coordinator ends this process at once
        heartbeat.fail(f"failed with {type(error).__name__}: {error}", 1)
        raise SystemExit(1) from None
    except BaseException as error:
        heartbeat.fail(f"failed with {type(error).__name__}: {error}", 1)
        raise
    else:
        group.close()


def _join_launcher(spec: WorkerSpec) -> SharedMemoryGroup:
    exit_with_launcher(spec.launcher)
    heartbeat = Heartbeat(spec.rank, socket.socket(fileno=spec.control))
    return SharedMemoryGroup(spec.rank, spec.size, spec.memory, spec.signal_pipes, spec.wait_pipes, heartbeat)


def _join_mpi(timeout_s: float) -> MpiGroup:
    try:
        return MpiGroup(import_mpi(), timeout_s)
    except UserError as error:
        if announced_rank():  # rank 0 reports it for all
            raise SystemExit(error.exit_status) from None
        raise


def _with_device(group: Group, kind: str) -> Group:
    """Set the group's cores, and wrap it in an `NcclGroup` if each rank has a GPU."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    ranks = group.all_gather({"host": socket.gethostname(), "cores": cores})
    group.cores = share_of_cores(cores, [each["cores"] for each in ranks if each["host"] == ranks[group.rank]["host"]])
    if kind == "cpu":
        return group
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


def share_of_cores(cores: list[int], of_ranks: list[list[int]]) -> int:
    """Divide the cores among the ranks of this host that may use the same ones; return each rank's number, at least 1.

    mpiexec may have bound each process to cores of its own, which leaves nothing to divide.
    """
    return max(1, len(cores) // sum(each == cores for each in of_ranks))
