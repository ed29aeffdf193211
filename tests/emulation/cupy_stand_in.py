"""A module `cupy` on NumPy, for tests without a GPU; it refuses NumPy arrays as arguments, as CuPy does.

Arrays wrap NumPy arrays; kernels and cuBLAS calls get their addresses.  New arrays hold NaN (or -1) until they are
written, so that elements which a kernel omits are noticed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tests.emulation.emulator import Emulator

_SAME = {
    "dtype", "finfo", "iinfo", "errstate", "result_type", "promote_types", "issubdtype", "can_cast", "broadcast_shapes",
}  # fmt: skip


@dataclass(frozen=True)
class MemoryPointer:
    ptr: int
    mem: np.ndarray  # whose memory it is

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.ptr + offset, self.mem)


class UnownedMemory:
    """Memory that this does not keep."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int):
        self.ptr = ptr
        self.array = np.frombuffer((ctypes.c_char * size).from_address(ptr), np.uint8)


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):  # noqa: N801
    """Stand-in for `cupy.ndarray`."""

    __array_priority__ = 100
    __cuda_array_interface__: dict = {}  # noqa: RUF012

    def __init__(self, array: Any, dtype: Any = None, memptr: Any = None, *, base: ndarray | None = None):
        if memptr is not None:  # a shape, and memory of another array: no view of it to CuPy
            start = memptr.ptr - memptr.mem.ctypes.data
            size = int(np.prod(array)) * np.dtype(dtype).itemsize
            assert 0 <= start <= start + size <= memptr.mem.nbytes, "memory outside the array"
            array = memptr.mem.reshape(-1).view(np.uint8)[start : start + size].view(dtype).reshape(array)
        self._array = array
        self.base = base

    # ---- Attributes ----

    shape = property(lambda self: self._array.shape)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: self._array.size)
    nbytes = property(lambda self: self._array.nbytes)
    itemsize = property(lambda self: self._array.itemsize)
    strides = property(lambda self: self._array.strides)
    flags = property(lambda self: self._array.flags)
    _c_contiguous = property(lambda self: self._array.flags.c_contiguous)
    real = property(lambda self: _wrapped(self._array.real, self))
    imag = property(lambda self: _wrapped(self._array.imag, self))
    T = property(lambda self: _wrapped(self._array.T, self))
    data = property(lambda self: MemoryPointer(self._array.ctypes.data, _root(self._array)))
    device = property(lambda self: SimpleNamespace(id=0))

    # ---- To the host ----

    def get(self) -> np.ndarray:
        return self._array.copy()

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __bool__(self) -> bool:
        return bool(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __index__(self) -> int:
        return self._array.__index__()

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return repr(self._array)

    __hash__ = None  # type: ignore[assignment]

    # ---- Elements ----

    def __getitem__(self, index: Any) -> ndarray:
        return _wrapped(self._array[_around(self.shape, _unwrapped(index))], self)

    def __setitem__(self, index: Any, value: Any) -> None:
        index = _unwrapped(index)
        for each in index if isinstance(index, tuple) else (index,):
            if isinstance(each, np.ndarray) and each.dtype != bool and np.ndim(_unwrapped(value)):
                several = isinstance(index, tuple) and sum(isinstance(i, np.ndarray) for i in index) > 1
                assert several or len(np.unique(each)) == each.size, "of equal indices, CuPy writes any of the values"
        self._array[_around(self.shape, index)] = _unwrapped(value)

    def __iter__(self) -> Iterator[ndarray]:
        return (self[i] for i in range(len(self)))

    # ---- Everything else NumPy's arrays can do ----

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"cupy.ndarray has no {name}")

        def method(*args: Any, **kwargs: Any) -> Any:
            return _wrapped(getattr(self._array, name)(*_unwrapped(args), **_unwrapped(kwargs)), self)

        return method

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not all(isinstance(x, (ndarray, np.ndarray, np.generic, int, float, complex)) for x in inputs):
            return NotImplemented
        out = kwargs.get("out")
        with np.errstate(all="ignore"):
            result = getattr(ufunc, method)(*_unwrapped(inputs), **_unwrapped(kwargs))
        return out[0] if out else _wrapped(result)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _wrapped(function(*_unwrapped(args), **_unwrapped(kwargs)), *_arrays(args))


def _around(shape: tuple[int, ...], index: Any) -> Any:
    """An index with those outside of an axis counted around, as CuPy takes them: it raises no error."""
    given = index if isinstance(index, tuple) else (index,)
    if not any(isinstance(i, np.ndarray) and i.dtype.kind in "iu" for i in given):
        return index
    if any(i is None or i is Ellipsis or (isinstance(i, np.ndarray) and i.dtype == bool) for i in given):
        return index
    turned = [i % n if isinstance(i, np.ndarray) and n else i for i, n in zip(given, shape, strict=False)]
    return tuple(turned) if isinstance(index, tuple) else turned[0]


def _unwrapped(x: Any) -> Any:
    """Replace arrays of this module by their NumPy arrays; refuse NumPy arrays, as CuPy does."""
    if isinstance(x, ndarray):
        return x._array
    if isinstance(x, np.ndarray) and x.ndim:
        raise TypeError(f"Unsupported type {type(x)}")
    if type(x) in (tuple, list):
        return type(x)([_unwrapped(each) for each in x])
    if type(x) is dict:
        return {key: _unwrapped(each) for key, each in x.items()}
    return x


def _arrays(x: Any) -> list[ndarray]:
    if isinstance(x, ndarray):
        return [x]
    return [array for each in x for array in _arrays(each)] if isinstance(x, tuple | list) else []


def _root(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _wrapped(x: Any, *sources: ndarray) -> Any:
    """Wrap results of NumPy, scalars too; the base of a view is the array that it looks into."""
    if isinstance(x, np.ndarray | np.generic):
        array = np.asarray(x)
        for source in sources:
            if array is source._array:
                return source
            if array.base is not None and _root(array) is _root(source._array):
                return ndarray(array, base=source if source.base is None else source.base)
        return ndarray(array)
    return type(x)([_wrapped(each, *sources) for each in x]) if type(x) in (tuple, list) else x


class _Function:
    """A function or ufunc of NumPy for arrays of this module."""

    def __init__(self, function: Any):
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out")
        with np.errstate(all="ignore"):
            result = self._function(*_unwrapped(args), **_unwrapped(kwargs))
        return out if out is not None else _wrapped(result, *_arrays(args))

    def __getattr__(self, name: str) -> Any:
        return _Function(getattr(self._function, name))


class _Cupy(ModuleType):
    """`cupy.anything` is NumPy's function of that name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(np, name)
        return value if name in _SAME or isinstance(value, type | float | np.dtype) else _Function(value)


def _asarray(a: Any, dtype: Any = None, order: Any = None, *, blocking: bool = False) -> ndarray:
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    array = np.array(a, dtype=dtype, order=order or "K")
    assert not array.dtype.hasobject, "CuPy has no arrays of objects"
    return ndarray(array)


def _empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    array = np.empty(shape, dtype, order)  # type: ignore[call-overload]
    array.reshape(-1, order="A").view(np.uint8)[...] = 255  # NaN or -1
    return ndarray(array)


def _module(emulator: Emulator, device_count: int, driver: int, capability: str) -> dict[str, ModuleType]:
    cupy: Any = _Cupy("cupy")
    cupy.__version__ = "14.2.0"
    cupy.ndarray, cupy.asarray, cupy.array, cupy.empty = ndarray, _asarray, _asarray, _empty
    cupy.empty_like = lambda a, dtype=None: _empty(a.shape, dtype or a.dtype)
    cupy.asnumpy = lambda a: a.get()

    class CUDARuntimeError(RuntimeError):
        pass

    class Device:
        attributes = {"MaxSharedMemoryPerBlockOptin": 227 * 1024, "MultiProcessorCount": 132}  # noqa: RUF012
        compute_capability = capability
        mem_info = 80 << 30, 80 << 30

        def __init__(self, device: int = 0):
            self.id = device

        def __enter__(self) -> Device:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def use(self) -> None:
            pass

        def synchronize(self) -> None:
            pass

    class RawModule:
        def __init__(self, *, code: str, options: tuple[str, ...], name_expressions: list[str]):
            self.names = name_expressions

        def get_function(self, name: str) -> Any:
            assert name in self.names, f"{name} is not among the names that are compiled"
            return Function(name)

    class Function:
        def __init__(self, name: str):
            self.name, self.max_dynamic_shared_size_bytes = name, 48 * 1024

        def __call__(self, grid: Any, block: Any, arguments: Any, *, shared_mem: int = 0) -> None:
            assert shared_mem <= self.max_dynamic_shared_size_bytes <= 227 * 1024
            assert np.prod(block) <= 1024
            assert all(n >= 1 for n in (*grid, *block))
            assert (*grid, 1)[1] <= 65535
            given = [_argument(a) for a in arguments]
            emulator.launch(self.name, grid, block, given, shared_mem)

    def get_device_count() -> int:
        if device_count:
            return device_count
        raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

    runtime = SimpleNamespace(
        getDeviceCount=get_device_count, CUDARuntimeError=CUDARuntimeError, deviceSynchronize=lambda: None,
        runtimeGetVersion=lambda: 13020, driverGetVersion=lambda: driver,
    )  # fmt: skip
    cupy.RawModule = RawModule
    cupy.cuda = SimpleNamespace(
        Device=Device, runtime=runtime, device=SimpleNamespace(get_cublas_handle=lambda: 1),
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None, ptr=0),
        UnownedMemory=UnownedMemory, MemoryPointer=lambda memory, at: MemoryPointer(memory.ptr + at, memory.array),
    )  # fmt: skip
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None, total_bytes=lambda: 0)
    cublas: Any = ModuleType("cupy_backends.cuda.libs.cublas")
    cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_T, cublas.CUBLAS_GEMM_DEFAULT = 0, 1, -1
    cublas.CUBLAS_COMPUTE_32F, cublas.CUBLAS_COMPUTE_32F_FAST_TF32, cublas.CUBLAS_COMPUTE_64F = 68, 77, 70
    cublas.gemmEx = _gemm_ex
    libs: Any = ModuleType("cupy_backends.cuda.libs")
    libs.cublas = cublas
    return {
        "cupy": cupy,
        "cupy_backends": ModuleType("cupy_backends"),
        "cupy_backends.cuda": ModuleType("cupy_backends.cuda"),
        "cupy_backends.cuda.libs": libs,
        "cupy_backends.cuda.libs.cublas": cublas,
    }


def _argument(a: Any) -> Any:
    """An argument of a kernel: for an array, its address."""
    if isinstance(a, ndarray):
        return a._array.ctypes.data
    assert isinstance(a, np.generic), f"{type(a)} would have another size in the kernel"
    assert a.nbytes <= 4096
    return a


# ---- cuBLAS ----


def _matrix(address: int, rows: int, columns: int, ld: int, kind: int) -> np.ndarray:
    """The column-major matrix at an address."""
    dtype = {0: np.dtype(np.float32), 1: np.dtype(np.float64), 14: np.dtype("uint16")}[kind]
    assert ld >= max(1, rows), f"a leading dimension of {ld} for {rows} rows"
    size = (ld * (columns - 1) + rows) * dtype.itemsize
    raw = np.frombuffer((ctypes.c_char * size).from_address(address), dtype)
    if kind == 14:
        import ml_dtypes

        raw = raw.view(ml_dtypes.bfloat16)
    return np.lib.stride_tricks.as_strided(raw, (rows, columns), (raw.itemsize, ld * raw.itemsize))


def _gemm_ex(
    handle: int, trans_a: int, trans_b: int, m: int, n: int, k: int, alpha: int, a: int, a_type: int, lda: int,
    b: int, b_type: int, ldb: int, beta: int, c: int, c_type: int, ldc: int, compute: int, algorithm: int,
) -> None:  # fmt: skip
    assert m > 0
    assert n > 0
    assert k > 0
    wide = np.dtype(np.float64 if compute == 70 else np.float32)
    alpha_value, beta_value = (
        np.frombuffer((ctypes.c_char * wide.itemsize).from_address(place), wide)[0] for place in (alpha, beta)
    )
    left = _matrix(a, k, m, lda, a_type).T if trans_a else _matrix(a, m, k, lda, a_type)
    right = _matrix(b, n, k, ldb, b_type).T if trans_b else _matrix(b, k, n, ldb, b_type)
    result = _matrix(c, m, n, ldc, c_type)
    product = alpha_value * (left.astype(wide) @ right.astype(wide))
    result[...] = product + beta_value * result.astype(wide) if beta_value else product


@contextmanager
def installed(
    emulator: Emulator, device_count: int = 1, *, driver: int = 13000, capability: str = "90"
) -> Iterator[Any]:
    """Inside this block, `import cupy` gives the stand-in, nvmath cannot be imported, and `autograd` has no GPU yet."""
    from autograd import backend, fast

    modules = _module(emulator, device_count, driver, capability)
    modules |= {"nvmath": None, "nvmath.bindings": None}  # type: ignore[dict-item]
    ours = ("autograd.fast.cuda", "autograd.fast.cuda_device")
    hidden = {name: sys.modules.pop(name) for name in (*modules, *ours) if name in sys.modules}
    sys.modules.update(modules)
    before = {name: vars(fast).pop(name) for name in ("cuda", "cuda_device") if name in vars(fast)}
    gpus = dict(backend._gpus)
    backend._gpus.clear()
    try:
        yield modules["cupy"]
    finally:
        for name in (*modules, *ours):
            sys.modules.pop(name, None)
        sys.modules.update(hidden)
        for name in ("cuda", "cuda_device"):
            vars(fast).pop(name, None)
        vars(fast).update(before)
        backend._gpus.clear()
        backend._gpus.update(gpus)
