"""CUDA graphs: what a function launches, recorded once and repeated as a whole with other numbers in the same memory.

A graph repeats launches with the same addresses and the same scalars.  So whatever changes from one repetition to the
next must be in memory that is written before it: the inputs of the function, and the step that dropout draws its masks
for (`step`).  The function must have run before, so that its kernels are compiled and its tables exist.

All graphs of a `CudaGraphs` share one memory pool, which nothing else allocates from.  A graph may use memory that an
earlier one uses as well: the results of a repetition are valid until the next one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

Array = Any
T = TypeVar("T")


class CaptureError(RuntimeError):
    """Raised when a function does what a graph cannot repeat: wait for the GPU, or call cuBLAS through CuPy."""


@dataclass
class CudaGraph(Generic[T]):
    """The launches of a function, and what it returned: the same arrays after every repetition."""

    result: T
    launches: Any  # cupy.cuda.Graph
    held: list[Array]  # memory outside the pool that the launches refer to


class CudaGraphs:
    """The graphs of one GPU."""

    def __init__(self, backend: Any):
        """
        Raises: CaptureError without cuBLASLt
        """
        if not backend.uses_epilogues:
            raise CaptureError("CuPy's cuBLAS cannot be captured, and cuBLASLt is missing: pip install nvmath-python")
        self._backend = backend
        self._cuda = backend.xp.cuda
        self._pool = self._cuda.MemoryPool()
        self._stream = self._cuda.Stream(non_blocking=True)  # on which launches are recorded, and nothing runs
        self._step = backend.xp.zeros(1, np.uint64)

    def capture(self, function: Callable[[], T], step: int) -> CudaGraph[T]:
        """Record what `function` launches, without running it.

        step: the step of its dropout masks; a repetition has its own

        Raises: CaptureError
        """
        self._backend.xp.get_default_memory_pool().free_all_blocks()  # that of the same function when it ran
        memory = self._cuda.using_allocator(self._pool.malloc)
        with self._backend.capturing(step, self._step) as held, memory, self._stream:
            self._stream.begin_capture()
            try:
                result = function()
                launches = self._stream.end_capture()
            except Exception as error:
                with suppress(Exception):  # which says that the capture is invalid
                    self._stream.end_capture()
                raise CaptureError(f"{type(error).__name__}: {error}") from error
        return CudaGraph(result, launches, held)

    def unowned(self, a: Array) -> Array:
        """Return an array in the memory of `a` that does not keep it, so that later graphs may use it."""
        memory = self._cuda.UnownedMemory(a.data.ptr, a.nbytes, None, a.device.id)
        return self._backend.xp.ndarray(a.shape, a.dtype, self._cuda.MemoryPointer(memory, 0))

    def repeat(self, graph: CudaGraph[T], step: int) -> T:
        """Launch a graph with the dropout masks of `step`; return its result, to which nothing has been copied."""
        self._step.fill(step)
        graph.launches.launch()
        return graph.result
