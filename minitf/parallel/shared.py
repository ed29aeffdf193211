"""Processes on one host: their buffers stand in memory that all of them see, and pipes let them wait for each other.

Everything they share comes as descriptors from the launcher: an unnamed piece of memory, and pipes.  Nothing has a
name, so nothing is left behind, and what is shared ends with the last process.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from typing import Any

import numpy as np

from minitf.parallel.group import Group, ParallelError
from minitf.parallel.sums import own_part, sum_rows
from minitf.parallel.watch import Pulse

Array = Any

MAILBOX_BYTES = 1 << 20  # of each process, for values and broadcasts; only what is written takes memory
HEADER_BYTES = 16


def rounds_of(size: int) -> list[int]:
    """How far each round of the barrier reaches: 1, 2, 4, … < size."""
    return [1 << k for k in range(max(size - 1, 0).bit_length())]


class SharedMemoryGroup(Group):
    """Several processes of one host."""

    reduces = True

    def __init__(self, rank: int, size: int, memory: int, arrive: list[int], await_: list[int], pulse: Pulse):
        """
        memory: descriptor of an empty file in memory; arrive, await_: of pipes to write to and to read from, one of
        each a round of the barrier
        """
        self.rank = self.local_rank = rank
        self.size = self.local_size = size
        self._memory, self._arrive, self._await, self._pulse = memory, arrive, await_, pulse
        self._bytes = 0
        self._mail = self._map(MAILBOX_BYTES)  # [size, MAILBOX_BYTES]
        self._rows: Array = None

    def barrier(self) -> None:
        """In round k, tell rank + 2^k and hear of rank - 2^k: after ⌈log₂ size⌉ rounds everyone has heard of all.

        A system call is also what makes all that was written to memory before visible to whoever reads it after.

        Source: Hensgen, Finkel and Manber 1988, the dissemination barrier
        """
        for arrive, await_ in zip(self._arrive, self._await, strict=True):
            try:
                os.write(arrive, b"\0")
                heard = os.read(await_, 1)
            except BrokenPipeError:
                heard = b""
            if not heard:
                time.sleep(10)  # the launcher knows who it was, and ends this process long before
                raise ParallelError(f"rank {self.rank} has lost another process")

    def waiting(self) -> Any:
        return self._pulse.waiting()

    def all_gather(self, value: Any) -> list[Any]:
        data = json.dumps(value).encode()
        found = [b""] * self.size
        more = True
        with self.waiting():
            while more:
                more = False
                self._write_mail(data)
                data = data[MAILBOX_BYTES - HEADER_BYTES :]
                self.barrier()
                for rank in range(self.size):
                    chunk, rest = self._read_mail(rank)
                    found[rank] += chunk
                    more = more or rest > 0
                self.barrier()  # before anyone writes the next
        return [json.loads(each) for each in found]

    def broadcast(self, array: Array) -> None:
        flat = array.reshape(-1).view(np.uint8)
        with self.waiting():
            for start in range(0, flat.size, MAILBOX_BYTES):
                chunk = flat[start : start + MAILBOX_BYTES]
                if self.rank == 0:
                    self._mail[0, : chunk.size] = chunk
                self.barrier()
                if self.rank != 0:
                    chunk[...] = self._mail[0, : chunk.size]
                self.barrier()

    def new_buffer(self, length: int, dtype: Any) -> Array:
        dtype = np.dtype(dtype)
        self._rows = self._map(length * dtype.itemsize).view(dtype)[:, :length]  # [size, length]
        return self._rows[self.rank]

    def all_reduce(self, part: slice) -> None:
        start = time.perf_counter()
        self.barrier()
        self.waited_s += time.perf_counter() - start
        sum_rows(self._rows, own_part(part, self.rank, self.size), into=self._rows)
        self.barrier()

    def close(self) -> None:
        self._pulse.leave()
        with self.waiting():
            self.barrier()
        self._pulse.end()

    def _map(self, row_bytes: int) -> Array:
        """A new piece of the shared memory, zeros.  Shapes: -> uint8 [size, row_bytes, rounded up to pages]"""
        row_bytes = -(-max(row_bytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE  # each row on pages of its own
        start, self._bytes = self._bytes, self._bytes + self.size * row_bytes
        if self.rank == 0:
            os.ftruncate(self._memory, self._bytes)
        with self.waiting():
            self.barrier()
        mapped = mmap.mmap(self._memory, self._bytes - start, offset=start)
        return np.frombuffer(mapped, np.uint8).reshape(self.size, row_bytes)

    def _write_mail(self, data: bytes) -> None:
        chunk = data[: MAILBOX_BYTES - HEADER_BYTES]
        header = np.array([len(chunk), len(data) - len(chunk)], np.int64).view(np.uint8)
        self._mail[self.rank, :HEADER_BYTES] = header
        self._mail[self.rank, HEADER_BYTES : HEADER_BYTES + len(chunk)] = np.frombuffer(chunk, np.uint8)

    def _read_mail(self, rank: int) -> tuple[bytes, int]:
        length, rest = self._mail[rank, :HEADER_BYTES].view(np.int64)
        return self._mail[rank, HEADER_BYTES : HEADER_BYTES + length].tobytes(), int(rest)
