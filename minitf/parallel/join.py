"""How a process comes to its group, and how it leaves: with the others, or taking them along."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minitf.config import RunConfig
from minitf.config.devices import announced_rank, announced_size, parse_devices
from minitf.errors import UserError
from minitf.parallel.group import Alone, Group, available_cores, share_of_cores
from minitf.parallel.launch import WORKER, Place, die_with, launch, place_of_this_process
from minitf.parallel.mpi import MpiGroup, import_mpi
from minitf.parallel.nccl import NcclGroup
from minitf.parallel.shared import SharedMemoryGroup
from minitf.parallel.watch import Pulse
from minitf.system.signals import exit_status


def run_as_job(program: Path, argv: Sequence[str], config: RunConfig) -> int | None:
    """Run the command once a device of `--devices`, and give the exit status of it all.

    None where this process is to do the work: without `--devices`, or as one of the processes itself.

    Raises: UserError under mpiexec, which has started the processes already.
    """
    if config.devices is None or WORKER in os.environ:
        return None
    if announced_rank() is not None:
        raise UserError(
            f"devices={config.devices!r} starts processes, and mpiexec has started this one already; choose --devices "
            "none, or leave mpiexec out"
        )
    kind, size = parse_devices(config.devices)
    if kind == "cuda":
        _require_gpus(size)
    return launch(program, argv, size, config.rank_timeout)


@contextmanager
def join(config: RunConfig) -> Iterator[Group]:
    """The group of this process: of the launcher's, of mpiexec's, or itself alone.

    A process that ends with an error says why, and takes the whole job with it.
    """
    place = place_of_this_process()
    pulse: Pulse | None
    if place is not None:
        group, pulse = _of_this_host(place)
    else:
        group, pulse = _of_mpi(config)
    if pulse is None:
        yield group
        return
    try:
        yield _on_devices(group, config, place is not None)
    except UserError as error:
        pulse.fail(f"has ended: {error}", error.exit_status)
        raise SystemExit(error.exit_status) from None
    except KeyboardInterrupt as interrupt:
        pulse.fail(None, exit_status(interrupt))
        raise
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)  # now: the coordinator ends this process at once
        pulse.fail(f"has ended with {type(error).__name__}: {error}", 1)
        raise SystemExit(1) from None
    except BaseException as error:
        pulse.fail(f"has ended with {type(error).__name__}: {error}", 1)
        raise
    else:
        group.close()


def _of_this_host(place: Place) -> tuple[Group, Pulse]:
    die_with(place.launcher)
    pulse = Pulse(place.rank, socket.socket(fileno=place.control))
    return SharedMemoryGroup(place.rank, place.size, place.memory, place.arrive, place.await_, pulse), pulse


def _of_mpi(config: RunConfig) -> tuple[Group, Pulse | None]:
    if announced_rank() is None or announced_size() == 1:
        return Alone(config.device), None
    try:
        group = MpiGroup(import_mpi(), config.rank_timeout)
    except UserError as error:
        if announced_rank():  # rank 0 says it for all
            raise SystemExit(error.exit_status) from None
        raise
    return group, group.pulse


def _on_devices(group: Group, config: RunConfig, launched: bool) -> Group:
    """The group with its share of the host's cores, and on GPUs where they are asked for."""
    mine = sorted(available_cores())
    everyone = group.all_gather({"host": socket.gethostname(), "cores": mine})
    neighbours = [each["cores"] for each in everyone if each["host"] == everyone[group.rank]["host"]]
    group.cores = share_of_cores(mine, neighbours)
    kind = parse_devices(config.devices)[0] if launched and config.devices else config.device
    if kind == "cpu":
        return group
    if kind != "cuda" and group.local_size > 1:
        raise UserError(
            f"device={kind!r} would be shared by {group.local_size} processes of this host; choose --device cuda, "
            "which gives each its own"
        )
    device = kind if kind != "cuda" else f"cuda:{group.local_rank}"
    return NcclGroup(group, _cupy(device), device)


def _require_gpus(count: int) -> None:
    """Raises: UserError where there are fewer; without taking one into use."""
    try:
        from autograd.backend import cuda

        found = cuda.device_count()
    except (ImportError, RuntimeError):
        found = 0
    if found < count:
        _cupy(f"cuda:{count - 1}")  # says why


def _cupy(device: str) -> Any:
    """CuPy with a GPU in use.  Raises: UserError where there is no such GPU."""
    from autograd.backend import get_backend

    try:
        return get_backend(device).xp
    except ValueError as error:
        raise UserError(f"{error}; choose fewer --devices, or --devices cpu:N") from None
