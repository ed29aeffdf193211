"""What several processes can do together: the interface, and its body for one process alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from minitf.errors import UserError

Array = Any


class ParallelError(UserError):
    """Processes that were to train as one cannot: one has gone, does not answer, or does something else."""

    exit_status = 1  # nothing was wrong with the command


class Group:
    """The processes of a job, seen from one of them.  This base is a job of one process.

    All of them call the same methods in the same order; whoever is early waits.  Ranks count from 0, and rank 0 is the
    one that writes and speaks.
    """

    rank = 0
    size = 1
    local_rank = 0  # among the processes on this host
    local_size = 1
    hosts = 1
    device = "cpu"  # where this process computes
    cores = 1  # of the processor, that are this process's
    reduces = False  # are gradients summed at all?
    overlaps_itself = False  # does `all_reduce` return at once?
    waited_s = 0.0  # in `all_reduce`, until the last process came to it; unknown on GPUs

    @property
    def is_first(self) -> bool:
        """Is this the process that writes and speaks?"""
        return self.rank == 0

    def barrier(self) -> None:
        """Wait until every process has come here."""

    def all_gather(self, value: Any) -> list[Any]:
        """Each process's value, by rank; what JSON can say, NaN and ∞ too."""
        return [value]

    def share(self, value: Any) -> Any:
        """The value of rank 0."""
        return self.all_gather(value if self.is_first else None)[0]

    def broadcast(self, array: Array) -> None:
        """Put the bytes of rank 0's array into everyone's."""

    def new_buffer(self, length: int, dtype: Any) -> Array:
        """The one flat buffer of this process that `all_reduce` works on, zeros.  Shapes: -> [length]"""
        raise NotImplementedError(f"{type(self).__name__}.new_buffer")

    def all_reduce(self, part: slice) -> None:
        """Replace a part of the buffer by its sum over all processes: the same bytes in each."""
        raise NotImplementedError(f"{type(self).__name__}.all_reduce")

    def synchronize(self) -> None:
        """Make what comes next wait for every `all_reduce` so far."""

    def waiting(self) -> Any:
        """Context manager: this process stands still because it waits for the others, not because it hangs."""
        return nullcontext()

    def close(self) -> None:
        """Leave, together."""

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Rank 0 passes through the block while the others wait; then they do, and find what it has made."""
        if not self.is_first:
            with self.waiting():
                self.barrier()
        yield
        if self.is_first:
            with self.waiting():
                self.barrier()


class Alone(Group):
    """One process: nothing to send to anyone."""

    def __init__(self, device: str = "cpu"):
        self.device = device
        self.cores = len(available_cores())


def available_cores() -> set[int]:
    """The processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def share_of_cores(mine: list[int], of_all: list[list[int]]) -> int:
    """Cores for each of those who may use the same ones, at least one: no more threads than cores on a host.

    A launcher may have bound each process to cores of its own; then nothing is left to divide.
    """
    return max(1, len(mine) // sum(cores == mine for cores in of_all))
