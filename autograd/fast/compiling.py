"""A decorator for loops that Numba compiles when they are first called, in a second or a few, and keeps on disk.

Compiled code lies in `__pycache__` beside the source, or where NUMBA_CACHE_DIR says, and is executed as it is found
there.  Importing Numba takes a third of a second.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from llvmlite import ir
from numba import float32, njit
from numba.core import config
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

# Sums may be reordered, products and sums fused, and the sign of 0 lost; that there is no NaN or ∞ is never assumed
FAST_MATH = {"contract", "reassoc", "nsz"}
KERNELS = ("compiling.py", "compiled_kernels.py", "compiled_tiles.py", "compiled_int8.py", "int8.py")


class OnDisk(FunctionCache):
    """The compiled code of a function on disk; without it, or if it is broken, the function is compiled again."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        # Numba compiles again what has changed in the function's file; its kernels and settings are in others
        self._cache_file._source_stamp = self._cache_file._source_stamp, _kernels(), _settings()

    def load_overload(self, *arguments: Any) -> Any:
        """Return the compiled code; None if there is none, or it cannot be read."""
        try:
            return super().load_overload(*arguments)
        except Exception:  # reading a file with whatever in it may raise anything
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        """Write the compiled code; warn if it cannot be written."""
        try:
            super().save_overload(*arguments)
        except Exception as error:
            _warn(str(error))


@functools.cache
def _kernels() -> str:
    """Return a digest of the source of the kernels, and of how they are compiled."""
    return hashlib.sha256(b"".join((Path(__file__).parent / name).read_bytes() for name in KERNELS)).hexdigest()


def _settings() -> tuple[Any, ...]:
    """Return the settings from the environment that change compiled code, and that Numba's own key of it leaves out."""
    return tuple(getattr(config, name, None) for name in ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK"))


def _kept_on_disk(function: Callable[..., Any], **settings: Any) -> Any:
    """Compile a function, as `njit(cache=True)` does; warn if there is no place for its code."""
    dispatcher = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **settings)(function)
    try:
        dispatcher._cache = OnDisk(function)
    except RuntimeError:
        _warn(f"there is no directory to write to for {Path(function.__code__.co_filename).parent}")
    return dispatcher


@functools.cache  # one warning, not one for each kernel
def _warn(reason: str) -> None:
    warnings.warn(
        f"compiled kernels cannot be kept on disk and are compiled again by the next program ({reason}); set "
        "NUMBA_CACHE_DIR to a directory that you can write to",
        stacklevel=2,
    )


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is first called, and keep it on disk.

    A call of a compiled function by another is replaced with its body.  As a call, it would lead to one of the copies
    that the process has compiled or loaded, which differ in the last bit: the same training would go on differently
    with an empty directory of compiled code and with a full one.
    """
    return _kept_on_disk(function, inline="always", fastmath=FAST_MATH)


def compiled_exactly(function: Callable[..., Any]) -> Any:
    """The same for a function whose every operation is rounded as NumPy rounds it: nothing is reordered or fused.

    So a call of it gives the same bits, whichever copy is called, and may stay a call.
    """
    return _kept_on_disk(function)


def compiled_inside(function: Callable[..., Any]) -> Any:
    """`compiled_exactly` for a function that compiled ones alone call, and that is kept on disk with those."""
    return njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


@intrinsic
def multiply_add(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """x · y + z of three float32, rounded once where the processor can; FAST_MATH does not reorder it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = arguments[0].type
        as_function = ir.FunctionType(number, (number, number, number))
        return builder.call(builder.module.declare_intrinsic("llvm.fmuladd", (number,), as_function), arguments)

    return float32(float32, float32, float32), generate
