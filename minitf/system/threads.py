"""Whether the system lets this process start threads and use memory: libraries end it in their own ways if not."""

from __future__ import annotations

import mmap
import os
import threading

from minitf.errors import UserError

NUMPY_BYTES, THREAD_BYTES = 256 * 2**20, 40 * 2**20
"""Addresses that NumPy's code takes, and each thread of OpenBLAS with its buffer."""


def require_numpy() -> None:
    """Raises: UserError where the limits of the system do not let NumPy be imported

    OpenBLAS would send this process a SIGINT, or call exit.
    """
    count = _blas_threads()
    require_threads(count)
    needed = NUMPY_BYTES + count * THREAD_BYTES
    try:
        mmap.mmap(-1, needed).close()  # takes addresses, but no memory
    except OSError:
        raise UserError(f"not enough memory: NumPy needs {needed // 2**20} MiB; raise the limit of ulimit -v") from None


def _blas_threads() -> int:
    given = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(int(given), cores)) if given.isdecimal() else cores


def require_threads(count: int) -> None:
    """Raises: UserError where the system does not let a program start as many."""
    go_on = threading.Event()
    threads = [threading.Thread(target=go_on.wait) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
    except (RuntimeError, MemoryError) as error:
        raise UserError(
            f"cannot start {count} threads ({error}); raise the limits of ulimit -u and ulimit -v"
        ) from None
    finally:
        go_on.set()
        for thread in threads:
            if thread.ident is not None:
                thread.join()
