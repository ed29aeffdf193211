"""The threads of the process on a CPU, and arrays in blocks that stay in cache, which the threads share.

At first there is one thread, and the BLAS library has its own: an import changes nothing in the process.  After
`set_threads`, all kernels, matrix products included, are divided into blocks that all threads share.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

Array = Any

# Largest block of one operand.  128 KiB would keep all operands in the second-level cache, but each NumPy call takes
# the interpreter lock back when it ends, and short calls on two threads contend for it: cross-entropy took four times
# as long.
BLOCK_BYTES = 1024 * 1024
SERIAL_BYTES = 512 * 1024  # below this size, waking another thread costs more than it saves


class _Process:
    """The threads of this process now."""

    threads: int | None = None
    pool: Workers | None = None
    alone = ContextVar("alone", default=False)  # of a thread: whether it is inside `in_one_thread`


def thread_count() -> int | None:
    """Return the number of threads that share the work; None before the first `set_threads`."""
    return _Process.threads


def set_threads(threads: int) -> None:
    """Divide all work among `threads` threads, and limit the BLAS library to one thread in each.

    A BLAS library splits a product into equal parts and busy-waits for the slowest: with another process on one of its
    cores it is slower than one thread.  Blocks that any free thread takes next do not have this problem, and the same
    threads run all other kernels.

    Blocks depend on shapes alone, except where the BLAS library computes each row of a product alike in every block, so
    results do not depend on the number of threads, to the bit.

    Raises: ValueError for less than one thread.
    """
    if threads < 1:
        raise ValueError(f"threads={threads} is not a number of threads; choose 1 or more")
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")
    _Process.threads, _Process.pool = threads, Workers(threads - 1) if threads > 1 else None


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Context manager: this thread computes without the others, for programs that divide work among own threads."""
    before = _Process.alone.set(True)
    try:
        yield
    finally:
        _Process.alone.reset(before)


# ---- Blocks ----


def blocks_of(size: int, rows: int) -> Iterator[slice]:
    """Slices of `rows` that cover 0 … size."""
    return (slice(start, min(start + rows, size)) for start in range(0, size, rows))


def spread(work: Callable[[slice], None], rows: int, row_bytes: int) -> None:
    """Call `work` on slices that cover 0 … rows, each a block that fits the cache, on all threads."""
    total_bytes = rows * row_bytes
    whole = total_bytes < SERIAL_BYTES
    run_blocks(work, rows, rows if whole else max(1, min(BLOCK_BYTES, total_bytes // 4) // row_bytes))


def run_blocks(work: Callable[[slice], Any], rows: int, block: int, worth_waking: bool = True) -> None:
    """Call `work` on slices of `block` rows, on all threads."""
    if rows <= block:  # without overhead: a decoder makes hundreds of small calls in a step
        if rows:
            work(slice(0, rows))
        return
    run(work, [*blocks_of(rows, block)], worth_waking)


def run(work: Callable[[Any], Any], tasks: Sequence[Any], worth_waking: bool = True) -> None:
    """Call `work` on each of the tasks, on all threads; after an error or Ctrl-C, none begins another task."""
    # shared: a thread that has finished a task takes the next.  At its end, it lets go of `work`, which holds arrays: a
    # busy machine may leave the call of another thread in the queue for long.
    waiting = iter([(work, task) for task in tasks])
    errors: list[BaseException] = []

    def take() -> None:
        try:
            for call, task in waiting:
                call(task)
        finally:
            for _ in waiting:  # none is left, but after an error
                pass

    def help_with(busy: threading.Lock) -> None:
        with busy:
            try:
                take()
            except BaseException as error:  # raised below, in the thread that called
                errors.append(error)

    others: list[threading.Lock] = []
    if _Process.pool is not None and worth_waking and len(tasks) > 1 and not _Process.alone.get():
        others = [threading.Lock() for _ in range(min(_Process.threads or 1, len(tasks)) - 1)]
        for busy in others:
            _Process.pool.submit(partial(help_with, busy))
    try:
        take()
    finally:  # after an error or Ctrl-C in this thread, the others must not go on writing into arrays
        for busy in others:  # one that has not begun yet will find no task
            with busy:
                pass
    if errors:
        raise errors[0]


def in_order(partial: dict[int, Array]) -> Array:
    """Sum the results of blocks in the order of their rows, so that the bits do not depend on which was first."""
    first, *others = [partial[start] for start in sorted(partial)]
    for other in others:
        first += other
    return first


def available_cores() -> int:
    """Return the processor cores that this process may use: by its affinity, and by the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min([cores, *_quotas()])


def _quotas(cgroup: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> Iterator[int]:
    """Yield the quotas of Linux's control groups (version 2) that this process is in, in whole cores, at least 1."""
    with suppress(OSError, ValueError):
        name = next(line[3:] for line in Path(cgroup).read_text().splitlines() if line.startswith("0::"))
        group = Path(root, name.lstrip("/"))
        for folder in (group, *group.parents):
            if folder.is_relative_to(root) and (file := folder / "cpu.max").exists():
                quota, period = file.read_text().split()
                if quota != "max":
                    yield max(1, int(quota) // int(period))


# ---- Threads: a pool for calls of less than a tenth of a millisecond ----
#
# A future of `concurrent.futures` has a condition, a state, callbacks and a locked queue; a call here has one lock.


class Workers:
    """Threads that make submitted calls in order.  They end with this object, and a forked process starts its own."""

    def __init__(self, threads: int):
        self.threads = threads
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        for i in range(self.threads):
            threading.Thread(target=_serve, args=(self._calls,), name=f"autograd-{i}", daemon=True).start()

    def submit(self, call: Callable[[], None]) -> None:
        """Have a thread make a call, which raises nothing."""
        if self._process != os.getpid():  # a forked child has the queue, but none of the threads
            self._start()
        self._calls.put(call)

    def __del__(self) -> None:
        for _ in range(self.threads):
            self._calls.put(None)


def _serve(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # it holds arrays
