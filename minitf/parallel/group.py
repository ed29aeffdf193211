"""A group of ranks and its collective operations: barrier, all-gather, broadcast and all-reduce."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from minitf.errors import UserError
from minitf.parallel.heartbeat import Heartbeat

Array = Any


class ParallelError(UserError):
    """Raised when data-parallel training cannot continue: a rank exited, timed out or diverged from rank 0."""

    exit_status = 1  # the command line was right


class Group:
    """The ranks of a job, and their collective operations.

    Every rank calls the same methods in the same order; each call waits for the slowest rank.
    """

    rank = 0
    size = 1
    local_rank = 0  # among the ranks of this host
    local_size = 1
    hosts = 1
    device = "cpu"
    cores = 1  # CPU cores of this rank
    heartbeat: Heartbeat
    is_asynchronous = False  # True: `all_reduce` returns at once, and `synchronize` waits
    waited_s = 0.0  # time in `all_reduce` before the last rank arrived; not measured on GPUs

    def barrier(self) -> None:
        """Wait until every rank has called this method."""
        raise NotImplementedError

    def all_gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in order of rank.  Values are those of JSON, NaN and infinity included."""
        raise NotImplementedError

    def broadcast_value(self, value: Any) -> Any:
        """Return rank 0's value."""
        return self.all_gather(value if self.rank == 0 else None)[0]

    def broadcast(self, array: Array) -> None:
        """Overwrite `array` with rank 0's."""
        raise NotImplementedError

    def new_buffer(self, length: int, dtype: Any) -> Array:
        """Allocate this rank's buffer for `all_reduce`, filled with zeros.  Shapes: -> [length]"""
        raise NotImplementedError

    def all_reduce(self, part: slice) -> None:
        """Replace a part of the buffer by its sum over all ranks, with the same bytes on every rank."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Make the computations that follow wait for all `all_reduce` calls so far."""

    def waiting(self) -> AbstractContextManager[None]:
        """Context manager: this rank waits for others, which does not count as a hang."""
        return self.heartbeat.waiting()

    def close(self) -> None:
        """Leave the group, together with all other ranks."""
        self.heartbeat.prepare_exit()
        with self.waiting():
            self.barrier()
        self.heartbeat.finish()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Context manager: rank 0 executes the block first, then all other ranks do, and find the files it wrote."""
        if self.rank != 0:
            with self.waiting():
                self.barrier()
        yield
        if self.rank == 0:
            with self.waiting():
                self.barrier()
