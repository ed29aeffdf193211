"""Backends with their threads, and the computer left as it was found."""

from collections.abc import Callable, Iterator

import pytest
import threadpoolctl

from autograd.backend import CPU, CpuBackend


@pytest.fixture(autouse=True)
def threads_of_others() -> Iterator[None]:
    """The global backend, and the BLAS library's threads, as they were before."""
    threads, pool = CPU.threads, CPU._pool
    with threadpoolctl.threadpool_limits():
        yield
    CPU.threads, CPU._pool = threads, pool


@pytest.fixture
def backend_with() -> Callable[[int | None], CpuBackend]:
    """backend_with(threads): a backend of its own; None: as after an import."""

    def make(threads: int | None) -> CpuBackend:
        backend = CpuBackend()
        if threads is not None:
            backend.set_threads(threads)
        return backend

    return make
