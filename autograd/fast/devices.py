"""The kernels of each device: `kernels_of`, and how those of the CPU are chosen."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from autograd.backend import Backend, backend_of
from autograd.fast.cpu import CpuKernels
from autograd.fast.kernels import Kernels


class _Cpu:
    """The kernels of the CPU now."""

    kernels = CpuKernels()


def cpu_kernels() -> CpuKernels:
    """Return the kernels that compute on the CPU."""
    return _Cpu.kernels


def kernels_of(arrays: Iterable[Any]) -> Kernels:
    """Return the kernels of the device of arrays: of a GPU if one of them is on a GPU, else of the CPU."""
    return kernels_on(backend_of(arrays))


def kernels_on(backend: Backend) -> Kernels:
    """Return the kernels of a device."""
    return backend if isinstance(backend, Kernels) else _Cpu.kernels


def set_kernels(name: str) -> None:
    """Compute with "numpy" on the CPU from now on, in the whole process, or with kernels that "numba" compiles.

    Compiled kernels (layer norm, softmax, cross-entropy, Adam and others, in float32) take a fraction of the time of
    NumPy's, and differ by rounding.  Each is compiled when it is first called, in a second or a few, and kept on disk.

    Raises: ValueError without Numba, or for another name.
    """
    if name == "numpy":
        chosen: type[CpuKernels] = CpuKernels
    elif name == "numba":
        try:
            from autograd.fast.compiled import CompiledKernels
        except ImportError as error:
            raise ValueError(
                f"compiled kernels need Numba, which cannot be imported ({error}); pip install '.[numba]' in the "
                "project's directory, or choose kernels=numpy"
            ) from None
        chosen = CompiledKernels
    else:
        raise ValueError(f"kernels={name!r} are not known; choose 'numpy' or 'numba'")
    _Cpu.kernels = chosen(threads_of=_Cpu.kernels)


def make_gpu_backend(index: int) -> Backend:
    """Return a GPU with its kernels."""
    import cupy

    from autograd.fast.cuda import CudaKernels

    with cupy.cuda.Device(index):
        return CudaKernels(index)


# ---- The process ----


def available_cores() -> int:
    """Return the processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
