"""Ranks with one GPU each: NCCL, through CuPy, all-reduces gradients on a CUDA stream of its own."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from minitf.errors import UserError
from minitf.parallel.group import Group, ParallelError

Array = Any

NCCL_TYPES = {"float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64", "uint16": "NCCL_BFLOAT16"}  # uint16: its bits


class NcclGroup(Group):
    """A group whose buffers are on GPUs; `control`, a group of the same ranks, does everything else."""

    is_asynchronous = True

    def __init__(self, control: Group, backend: Any, device: str):
        """
        backend: that of this rank's GPU, which is the current device; it alone imports CuPy
        Raises: UserError if NCCL is missing or refuses these GPUs.
        """
        self.rank, self.size = control.rank, control.size
        self.local_rank, self.local_size = control.local_rank, control.local_size
        self.hosts = control.hosts
        self.cores, self.device = control.cores, device
        self._control, self._xp, self.heartbeat = control, backend.xp, control.heartbeat
        self._nccl = backend.nccl
        if not self._nccl.available:
            raise UserError(
                "CuPy finds no NCCL, which connects GPUs; pip install nvidia-nccl-cu13, or train on one GPU"
            )
        with control.waiting():
            self._communicator = self._connect()
        self._stream = self._xp.cuda.Stream(non_blocking=True)
        self._buffer: Array = None

    def _connect(self) -> Any:
        identifier = self._control.broadcast_value(list(self._nccl.get_unique_id()) if self.rank == 0 else None)
        try:
            return self._nccl.NcclCommunicator(self.size, bytes(identifier), self.rank)
        except self._nccl.NcclError as error:
            raise UserError(
                f"NCCL cannot join {self.size} GPUs: {error}; each process needs its own GPU (NCCL_DEBUG=WARN "
                "makes NCCL print details)"
            ) from error

    def barrier(self) -> None:
        self._control.barrier()

    def all_gather(self, value: Any) -> list[Any]:
        return self._control.all_gather(value)

    def broadcast(self, array: Array) -> None:
        if isinstance(array, np.ndarray):
            self._control.broadcast(array)
            return
        stream = self._xp.cuda.get_current_stream()
        self._communicator.bcast(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, 0, stream.ptr)

    def new_buffer(self, length: int, dtype: Any) -> Array:
        self._buffer = self._xp.zeros(length, dtype)
        return self._buffer

    def all_reduce(self, part: slice) -> None:
        """Enqueue the all-reduce, which starts when the current stream has written this part of the buffer."""
        self._stream.wait_event(self._xp.cuda.get_current_stream().record())
        pointer, length = self._buffer.data.ptr + part.start * self._buffer.itemsize, part.stop - part.start
        kind = getattr(self._nccl, NCCL_TYPES[self._buffer.dtype.name])
        self._communicator.allReduce(pointer, pointer, length, kind, self._nccl.NCCL_SUM, self._stream.ptr)

    def synchronize(self) -> None:
        """Wait here, where the heartbeats say so, until all sums have ended: a sum that never ends is then a deadlock.

        CUDA would wait where nothing ends it.  The longer it takes, the more rarely this asks, so that asking is no
        progress to the coordinator.

        Raises: ParallelError if NCCL has lost a rank
        """
        event, start = self._stream.record(), time.monotonic()
        while not event.done:
            try:
                self._communicator.check_async_error()
            except self._nccl.NcclError as error:
                self._communicator.abort()
                raise ParallelError(
                    f"NCCL cannot sum gradients: {error}; continue from the last checkpoint with --resume "
                    "(NCCL_DEBUG=WARN makes NCCL print details)"
                ) from error
            time.sleep(min(max((time.monotonic() - start) / 50, 50e-6), 0.2))
        self._xp.cuda.get_current_stream().wait_event(event)

    def close(self) -> None:
        self._control.close()
