"""A group of ranks and its collective operations: barrier, all-gather, broadcast and all-reduce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

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


# ---- Sums --------------------------------------------------------------------------------------------------------


BLOCK_BYTES = 256 * 1024  # stays in the level-2 cache while one buffer after the other is added to it


def to_bfloat16(x: Array) -> Array:
    """Round float32 to bfloat16, to nearest, ties to even; NaN stays NaN.

    Shapes: float32 [n] -> uint16 [n], the bits of bfloat16
    """
    bits = x.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x0040, rounded).astype(np.uint16)


def from_bfloat16(bits: Array) -> Array:
    """Convert bfloat16 to float32, exactly.  Shapes: uint16 [n], the bits of bfloat16 -> float32 [n]"""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def chunk_of(part: slice, rank: int, size: int) -> slice:
    """Split `part` into `size` contiguous chunks of nearly equal length; return the chunk of `rank`."""
    length = part.stop - part.start
    return slice(part.start + length * rank // size, part.start + length * (rank + 1) // size)


def sum_rows(rows: Sequence[Array], part: slice, into: Sequence[Array]) -> None:
    """into[i][part] = rows[0][part] + rows[1][part] + … for each i, in this order, so the rounding never depends on i.

    uint16 rows are bfloat16: their sum is computed in float32 and rounded once.
    """
    block_length = BLOCK_BYTES // rows[0].itemsize
    for start in range(part.start, part.stop, block_length):
        block = slice(start, min(start + block_length, part.stop))
        if rows[0].dtype == np.uint16:
            total = from_bfloat16(rows[0][block])
            for row in rows[1:]:
                total += from_bfloat16(row[block])
            total = to_bfloat16(total)
        else:
            total = rows[0][block].copy()
            for row in rows[1:]:
                total += row[block]
        for row in into:
            row[block] = total
