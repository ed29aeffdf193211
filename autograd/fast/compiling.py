"""Decorators for loops that Numba compiles when they are first called, in a second or a few, and keeps on disk.

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
from numba import float32, int32, njit
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime import rtsys
from numba.extending import intrinsic, overload

# Sums may be reordered, products and sums fused, and the sign of 0 lost; that there is no NaN or ∞ is never assumed
FAST_MATH = {"contract", "reassoc", "nsz"}
KERNELS = ("compiling.py", "compiled_kernels.py", "compiled_tiles.py", "compiled_int8.py", "int8.py")


class OnDisk(FunctionCache):
    """The compiled code of a function on disk; without it, or if it is broken, the function is compiled again."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        # Numba compiles again what has changed in the function's file; its kernels and settings are in others
        self._cache_file._source_stamp = self._cache_file._source_stamp, _kernels(), _settings()

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled code; None if there is none, or it cannot be read."""
        try:
            rtsys.initialize(context)  # the compiler, which Numba would prepare here, takes half a second
            return self._load_overload(signature, context)
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

    So a call of it gives the same bits, whichever copy is called, and may stay a call.  It makes no arrays.
    """
    return _kept_on_disk(function, _nrt=False, pipeline_class=WholeCompiler)


def compiled_inside(function: Callable[..., Any], **settings: Any) -> Any:
    """`compiled_exactly` for a function that compiled ones alone call, and that is kept on disk with those."""
    return njit(nogil=True, error_model="numpy", **INSIDE, **settings)(function)


def inside_by_types(choose: Callable[..., Any]) -> Any:
    """`compiled_inside` for the function that `choose` returns for the types of the arguments."""
    overload(choose, jit_options=INSIDE)(choose)
    return choose


class Library(JITCodeLibrary):
    """Code that LLVM optimises once, when all that it calls is there, or if `inside`, with the code of its callers."""

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        if not self.inside:
            manager, builder = self._codegen._module_pass_manager()
            manager.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        if self.inside:
            self._finalized = True
        else:
            super()._finalize_final_module()

    def add_ir_module(self, module: Any) -> None:
        for function in module.functions if self.inside else ():
            if not function.is_declaration and "alwaysinline" not in function.attributes:
                function.attributes.add("noinline")
        super().add_ir_module(module)


class WholeCompiler(Compiler):
    """Numba's compiler of functions whose code is a `Library`; those without a wrapper for Python are inside others."""

    def __init__(self, typing_context: Any, context: Any, library: Any, *arguments: Any) -> None:
        super().__init__(typing_context, context, library, *arguments)
        self.state.library = Library(context.codegen(), "code")
        self.state.library.enable_object_caching()
        self.state.library.inside = self.state.flags.no_cpython_wrapper
        if self.state.library.inside:
            self.state.targetctx.get_executable = lambda *_: [].append  # of which Numba wants to have another each time


INSIDE = {"_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": WholeCompiler}


@intrinsic
def multiply_add(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """x · y + z of three float32, rounded once where the processor can; FAST_MATH does not reorder it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FloatType()
        function = builder.module.declare_intrinsic("llvm.fmuladd", (kind,), ir.FunctionType(kind, (kind, kind, kind)))
        return builder.call(function, arguments)

    return float32(float32, float32, float32), generate


@intrinsic
def bits_of(typing_context: Any, x: Any) -> Any:
    """The bits of a float32 as an int32, and the other way round."""
    given, kind = (float32, int32) if x == float32 else (int32, float32)
    return kind(given), lambda context, builder, _, x: builder.bitcast(x[0], context.get_value_type(kind))
