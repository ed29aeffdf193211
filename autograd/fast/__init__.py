"""Fast implementations of the ops, for CPUs and GPUs; what saves memory.

Nothing in `autograd` outside this package needs it: `install` enters the implementations into the engine's table.
"""

import contextlib
import ctypes
import os

from autograd import backend as backends
from autograd.engine import implementations
from autograd.fast import int8, numpy_layers, numpy_training, ops  # noqa: F401 (they fill the table)
from autograd.fast.recomputed import recompute_large_outputs
from autograd.fast.table import cpu, cpu_kernels, kernels_of, kernels_on
from autograd.fast.threads import available_cores, in_one_thread, set_threads, thread_count
from autograd.ops.fused import dropout_add_layer_norm, linear_cross_entropy, linear_heads, linear_relu, scaled_embedding

__all__ = [
    "available_cores",
    "cpu_kernels",
    "dropout_add_layer_norm",
    "in_one_thread",
    "install",
    "keep_freed_memory",
    "kernels_of",
    "kernels_on",
    "linear_cross_entropy",
    "linear_heads",
    "linear_relu",
    "recompute_large_outputs",
    "return_freed_memory",
    "scaled_embedding",
    "set_kernels",
    "set_precision",
    "set_threads",
    "thread_count",
]


def install() -> None:
    """Compute with the implementations of this package from now on."""
    implementations.update(ops.IMPLEMENTATIONS)
    backends.make_gpu_backend = make_gpu_backend


# ---- Settings of the process ----


def numba_is_switched_off() -> bool:
    """Whether the environment switches Numba's compiler off."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def set_kernels(name: str) -> None:
    """Compute with "numpy" on the CPU from now on, in the whole process, or with kernels that "numba" compiles.

    Compiled kernels (layer norm, softmax, cross-entropy, Adam and others, in float32) take a fraction of the time of
    NumPy's, and differ by rounding.  Each is compiled when it is first called, in a second or a few, and kept on disk.

    Raises: ValueError without Numba, or for another name.
    """
    if name not in ("numpy", "numba"):
        raise ValueError(f"kernels={name!r} are not known; choose 'numpy' or 'numba'")
    if name == "numba":
        if numba_is_switched_off():
            raise ValueError(
                f"compiled kernels need Numba's compiler, which NUMBA_DISABLE_JIT={os.environ['NUMBA_DISABLE_JIT']} "
                "switches off; unset it, or choose kernels=numpy"
            )
        try:
            from autograd.fast import compiled, compiled_int8  # noqa: F401 (they enter their kernels)
        except ImportError as error:
            raise ValueError(
                f"compiled kernels need Numba, which cannot be imported ({error}); pip install '.[numba]' in the "
                "project's directory, or choose kernels=numpy"
            ) from None
    cpu.use(*(("numba", "numpy") if name == "numba" else ("numpy",)))


def set_precision(precision: str, backend: backends.Backend = backends.CPU) -> None:
    """Prepare a device to compute in "float32" or "float64", or a GPU in "tf32" or "bf16".

    Raises: ValueError if the device does not have this precision.
    """
    if backend is not backends.CPU:
        backend.set_precision(precision)  # type: ignore[attr-defined]
        return
    if precision not in ("float32", "float64"):
        raise ValueError(f"precision={precision} is for GPUs")


def make_gpu_backend(index: int) -> backends.Backend:
    """Return a GPU with its kernels."""
    from autograd.fast.cuda import Cuda

    return Cuda(index)


def keep_freed_memory() -> bool:
    """Make the C library keep freed memory instead of returning it to the system; return whether it does.

    A training step allocates and frees the same arrays every time.  Memory fresh from the system costs a page fault
    every 4 KiB, more than the arithmetic on it.  The setting is global, so only programs call this, never an import.
    """
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:  # not the GNU C library: its allocator is left as it is
        return False
    m_trim_threshold, m_top_pad, m_mmap_threshold = -1, -2, -3
    settings = ((m_mmap_threshold, 1 << 30), (m_trim_threshold, 2**31 - 1), (m_top_pad, 64 << 20))
    accepted = [libc.mallopt(name, value) == 1 for name, value in settings]  # all of them, whatever the first says
    return all(accepted)


def return_freed_memory() -> None:
    """Return what `keep_freed_memory` has kept: large arrays were freed, and will not be needed again."""
    with contextlib.suppress(OSError, AttributeError):  # not the GNU C library
        ctypes.CDLL("libc.so.6").malloc_trim(0)
