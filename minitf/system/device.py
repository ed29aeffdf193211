"""Set up the device that a program computes on: threads, precision, and how freed memory is kept."""

import warnings

from autograd.backend import CpuBackend, get_backend, set_kernels
from autograd.backend.cpu import available_cores, keep_freed_memory
from minitf.errors import UserError
from minitf.system.process import uninterrupted


def set_up_device(threads: int | None, device: str = "cpu", precision: str = "float32", kernels: str = "numpy") -> None:
    """Set the precision of `device` and, on a CPU, the number of threads (None: one a core) and the kernels.

    Raises: UserError if this installation lacks the device or the kernels, or the device has no such precision or
    kernels.
    """
    try:
        backend = get_backend(device)
        backend.set_precision(precision)
    except ValueError as error:
        raise UserError(f"{error}; choose --device cpu or another --precision") from None
    if isinstance(backend, CpuBackend):
        count = threads or available_cores()
        try:
            with uninterrupted():  # it looks for the BLAS library through ctypes
                set_kernels(kernels)
                backend.set_threads(count)
        except ValueError as error:
            raise UserError(str(error)) from None
        except (RuntimeError, MemoryError) as error:
            raise UserError(f"cannot start {count:,} threads ({error}); choose fewer --threads") from None
    elif kernels != "numpy":
        raise UserError(f"kernels={kernels} are for a CPU, and device={device} has its own; leave --kernels out")
    keep_freed_memory()
    # NumPy's warnings of overflow: non-finite losses, gradients and weights are looked for and reported by training
    warnings.filterwarnings("ignore", category=RuntimeWarning, message=".* encountered in ")
