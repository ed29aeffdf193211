from collections.abc import Iterator

import numpy as np
import pytest
import threadpoolctl


@pytest.fixture(autouse=True, scope="session")
def numba_has_compiled() -> None:
    """Numba looks NumPy's functions up when it first compiles, which may be while a test has others in their place."""
    try:
        from numba import njit
    except ImportError:
        return
    njit(lambda: 0)()


@pytest.fixture(autouse=True)
def threads_of_blas() -> Iterator[None]:
    """Leave the number of threads of the BLAS library as it was found."""
    with threadpoolctl.threadpool_limits():
        yield


@pytest.fixture(autouse=True)
def unwritten_memory_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements that a kernel leaves out would else be those of an earlier call, which may be right."""
    empty, empty_like = np.empty, np.empty_like

    def poisoned(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind in "fc":
            array.fill(np.nan)
        return array

    monkeypatch.setattr(np, "empty", lambda *args, **kwargs: poisoned(empty(*args, **kwargs)))
    monkeypatch.setattr(np, "empty_like", lambda *args, **kwargs: poisoned(empty_like(*args, **kwargs)))
