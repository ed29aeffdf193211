"""Ranks on one host: buffers in shared memory, and pipes for the barrier.

The launcher passes everything shared to each rank as open descriptors: an anonymous shared-memory file, and the pipes.
Nothing has a name in the file system, so nothing is left behind when the last rank exits.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from typing import Any

import numpy as np

from minitf.parallel.group import Group, ParallelError, chunk_of, sum_rows
from minitf.parallel.heartbeat import Heartbeat

Array = Any

MAILBOX_BYTES = 1 << 20  # of each rank, for values and broadcasts; only pages that are written take memory
HEADER_BYTES = 16


def barrier_distances(size: int) -> list[int]:
    """Distances between ranks that signal each other in the rounds of the barrier: 1, 2, 4, … < size."""
    return [1 << k for k in range(max(size - 1, 0).bit_length())]


class SharedMemoryGroup(Group):
    """The ranks of one host, started by `--devices cpu:N` or `--devices N`."""

    def __init__(
        self, rank: int, size: int, memory: int, signal_pipes: list[int], wait_pipes: list[int], heartbeat: Heartbeat
    ):
        """
        memory: descriptor of an empty shared-memory file
        signal_pipes, wait_pipes: descriptors to write to and to read from, one of each per round of the barrier
        """
        self.rank = self.local_rank = rank
        self.size = self.local_size = size
        self._memory, self.heartbeat = memory, heartbeat
        self._pipes = list(zip(signal_pipes, wait_pipes, strict=True))
        self._bytes = 0
        self._mail = self._map(MAILBOX_BYTES)  # [size, MAILBOX_BYTES]
        self._rows: Array = None

    def barrier(self) -> None:
        """Dissemination barrier: in round k, signal rank + 2^k and wait for rank - 2^k, for ⌈log₂ size⌉ rounds.

        The system calls also make what was written to the shared memory before visible to the ranks that read it after.

        Source: Hensgen, Finkel and Manber 1988
        """
        for signal_pipe, wait_pipe in self._pipes:
            try:
                os.write(signal_pipe, b"\0")
                received = os.read(wait_pipe, 1)
            except BrokenPipeError:
                received = b""
            if not received:
                time.sleep(10)  # the launcher knows which rank failed, and ends this process long before
                raise ParallelError(f"rank {self.rank} has lost the connection to another rank")

    def all_gather(self, value: Any) -> list[Any]:
        data = json.dumps(value).encode()
        gathered = [b""] * self.size
        is_complete = False
        with self.waiting():
            while not is_complete:
                self._write_mail(data)
                data = data[MAILBOX_BYTES - HEADER_BYTES :]
                self.barrier()
                is_complete = True
                for rank in range(self.size):
                    chunk, bytes_left = self._read_mail(rank)
                    gathered[rank] += chunk
                    is_complete = is_complete and not bytes_left
                self.barrier()  # before any rank overwrites its mailbox
        return [json.loads(each) for each in gathered]

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
        sum_rows(self._rows, chunk_of(part, self.rank, self.size), into=self._rows)
        self.barrier()

    def _map(self, row_bytes: int) -> Array:
        """Append zeros to the shared memory and map them.

        Shapes: -> uint8 [size, row_bytes rounded up to whole pages]
        """
        row_bytes = -(-max(row_bytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE  # each row on pages of its own
        start, self._bytes = self._bytes, self._bytes + self.size * row_bytes
        if self.rank == 0:
            os.ftruncate(self._memory, self._bytes)
        with self.waiting():
            self.barrier()
        mapped = mmap.mmap(self._memory, self._bytes - start, offset=start)
        return np.frombuffer(mapped, np.uint8).reshape(self.size, row_bytes)

    def _write_mail(self, data: bytes) -> None:
        """Write as much of `data` as fits into this rank's mailbox, after its length and the number of bytes left."""
        chunk = data[: MAILBOX_BYTES - HEADER_BYTES]
        header = np.array([len(chunk), len(data) - len(chunk)], np.int64).view(np.uint8)
        self._mail[self.rank, :HEADER_BYTES] = header
        self._mail[self.rank, HEADER_BYTES : HEADER_BYTES + len(chunk)] = np.frombuffer(chunk, np.uint8)

    def _read_mail(self, rank: int) -> tuple[bytes, int]:
        length, bytes_left = self._mail[rank, :HEADER_BYTES].view(np.int64)
        return self._mail[rank, HEADER_BYTES : HEADER_BYTES + length].tobytes(), int(bytes_left)
