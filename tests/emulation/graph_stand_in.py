"""CUDA graphs on NumPy, for tests without a GPU: launches recorded by address, memory that is used again.

As on a GPU, nothing is computed while a stream is captured, results stand at fixed addresses in a pool of their own,
and memory that Python no longer refers to gets other arrays.  Before a graph is launched, all free memory of the pool
is overwritten, and memory outside the pool that has been freed is an error.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

CHUNK = 1 << 26  # bytes of a pool
GRAIN = 512


@dataclass(frozen=True)
class Place:
    """An array as a launch refers to it."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    def array(self) -> np.ndarray:
        below = sum(min(0, (n - 1) * step) for n, step in zip(self.shape, self.strides, strict=True))
        above = sum(max(0, (n - 1) * step) for n, step in zip(self.shape, self.strides, strict=True))
        size = 0 if 0 in self.shape else above - below + self.dtype.itemsize
        raw = (ctypes.c_char * size).from_address(self.address + below)
        return np.ndarray(self.shape, self.dtype, raw, -below if size else 0, self.strides)


class MemoryPool:
    """Blocks of one piece of memory; a freed block is the first to be given out again."""

    def __init__(self) -> None:
        self._memory = np.full(CHUNK, 255, np.uint8)
        self.start, self._used = self._memory.ctypes.data, 0
        self._free: dict[int, list[int]] = {}
        self.live: dict[int, int] = {}  # address: bytes

    def malloc(self, size: int) -> np.ndarray:
        """Memory of `size` bytes, free again once nothing refers to it."""
        rounded = -(-max(size, 1) // GRAIN) * GRAIN
        if self._free.get(rounded):
            address = self._free[rounded].pop()
        else:
            address, self._used = self.start + self._used, self._used + rounded
            assert self._used <= CHUNK, "the pool is full"
        self.live[address] = rounded
        block = np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)
        weakref.finalize(block, self._release, address, rounded).atexit = False
        return block

    def _release(self, address: int, size: int) -> None:
        del self.live[address]
        self._free.setdefault(size, []).append(address)

    def has(self, address: int) -> bool:
        return self.start <= address < self.start + CHUNK

    def overwrite_free(self) -> None:
        kept = {address: ctypes.string_at(address, size) for address, size in self.live.items()}
        self._memory[: self._used] = 255
        for address, content in kept.items():
            ctypes.memmove(address, content, len(content))


class Graph:
    def __init__(self, pool: MemoryPool):
        self.pool = pool
        self.work: list[Callable[[], None]] = []
        self.log: list[tuple[Any, ...]] = []  # what each launch is, with its addresses and scalars
        self.read: list[tuple[str, weakref.ref]] = []  # memory outside the pool

    def launch(self) -> None:
        for name, memory in self.read:
            assert memory() is not None, f"{name} reads memory that was freed"
        self.pool.overwrite_free()
        for work in self.work:
            work()

    def normalised(self, inputs: Sequence[int]) -> list[tuple[Any, ...]]:
        """The log with the addresses of inputs, and those of the pool in the order in which they occur, numbered."""
        numbers = {address: f"input {place}" for place, address in enumerate(inputs)}

        def named(x: Any) -> Any:
            if isinstance(x, Place):
                return named(x.address), x.shape, x.strides, x.dtype
            if isinstance(x, tuple | list):
                return tuple([named(each) for each in x])
            if isinstance(x, int) and (x in numbers or self.pool.has(x)):
                return numbers.setdefault(x, f"block {len(numbers)}")
            return x.tobytes() if isinstance(x, np.generic) else x

        return [named(each) for each in self.log]


class Device:
    """What is captured, and which pool new arrays come from."""

    def __init__(self) -> None:
        self.graph: Graph | None = None
        self.pool: MemoryPool | None = None
        self.on_null = False  # inside `with Stream.null`, which is never captured

    @property
    def captured(self) -> Graph | None:
        return None if self.on_null else self.graph

    def host(self, what: str) -> None:
        if self.captured is not None:
            raise RuntimeError(f"{what} waits for the stream, which is capturing")

    def run(self, name: str, function: Callable[..., Any], args: Any, kwargs: Any, *, in_place: bool = False) -> Any:
        """Call a function of NumPy, or record it: its result, then, is memory of the pool that holds no numbers."""
        graph = self.captured
        if graph is None:
            return function(*args, **kwargs)
        if name in ("matmul", "dot", "tensordot", "einsum"):
            raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
        out = kwargs.get("out")
        result = None if in_place or out is not None else function(*args, **kwargs)
        if isinstance(result, np.ndarray) and any(np.may_share_memory(result, a) for a in _arrays(args)):
            return result  # a view
        if result is not None:
            if not isinstance(result, np.ndarray | np.generic):
                return result  # a dtype
            result = self.empty(np.shape(result), result.dtype, _order(result))
        places = [_placed(args, graph, name), _placed(kwargs, graph, name)]
        to = None if result is None else _placed(result, graph, name)
        graph.log.append((name, places[0], sorted(places[1].items()), to))

        def work() -> None:
            found = function(*_arrays_at(places[0]), **_arrays_at(places[1]))
            if to is not None:
                to.array()[...] = found

        graph.work.append(work)
        return result if out is None else out

    def launch(self, name: str, work: Callable[[], None], log: Any, arrays: list[np.ndarray]) -> None:
        """Launch a kernel or a product, or record it."""
        graph = self.captured
        if graph is None:
            work()
            return
        for array in arrays:
            _placed(array, graph, name)
        graph.work.append(work)
        graph.log.append((name, log))

    def empty(self, shape: Any, dtype: Any, order: str = "C") -> np.ndarray:
        """New memory, of NaN or -1."""
        if self.pool is None:
            array = np.empty(shape, dtype, order)  # type: ignore[call-overload]
        else:
            dtype = np.dtype(dtype)
            shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
            size = int(np.prod(shape)) * dtype.itemsize
            array = np.ndarray(shape, dtype, self.pool.malloc(size), 0, order=order)  # type: ignore[call-overload]
        array.reshape(-1, order="A").view(np.uint8)[...] = 255
        return array


device = Device()


def _order(a: Any) -> str:
    return "F" if a.ndim > 1 and a.flags.f_contiguous else "C"


def _arrays(x: Any) -> Iterator[np.ndarray]:
    if isinstance(x, np.ndarray):
        yield x
    elif isinstance(x, tuple | list):
        for each in x:
            yield from _arrays(each)


def _root(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _placed(x: Any, graph: Graph, name: str) -> Any:
    """Replace arrays by their places; note whose memory outside the pool it is."""
    if isinstance(x, np.ndarray):
        if not graph.pool.has(x.ctypes.data) and x.size:
            graph.read.append((name, weakref.ref(_root(x))))
        return Place(x.ctypes.data, x.shape, x.strides, x.dtype)
    if type(x) in (tuple, list):
        return type(x)([_placed(each, graph, name) for each in x])
    return {key: _placed(each, graph, name) for key, each in x.items()} if type(x) is dict else x


def _arrays_at(x: Any) -> Any:
    if isinstance(x, Place):
        return x.array()
    if type(x) in (tuple, list):
        return type(x)([_arrays_at(each) for each in x])
    return {key: _arrays_at(each) for key, each in x.items()} if type(x) is dict else x


class Stream:
    null: Any  # set below
    _pointers = itertools.count(1)

    def __init__(self, *, non_blocking: bool = False, null: bool = False):
        self.ptr = 0 if null else next(self._pointers)
        assert null or non_blocking, "the null stream waits for a blocking stream, which cannot be captured then"

    def __enter__(self) -> Stream:
        self._outer, device.on_null = device.on_null, self.ptr == 0
        return self

    def __exit__(self, *_: object) -> None:
        device.on_null = self._outer

    def begin_capture(self) -> None:
        assert device.graph is None
        assert device.pool is not None, "memory of a graph must be its own"
        device.graph = Graph(device.pool)

    def end_capture(self) -> Graph:
        graph, device.graph = device.graph, None
        assert graph is not None
        return graph

    def synchronize(self) -> None:
        pass


Stream.null = Stream(null=True)


class DefaultPool:
    """The memory of everything that is not captured: NumPy's."""

    def malloc(self, size: int) -> None:
        raise NotImplementedError

    def free_all_blocks(self) -> None:
        pass


@contextmanager
def using_allocator(malloc: Any) -> Iterator[None]:
    outer, pool = device.pool, malloc.__self__
    device.pool = pool if isinstance(pool, MemoryPool) else None
    try:
        yield
    finally:
        device.pool = outer
