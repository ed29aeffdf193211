"""Compute what is launched on the card that is none.

While a stream is captured, what is launched is kept, with a copy of its arguments, and computed when the graph is
launched.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from autograd.fast import cuda_source
from tests.emulation.emulator import FLAGS, FOLDER
from tests.emulation.emulator import HERE as EMULATION

OURS = Path(__file__).parent
KERNELS = FOLDER.parent / "real-cupy" / "kernels"
LAUNCH, COPY, SET, PRODUCT, BEGIN, END, REPEAT, SUM = range(8)  # of driver.c
TYPES = {0: np.dtype(np.float32), 1: np.dtype(np.float64), 2: np.dtype(np.float16), 4: np.dtype(np.complex64),
         5: np.dtype(np.complex128), 14: np.dtype(ml_dtypes.bfloat16)}  # fmt: skip
NCCL_TYPES = {6: np.dtype(np.float16), 7: np.dtype(np.float32), 8: np.dtype(np.float64), 9: TYPES[14]}
Work = Callable[[], None]

_keep: list[Any] = []
_graphs: dict[int, list[Work]] = {}
_captured: list[Work] | None = None
failures: list[str] = []


def compute(stub: ctypes.CDLL) -> None:
    """From now on, compute what the stub is told to."""
    hook = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_int, ctypes.POINTER(ctypes.c_long))(_told)
    _keep.append(hook)
    ctypes.c_void_p.in_dll(stub, "stub_hook").value = ctypes.cast(hook, ctypes.c_void_p).value
    _replace_sorting()


def _told(what: int, given: Any) -> int:
    global _captured
    try:
        if what == BEGIN:
            _captured = []
        elif what == END:
            assert _captured is not None
            _graphs[given[0]], _captured = _captured, None
        elif what == REPEAT:
            for work in _graphs[given[0]]:
                work()
        else:
            _do(MAKE[what](given))
    except BaseException as error:  # there is no Python above to raise it in
        failures.append(f"{type(error).__name__}: {error}")
        print("the card that is none:", failures[-1][:2000], flush=True)
        return 1
    return 0


def _do(work: Work) -> None:
    if _captured is None:
        work()
    else:
        _captured.append(work)


# ---- Memory and products ----


def _copy(given: Any) -> Work:
    to, start, size = given[:3]
    return lambda: ctypes.memmove(to, start, size)  # type: ignore[return-value]


def _set(given: Any) -> Work:
    to, value, size = given[:3]
    return lambda: ctypes.memset(to, value, size)  # type: ignore[return-value]


def array_at(address: int, dtype: np.dtype, shape: Sequence[int], strides: Sequence[int] | None = None) -> np.ndarray:
    """An array in memory of the card; strides in elements."""
    extent = (
        int(np.prod(shape)) if strides is None else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    )
    if 0 in shape:
        return np.empty(shape, dtype)
    raw = np.frombuffer((ctypes.c_char * (extent * dtype.itemsize)).from_address(address), np.uint8).view(dtype)
    bytes_apart = None if strides is None else [s * dtype.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(raw, shape, bytes_apart) if strides is not None else raw.reshape(shape)


def _product(given: Any) -> Work:
    (
        compute,
        ta,
        tb,
        m,
        n,
        k,
        alpha,
        a,
        a_type,
        lda,
        a_stride,
        b,
        b_type,
        ldb,
        b_stride,
        beta,
        c,
        c_type,
        ldc,
        c_stride,
    ) = given[:20]
    batch, epilogue, vector = given[20:23]
    wide = np.result_type(
        np.float64 if compute == 70 else np.float32, TYPES[c_type] if TYPES[c_type].kind == "c" else np.float32
    )
    one, other = (array_at(place, wide, (1,))[0] for place in (alpha, beta))

    def work() -> None:
        for i in range(batch):
            left = _matrix(a + i * a_stride * TYPES[a_type].itemsize, a_type, m, k, lda, ta).astype(wide)
            right = _matrix(b + i * b_stride * TYPES[b_type].itemsize, b_type, k, n, ldb, tb).astype(wide)
            result = _matrix(c + i * c_stride * TYPES[c_type].itemsize, c_type, m, n, ldc, 0)
            product = one * (left @ right)
            if other:
                product = product + other * result.astype(wide)
            if epilogue & 4:  # BIAS, RELU_BIAS
                product = product + array_at(vector, TYPES[c_type], (m, 1)).astype(wide)
            result[...] = np.maximum(product, 0) if epilogue & 2 else product

    assert epilogue in (1, 4, 6)
    return work


def _matrix(address: int, kind: int, rows: int, columns: int, ld: int, transposed: int) -> np.ndarray:
    """A column-major matrix; transposed: 1, or 2 with conjugation."""
    if transposed:
        stored = array_at(address, TYPES[kind], (columns, rows), (1, ld)).T
        return stored.conj() if transposed == 2 else stored
    return array_at(address, TYPES[kind], (rows, columns), (1, ld))


def _sum(given: Any) -> Work:
    to, slots, apart, ranks, count, kind = given[:6]
    dtype = NCCL_TYPES[kind]
    wide = np.float32 if dtype.itemsize == 2 else dtype
    parts = [array_at(slots + rank * apart, dtype, (count,)) for rank in range(ranks)]

    def work() -> None:
        total = parts[0].astype(wide)
        for part in parts[1:]:
            total += part.astype(wide)
        array_at(to, dtype, (count,))[...] = total

    return work


def _replace_sorting() -> None:
    """Thrust's functions are compiled for GPUs alone."""
    from cupy.cuda import thrust

    def sort(dtype: Any, data: int, keys: int, shape: Sequence[int]) -> None:
        _do(lambda: array_at(data, np.dtype(dtype), shape).sort(axis=-1, kind="stable"))

    def argsort(dtype: Any, indices: int, data: int, keys: int, shape: Sequence[int]) -> None:
        def work() -> None:
            values = array_at(data, np.dtype(dtype), shape)
            order = np.argsort(values, axis=-1, kind="stable")
            array_at(indices, np.dtype(np.intp), shape)[...] = order
            values[...] = np.take_along_axis(values, order, -1)

        _do(work)

    def lexsort(dtype: Any, indices: int, keys: int, k: int, n: int) -> None:
        _do(
            lambda: array_at(indices, np.dtype(np.intp), (n,)).__setitem__(
                ..., np.lexsort(array_at(keys, np.dtype(dtype), (k, n)))
            )
        )

    thrust.sort, thrust.argsort, thrust.lexsort = sort, argsort, lexsort


# ---- Kernels ----


class _Kernel:
    """A kernel as a C++ compiler makes it: a function to launch it by, and the sizes of its arguments."""

    def __init__(self, library: ctypes.CDLL, number: int, one_thread: bool):
        self._launch = library[f"launch_{number}"]
        self._launch.restype = ctypes.c_char_p
        sizes = library[f"sizes_{number}"]
        sizes.restype = ctypes.POINTER(ctypes.c_long)
        count = 0
        found = sizes()
        while found[count]:
            count += 1
        self.sizes = found[:count]
        self._one_thread = one_thread  # the others have nothing to add: its loop strides over all elements

    def launch(self, name: str, grid: Any, block: Any, shared: int, arguments: Any) -> None:
        if self._one_thread:
            grid, block = (1, 1, 1), (1, 1, 1)
        fault = self._launch(
            (ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), ctypes.c_size_t(shared), 0, arguments
        )
        if fault:
            raise RuntimeError(f"{name}: {fault.decode()}")


_kernels: dict[tuple[str, int], _Kernel] = {}


def _launched(given: Any) -> Work:
    name, source, grid, block, shared, pointers = given[0], given[1], given[2:5], given[5:8], given[8], given[9]
    text = ctypes.string_at(name).decode()
    kernel = _kernels.get((text, source))
    if kernel is None:
        kernel = _kernels[text, source] = _compiled(text, ctypes.string_at(source).decode())
    arguments: Any = ctypes.cast(pointers, ctypes.POINTER(ctypes.c_void_p))
    if _captured is not None:  # they are gone when the graph is launched
        kept = [
            ctypes.create_string_buffer(ctypes.string_at(arguments[i], size), size)
            for i, size in enumerate(kernel.sizes)
        ]
        arguments = (ctypes.c_void_p * len(kept))(*[ctypes.addressof(each) for each in kept])
        _keep.append(kept)
    return lambda: kernel.launch(text, grid, block, shared, arguments)


SIZES = """
template <class... A> static const long* sizes_of(void (*)(A...)) {
    static const long sizes[] = {long(sizeof(A))..., 0};
    return sizes;
}
"""


def _launchers(names: Sequence[str]) -> str:
    return SIZES + "".join(
        f'extern "C" const long* sizes_{i}() {{ return sizes_of({name}); }}\n'
        f'extern "C" const char* launch_{i}(const unsigned* grid, const unsigned* block, size_t shared, int backwards, '
        f"void** arguments) {{ return emulator::launch({name}, grid, block, shared, backwards, arguments); }}\n"
        for i, name in enumerate(names)
    )


def _compiled(name: str, source: str) -> _Kernel:
    if source == cuda_source.source():
        kind = next((kind for kind in cuda_source.WIDE if name in cuda_source.names(kind)), "")
        names = cuda_source.names(kind)
        return _Kernel(
            _library(f'#include "{EMULATION / "device.h"}"\n{source}\n', names, ()), names.index(name), False
        )
    source = re.sub(
        r"extern __shared__ ([\w:<> ]+) (\w+)\[\];", r"\1* \2 = (\1*)emulator::shared_memory.data();", source
    )
    text = f'#include "{EMULATION / "device.h"}"\n#include "{OURS / "cupy_on_cpu.h"}"\n{source}\n'
    one_thread = "CUPY_FOR" in source and not re.search("__sync|__shfl", source)  # a loop that one can run alone
    return _Kernel(_library(text, [name], _cupy_flags()), 0, one_thread)


def _cupy_flags() -> list[str]:
    """CuPy's headers, without those of 16-bit numbers, which cupy_on_cpu.h has; complex numbers are those of C++."""
    import cupy

    empty = KERNELS / "include" / "cupy"
    empty.mkdir(parents=True, exist_ok=True)
    headers = Path(cupy.__file__).parent / "_core" / "include"
    texts = {"float16.cuh": "", "bfloat16.cuh": ""}
    functions = (headers / "cupy" / "complex.cuh").read_text()
    order = (headers / "cupy" / "complex" / "arithmetic.h").read_text()
    between = order.index("/* --- Unary comparison"), order.index("template <typename T>", order.index("operator>="))
    defined = functions[functions.index("template<typename T>\n__host__ __device__ bool isnan") :]
    texts["complex.cuh"] = f"#pragma once\n{order[slice(*between)]}\n{defined}"
    for header in ("carray.cuh", "atomics.cuh", "math_constants.h"):
        text = (headers / "cupy" / header).read_text()
        texts[header] = re.sub(r"^class b?float16;$", "", text, flags=re.MULTILINE)
    for header, text in texts.items():  # whole at every moment: another process may be compiling
        if not (empty / header).exists() or (empty / header).read_text() != text:
            (mine := empty / f"{header}.{os.getpid()}").write_text(text)
            mine.replace(empty / header)
    return ["-D__CUDACC_RTC__", f"-I{empty.parent}", f"-I{headers}"]


def _library(text: str, names: Sequence[str], flags: Sequence[str]) -> ctypes.CDLL:
    text += _launchers(names)
    digest = hashlib.sha256(
        (text + (OURS / "cupy_on_cpu.h").read_text() + (EMULATION / "device.h").read_text() + str(FLAGS)).encode()
    ).hexdigest()[:20]
    path = KERNELS / f"{digest}.so"
    KERNELS.mkdir(parents=True, exist_ok=True)
    with open(KERNELS / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            code = KERNELS / f"{digest}.{os.getpid()}.cpp"
            code.write_text(text)
            done = subprocess.run(
                ["g++", *FLAGS, *flags, "-o", f"{path}.partial", str(code)], capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(f"{names[0]} is not compiled: {done.stderr[:1500]}")
            Path(f"{path}.partial").replace(path)
            code.unlink()
    return ctypes.CDLL(str(path))


MAKE = {LAUNCH: _launched, COPY: _copy, SET: _set, PRODUCT: _product, SUM: _sum}
