"""Ranks with one GPU each: NCCL, through CuPy, all-reduces gradients on a CUDA stream of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitf.errors import UserError
from minitf.parallel.group import Deadline, Group, ParallelError

Array = Any

NCCL_TYPES = {"float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64"}


class NcclGroup(Group):
    """A group whose arrays are on GPUs; `control`, a group of the same ranks, does everything else."""

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
        self._control, self._xp, self._nccl = control, backend.xp, backend.nccl
        if not self._nccl.available:
            raise UserError(
                "CuPy finds no NCCL, which connects GPUs; pip install nvidia-nccl-cu13, or train on one GPU"
            )
        self._communicator = self._connect()
        self._stream = self._xp.cuda.Stream(non_blocking=True)

    def _connect(self) -> Any:
        identifier = self._control.broadcast_value(self._nccl.get_unique_id() if self.rank == 0 else None)
        try:
            return self._nccl.NcclCommunicator(self.size, identifier, self.rank)
        except self._nccl.NcclError as error:
            raise UserError(
                f"NCCL cannot join {self.size} GPUs: {error}; each process needs its own GPU (NCCL_DEBUG=WARN "
                "makes NCCL print details)"
            ) from error

    def all_gather(self, value: Any, purpose: str = "a message", *, after_rank_0: bool = False) -> list[Any]:
        return self._control.all_gather(value, purpose, after_rank_0=after_rank_0)

    def broadcast(self, array: Array) -> None:
        if isinstance(array, np.ndarray):
            self._control.broadcast(array)
            return
        stream = self._xp.cuda.get_current_stream()
        self._communicator.bcast(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, 0, stream.ptr)

    def all_reduce(self, array: Array) -> None:
        """Enqueue the all-reduce, which starts when the current stream has written `array`."""
        self._stream.wait_event(self._xp.cuda.get_current_stream().record())
        kind = getattr(self._nccl, NCCL_TYPES[array.dtype.name])
        pointer = array.data.ptr
        self._communicator.allReduce(pointer, pointer, array.size, kind, self._nccl.NCCL_SUM, self._stream.ptr)

    def synchronize(self) -> None:
        """Wait until all sums have ended; CUDA itself would wait without a limit.

        Raises: ParallelError if NCCL has lost a rank, or a sum does not end
        """
        event, deadline = self._stream.record(), Deadline()
        while not event.done:
            try:
                self._communicator.check_async_error()
            except self._nccl.NcclError as error:
                self._communicator.abort()
                raise ParallelError(
                    f"NCCL cannot sum gradients: {error}; continue from the last checkpoint with --resume "
                    "(NCCL_DEBUG=WARN makes NCCL print details)"
                ) from error
            if deadline.pause():
                raise deadline.error(self.rank, "another rank", "the sum of gradients")
        self._xp.cuda.get_current_stream().wait_event(event)
