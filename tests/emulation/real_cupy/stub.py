"""Install the card that is none under the real CuPy: `install()` before anything else imports CuPy.

Functions of CUDA's libraries are overwritten, in memory, by jumps to those of driver.c: the runtime that is linked into
CuPy's extension modules, and cuBLAS, cuBLASLt and NCCL from their wheels.  With `numbers`, launches are computed: the
project's kernels by the emulation of tests/emulation, CuPy's own by a C++ compiler from the source that CuPy generates,
products by NumPy.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import mmap
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
FOLDER = HERE.parents[2] / "build" / "real-cupy"
PAGE = mmap.PAGESIZE


class Counted(NamedTuple):
    name: str
    calls: int
    bytes: int


class Stub:
    """The library, and what has been counted since the last `reset`."""

    def __init__(self, library: ctypes.CDLL):
        self.library = library
        library.stub_peak.restype = ctypes.c_long

    def reset(self) -> None:
        self.library.stub_reset()

    def counts(self) -> list[Counted]:
        rows, name, calls, size = [], ctypes.create_string_buffer(256), ctypes.c_long(), ctypes.c_long()
        while self.library.stub_count(len(rows), name, ctypes.byref(calls), ctypes.byref(size)):
            rows.append(Counted(name.value.decode(), calls.value, size.value))
        return sorted((row for row in rows if row.calls), key=lambda row: -row.calls)

    def count(self, *beginnings: str) -> int:
        """Calls of all names that begin so."""
        return sum(row.calls for row in self.counts() if row.name.startswith(beginnings))


def install(*, numbers: bool = False, compiled: bool = False) -> Stub:
    """
    numbers: compute what is launched
    compiled: let NVRTC compile kernels, instead of taking their source as it is
    """
    assert "cupy" not in sys.modules
    if numbers:
        os.environ["CUPY_ACCELERATORS"] = ""  # CUB's reductions are in its own headers, CuPy's are generated
    os.environ.setdefault("CUPY_CACHE_DIR", str(FOLDER / "cache"))
    stub = Stub(ctypes.CDLL(str(_built()), mode=ctypes.RTLD_GLOBAL))
    _redirect_libraries(stub.library)
    runtime = importlib.import_module("cupy_backends.cuda.api.runtime")
    import cupy.cuda.cub
    import cupy.cuda.thrust

    for module in (runtime, cupy.cuda.thrust, cupy.cuda.cub):
        _redirect_runtime(Path(module.__file__), stub.library)
    if not compiled:
        _keep_sources()
    if numbers:
        from tests.emulation.real_cupy.computing import compute

        compute(stub.library)
    return stub


def _built() -> Path:
    source = HERE / "driver.c"
    library = FOLDER / f"stub-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so"
    if not library.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        partial = library.with_suffix(f".{os.getpid()}")
        flags = ["-O1", "-w", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", f"-I{_of_nvidia('cu13') / 'include'}"]
        subprocess.run(["gcc", *flags, "-o", str(partial), str(source), "-lpthread", "-lrt"], check=True)
        partial.replace(library)
    return library


def _of_nvidia(name: str) -> Path:
    spec = importlib.util.find_spec(f"nvidia.{name}")
    assert spec is not None
    return Path(next(iter(spec.submodule_search_locations or ())))


# ---- Jumps ----


def _address_of(library: ctypes.CDLL, name: str) -> int | None:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    except AttributeError:
        return None


def _jump(at: int, to: int) -> None:
    """Overwrite a function by `jmp [rip + 0]` and the address to jump to."""
    start = at & -PAGE
    if ctypes.CDLL(None, use_errno=True).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(at + 14 - start), 7):
        raise OSError(ctypes.get_errno(), "mprotect")
    ctypes.memmove(at, b"\xff\x25\0\0\0\0" + to.to_bytes(8, "little"), 14)


def _redirect_libraries(stub: ctypes.CDLL) -> None:
    """Every function of cuBLAS, cuBLASLt and NCCL that the stub has."""
    libraries = {
        "cublasLt": _of_nvidia("cu13") / "lib" / "libcublasLt.so.13",
        "cublas": _of_nvidia("cu13") / "lib" / "libcublas.so.13",
        "nccl": _of_nvidia("nccl") / "lib" / "libnccl.so.2",
    }
    ours = [name for name, _ in _functions(_built()) if name.startswith("stub_")]
    for beginning, path in libraries.items():
        library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        for name in ours:
            real = name.removeprefix("stub_")
            if not real.startswith(beginning) or (beginning == "cublas" and real.startswith("cublasLt")):
                continue
            at, to = _address_of(library, real), _address_of(stub, name)
            assert at is not None, f"{path.name} has no {real}"
            assert to is not None
            _jump(at, to)
        for real in _others(beginning):  # what returns nothing
            at, to = _address_of(library, real), _address_of(stub, "stub_zero")
            if at is not None and to is not None:
                _jump(at, to)


def _others(beginning: str) -> list[str]:
    return {
        "cublas": ["cublasDestroy_v2", "cublasSetStream_v2", "cublasSetMathMode", "cublasSetPointerMode_v2"],
        "cublasLt": ["cublasLtDestroy", "cublasLtMatmulPreferenceSetAttribute"],
        "nccl": ["ncclCommDestroy", "ncclCommFinalize", "ncclGroupStart", "ncclGroupEnd"],
    }[beginning]


def _redirect_runtime(path: Path, stub: ctypes.CDLL) -> None:
    """Every function of the CUDA runtime that is linked into a module; those that the stub has not return 0."""
    with open("/proc/self/maps") as maps:
        base = next(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(str(path)))
    nothing = _address_of(stub, "stub_zero")
    for name, offset in _functions(path):
        if re.fullmatch(r"cuda[A-Z]\w*", name):
            to = _address_of(stub, "stub_" + re.sub(r"_pt[ds]z$", "", name)) or nothing
            assert to is not None
            _jump(base + offset, to)


def _functions(path: Path) -> list[tuple[str, int]]:
    """Names and offsets of the functions in the symbol table of an ELF file."""
    data = path.read_bytes()
    headers, size, count = (int.from_bytes(data[a:b], "little") for a, b in ((40, 48), (58, 60), (60, 62)))
    section = np.dtype(
        [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8"),
         ("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry", "<u8")]
    )  # fmt: skip
    symbol = np.dtype(
        [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
    )
    assert size == section.itemsize
    sections = np.frombuffer(data, section, count, headers)
    found = []
    for each in sections[sections["type"] == 2]:  # SHT_SYMTAB
        symbols = np.frombuffer(data, symbol, int(each["size"]) // symbol.itemsize, int(each["offset"]))
        names = int(sections[each["link"]]["offset"])
        for one in symbols[(symbols["info"] & 15 == 2) & (symbols["section"] != 0)]:  # STT_FUNC, defined here
            start = names + int(one["name"])
            found.append((data[start : data.index(0, start)].decode(), int(one["value"])))
    return found


# ---- Kernels ----


def _keep_sources() -> None:
    """Let CuPy load the source of a kernel in the place of what NVRTC makes of it."""
    from cupy.cuda import compiler
    from cupy.cuda.function import Module

    def load(source: str, options: Any, arch: Any, extra: Any = None, backend: str = "nvrtc", cooperative: bool = False,
             name_expressions: Any = None, *_: Any, **__: Any) -> Any:  # fmt: skip
        module = Module()
        module.load(source.encode() + b"\0")
        if name_expressions:
            module._set_mapping({name: name for name in name_expressions})
        return module

    assert callable(compiler._compile_with_cache_cuda)
    compiler._compile_with_cache_cuda = load
