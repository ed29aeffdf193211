"""Decorators for loops that Numba compiles when they are first called, in a second or a few, and keeps on disk.

Compiled code lies in `__pycache__` beside the source, or where NUMBA_CACHE_DIR says.  Importing Numba takes a third of
a second.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache


class OnDisk(FunctionCache):
    """The compiled code of a function on disk; without it, or if it is broken, the function is compiled again."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        # Numba compiles again what has changed in the function's file; kernels that it calls are in another
        self._cache_file._source_stamp = self._cache_file._source_stamp, _kernels()

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # reading a file with whatever in it may raise anything
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        try:
            super().save_overload(*arguments)
        except Exception as error:
            _warn(error)


@functools.cache
def _kernels() -> str:
    """A digest of the kernels' source."""
    return hashlib.sha256(Path(__file__).with_name("compiled_kernels.py").read_bytes()).hexdigest()


@functools.cache
def _on_disk() -> bool:
    """Whether compiled code can be kept: where Numba finds no directory to write to, it cannot."""
    try:
        OnDisk(_warn)
    except RuntimeError as error:
        _warn(error)
        return False
    return True


def _warn(error: Exception) -> None:
    warnings.warn(
        f"compiled kernels cannot be kept on disk and are compiled again by the next program ({error}); set "
        "NUMBA_CACHE_DIR to a directory that can be written to",
        stacklevel=2,
    )


def compiled(*fastmath: str) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: compile a function when it is first called, and keep it on disk.

    fastmath: what the compiler may do besides fusing products and sums (`contract`), in LLVM's words
    """

    def compile_later(function: Callable[..., Any]) -> Any:
        dispatcher = njit(nogil=True, error_model="numpy", fastmath={"contract", *fastmath})(function)
        if _on_disk():
            dispatcher._cache = OnDisk(function)  # as `njit(cache=True)` does
        return dispatcher

    return compile_later


exactly = compiled()
in_vectors = compiled("reassoc", "nsz")  # sums may be reordered, and the sign of 0 is lost
