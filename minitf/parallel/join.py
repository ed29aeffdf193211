"""How a process comes to its group, and how it leaves: with the others, or taking them along."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from minitf.config import RunConfig
from minitf.errors import UserError
from minitf.parallel.group import Alone, Group, available_cores, share_of_cores
from minitf.parallel.launch import Place, die_with, launch, parse_devices, place_of_this_process
from minitf.parallel.watch import Pulse
from minitf.signals import exit_status


def run_as_job(program: Path, argv: Sequence[str], config: RunConfig) -> int | None:
    """Run the command once a device of `--devices`, and give the exit status of it all.

    None where this process is to do the work: without `--devices`, or as one of the processes itself.

    Raises: UserError under mpiexec, which has started the processes already.
    """
    from minitf.parallel.launch import WORKER
    from minitf.parallel.mpi import announced_rank

    import os

    if config.devices is None or WORKER in os.environ:
        return None
    if announced_rank() is not None:
        raise UserError(
            f"devices={config.devices!r} starts processes, and mpiexec has started this one already; leave out one of "
            "the two"
        )
    _, size = parse_devices(config.devices)
    return launch(program, argv, size, config.rank_timeout)


@contextmanager
def join(config: RunConfig) -> Iterator[Group]:
    """The group of this process: of the launcher's, of mpiexec's, or itself alone.

    A process that ends with an error says why, and takes the whole job with it.
    """
    place = place_of_this_process()
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
    except BaseException as error:
        pulse.fail(f"has ended with {type(error).__name__}: {error}", 1)
        raise
    else:
        group.close()
