"""The CUDA backend for tests: emulated here, and with `pytest -m gpu` on a true GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from tests.emulation.cupy_stand_in import installed
from tests.emulation.emulator import Emulator

no_compiler = pytest.mark.skipif(not Emulator.available(), reason="needs g++ to emulate the CUDA kernels")
KINDS = [pytest.param("emulated", marks=no_compiler)]
if find_spec("cupy"):  # else there were hundreds of skips for one reason
    KINDS.append(pytest.param("gpu", marks=pytest.mark.gpu))


@contextmanager
def cuda_backend(kind: str) -> Iterator[Any]:
    """The backend of `cuda`; its list `launched` has the names of kernels started; its `emulator` is None on a GPU."""
    from autograd.backend import get_backend

    if kind == "gpu":
        with _recorded(get_backend("cuda"), None) as backend:
            yield backend
        return
    emulator = Emulator()
    with installed(emulator), _recorded(get_backend("cuda"), emulator) as backend:
        yield backend


@contextmanager
def _recorded(backend: Any, emulator: Emulator | None) -> Iterator[Any]:
    launch = backend._launch

    def recording(name: str, *args: Any, **kwargs: Any) -> None:
        backend.launched.append(name)
        launch(name, *args, **kwargs)

    backend.launched, backend.emulator, backend._launch = [], emulator, recording
    try:
        yield backend
    finally:
        del backend.launched, backend.emulator, backend._launch
