from collections.abc import Callable, Iterator

import pytest
import threadpoolctl

from autograd.backend import CpuBackend


@pytest.fixture(autouse=True)
def threads_of_blas() -> Iterator[None]:
    """Leave the number of threads of the BLAS library as it was found."""
    with threadpoolctl.threadpool_limits():
        yield


@pytest.fixture
def backend_with() -> Callable[[int | None], CpuBackend]:
    """backend_with(threads): a backend of its own; None: as after an import."""

    def make(threads: int | None) -> CpuBackend:
        backend = CpuBackend()
        if threads is not None:
            backend.set_threads(threads)
        return backend

    return make
