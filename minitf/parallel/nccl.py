"""Processes with a GPU each: gradients are summed by NCCL through CuPy, on a stream of their own.

What the processes say to each other besides, and how they find each other, is left to a group of the host's memory or
of MPI.  CuPy comes from the backend, the only one who imports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitf.errors import UserError
from minitf.parallel.group import Group

Array = Any


class NcclGroup(Group):
    """A group whose buffers are on GPUs; `control` carries everything else."""

    reduces = True
    overlaps_itself = True

    def __init__(self, control: Group, xp: Any, device: str):
        """
        xp: CuPy, with this process's GPU in use
        Raises: UserError where NCCL is missing or refuses these GPUs.
        """
        self.rank, self.size = control.rank, control.size
        self.local_rank, self.local_size = control.local_rank, control.local_size
        self.hosts = control.hosts
        self.cores, self.device = control.cores, device
        self._control, self._xp = control, xp
        self._nccl = xp.cuda.nccl
        if not self._nccl.available:
            raise UserError("CuPy finds no NCCL to join GPUs with; pip install nvidia-nccl-cu13, or train on one GPU")
        with control.waiting():
            self._comm = self._connect()
        self._stream = xp.cuda.Stream(non_blocking=True)
        self._buffer: Array = None

    def _connect(self) -> Any:
        nccl = self._nccl
        identifier = self._control.share(list(nccl.get_unique_id()) if self.is_first else None)
        try:
            return nccl.NcclCommunicator(self.size, bytes(identifier), self.rank)
        except nccl.NcclError as error:
            raise UserError(
                f"NCCL cannot join {self.size} GPUs: {error}; each process needs a GPU of its own (NCCL_DEBUG=WARN "
                "makes NCCL say more)"
            ) from error

    def barrier(self) -> None:
        self._control.barrier()

    def all_gather(self, value: Any) -> list[Any]:
        return self._control.all_gather(value)

    def waiting(self) -> Any:
        return self._control.waiting()

    def broadcast(self, array: Array) -> None:
        if isinstance(array, np.ndarray):
            self._control.broadcast(array)
            return
        stream = self._xp.cuda.get_current_stream()
        self._comm.bcast(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, 0, stream.ptr)

    def new_buffer(self, length: int, dtype: Any) -> Array:
        self._buffer = self._xp.zeros(length, dtype)
        return self._buffer

    def all_reduce(self, part: slice) -> None:
        """Put it in the queue; the stream takes it up when what computes now has written the buffer."""
        self._stream.wait_event(self._xp.cuda.get_current_stream().record())
        start = self._buffer.data.ptr + part.start * self._buffer.itemsize
        kind, count = self._kind(), part.stop - part.start
        self._comm.allReduce(start, start, count, kind, self._nccl.NCCL_SUM, self._stream.ptr)

    def _kind(self) -> int:
        names = {"float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64", "uint16": "NCCL_BFLOAT16"}  # bits of bfloat16
        return getattr(self._nccl, names[self._buffer.dtype.name])

    def synchronize(self) -> None:
        self._comm.check_async_error()
        self._xp.cuda.get_current_stream().wait_event(self._stream.record())

    def close(self) -> None:
        self._control.close()
