"""The CUDA kernels compiled for the CPU: `Emulator().launch("dropout<float>", …)` does what a GPU would."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autograd.fast import cuda_source as kernels

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "build" / "emulated-kernels"
# -O2 would take twice as long, and save a tenth of the time that the kernels then run
FLAGS = ["-std=c++17", "-O1", "-shared", "-fPIC", "-U_FORTIFY_SOURCE", "-fno-strict-aliasing", "-w"]
FLAGS += ["-ffp-contract=off"]  # a product and a sum round separately on every processor, as in NumPy

NAMES = [*dict.fromkeys(name for kind in kernels.WIDE for name in kernels.names(kind))]  # two types share some


class Emulator:
    """The kernels, compiled into a library, and again when their text has changed."""

    def __init__(self) -> None:
        self.backwards = False  # run the threads from the last to the first: a race then gives another result
        self.launched: list[str] = []
        self._library = _compiled()

    @staticmethod
    def available() -> bool:
        return shutil.which("g++") is not None

    def launch(
        self, name: str, grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any], shared: int = 0
    ) -> None:
        """Run a kernel.  Arguments: NumPy scalars and structured values as they are, addresses as Python ints.

        Raises: RuntimeError if not all threads reach a barrier, or a shuffle names a thread that has ended.
        """
        self.launched.append(name)
        values = [np.array(value, np.uint64 if isinstance(value, int) else None) for value in arguments]
        pointers = (ctypes.c_void_p * len(values))(*[value.ctypes.data for value in values])
        function = self._library[f"launch_{NAMES.index(name)}"]
        function.restype = ctypes.c_char_p
        sizes = [(ctypes.c_uint * 3)(*(*size, 1, 1)[:3]) for size in (grid, block)]
        fault = function(*sizes, ctypes.c_size_t(shared), int(self.backwards), pointers)
        if fault:
            raise RuntimeError(f"{name}: {fault.decode()}")


@functools.cache  # one for each emulator of the process
def _compiled() -> ctypes.CDLL:
    """Return the library of all kernels."""
    launchers = "".join(
        f'extern "C" const char* launch_{place}(const unsigned* grid, const unsigned* block, size_t shared, '
        f"int backwards, void** arguments) {{ return emulator::launch({name}, grid, block, shared, backwards, "
        "arguments); }\n"
        for place, name in enumerate(NAMES)
    )
    text = f'#include "{HERE / "device.h"}"\n{kernels.source()}\n{launchers}'
    text_hash = hashlib.sha256((text + (HERE / "device.h").read_text() + str(FLAGS)).encode()).hexdigest()[:16]
    library = FOLDER / f"kernels-{text_hash}.so"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:  # tests run in several processes: one compiles
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            code, partial = FOLDER / "kernels.cpp", FOLDER / "kernels.partial"
            code.write_text(text)
            subprocess.run(["g++", *FLAGS, "-o", str(partial), str(code)], check=True)
            partial.replace(library)
    return ctypes.CDLL(str(library))
